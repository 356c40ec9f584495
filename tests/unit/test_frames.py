"""Frames that are broken in known ways; tests/property/test_frames.py tries the unknown ones."""

from __future__ import annotations

import asyncio
import io

import pytest

from collector.readings import Message, Reading
from collector.sources.frames import FrameError, encode, read_options, receive
from collector.sources.nvml.options import ReaderOptions


def received(data: bytes) -> Message | None:
    """Receive one message of a stream that ends."""

    async def work() -> Message | None:
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        return await receive(stream)

    return asyncio.run(work())


def test_a_frame_is_a_length_of_four_bytes_and_messagepack() -> None:
    frame = encode(Reading(taken_at=1.5, generation=0, up=False, reason="no driver"))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert b"\xa4type\xa7reading" in frame  # MessagePack: strings of 4 and of 7 bytes
    assert received(frame) == Reading(taken_at=1.5, generation=0, up=False, reason="no driver")


def test_a_frame_of_16_mib_is_waited_for_and_a_longer_one_is_refused() -> None:
    longest = 16 * 1024 * 1024
    assert received(longest.to_bytes(4, "big") + b"x" * 10) is None  # it ended before
    with pytest.raises(FrameError, match="a frame of 16777217 bytes is longer than 16777216"):
        received((longest + 1).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="a frame of 4294967295 bytes is longer"):
        read_options(io.BytesIO(b"\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",  # the one byte that MessagePack never uses
        b"\x80",  # a map without anything
        encode(ReaderOptions())[4:],
        encode(Reading(1.0, 1, True, reason="words"))[4:].replace(b"words", b"\xff\xfe\xfd\xfc\xfb"),
        b"\x81\xa1x" + b"\x91" * 100_000,  # lists within lists, deeper than any stack
    ],
    ids=["nothing", "not messagepack", "an empty map", "options", "not UTF-8", "too deep"],
)
def test_a_body_that_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="the reader sent what is no message"):
        received(len(body).to_bytes(4, "big") + body)


def test_the_end_between_frames_is_the_end() -> None:
    assert received(b"") is None


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00"])
def test_an_agent_that_says_nothing_is_named(data: bytes) -> None:
    with pytest.raises(FrameError, match="the agent closed the pipe before it sent the reader's options"):
        read_options(io.BytesIO(data))


@pytest.mark.parametrize("body", [b"\xc1", b"\x90", b"\x81\xa1x" + b"\x91" * 100_000])
def test_options_that_are_none_are_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="the agent sent what are no reader options"):
        read_options(io.BytesIO(len(body).to_bytes(4, "big") + body))
