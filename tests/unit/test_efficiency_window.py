"""Windows over roll-ups: whole minutes that have settled, read as hours where they are whole hours."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collector.efficiency.window import Part, Window, parts, settled_window

SECOND = 1_000_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
NOON = 1_767_268_800 * SECOND
"""2026-01-01T12:00:00Z, a whole hour."""


def test_a_window_ends_with_the_last_minute_that_has_settled() -> None:
    own = settled_window(NOON + 25 * SECOND, 300, settle_seconds=25, minutes_from_ns=0)
    assert own == Window(NOON - 5 * MINUTE, NOON)
    own = settled_window(NOON + 24 * SECOND, 300, settle_seconds=25, minutes_from_ns=0)
    assert own == Window(NOON - 6 * MINUTE, NOON - MINUTE)


def test_a_window_has_whole_minutes_and_one_at_least() -> None:
    assert settled_window(NOON, 1, settle_seconds=0, minutes_from_ns=0) == Window(NOON - MINUTE, NOON)
    assert settled_window(NOON, 100, settle_seconds=0, minutes_from_ns=0) == Window(NOON - 2 * MINUTE, NOON)


def test_a_window_that_begins_before_there_are_minutes_begins_at_a_whole_hour() -> None:
    own = settled_window(NOON + 10 * MINUTE, 7200, settle_seconds=0, minutes_from_ns=NOON)
    assert own == Window(NOON - 2 * HOUR, NOON + 10 * MINUTE)


def test_a_short_window_is_read_from_minutes() -> None:
    assert parts(Window(NOON - 50 * MINUTE, NOON - MINUTE)) == (Part(60, NOON - 50 * MINUTE, NOON - MINUTE),)


def test_a_long_window_is_read_from_hours_with_minutes_around_them() -> None:
    assert parts(Window(NOON - 90 * MINUTE, NOON + 3 * MINUTE)) == (
        Part(60, NOON - 90 * MINUTE, NOON - HOUR),
        Part(3600, NOON - HOUR, NOON),
        Part(60, NOON, NOON + 3 * MINUTE),
    )
    assert parts(Window(NOON - HOUR, NOON)) == (Part(3600, NOON - HOUR, NOON),)


@given(st.integers(0, 10_000), st.integers(1, 2_000))
def test_parts_are_the_window_without_gap_or_overlap(first_minute: int, minutes: int) -> None:
    window = Window(first_minute * MINUTE, (first_minute + minutes) * MINUTE)
    found = parts(window)
    assert (found[0].starts_ns, found[-1].ends_ns) == (window.starts_ns, window.ends_ns)
    assert all(one.ends_ns == other.starts_ns for one, other in pairwise(found))
    assert all(part.starts_ns % (part.length_seconds * SECOND) == 0 for part in found)
    assert all(part.ends_ns % (part.length_seconds * SECOND) == 0 for part in found)
