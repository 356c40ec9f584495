"""Whether the wall clock can be believed enough to throw data away by their age."""

from __future__ import annotations

from collections.abc import Callable

STEP_SECONDS = 60.0
"""Clocks that part by more than this from one comparison to the next were stepped (chosen)."""

SETTLING_SECONDS = 600.0
"""How long a clock is not believed after a step, and after the start (chosen: time synchronization sets a
wrong clock right within minutes of the boot)."""


class ClockTrust:
    """Compares the two clocks each time that it is asked.

    A clock that leaps 30 days ahead makes everything look too old; a few minutes later it is right again, and
    the data would be gone.
    """

    def __init__(self, wall_ns: Callable[[], int], monotonic: Callable[[], float]) -> None:
        """Begin without trust.

        Args:
            wall_ns: Unix time in nanoseconds.
            monotonic: Clock in seconds.
        """
        self._wall_ns = wall_ns
        self._monotonic = monotonic
        self._offset = self._parted()
        self._since = monotonic()

    def settled(self) -> bool:
        """Tell whether the wall clock has gone as the monotonic one does for long enough."""
        offset = self._parted()
        if abs(offset - self._offset) > STEP_SECONDS:
            self._since = self._monotonic()
        self._offset = offset
        return self._monotonic() - self._since >= SETTLING_SECONDS

    def _parted(self) -> float:
        return self._wall_ns() / 1e9 - self._monotonic()
