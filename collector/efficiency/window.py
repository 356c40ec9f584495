"""Windows over roll-ups: whole minutes that have settled, read as hours where they are whole hours."""

from __future__ import annotations

from dataclasses import dataclass

from collector.efficiency.rollup import HOUR_SECONDS, MINUTE_SECONDS

_SECOND_NS = 1_000_000_000
_MINUTE_NS = MINUTE_SECONDS * _SECOND_NS
_HOUR_NS = HOUR_SECONDS * _SECOND_NS


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a window that is read from roll-ups of one length.

    Attributes:
        length_seconds: A minute or an hour.
        starts_ns: Begin, Unix nanoseconds.
        ends_ns: End.
    """

    length_seconds: int
    starts_ns: int
    ends_ns: int


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, from begin to end in Unix nanoseconds."""

    starts_ns: int
    ends_ns: int


def settled_window(
    now_ns: int, window_seconds: float, *, settle_seconds: float, minutes_from_ns: int
) -> Window:
    """Return the newest window whose minutes do not change any more while everything answers.

    Args:
        now_ns: The present.
        window_seconds: Length that was asked for; it becomes whole minutes, one at least.
        settle_seconds: Age from which on a minute has everything that belongs to it.
        minutes_from_ns: From when on there are minutes; what begins before begins at a whole hour.
    """
    ends = (now_ns - int(settle_seconds * _SECOND_NS)) // _MINUTE_NS * _MINUTE_NS
    minutes = max(1, round(window_seconds / MINUTE_SECONDS))
    starts = ends - minutes * _MINUTE_NS
    if starts < minutes_from_ns:
        starts = starts // _HOUR_NS * _HOUR_NS
    return Window(max(0, starts), max(0, ends))


def parts(window: Window) -> tuple[Part, ...]:
    """Split a window of whole minutes: hours where it has whole ones, minutes before and after them."""
    starts, ends = window.starts_ns, window.ends_ns
    first_hour, last_hour = -(-starts // _HOUR_NS) * _HOUR_NS, ends // _HOUR_NS * _HOUR_NS
    if first_hour >= last_hour:
        return (Part(MINUTE_SECONDS, starts, ends),)
    found = (
        Part(MINUTE_SECONDS, starts, first_hour),
        Part(HOUR_SECONDS, first_hour, last_hour),
        Part(MINUTE_SECONDS, last_hour, ends),
    )
    return tuple(part for part in found if part.ends_ns > part.starts_ns)
