"""The reader's loop: it steps on a grid, writes frames, and ends when its orders end."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from hypothesis import given
from hypothesis import strategies as st

from collector.errors import NvmlUnavailableError
from collector.readings import Message, Reading
from collector.sources.frames import receive
from collector.sources.nvml import child
from collector.sources.nvml.child import next_due
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from tests.agent_http_client import Clock


class Orders:
    """A pipe of which the reader holds one end."""

    def __init__(self, read_end: BinaryIO, write_end: BinaryIO) -> None:
        self.read_end = read_end
        self.write_end = write_end


@contextmanager
def orders() -> Iterator[Orders]:
    read_descriptor, write_descriptor = os.pipe()
    with os.fdopen(read_descriptor, "rb") as read_end, os.fdopen(write_descriptor, "wb") as write_end:
        yield Orders(read_end, write_end)


def reader_that(fails: Callable[[], NvmlUnavailableError], clock: Clock) -> NvmlReader:
    """Make a reader whose library cannot be opened."""

    def open_library() -> NvmlLibrary:
        raise fails()

    return NvmlReader(open_library, ReaderOptions(fast_seconds=0.001), monotonic=clock, wall_ns=lambda: 0)


def messages(data: bytes) -> list[Message]:
    async def read() -> list[Message]:
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        received: list[Message] = []
        while (message := await receive(stream)) is not None:
            received.append(message)
        return received

    return asyncio.run(read())


def missing() -> NvmlUnavailableError:
    return NvmlUnavailableError("library_not_found", "no library")


def mismatched() -> NvmlUnavailableError:
    return NvmlUnavailableError("version_mismatch", "two versions", needs_new_process=True)


def test_it_steps_until_its_orders_end() -> None:
    clock, output = Clock(), io.BytesIO()
    steps = 0

    def counted() -> NvmlUnavailableError:
        nonlocal steps
        steps += 1
        clock.seconds += 10  # beyond the pause before NVML is tried again
        if steps == 3:
            pipe.write_end.close()
        return missing()

    with orders() as pipe:
        assert child.run(reader_that(counted, clock), pipe.read_end, output, monotonic=clock) == 0
    told = messages(output.getvalue())
    assert len(told) == 3
    assert all(isinstance(each, Reading) and each.reason == "no library" for each in told)


def test_it_asks_for_a_new_process_after_saying_why() -> None:
    clock, output = Clock(), io.BytesIO()
    with orders() as pipe:
        status = child.run(reader_that(mismatched, clock), pipe.read_end, output, monotonic=clock)
    assert status == 75  # EX_TEMPFAIL of sysexits.h
    (told,) = messages(output.getvalue())
    assert isinstance(told, Reading)
    assert (told.up, told.reason) == (False, "two versions")


def test_an_agent_that_has_gone_ends_it() -> None:
    clock = Clock()
    with orders() as commands:
        read_descriptor, write_descriptor = os.pipe()
        os.close(read_descriptor)
        with os.fdopen(write_descriptor, "wb", buffering=0) as broken:
            status = child.run(reader_that(missing, clock), commands.read_end, broken, monotonic=clock)
    assert status == 0


def test_a_tick_is_due_a_period_after_the_last() -> None:
    assert next_due(100.0, 1.0, 100.2) == 101.0


def test_ticks_that_were_missed_are_left_out() -> None:
    assert next_due(100.0, 1.0, 103.4) == 104.0
    assert next_due(100.0, 1.0, 101.0) == 102.0


# A period that is a power of two divides exactly, so the grid can be checked without rounding.
@given(
    due=st.integers(0, 10**6), late=st.integers(0, 10**9), period=st.sampled_from((0.25, 0.5, 1.0, 4.0, 64.0))
)
def test_the_next_tick_lies_ahead_on_the_grid_within_one_period(due: int, late: int, period: float) -> None:
    now = due + late / 1024
    following = next_due(due, period, now)
    assert now < following <= max(now, due) + period
    assert ((following - due) / period).is_integer()
