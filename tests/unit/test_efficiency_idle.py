"""Idle time: what is not busy, once everybody has spoken."""

from __future__ import annotations

import pytest

from collector.efficiency.idle import IdleTimes, Piece
from tests.rack_builders import SECOND, T0


def at(seconds: float) -> int:
    return T0 + round(seconds * SECOND)


def settled(times: IdleTimes, until: float) -> list[tuple[float, float, float]]:
    """Return begin, end and joules of what was idle, in seconds since T0."""
    return [
        ((own.starts_ns - T0) / SECOND, (own.ends_ns - T0) / SECOND, round(own.joules["gpu"], 6))
        for own in times.settle(at(until))
    ]


def piece(starts: float, ends: float) -> Piece:
    """Return energy of 1 kW."""
    return Piece(at(starts), at(ends), {"gpu": 1000 * (ends - starts)})


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        ([], [(0, 10, 10_000)]),
        ([(0, 10)], []),
        ([(2, 4)], [(0, 2, 2000), (4, 10, 6000)]),
        ([(-5, 3), (8, 12)], [(3, 8, 5000)]),
        ([(2, 4), (3, 5), (1, 5)], [(0, 1, 1000), (5, 10, 5000)]),
        ([(1, 2), (3, 4), (2.5, 4)], [(0, 1, 1000), (2, 2.5, 500), (4, 10, 6000)]),
        ([(10, 12)], [(0, 10, 10_000)]),
    ],
)
def test_energy_is_told_apart(
    busy: list[tuple[float, float]], expected: list[tuple[float, float, float]]
) -> None:
    times = IdleTimes(at(-100))
    for starts, ends in busy:
        times.mark_busy(at(starts), at(ends))
    times.put(piece(0, 10))
    assert settled(times, 20) == expected
    assert settled(times, 20) == []


def test_energy_waits_until_its_time_is_settled() -> None:
    times = IdleTimes(at(0))
    times.put(piece(0, 10))
    times.put(piece(0, 5))
    assert settled(times, 9) == [(0, 5, 5000)]
    times.mark_busy(at(5), at(12))
    assert settled(times, 12) == [(0, 5, 5000)]


def test_time_before_the_begin_is_busy() -> None:
    times = IdleTimes(at(4))
    times.put(piece(0, 10))
    assert settled(times, 10) == [(4, 10, 6000)]


def test_busy_times_are_forgotten() -> None:
    times = IdleTimes(at(0))
    for second in range(0, 4000, 2):
        times.mark_busy(at(second), at(second + 1))
        list(times.settle(at(second + 1)))
    assert len(times._ends) <= 452  # one each 2 s of 15 minutes
    times.put(piece(3900, 3904))
    assert settled(times, 4000) == [(3901, 3902, 1000), (3903, 3904, 1000)]
