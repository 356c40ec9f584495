"""SteadyClock: Unix time that follows a step forward and never runs backwards."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collector.timekeeping import SteadyClock

SECOND = 1_000_000_000
NOON = 1_764_504_000 * SECOND  # 2025-11-30T12:00:00Z


class Clocks:
    """A monotonic and a wall clock, moved apart by hand."""

    def __init__(self) -> None:
        self.monotonic_seconds = 100.0
        self.wall_ns = NOON
        self.steady = SteadyClock(lambda: self.monotonic_seconds, lambda: self.wall_ns)

    def pass_time(self, seconds: int) -> None:
        self.monotonic_seconds += seconds
        self.wall_ns += seconds * SECOND


def test_it_begins_with_the_wall_clock_and_goes_on_with_time() -> None:
    clocks = Clocks()
    assert clocks.steady.now_ns() == NOON
    clocks.pass_time(7)
    assert clocks.steady.now_ns() == NOON + 7 * SECOND


def test_a_step_forward_is_followed_at_once() -> None:
    clocks = Clocks()
    clocks.wall_ns += 3600 * SECOND
    assert clocks.steady.now_ns() == NOON + 3600 * SECOND
    clocks.pass_time(1)
    assert clocks.steady.now_ns() == NOON + 3601 * SECOND


def test_a_step_back_is_not_followed() -> None:
    clocks = Clocks()
    clocks.wall_ns -= 3600 * SECOND
    assert clocks.steady.now_ns() == NOON
    clocks.pass_time(5)
    assert clocks.steady.now_ns() == NOON + 5 * SECOND


def test_less_than_a_second_ahead_is_no_step() -> None:
    clocks = Clocks()
    clocks.wall_ns += SECOND  # _STEP_NS itself is still borne
    assert clocks.steady.now_ns() == NOON
    clocks.wall_ns += 1
    assert clocks.steady.now_ns() == NOON + SECOND + 1


def test_two_stamps_of_one_instant_differ() -> None:
    clocks = Clocks()
    assert [clocks.steady.now_ns() for _ in range(3)] == [NOON, NOON + 1, NOON + 2]


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(-(10**12), 10**12)), max_size=50))
def test_whatever_the_wall_clock_does_time_goes_on(moves: list[tuple[float, int]]) -> None:
    clocks = Clocks()
    stamps = [clocks.steady.now_ns()]
    for seconds, wall_move_ns in moves:
        clocks.monotonic_seconds += seconds
        clocks.wall_ns += wall_move_ns
        stamps.append(clocks.steady.now_ns())
    assert all(earlier < later for earlier, later in pairwise(stamps))
