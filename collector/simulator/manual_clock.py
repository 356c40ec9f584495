"""A clock that a test drives by hand."""

from __future__ import annotations

import math


class ManualClock:
    """Monotonic seconds that move only when told, by `advance` or by whoever sleeps on it.

    Args:
        start: First reading.
        limit: Reading that no sleep may pass, so that a call that hangs for ever ends its test.
    """

    __slots__ = ("_limit", "_now")

    def __init__(self, start: float = 0.0, limit: float = math.inf) -> None:
        self._now = start
        self._limit = limit

    def __call__(self) -> float:
        """Return the reading."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on by some seconds."""
        self._now += seconds

    def set(self, reading: float) -> None:
        """Move to a reading."""
        self._now = reading

    def sleep(self, seconds: float) -> None:
        """Sleep by moving on.

        Args:
            seconds: How long.

        Raises:
            TimeoutError: The sleep would pass the limit.
        """
        if self._now + seconds > self._limit:
            raise TimeoutError(f"slept until the limit of {self._limit} s")
        self._now += seconds
