"""Frames: every message comes out as it went in, and no bytes whatsoever do worse than a FrameError."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.readings import Batch, Block, GpuIdentity, Incident, Layout, Message, Reading
from collector.sources.frames import FrameError, decode_message, encode, read_options, receive
from collector.sources.nvml.options import PlatformHint, ReaderOptions

# A surrogate alone is no Unicode text; texts of drivers were decoded with replacement before they get here.
texts = st.text(st.characters(codec="utf-8"), max_size=20)
integers = st.integers(-(2**63), 2**64 - 1)
"""What MessagePack can carry."""
floats = st.floats(allow_nan=False)

series = st.tuples(texts, st.lists(texts, max_size=5).map(tuple))
gpus = st.builds(GpuIdentity, texts, integers, st.booleans(), st.dictionaries(texts, texts, max_size=3))
layouts = st.builds(
    Layout,
    integers,
    st.lists(st.builds(Block, texts, st.lists(series, max_size=5).map(tuple)), max_size=3).map(tuple),
    st.lists(gpus, max_size=3).map(tuple),
    texts,
    texts,
    texts,
    st.none() | integers,
)
readings = st.builds(
    Reading,
    floats,
    integers,
    st.booleans(),
    texts,
    st.lists(st.builds(Batch, integers, st.lists(st.none() | integers | floats, max_size=5)), max_size=3).map(
        tuple
    ),
    st.lists(st.builds(Incident, integers, texts, texts, st.none() | integers), max_size=3).map(tuple),
    st.dictionaries(texts, floats, max_size=3),
    integers,
    st.dictionaries(texts, integers, max_size=3),
)
messages: st.SearchStrategy[Message] = layouts | readings
options = st.builds(
    ReaderOptions,
    fast_seconds=floats,
    level=texts,
    known_gpus=st.lists(gpus, max_size=3).map(tuple),
    platforms=st.dictionaries(texts, st.builds(PlatformHint, texts, integers), max_size=3),
    gpus_expected=st.none() | integers,
)


def receive_all(pieces: Iterable[bytes]) -> list[Message]:
    """Receive from a stream to its end."""

    async def work() -> list[Message]:
        stream = asyncio.StreamReader()
        for piece in pieces:
            stream.feed_data(piece)
        stream.feed_eof()
        received: list[Message] = []
        while (message := await receive(stream)) is not None:
            received.append(message)
        return received

    return asyncio.run(work())


@given(st.lists(messages, max_size=5), st.integers(1, 40))
def test_messages_come_out_as_they_went_in(sent: list[Message], piece_bytes: int) -> None:
    stream = b"".join(map(encode, sent))
    pieces = (stream[start : start + piece_bytes] for start in range(0, len(stream), piece_bytes))
    received = receive_all(pieces)
    assert received == sent
    # 1 and 1.0 are equal and not the same: an int stays an int, for InfluxDB's sake.
    assert [msgspec.json.encode(message) for message in received] == [
        msgspec.json.encode(message) for message in sent
    ]


@given(messages, st.data())
def test_a_frame_that_is_cut_off_is_the_end(message: Message, data: st.DataObject) -> None:
    frame = encode(message)
    assert receive_all([encode(message), frame[: data.draw(st.integers(0, len(frame) - 1))]]) == [message]


@given(options)
def test_options_come_out_as_they_went_in(sent: ReaderOptions) -> None:
    assert read_options(io.BytesIO(encode(sent))) == sent


@given(options, st.data())
def test_options_that_are_cut_off_are_refused(sent: ReaderOptions, data: st.DataObject) -> None:
    frame = encode(sent)
    with pytest.raises(FrameError):
        read_options(io.BytesIO(frame[: data.draw(st.integers(0, len(frame) - 1))]))


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_a_frame_error(garbage: bytes) -> None:
    for read in (
        lambda: decode_message(garbage),
        lambda: receive_all([garbage]),
        lambda: receive_all([len(garbage).to_bytes(4, "big") + garbage]),
        lambda: read_options(io.BytesIO(garbage)),
        lambda: read_options(io.BytesIO(len(garbage).to_bytes(4, "big") + garbage)),
    ):
        with contextlib.suppress(FrameError):
            read()


@given(messages, st.data())
def test_a_message_with_damaged_bytes_is_refused_or_still_a_message(
    message: Message, data: st.DataObject
) -> None:
    body = bytearray(encode(message)[4:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FrameError):
        assert isinstance(decode_message(bytes(body)), Layout | Reading)
