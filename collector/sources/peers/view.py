"""From a document and its table to what a rack service makes of a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from collector import catalog
from collector.catalog.spec import Kind
from collector.health.rack_types import GpuView, NodeView
from collector.health.states import GpuState, state_of_checks
from collector.model import CheckResult, Event, HistogramSample, Value
from collector.sources.peers.document import CheckItem, Document, EventItem, HistogramItem, PeerError
from collector.sources.peers.table import GpuPlaces, PeerTable

_LARGEST_NUMBER = 10_000
"""Beyond any slot or tray of a rack; NVML's 255 and the like stand for "not set"."""

_HISTOGRAMS = {metric.name: metric for metric in catalog.ALL if metric.kind is Kind.HISTOGRAM}

Values = Sequence[Value | None]


def node_view(document: Document, table: PeerTable, fast_age_seconds: float | None) -> NodeView:
    """Make the view of a node.

    Args:
        document: What its agent answered, values as many as the table has series.
        table: The table that the values belong to.
        fast_age_seconds: Age of the fast data.
    """
    values = document.values
    of_gpu = _by_gpu(document.checks or ())
    evaluated = document.nvml_up and document.checks is not None
    gpus = tuple(_gpu_view(gpu, values, of_gpu.pop(gpu.uuid, ()), evaluated) for gpu in table.gpus)
    # What concerns a GPU that is not in the table any more still concerns the node.
    own = tuple(check for checks in of_gpu.values() for check in checks)
    texts = [gpu.texts for gpu in gpus if gpu.texts]
    return NodeView(
        rack=document.rack,
        node=document.node,
        agent_id=document.agent_id,
        boot_id=document.boot_id,
        sequence=document.seq,
        observed_ns=document.time_ns,
        nvml_up=document.nvml_up,
        reason=document.reason,
        fast_age_seconds=fast_age_seconds,
        identity=document.identity,
        gpus=gpus,
        gpus_expected=_whole(_at(values, table.gpus_expected)),
        checks=own,
        cluster_uuid=_common(texts, "cluster_uuid"),
        clique=_common(texts, "clique"),
        fabric_complete=_fabric_complete(table.gpus, values),
        chassis_serial=_common(texts, "chassis_serial"),
        slot=_number(_common(texts, "slot")),
        tray=_number(_common(texts, "tray")),
    )


def event(item: EventItem) -> Event:
    """Take over an event of a document."""
    return Event(
        cursor=item.cursor,
        time_ns=item.time_ns,
        kind=item.kind,
        gpu_uuid=item.gpu_uuid,
        gpu=item.gpu,
        code=item.code,
        severity=item.severity,
        subcode=item.subcode,
        link=item.link,
        detail=item.detail,
    )


def histograms(items: Iterable[HistogramItem]) -> tuple[HistogramSample, ...]:
    """Take over the histograms of a document.

    A metric that the catalogue does not have, or has with other labels, is of a newer agent and is skipped.

    Raises:
        PeerError: A histogram stands twice.
    """
    found: dict[tuple[str, tuple[str, ...]], HistogramSample] = {}
    for item in items:
        metric = _HISTOGRAMS.get(item.metric)
        if metric is None or len(item.labels) != len(metric.label_names):
            continue
        key = (item.metric, item.labels)
        if key in found:
            raise PeerError(f"the histogram {' '.join((item.metric, *item.labels))[:200]!r} stands twice")
        found[key] = HistogramSample(metric, item.labels, item.bounds, item.counts, item.sum)
    return tuple(found.values())


def _by_gpu(items: Iterable[CheckItem]) -> dict[str, tuple[CheckResult, ...]]:
    """Sort checks by GPU; those of the node itself under the empty text."""
    sorted_items: dict[str, list[CheckResult]] = defaultdict(list)
    for item in items:
        sorted_items[item.gpu_uuid].append(_check(item))
    return {uuid: tuple(checks) for uuid, checks in sorted_items.items()}


def _check(item: CheckItem) -> CheckResult:
    return CheckResult(
        check=item.check,
        impact=item.impact,
        failed=item.failed,
        gpu_uuid=item.gpu_uuid,
        gpu=item.gpu,
        metric=item.metric,
        value=item.value,
        threshold=item.threshold,
        since_ns=item.since_ns,
        reason=item.reason,
        action=item.action,
    )


def _gpu_view(places: GpuPlaces, values: Values, checks: tuple[CheckResult, ...], evaluated: bool) -> GpuView:
    up = _at(values, places.up)
    texts = next((texts for place, texts in places.infos if values[place] == 1), {})
    return GpuView(
        uuid=places.uuid,
        index=places.index,
        up=up == 1,
        texts=texts,
        state=_state(up, checks, evaluated),
        checks=checks,
    )


def _state(up: Value | None, checks: Iterable[CheckResult], evaluated: bool) -> GpuState:
    if not evaluated or up is None:
        return GpuState.UNKNOWN
    if up != 1:
        return GpuState.FAILED
    return state_of_checks(checks)


def _fabric_complete(gpus: Sequence[GpuPlaces], values: Values) -> bool | None:
    """Tell whether every GPU that answers has completed its registration; None where there is no fabric."""
    known = [
        {state: values[place] for state, place in gpu.fabric.items()}
        for gpu in gpus
        if gpu.fabric and _at(values, gpu.up) == 1
    ]
    states: list[Mapping[str, Value | None]] = [state for state in known if state.get("not_supported") != 1]
    if not states:
        return None
    return all(state.get("completed") == 1 for state in states)


def _at(values: Values, place: int | None) -> Value | None:
    return None if place is None else values[place]


def _common(texts: Sequence[Mapping[str, str]], label: str) -> str:
    """Return the text on which all GPUs agree; empty if they do not, or none has it."""
    found = {text[label] for text in texts}
    return found.pop() if len(found) == 1 else ""


def _number(text: str) -> int | None:
    """Read a slot or tray; None for what is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        return None
    return int(text) if int(text) <= _LARGEST_NUMBER else None


def _whole(value: Value | None) -> int | None:
    return int(value) if value is not None and 0 <= value <= _LARGEST_NUMBER else None
