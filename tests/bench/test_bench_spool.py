"""The arithmetic of the spool's part of the bench."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.spool_report import SpoolResults, broken_bounds, markdown
from tests.bench.spooling import Spooling, measure_spool

MEASURED = Spooling(
    seconds=1800,
    points=42_300,
    raw_bytes=31_725_000,
    disk_bytes=4_230_000,
    writing_seconds=0.5,
    filling_seconds=4.0,
    draining_seconds=0.23,
    processor_seconds=0.9,
    peer_ratio=9.0,
)


def results(**changes: float) -> SpoolResults:
    return SpoolResults(replace(MEASURED, **changes), "a processor", "2026-01-01")  # type: ignore[arg-type] # figures


def test_what_follows_from_what_was_measured() -> None:
    assert MEASURED.bytes_per_point == 100
    assert MEASURED.lines_per_second == pytest.approx(10_000)
    assert MEASURED.cpu_percent == pytest.approx(0.05)
    assert replace(MEASURED, seconds=900).half_an_hour_bytes == 8_460_000


def test_results_within_the_bounds_keep_them() -> None:
    assert broken_bounds(results()) == []
    assert "| bytes on the disk | 100 |" in markdown(results())
    assert "**no**" not in markdown(results())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"processor_seconds": 9.9},
            "lines and spool, processor: 0.550 % of a core, bound 0.500 % of a core",
        ),
        ({"disk_bytes": 12_500_000}, "spool after 30 minutes without a server: 12.5 MB, bound 12.0 MB"),
        ({"filling_seconds": 60.0}, "lines a second through the spool: 702, bound 1,000"),
        ({"seconds": 1799}, "too short to judge: needs 1800 s of Snapshots"),
    ],
)
def test_each_bound_can_break(changes: dict[str, float], line: str) -> None:
    assert broken_bounds(results(**changes)) == [line]


def test_it_measures() -> None:
    measured = measure_spool(12)
    assert measured.seconds == 12
    # 8 GPUs and the node each second, and 144 links and the agent in the first and the eleventh.
    assert measured.points == 9 * 12 + 2 * (8 * 18 + 1)
    assert measured.raw_bytes > measured.disk_bytes > 0
    assert min(measured.lines_per_second, measured.cpu_percent, measured.peer_ratio) > 0
