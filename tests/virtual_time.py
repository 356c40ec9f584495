"""An event loop whose time passes at once: where it would wait, it jumps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Self
from unittest.mock import patch

EPOCH_NS = 1_764_505_200_000_000_000
"""2025-11-30T12:20:00Z, what the wall clock says at the beginning."""


@dataclass
class VirtualClock:
    """Two clocks that go together until the wall clock is stepped.

    Attributes:
        seconds: What the monotonic clock says.
        step_seconds: By how much the wall clock was set forward since the beginning.
    """

    seconds: float = 1000.0
    step_seconds: float = 0.0

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        return self.seconds

    def wall_ns(self) -> int:
        """Return Unix time in nanoseconds."""
        return EPOCH_NS + round((self.seconds - 1000.0 + self.step_seconds) * 1e9)


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise AssertionError("nothing is ever going to happen any more")
        self._clock.seconds += timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._clock = clock

    def time(self) -> float:
        return self._clock.seconds


def run_virtually(scenario: Callable[[VirtualClock], Awaitable[None]]) -> None:
    """Run a scenario in a loop of its own; its clocks are APScheduler's, too."""
    clock = VirtualClock()

    class VirtualDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(clock.wall_ns() / 1e9, tz)

    async def told() -> None:
        await scenario(clock)

    with (
        patch("apscheduler.schedulers.base.datetime", VirtualDatetime),
        asyncio.Runner(loop_factory=lambda: _VirtualLoop(clock)) as runner,
    ):
        runner.run(told())
