"""The arithmetic of the dashboards' part of the bench, and the series that it plays."""

from __future__ import annotations

import json
from dataclasses import replace

from dashboards.catalogue import BOARDS
from tests.bench.dashboards_data import (
    END_SECONDS,
    POINT_SECONDS,
    POINTS,
    Template,
    asked_names,
    lines,
)
from tests.bench.dashboards_measuring import LOOKS, Load, Timing
from tests.bench.dashboards_report import DashboardResults, broken_bounds, markdown

STATE = Template({"__name__": "rack_verdict:verdict:max", "rack": "r01", "verdict": "AVAILABLE"}, 1.0, 0.0)
COUNTER = Template({"__name__": "rackwatt_rack_incidents_total", "rack": "r01"}, 7.0, 0.5)
GAUGE = Template({"__name__": "rack_node_gpu:nvlinks_up:sum", "rack": "r01", "gpu_uuid": "GPU-1"}, 100.0, 0.0)


def load(racks: int, seconds: float) -> Load:
    timings = {look.name: (Timing("slow", seconds, 3), Timing("fast", seconds / 10, 1)) for look in LOOKS}
    return Load(racks, 1000 * racks, 10**6 * racks, 2.0, timings)


RESULTS = DashboardResults((load(1, 0.01), load(55, 0.5)), "a processor", "2026-01-01")


def test_results_within_the_bounds_keep_them() -> None:
    assert broken_bounds(RESULTS) == []
    table = markdown(RESULTS)
    assert "**no**" not in table
    assert "| fleet, all racks | 2 | 5.5 | 275.0 | 10.0 | 500.0 | `slow` | **50.0** |" in table


def test_a_slow_panel_is_said() -> None:
    slow = replace(RESULTS, loads=(load(1, 0.01), load(55, 4.0)))
    assert broken_bounds(slow) == ["slowest panel over a week: 4.00 s, bound 3.00 s"]


def test_every_board_is_opened() -> None:
    assert {look.board for look in LOOKS} == {board.identity for board in BOARDS}
    assert "rack_verdict:verdict:max" in asked_names()


def test_racks_differ_in_what_is_theirs_alone() -> None:
    (state, counter, gauge) = [json.loads(line) for line in lines([STATE, COUNTER, GAUGE], "r55")]
    assert state["metric"] == {
        "__name__": "rack_verdict:verdict:max",
        "rack": "r55",
        "verdict": "AVAILABLE",
    }
    assert gauge["metric"]["gpu_uuid"] == "GPU-1-r55"
    for series in (state, counter, gauge):
        assert len(series["values"]) == len(series["timestamps"]) == POINTS
        assert series["timestamps"][-1] == END_SECONDS * 1000
    assert set(state["values"]) == {1}
    assert counter["values"][1] - counter["values"][0] == 0.5 * POINT_SECONDS
    assert 94 < min(gauge["values"]) < max(gauge["values"]) < 106
