"""Availability over a window, from intervals (CONTRACTS §3, facts/rack.md §6). Exact: whole nanoseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.health.states import NodeState, Verdict
from collector.health.verdict import CliqueCount, judge_rack

SUFFICIENT_COVERAGE = 0.95
"""Below it availability is `insufficient_data` (CONTRACTS §3)."""

OPERATING_STATES = (NodeState.READY, NodeState.DEGRADED)
"""States in which a node operates, for MTBF."""

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class VerdictInterval:
    """A time over which a verdict held, with what it was made of.

    Attributes:
        rack: The rack.
        verdict: The verdict.
        min_block: Block that the rack had to offer.
        cliques: Nodes of each clique by how they counted.
        starts_ns: Begin, Unix nanoseconds.
        ends_ns: End; for the newest interval, until when it was seen to hold.
    """

    rack: str
    verdict: Verdict
    min_block: int
    cliques: tuple[CliqueCount, ...]
    starts_ns: int
    ends_ns: int


@dataclass(frozen=True, slots=True)
class NodeInterval:
    """A time over which a node was in a state.

    Attributes:
        rack: Its rack.
        node: The node.
        state: The state.
        starts_ns: Begin, Unix nanoseconds.
        ends_ns: End; for the newest interval, until when it was seen to hold.
    """

    rack: str
    node: str
    state: NodeState
    starts_ns: int
    ends_ns: int


@dataclass(frozen=True, slots=True)
class IncidentCount:
    """Incidents of a window.

    Attributes:
        begun: Incidents that began in it.
        closed: Incidents that ended in it.
        open: Incidents that go on at its end.
    """

    begun: int = 0
    closed: int = 0
    open: int = 0


@dataclass(frozen=True, slots=True)
class Availability:
    """Availability of a rack over a window. Durations are seconds; None where it cannot be said.

    Attributes:
        rack: The rack.
        starts_ns: Begin of the window, Unix nanoseconds.
        ends_ns: End of the window.
        min_block: Block for which it was computed; None for the one that held at each time.
        slo: Share of time for which the rack should be available.
        available_seconds: Time AVAILABLE.
        unavailable_seconds: Time UNAVAILABLE.
        excused_seconds: Time MAINTENANCE, which is no part of W.
        unknown_seconds: Time UNKNOWN.
        uncovered_seconds: Time for which nothing is recorded, as while the service did not run.
        low: available / W.
        point: available / (available + unavailable).
        high: 1 - unavailable / W.
        coverage: (available + unavailable) / W.
        insufficient_data: Whether coverage is below 95 %.
        budget_seconds: (1 - SLO) of W.
        budget_used: Share of the budget that was used; above 1 it is overdrawn; None if there is no budget.
        incidents: Incidents of nodes that began in the window.
        open_incidents: Incidents that go on at its end.
        node_operating_seconds: Time of nodes READY or DEGRADED, summed.
        node_down_seconds: Time of nodes FAILED, summed.
        mtbf_seconds: Operating node time an incident; None without an incident.
        mttr_seconds: Down node time a closed incident; None without one.
    """

    rack: str
    starts_ns: int
    ends_ns: int
    min_block: int | None
    slo: float
    available_seconds: float
    unavailable_seconds: float
    excused_seconds: float
    unknown_seconds: float
    uncovered_seconds: float
    low: float | None
    point: float | None
    high: float | None
    coverage: float | None
    insufficient_data: bool
    budget_seconds: float
    budget_used: float | None
    incidents: int
    open_incidents: int
    node_operating_seconds: float
    node_down_seconds: float
    mtbf_seconds: float | None
    mttr_seconds: float | None


def verdict_times(
    intervals: Iterable[VerdictInterval], starts_ns: int, ends_ns: int, min_block: int | None = None
) -> dict[Verdict, int]:
    """Sum the time of each verdict within a window, in nanoseconds.

    Args:
        intervals: Intervals, which do not overlap.
        starts_ns: Begin of the window.
        ends_ns: End of the window.
        min_block: Block to judge anew for; None to take the verdicts as they were given.
    """
    times = dict.fromkeys(Verdict, 0)
    for own in intervals:
        verdict = own.verdict if min_block is None else _judge_anew(own, min_block)
        times[verdict] += _overlap(own, starts_ns, ends_ns)
    return times


def _judge_anew(interval: VerdictInterval, min_block: int) -> Verdict:
    return judge_rack({str(place): own for place, own in enumerate(interval.cliques)}, min_block)


def _overlap(interval: VerdictInterval | NodeInterval, starts_ns: int, ends_ns: int) -> int:
    return max(0, min(interval.ends_ns, ends_ns) - max(interval.starts_ns, starts_ns))


def node_times(intervals: Iterable[NodeInterval], starts_ns: int, ends_ns: int) -> dict[NodeState, int]:
    """Sum the time of each node state over all nodes within a window, in nanoseconds."""
    times: Counter[NodeState] = Counter(dict.fromkeys(NodeState, 0))
    for own in intervals:
        times[own.state] += _overlap(own, starts_ns, ends_ns)
    return dict(times)


def compute_availability(
    *,
    rack: str,
    starts_ns: int,
    ends_ns: int,
    slo: float,
    min_block: int | None,
    verdicts: Mapping[Verdict, int],
    nodes: Mapping[NodeState, int],
    incidents: IncidentCount,
) -> Availability:
    """Compute availability.

    Args:
        rack: The rack.
        starts_ns: Begin of the window.
        ends_ns: End of the window.
        slo: Share of time for which the rack should be available.
        min_block: Block that the times were computed for.
        verdicts: Time of each verdict in the window, nanoseconds.
        nodes: Time of each node state in the window, summed over the nodes, nanoseconds.
        incidents: Incidents in the window.
    """
    available, unavailable = verdicts[Verdict.AVAILABLE], verdicts[Verdict.UNAVAILABLE]
    excused, unknown = verdicts[Verdict.MAINTENANCE], verdicts[Verdict.UNKNOWN]
    whole = max(0, ends_ns - starts_ns)
    window = whole - excused
    known = available + unavailable
    coverage = _ratio(known, window)
    operating = sum(nodes.get(state, 0) for state in OPERATING_STATES)
    down = nodes.get(NodeState.FAILED, 0)
    budget = (1 - slo) * window / _SECOND_NS
    return Availability(
        rack=rack,
        starts_ns=starts_ns,
        ends_ns=ends_ns,
        min_block=min_block,
        slo=slo,
        available_seconds=available / _SECOND_NS,
        unavailable_seconds=unavailable / _SECOND_NS,
        excused_seconds=excused / _SECOND_NS,
        unknown_seconds=unknown / _SECOND_NS,
        uncovered_seconds=(window - known - unknown) / _SECOND_NS,
        low=_ratio(available, window),
        point=_ratio(available, known),
        # One division of whole numbers: rounding is monotone, so that low <= point <= high holds exactly.
        high=_ratio(window - unavailable, window),
        coverage=coverage,
        insufficient_data=coverage is None or coverage < SUFFICIENT_COVERAGE,
        budget_seconds=budget,
        budget_used=unavailable / _SECOND_NS / budget if budget > 0 else None,
        incidents=incidents.begun,
        open_incidents=incidents.open,
        node_operating_seconds=operating / _SECOND_NS,
        node_down_seconds=down / _SECOND_NS,
        mtbf_seconds=_ratio(operating, incidents.begun * _SECOND_NS),
        mttr_seconds=_ratio(down, incidents.closed * _SECOND_NS),
    )


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator > 0 else None
