"""The Snapshot document: schema 1 of `GET /v1/snapshot`, as JSON and MessagePack (CONTRACTS §4).

The table of series travels only to a caller that does not hold it yet; what remains is a flat vector.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from collector.model import CheckResult, Event, HistogramSample, SeriesTable, Snapshot, Value
from exporters.finite import finite_histograms
from exporters.negotiation import Offer, choose

SCHEMA = 1
"""Major version of the document."""

_NANOSECONDS = 1_000_000_000


class DocumentFormat(enum.Enum):
    """An encoding of the document; the value is its Content-Type."""

    JSON = "application/json"
    MESSAGEPACK = "application/msgpack"


_FORMATS = (DocumentFormat.JSON, DocumentFormat.MESSAGEPACK)
_OFFERS = (
    Offer(("application/json",)),
    Offer(("application/msgpack", "application/vnd.msgpack")),
)
_ENCODERS: Mapping[DocumentFormat, Callable[[object], bytes]] = {
    DocumentFormat.JSON: msgspec.json.encode,
    DocumentFormat.MESSAGEPACK: msgspec.msgpack.encode,
}


def negotiate(accept: str) -> DocumentFormat:
    """Choose the encoding for an Accept header; JSON unless the client prefers MessagePack."""
    return _FORMATS[choose(accept, _OFFERS)]


class EventItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of the document; fields as in `collector.model.Event`. What is empty is left out."""

    cursor: int
    time_ns: int
    kind: str
    gpu: str
    gpu_uuid: str
    code: int | None
    severity: str = ""
    subcode: str = ""
    link: int | None = None
    detail: str = ""


class CheckItem(msgspec.Struct, frozen=True):
    """A check of the document; fields as in `collector.model.CheckResult`."""

    check: str
    impact: str
    failed: bool
    gpu: str
    gpu_uuid: str
    metric: str
    value: Value | None
    threshold: Value | None
    since_ns: int
    reason: str
    action: str


class HistogramItem(msgspec.Struct, frozen=True, array_like=True):
    """A histogram of the document, written as an array; fields as in `collector.model.HistogramSample`."""

    metric: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    counts: tuple[Value, ...]
    sum: Value


class Events(msgspec.Struct, frozen=True):
    """Events after the caller's cursor.

    Attributes:
        next: Cursor of the newest event known, 0 for none: what to ask after next time.
        items: The events, oldest first.
    """

    next: int
    items: list[EventItem]


class Document(msgspec.Struct, frozen=True):
    """Schema 1.

    Attributes:
        schema: Major version.
        rack: Name of the rack.
        node: Name of the node.
        agent_id: Identity of the agent process; cursors and `seq` begin anew with it.
        boot_id: The kernel's boot id.
        seq: Number of the Snapshot within the agent process.
        observed_at: When the Snapshot was taken, RFC 3339 in UTC, milliseconds.
        time_ns: The same in nanoseconds of Unix time.
        nvml_up: Whether NVML answers and its data are fresh.
        reason: Why not, in words; empty if it does.
        age_seconds: Age of the oldest value of each cadence when the document was sent; null if never read.
        identity: Texts that describe the node.
        slots_hash: Digest of the series table.
        slots: The series as `[metric, label value …]`; left out if the caller holds the table.
        values: One value a series in its base unit; null where nothing valid was read.
        histograms: Histograms as `[metric, [label value …], [bound …], [count …], sum]`, with one count more
            than bounds; one that holds anything but finite numbers is left out.
        checks: Checks that failed or could not be evaluated; null: none are evaluated at all.
        events: Events after the caller's cursor.
    """

    schema: int
    rack: str
    node: str
    agent_id: str
    boot_id: str
    seq: int
    observed_at: str
    time_ns: int
    nvml_up: bool
    reason: str
    age_seconds: dict[str, float | None]
    identity: dict[str, str]
    slots_hash: str
    slots: msgspec.Raw | msgspec.UnsetType
    values: tuple[Value | None, ...]
    histograms: list[HistogramItem]
    checks: list[CheckItem] | None
    events: Events


class DocumentWriter:
    """Writes Snapshots as documents, and keeps the encoded table for the next one."""

    def __init__(self) -> None:
        self._digest = ""
        self._slots: dict[DocumentFormat, msgspec.Raw] = {}

    def write(
        self,
        snapshot: Snapshot,
        form: DocumentFormat,
        *,
        slots_held: str = "",
        after: int = 0,
        elapsed_seconds: float = 0.0,
    ) -> bytes:
        """Encode a Snapshot.

        Args:
            snapshot: What to write.
            form: Encoding.
            slots_held: Digest of the table that the caller holds; empty if it holds none.
            after: Cursor of the newest event that the caller knows.
            elapsed_seconds: Time since the Snapshot was published, by which its ages have grown.

        Returns:
            The encoded document.
        """
        table = snapshot.table
        document = Document(
            schema=SCHEMA,
            rack=text_of(snapshot.rack),
            node=text_of(snapshot.node),
            agent_id=text_of(snapshot.agent_id),
            boot_id=text_of(snapshot.boot_id),
            seq=snapshot.sequence,
            observed_at=rfc3339(snapshot.time_ns),
            time_ns=snapshot.time_ns,
            nvml_up=snapshot.nvml_up,
            reason=text_of(snapshot.reason),
            age_seconds=ages_now(snapshot, elapsed_seconds),
            identity={text_of(name): text_of(value) for name, value in snapshot.identity.items()},
            slots_hash=table.digest,
            slots=msgspec.UNSET if slots_held == table.digest else self._encoded_slots(table, form),
            values=_finite(snapshot.values),
            histograms=list(map(_histogram_item, finite_histograms(snapshot.histograms))),
            checks=None if snapshot.checks is None else [check_item(check) for check in snapshot.checks],
            events=_events(snapshot.events, after),
        )
        return _ENCODERS[form](document)

    def _encoded_slots(self, table: SeriesTable, form: DocumentFormat) -> msgspec.Raw:
        if self._digest != table.digest:
            self._digest = table.digest
            self._slots = {}
        if form not in self._slots:
            rows = [(entry.metric.name, *map(text_of, entry.labels)) for entry in table.series]
            self._slots[form] = msgspec.Raw(_ENCODERS[form](rows))
        return self._slots[form]


def ages_now(snapshot: Snapshot, elapsed_seconds: float) -> dict[str, float | None]:
    """Give the age of each cadence's oldest value, in seconds, some time after the Snapshot was published.

    An agent that stopped publishing thereby shows it: its ages grow.
    """
    return {
        cadence: None if age is None else round(age + elapsed_seconds, 3)
        for cadence, age in snapshot.ages_seconds.items()
    }


def check_item(check: CheckResult) -> CheckItem:
    """Make a check fit for JSON and MessagePack."""
    return CheckItem(
        check=check.check,
        impact=check.impact,
        failed=check.failed,
        gpu=text_of(check.gpu),
        gpu_uuid=text_of(check.gpu_uuid),
        metric=check.metric,
        value=_finite((check.value,))[0],
        threshold=_finite((check.threshold,))[0],
        since_ns=check.since_ns,
        reason=text_of(check.reason),
        action=text_of(check.action),
    )


def _histogram_item(sample: HistogramSample) -> HistogramItem:
    return HistogramItem(
        metric=sample.metric.name,
        labels=tuple(map(text_of, sample.labels)),
        bounds=sample.bounds,
        counts=sample.counts,
        sum=sample.sum,
    )


def _events(events: tuple[Event, ...], after: int) -> Events:
    return Events(
        next=events[-1].cursor if events else 0,
        items=[
            EventItem(
                cursor=event.cursor,
                time_ns=event.time_ns,
                kind=event.kind,
                gpu=text_of(event.gpu),
                gpu_uuid=text_of(event.gpu_uuid),
                code=event.code,
                severity=event.severity,
                subcode=text_of(event.subcode),
                link=event.link,
                detail=text_of(event.detail),
            )
            for event in events
            if event.cursor > after
        ],
    )


def _finite(values: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """Make what is not finite absent, as JSON would and MessagePack would not."""
    if all(value is None or math.isfinite(value) for value in values):
        return values
    return tuple(value if value is not None and math.isfinite(value) else None for value in values)


def text_of(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by `?`."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def rfc3339(time_ns: int) -> str:
    """Write nanoseconds of Unix time as RFC 3339 in UTC, to the millisecond."""
    seconds, nanoseconds = divmod(time_ns, _NANOSECONDS)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1_000_000:03d}Z"
