"""InlineSource: a reader on a thread of its own, whose failures and hangs stay its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from collector.readings import Message, Reading
from collector.sources.inline import InlineSource
from tests.agent_http_client import run
from tests.readings import LAYOUT, reading


class Stepper:
    """Brings a Layout and a Reading at the first step, then Readings; can fail, and can hang."""

    def __init__(self, *, fails_at: int = 0, hangs_at: int = 0) -> None:
        self.steps = 0
        self.closed = threading.Event()
        self.hangs = threading.Event()
        self.release = threading.Event()
        self.threads: set[int] = set()
        self._fails_at = fails_at
        self._hangs_at = hangs_at

    def step(self, now: float) -> Sequence[Message]:
        self.steps += 1
        self.threads.add(threading.get_ident())
        if self.steps == self._fails_at:
            raise ZeroDivisionError("a defect")
        if self.steps == self._hangs_at:
            self.hangs.set()
            self.release.wait(60)
        return [LAYOUT, reading(now)] if self.steps == 1 else [reading(now)]

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed.set()


class Received:
    """Takes messages, and lets a test wait for a number of them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.thread = threading.get_ident()
        self.on_other_thread = False
        self._news = asyncio.Event()

    def take(self, message: Message) -> None:
        self.on_other_thread |= threading.get_ident() != self.thread
        self.messages.append(message)
        self._news.set()

    async def wait_for(self, count: int) -> None:
        while len(self.messages) < count:
            self._news.clear()
            await self._news.wait()


def test_messages_come_in_order_on_the_event_loop_and_steps_on_one_thread() -> None:
    async def scenario() -> None:
        stepper, received = Stepper(), Received()
        source = InlineSource(stepper, 0.001)
        await source.start(received.take)
        await received.wait_for(4)
        await source.close()
        assert stepper.closed.wait(5)
        assert received.messages[0] == LAYOUT
        assert all(isinstance(message, Reading) for message in received.messages[1:])
        times = [message.taken_at for message in received.messages if isinstance(message, Reading)]
        assert times == sorted(times)
        assert not received.on_other_thread
        assert len(stepper.threads) == 1
        assert stepper.threads != {received.thread}
        assert source.restarts == 0

    run(scenario)


def test_a_defect_of_the_reader_is_a_reading_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        received = Received()
        source = InlineSource(Stepper(fails_at=2), 0.001)
        await source.start(received.take)
        await received.wait_for(4)
        await source.close()
        failed, after = received.messages[2:4]
        assert isinstance(failed, Reading)
        assert isinstance(after, Reading)
        assert (failed.up, failed.reason) == (False, "the reader failed: ZeroDivisionError('a defect')")
        assert after.up

    run(scenario)
    assert "Traceback" in caplog.text


def test_a_hang_stalls_the_source_alone_and_closing_leaves_it_behind() -> None:
    async def scenario() -> None:
        stepper, received = Stepper(hangs_at=2), Received()
        source = InlineSource(stepper, 0.001)
        await source.start(received.take)
        await received.wait_for(2)
        assert await asyncio.to_thread(stepper.hangs.wait, 5)
        begin = time.monotonic()
        async with asyncio.timeout(4):  # it promises 1 s
            await source.close()
        assert time.monotonic() - begin >= 0.9, "closing must wait a moment for a step that will end"
        assert not stepper.closed.is_set()
        stepper.release.set()
        assert await asyncio.to_thread(stepper.closed.wait, 5)
        assert len(received.messages) == 2, "what a step brings after closing is delivered to nobody"

    run(scenario)


def test_closing_before_starting_does_nothing() -> None:
    async def scenario() -> None:
        stepper = Stepper()
        await InlineSource(stepper, 1.0).close()
        assert not stepper.closed.is_set()

    run(scenario)


def test_closing_does_not_wait_for_the_period() -> None:
    async def scenario() -> None:
        stepper, received = Stepper(), Received()
        source = InlineSource(stepper, 3600.0)
        await source.start(received.take)
        await received.wait_for(2)
        async with asyncio.timeout(5):
            await source.close()
        assert stepper.closed.wait(5)
        assert stepper.steps == 1

    run(scenario)
