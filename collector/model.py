"""What was read, as immutable data: series, samples, histograms, events, and the Snapshot of a node.

A Snapshot is a flat vector of values over a table of series. The table changes only when the
inventory does (a GPU appears, an Xid is seen for the first time, an identity text changes), so whatever
prepares something for each series, such as an exposition's line prefixes, prepares it once a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collector.catalog.spec import Metric

Value = int | float
"""A value in the metric's base unit. What was not read is None, never a number."""


@dataclass(frozen=True, slots=True)
class Series:
    """One time series of a node.

    Attributes:
        metric: Its catalogue row.
        labels: Values of `metric.label_names`, in that order.
    """

    metric: Metric
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series, in the metric's base unit."""

    metric: Metric
    labels: tuple[str, ...]
    value: Value


@dataclass(frozen=True, slots=True)
class HistogramSample:
    """A histogram of one set of labels: how many observations were at most as large as each bound.

    Attributes:
        metric: Its catalogue row, of kind HISTOGRAM.
        labels: Values of `metric.label_names`, in that order.
        bounds: Finite upper bounds in the metric's base unit, rising.
        counts: Observations up to each bound, and all of them last: one more than bounds, never falling.
        sum: Sum of all observations.
    """

    metric: Metric
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    counts: tuple[Value, ...]
    sum: Value


class SeriesTable:
    """The ordered series of a Snapshot, with a digest by which two parties know that they hold the same.

    Attributes:
        series: The series, grouped by metric in catalogue order.
        digest: Hash of names and labels: 16 hexadecimal digits of BLAKE2b.
    """

    __slots__ = ("digest", "series")

    def __init__(self, series: tuple[Series, ...]) -> None:
        """Keep the series and compute their digest."""
        # Here, because it maps OpenSSL, which the reader process has no other use for.
        import hashlib

        self.series = series
        hasher = hashlib.blake2b(digest_size=8)
        for entry in series:
            parts = (entry.metric.name, *entry.labels)
            hasher.update(b"".join(len(part).to_bytes(4, "big") + part for part in map(_encode, parts)))
            hasher.update(b"\xff")
        self.digest = hasher.hexdigest()

    def __len__(self) -> int:
        """Count the series."""
        return len(self.series)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at an instant, such as an Xid.

    Attributes:
        cursor: Position in this agent's stream of events: 1, 2, 3 …
        time_ns: When it happened, nanoseconds of Unix time.
        kind: What it is: `xid`, `gpu_lost`, `gpu_returned`.
        gpu_uuid: The GPU, or empty for the node as a whole.
        gpu: Index of the GPU for display, or empty.
        code: Number of the Xid; None for other kinds.
        severity: Class of this Xid: `fatal`, `warn`, `app`, `info`; empty for other kinds.
        subcode: Sub-code of an Xid of 144 to 150, where the kernel log told it.
        link: NVLink concerned, where the kernel log told it; None otherwise.
        detail: What else the kernel log says of it: bounded, printable, of driver and processes.
    """

    cursor: int
    time_ns: int
    kind: str
    gpu_uuid: str = ""
    gpu: str = ""
    code: int | None = None
    severity: str = ""
    subcode: str = ""
    link: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check of a node that failed, or that could not be evaluated although the hardware supports it.

    Attributes:
        check: Id of the check.
        impact: What it means: `info`, `warn`, `avoid`, `fail`.
        failed: True if it failed; False if it could not be evaluated, so that its subject is UNKNOWN.
        gpu_uuid: The GPU concerned, or empty for the node.
        gpu: Index of that GPU for display, or empty.
        metric: Metric that was judged, without prefix.
        value: Value that was read; None if there was none.
        threshold: What it was compared with; None where there is nothing to compare.
        since_ns: Since when it holds, nanoseconds of Unix time.
        reason: What is wrong, in words, with the link where it concerns one.
        action: What to do about it.
    """

    check: str
    impact: str
    failed: bool
    gpu_uuid: str
    gpu: str
    metric: str
    value: Value | None
    threshold: Value | None
    since_ns: int
    reason: str
    action: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is known of a node at one instant.

    Attributes:
        rack: Name of the rack.
        node: Name of the node.
        agent_id: Identity of the agent process; a new one each start.
        boot_id: The kernel's boot id.
        sequence: 1, 2, 3 … within one agent process.
        time_ns: When it was taken, nanoseconds of Unix time, never running backwards.
        table: The series.
        values: One value a series; None where nothing valid was read.
        ages_seconds: Age of the oldest value of each cadence; None where it was never read.
        nvml_up: Whether NVML answers and its data are fresh.
        reason: Why `nvml_up` is False, in words; empty otherwise.
        identity: Texts that describe the node, as in `node_info`.
        events: The newest events, oldest first, bounded in number.
        checks: Checks that failed or could not be evaluated; None where none are evaluated at all.
        histograms: Histograms that are known now, grouped by metric in catalogue order.
    """

    rack: str
    node: str
    agent_id: str
    boot_id: str
    sequence: int
    time_ns: int
    table: SeriesTable
    values: tuple[Value | None, ...]
    ages_seconds: Mapping[str, float | None]
    nvml_up: bool
    reason: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    checks: tuple[CheckResult, ...] | None = None
    histograms: tuple[HistogramSample, ...] = ()

    def samples(self) -> Iterator[Sample]:
        """Yield the values that are present."""
        for entry, value in zip(self.table.series, self.values, strict=True):
            if value is not None:
                yield Sample(entry.metric, entry.labels, value)
