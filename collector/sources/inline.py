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
from collector.sources.released import say_released

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
        self._wake = threading.Event()
        self._let_go = threading.Event()
        """Set by the thread once the reader holds nothing, cleared by whoever orders or begins to read."""
        self._let_go.set()
        self._phase = 0
        """Counts releases and ends of them: odd while released. Written on the loop's thread only."""
        self._thread: threading.Thread | None = None
        self._deliver: Deliver | None = None
        self._released_for = ""
        self._saying: asyncio.Task[None] | None = None

    @property
    def restarts(self) -> int:
        """Return 0: it is never started anew."""
        return 0

    @property
    def held_by(self) -> str:
        """Say that a call hangs, which within this process nothing can end."""
        if not self._released_for or self._let_go.is_set():
            return ""
        return "a call that hangs within the agent (--inline); only the agent's end ends it"

    async def start(self, deliver: Deliver) -> None:
        """Begin to step."""
        self._deliver = deliver
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, args=(loop,), name="rackwatt-reader", daemon=True)
        self._thread.start()
        self._say_if_released()

    async def release(self, reason: str) -> None:
        """Let go of the reader's hardware; a step that hangs is waited for as long as at the end."""
        already, self._released_for = bool(self._released_for), reason
        if already:
            return
        if self._thread is not None:
            self._let_go.clear()
        self._turn()
        await asyncio.to_thread(self._let_go.wait, _CLOSE_SECONDS)
        self._say_if_released()

    async def resume(self) -> None:
        """Step again, once a step that hangs has come back."""
        if self._released_for:
            self._released_for = ""
            self._say_if_released()
            self._turn()

    async def close(self) -> None:
        """Stop stepping; a step that hangs is left behind with its thread."""
        self._deliver = None
        self._say_if_released()
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)

    def _turn(self) -> None:
        """Go from reading to being released, or back."""
        self._phase += 1
        self._wake.set()

    def _say_if_released(self) -> None:
        """Begin or end to deliver that nothing is read."""
        if self._saying is not None:
            self._saying.cancel()
            self._saying = None
        if self._released_for and self._deliver is not None:
            work = say_released(self._deliver, self._why_released, self._monotonic)
            self._saying = asyncio.create_task(work, name="rackwatt-released")

    def _why_released(self) -> str:
        return f"{self._released_for}; held by {self.held_by}" if self.held_by else self._released_for

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Step until the end, on the thread; between releases a reader begins anew, with a Layout."""
        seen = 0
        while not self._stop.is_set():
            self._wake.clear()
            phase = self._phase
            if phase != seen:
                seen = phase
                self._close_reader()
            if phase % 2:
                self._let_go.set()
                self._wait(None)
                continue
            self._let_go.clear()
            begin = self._monotonic()
            messages = self._step(begin)
            if self._stop.is_set():
                break
            loop.call_soon_threadsafe(self._hand_over, phase, messages)
            self._wait(max(0.0, self._period_seconds - (self._monotonic() - begin)))
        self._close_reader()

    def _wait(self, seconds: float | None) -> None:
        """Wait until something is ordered; an order that came before this counts."""
        if not self._stop.is_set():
            self._wake.wait(seconds)

    def _hand_over(self, phase: int, messages: Sequence[Message]) -> None:
        """Deliver on the loop's thread; what a step brings after a release is delivered to nobody."""
        for message in messages:
            if self._deliver is not None and phase == self._phase:
                self._deliver(message)

    def _step(self, now: float) -> Sequence[Message]:
        try:
            return self._reader.step(now)
        except Exception as error:  # one source's defect must not end the agent
            _logger.exception("the reader failed")
            return [Reading(taken_at=now, generation=0, up=False, reason=f"the reader failed: {error!r}")]

    def _close_reader(self) -> None:
        try:
            self._reader.close()
        except Exception:  # a defect on the way out must not keep the thread from its next order
            _logger.exception("the reader could not be closed")
