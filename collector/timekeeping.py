"""Unix time that never runs backwards: the wall clock at one instant, carried on by the monotonic clock."""

from __future__ import annotations

from collections.abc import Callable

_STEP_NS = 1_000_000_000
"""A wall clock that is this far ahead was stepped forward, as when NTP sets it after boot."""


class SteadyClock:
    """Nanoseconds of Unix time for stamping Snapshots.

    A wall clock that was stepped forward is followed at once; one that was stepped back is not followed, as
    time would run backwards.
    """

    def __init__(self, monotonic: Callable[[], float], wall_ns: Callable[[], int]) -> None:
        """Anchor at the present.

        Args:
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
        """
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._offset_ns = wall_ns() - int(monotonic() * 1e9)
        self._last_ns = 0

    def now_ns(self) -> int:
        """Return the time, later than the last one returned."""
        anchored = int(self._monotonic() * 1e9) + self._offset_ns
        wall = self._wall_ns()
        if wall - anchored > _STEP_NS:
            self._offset_ns += wall - anchored
            anchored = wall
        self._last_ns = max(anchored, self._last_ns + 1)
        return self._last_ns
