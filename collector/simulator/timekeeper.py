"""The time of a simulated node: a fixed grid of ticks under an injected clock.

The physics moves on the grid only, so what is true at a time does not depend on when anybody looked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

TICKS_PER_SECOND: Final = 10
TICK_SECONDS: Final = 1 / TICKS_PER_SECOND

# Far above the rounding error of clock differences, far below anything measured.
_ROUNDING_TICKS: Final = 1e-6


class Timekeeper:
    """The node's clock, the tick that is being read, and the lock under which both move.

    Args:
        clock: Monotonic seconds.
        sleep: Sleeps for some seconds of that clock.
        wall_clock_ns: Nanoseconds since 1970, read once, for the timestamps of field values.

    Attributes:
        lock: Held by whoever reads or moves the simulation.
        sleep: As given.
        tick: Tick that is being read.
        offset_seconds: Time since that tick began.
    """

    __slots__ = ("_clock", "_start", "_wall_start_us", "lock", "offset_seconds", "sleep", "tick")

    def __init__(
        self, clock: Callable[[], float], sleep: Callable[[float], None], wall_clock_ns: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._start = clock()
        self._wall_start_us = wall_clock_ns() // 1000
        self.sleep = sleep
        self.lock = threading.RLock()
        self.tick = 0
        self.offset_seconds = 0.0

    def now(self) -> float:
        """Return the clock."""
        return self._clock()

    def refresh(self) -> None:
        """Move to now."""
        self.move_to(self._clock())

    def move_to(self, now: float) -> None:
        """Move to a reading of the clock; times before the start read as the start."""
        elapsed = max(0.0, now - self._start)
        self.tick = int(elapsed * TICKS_PER_SECOND + _ROUNDING_TICKS)
        self.offset_seconds = max(0.0, elapsed - self.tick * TICK_SECONDS)

    @property
    def elapsed_seconds(self) -> float:
        """Time since the node's start, at the moment that is being read."""
        return self.tick * TICK_SECONDS + self.offset_seconds

    @property
    def start_unix_seconds(self) -> float:
        """The node's start in seconds since 1970."""
        return self._wall_start_us / 1_000_000

    @property
    def timestamp_us(self) -> int:
        """That moment in microseconds since 1970."""
        return self._wall_start_us + int(self.elapsed_seconds * 1_000_000)
