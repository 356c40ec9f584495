"""The reader as a process: frames at the fast cadence, until the agent closes the pipe or it is of no use."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.readings import Layout, Message, Reading
from collector.sources.frames import decode_message
from collector.sources.nvml import child
from collector.sources.nvml.options import ReaderOptions
from tests.nvml_node import HINTS, NodeWatch, watch


@contextmanager
def commands() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a pipe: the reader's end, and the agent's."""
    reading, writing = os.pipe()
    with open(reading, "rb") as ours, open(writing, "wb") as theirs:
        yield ours, theirs


def node_of(**faulty: int) -> NodeWatch:
    node = watch("gb300-nvl72", options=ReaderOptions(platforms=HINTS, fast_seconds=0.005))
    node.recorder.answers.update(faulty)
    return node


def messages_of(output: io.BytesIO) -> list[Message]:
    """Take frames apart: four bytes of length, then MessagePack."""
    data, found = output.getvalue(), []
    while data:
        length = int.from_bytes(data[:4], "big")
        found.append(decode_message(data[4 : 4 + length]))
        data = data[4 + length :]
    return found


class Output(io.BytesIO):
    """Keeps what is written, and tells once there have been some readings."""

    def __init__(self, frames: int) -> None:
        super().__init__()
        self.left = frames
        self.enough = threading.Event()

    def flush(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.enough.set()


def test_it_writes_frames_until_the_pipe_is_closed() -> None:
    node, output = node_of(), Output(3)
    status: list[int] = []
    with commands() as (ours, theirs):
        thread = threading.Thread(target=lambda: status.append(child.run(node.reader, ours, output)))
        thread.start()
        assert output.enough.wait(30)
        theirs.close()
        thread.join(30)
    assert status == [0]
    found = messages_of(output)
    assert isinstance(found[0], Layout)
    assert len(found) >= 4
    assert all(isinstance(message, Reading) and message.up for message in found[1:])
    assert node.recorder.calls[-1].name == "nvmlShutdown"


def test_a_reader_that_cannot_load_nvml_again_says_why_and_ends() -> None:
    node, output = node_of(nvmlInitWithFlags=18), io.BytesIO()  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
    with commands() as (ours, _):
        assert child.run(node.reader, ours, output) == 75  # sysexits.h: EX_TEMPFAIL
    (only,) = messages_of(output)
    assert isinstance(only, Reading)
    assert "different versions" in only.reason


def test_a_reader_without_a_driver_goes_on() -> None:
    node, output = node_of(nvmlInitWithFlags=9), Output(3)
    with commands() as (ours, theirs):
        thread = threading.Thread(target=child.run, args=(node.reader, ours, output))
        thread.start()
        assert output.enough.wait(30)
        theirs.close()
        thread.join(30)
    assert len(messages_of(output)) >= 3


def test_a_reader_whose_agent_is_gone_ends() -> None:
    class Gone(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    node = node_of()
    with commands() as (ours, _):
        assert child.run(node.reader, ours, Gone()) == 0
    assert node.recorder.calls[-1].name == "nvmlShutdown"


def test_nvml_is_closed_when_a_step_breaks() -> None:
    class BrokenError(Exception):
        pass

    class Broken(io.BytesIO):
        def flush(self) -> None:
            raise BrokenError

    node = node_of()
    with commands() as (ours, _), pytest.raises(BrokenError):
        child.run(node.reader, ours, Broken())
    assert node.recorder.calls[-1].name == "nvmlShutdown"


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [
        (100.0, 100.3, 101.0),
        (100.0, 100.999, 101.0),
        (100.0, 101.0, 102.0),  # that tick is now over
        (100.0, 104.5, 105.0),  # four were missed, and are not made up for
        (100.0, 99.0, 101.0),
    ],
)
def test_ticks_stay_on_their_grid(due: float, now: float, expected: float) -> None:
    assert child.next_due(due, 1.0, now) == expected


@given(
    st.floats(min_value=0, max_value=1e6),
    st.sampled_from([0.1, 0.5, 1.0, 2.5, 10.0]),
    st.floats(min_value=0, max_value=1e5),
)
def test_the_next_tick_is_at_most_a_period_away(due: float, period: float, late: float) -> None:
    now = due + late
    following = child.next_due(due, period, now)
    slack = 1e-9 * max(1.0, now)
    assert now - slack < following <= now + period + slack
    ticks = (following - due) / period
    assert abs(ticks - round(ticks)) < 1e-6 * max(1.0, now)
