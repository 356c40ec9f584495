"""Availability by hand: CONTRACTS §3, facts/rack.md §6."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.health.availability import (
    Availability,
    IncidentCount,
    NodeInterval,
    VerdictInterval,
    compute_availability,
    node_times,
    verdict_times,
)
from collector.health.incidents import Incident, IncidentBook
from collector.health.rack_types import NodeStatus, Poll, Reason
from collector.health.states import Impact, NodeState, Verdict
from collector.health.verdict import CliqueCount
from tests.rack_builders import DAY, HOUR, MINUTE, T0


def interval(verdict: str, begins: int, ends: int, *cliques: CliqueCount) -> VerdictInterval:
    return VerdictInterval("r01", Verdict(verdict), 16, cliques, T0 + begins * HOUR, T0 + ends * HOUR)


def compute(
    *intervals: VerdictInterval,
    hours: int = 100,
    slo: float = 0.99,
    nodes: tuple[NodeInterval, ...] = (),
    incidents: IncidentCount | None = None,
    min_block: int | None = None,
) -> Availability:
    ends = T0 + hours * HOUR
    return compute_availability(
        rack="r01",
        starts_ns=T0,
        ends_ns=ends,
        slo=slo,
        min_block=min_block,
        verdicts=verdict_times(intervals, T0, ends, min_block),
        nodes=node_times(nodes, T0, ends),
        incidents=incidents or IncidentCount(),
    )


def test_a_window_of_everything() -> None:
    # 100 h, of which 10 h are excused, so that W is 90 h: 80 h up, 6 h down, 3 h unknown, 1 h not recorded.
    own = compute(
        interval("AVAILABLE", -50, 50),
        interval("UNAVAILABLE", 50, 56),
        interval("MAINTENANCE", 56, 66),
        interval("UNKNOWN", 66, 69),
        interval("AVAILABLE", 70, 200),
    )
    assert (own.low, own.high, own.point) == (80 / 90, 84 / 90, 80 / 86)
    assert (own.coverage, own.insufficient_data) == (86 / 90, False)
    assert (own.available_seconds, own.unavailable_seconds) == (80 * 3600, 6 * 3600)
    assert (own.excused_seconds, own.unknown_seconds, own.uncovered_seconds) == (10 * 3600, 3 * 3600, 3600)
    assert own.budget_seconds == pytest.approx(0.9 * 3600)  # 1 % of 90 h
    assert own.budget_used == pytest.approx(6 / 0.9)


def test_below_95_percent_of_coverage_the_data_do_not_suffice() -> None:
    assert compute(interval("AVAILABLE", 0, 95)).insufficient_data is False
    own = compute(interval("AVAILABLE", 0, 94))
    assert (own.insufficient_data, own.low, own.point, own.high) == (True, 0.94, 1.0, 1.0)


def test_nothing_recorded_says_nothing() -> None:
    own = compute()
    assert (own.low, own.point, own.high, own.coverage) == (0.0, None, 1.0, 0.0)
    assert (own.insufficient_data, own.mtbf_seconds, own.mttr_seconds) == (True, None, None)


def test_a_window_of_maintenance_alone_says_nothing() -> None:
    own = compute(interval("MAINTENANCE", 0, 100))
    assert (own.low, own.point, own.high, own.coverage) == (None, None, None, None)
    assert (own.insufficient_data, own.budget_seconds, own.budget_used) == (True, 0.0, None)


def test_the_budget_of_a_month() -> None:
    # facts/rack.md §6: 99 % over 30 days are 7.2 h per rack.
    own = compute(interval("AVAILABLE", 0, 720), hours=720)
    assert own.budget_seconds == pytest.approx(7.2 * 3600)
    assert own.budget_used == 0.0


def test_without_a_budget_nothing_is_used_of_it() -> None:
    assert compute(interval("UNAVAILABLE", 0, 1), slo=1.0).budget_used is None


def test_mtbf_and_mttr_in_node_hours() -> None:
    # facts/rack.md §5: 18 nodes over 30 days, 7 incidents: mtbf_h 1846, mttr_h 5.2.
    nodes = (
        NodeInterval("r01", "n01", NodeState.FAILED, T0, T0 + 364 * HOUR // 10),
        NodeInterval("r01", "n01", NodeState.READY, T0 + 364 * HOUR // 10, T0 + 30 * DAY),
        *(NodeInterval("r01", f"n{node}", NodeState.READY, T0, T0 + 30 * DAY) for node in range(2, 18)),
        NodeInterval("r01", "n18", NodeState.DEGRADED, T0, T0 + 40 * DAY),
    )
    own = compute(hours=720, nodes=nodes, incidents=IncidentCount(begun=7, closed=7, open=0))
    assert own.mtbf_seconds is not None
    assert own.mttr_seconds is not None
    assert (round(own.mtbf_seconds / 3600), round(own.mttr_seconds / 3600, 1)) == (1846, 5.2)
    assert (own.incidents, own.open_incidents) == (7, 0)


def test_unknown_and_maintenance_are_neither_operating_nor_down() -> None:
    nodes = tuple(
        NodeInterval("r01", state.value, state, T0, T0 + HOUR)
        for state in (NodeState.UNKNOWN, NodeState.MAINTENANCE)
    )
    own = compute(nodes=nodes)
    assert (own.node_operating_seconds, own.node_down_seconds) == (0.0, 0.0)


def test_the_past_is_judged_anew_for_another_block() -> None:
    past = (
        interval("AVAILABLE", 0, 40, CliqueCount(18)),
        interval("AVAILABLE", 40, 60, CliqueCount(17, unknown=1)),
        interval("AVAILABLE", 60, 80, CliqueCount(16)),
        interval("UNAVAILABLE", 80, 100, CliqueCount(15, maintenance=0)),
    )
    hours = {
        block: (
            compute(*past, min_block=block).available_seconds / 3600,
            compute(*past, min_block=block).unavailable_seconds / 3600,
            compute(*past, min_block=block).unknown_seconds / 3600,
        )
        for block in (15, 16, 17, 18)
    }
    assert hours == {15: (100, 0, 0), 16: (80, 20, 0), 17: (60, 40, 0), 18: (40, 40, 20)}
    assert compute(*past).available_seconds == 80 * 3600


# --- incidents ------------------------------------------------------------------------------------------


def status(state: NodeState) -> NodeStatus:
    reason = Reason("gpu_xid_fatal", Impact.FAIL, "Xid 79", "reboot", node="n01")
    return NodeStatus("n01", state, False, 0, (reason,), "", False, Poll("n01", ""))


def follow(*story: tuple[float, NodeState], book: IncidentBook | None = None) -> list[tuple[Incident, bool]]:
    book = book or IncidentBook()
    told = []
    for minutes, state in story:
        incident, new = book.observe("r01", status(state), T0 + int(minutes * MINUTE))
        if incident is not None:
            told.append((incident, new))
    return told


OPEN = Incident("r01", "n01", T0, None, "gpu_xid_fatal", "Xid 79")


def test_an_incident_goes_from_failed_to_well() -> None:
    told = follow((0, NodeState.FAILED), (1, NodeState.FAILED), (5, NodeState.READY), (6, NodeState.READY))
    assert told == [(OPEN, True), (replace(OPEN, ends_ns=T0 + 5 * MINUTE), False)]


@pytest.mark.parametrize("between", [NodeState.UNKNOWN, NodeState.MAINTENANCE])
def test_silence_and_maintenance_do_not_end_an_incident(between: NodeState) -> None:
    told = follow((0, NodeState.FAILED), (1, between), (99, NodeState.FAILED), (100, NodeState.DEGRADED))
    assert told == [(OPEN, True), (replace(OPEN, ends_ns=T0 + 100 * MINUTE), False)]


# facts/rack.md §6: merge incidents less than 10 minutes apart.
@pytest.mark.parametrize(("minutes", "new"), [(9.9, False), (10, True)])
def test_incidents_less_than_ten_minutes_apart_are_one(minutes: float, new: bool) -> None:
    told = follow((0, NodeState.FAILED), (5, NodeState.READY), (5 + minutes, NodeState.FAILED))
    assert told[-1][1] is new
    assert told[-1][0].ends_ns is None
    assert (told[-1][0].starts_ns == T0) is not new


def test_an_incident_goes_on_over_a_restart() -> None:
    assert follow((60, NodeState.FAILED), book=IncidentBook([OPEN])) == []
    ended = (replace(OPEN, ends_ns=T0 + 60 * MINUTE), False)
    assert follow((60, NodeState.READY), book=IncidentBook([OPEN])) == [ended]


def test_a_clock_that_steps_back_ends_no_incident_before_its_begin() -> None:
    told = follow((0, NodeState.FAILED), (-60, NodeState.READY))
    assert told[-1][0].ends_ns == T0
