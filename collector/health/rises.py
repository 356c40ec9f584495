"""Growth of a counter within a window, through restarts of the counter and gaps in its readings."""

from __future__ import annotations

from collections import deque

from collector.model import Value

_MAXIMUM_STEPS = 64
"""Steps that are kept apart; more are added to the newest, so that growth is never forgotten too early."""
_NANOSECONDS = 1_000_000_000


class Rise:
    """Steps by which one counter grew.

    Its time is that of its readings: while none come, nothing that was seen grows old, so that a value that
    disappears is no cure.
    """

    __slots__ = ("_last", "_seen_ns", "_steps")

    def __init__(self) -> None:
        """Begin before the first reading, which is no growth."""
        self._last: Value | None = None
        self._seen_ns = 0
        self._steps: deque[tuple[int, Value]] = deque()

    def read(self, value: Value | None, now_ns: int) -> None:
        """Take a reading; None is none. A counter that fell began anew at zero."""
        if value is None:
            return
        self._seen_ns = now_ns
        last, self._last = self._last, value
        if last is None or value == last:
            return
        step = value - last if value > last else value
        if not step > 0:
            return
        if len(self._steps) >= _MAXIMUM_STEPS:
            _, newest = self._steps.pop()
            step += newest
        self._steps.append((now_ns, step))

    def within(self, window_seconds: float) -> Value:
        """Return the growth in the window that ends with the last reading."""
        oldest = self._seen_ns - int(window_seconds * _NANOSECONDS)
        return sum(step for time_ns, step in self._steps if time_ns > oldest) if self._steps else 0

    def forget(self, window_seconds: float) -> None:
        """Forget the steps that are older than any window asked for."""
        oldest = self._seen_ns - int(window_seconds * _NANOSECONDS)
        while self._steps and self._steps[0][0] <= oldest:
            self._steps.popleft()
