"""A reader within the agent's own process, on a thread of its own: for the demo and for tests.

A call that hangs stalls this source alone; unlike a reader process it cannot be ended and started anew.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from collector.protocols import Deliver
from collector.readings import Message, Reading

_logger = logging.getLogger("rackwatt.reader")

_CLOSE_SECONDS = 1.0


class Stepper(Protocol):
    """What can be stepped: an NvmlReader."""

    def step(self, now: float) -> Sequence[Message]:
        """Read what is due."""

    def close(self) -> None:
        """Let go of what is held."""


class InlineSource:
    """Steps a reader at a fixed period."""

    def __init__(
        self, reader: Stepper, period_seconds: float, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare; nothing runs before `start`."""
        self._reader = reader
        self._period_seconds = period_seconds
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def restarts(self) -> int:
        """Return 0: it is never started anew."""
        return 0

    async def start(self, deliver: Deliver) -> None:
        """Begin to step."""
        loop = asyncio.get_running_loop()

        def hand_over(messages: Sequence[Message]) -> None:
            for message in messages:
                deliver(message)

        def work() -> None:
            while not self._stop.is_set():
                begin = self._monotonic()
                messages = self._step(begin)
                if self._stop.is_set():
                    break
                loop.call_soon_threadsafe(hand_over, messages)
                self._stop.wait(max(0.0, self._period_seconds - (self._monotonic() - begin)))
            self._reader.close()

        self._thread = threading.Thread(target=work, name="rackwatt-reader", daemon=True)
        self._thread.start()

    def _step(self, now: float) -> Sequence[Message]:
        try:
            return self._reader.step(now)
        except Exception as error:  # one source's defect must not end the agent
            _logger.exception("the reader failed")
            return [Reading(taken_at=now, generation=0, up=False, reason=f"the reader failed: {error!r}")]

    async def close(self) -> None:
        """Stop stepping; a step that hangs is left behind with its thread."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)
