"""Messages on a pipe: a length of four bytes, then MessagePack."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from collector.errors import RackwattError
from collector.readings import Layout, Message, Reading
from collector.sources.nvml.options import ReaderOptions

if TYPE_CHECKING:
    import asyncio

_LENGTH = struct.Struct(">I")
_MAXIMUM_FRAME_BYTES = 16 * 1024 * 1024
"""A layout of 64 GPUs with 36 links each is below 4 MiB; more is a broken stream."""

EXIT_NEEDS_NEW_PROCESS = 75
"""Exit status of a reader when only a fresh process can load NVML again (EX_TEMPFAIL of sysexits.h)."""

_encoder = msgspec.msgpack.Encoder()
_message_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Layout | Reading)
_options_decoder = msgspec.msgpack.Decoder(ReaderOptions)


class FrameError(RackwattError):
    """What came through the pipe is no message."""


def encode(message: Message | ReaderOptions) -> bytes:
    """Make a frame."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


def decode_message(body: bytes) -> Message:
    """Read a source's message.

    Raises:
        FrameError: If it is none.
    """
    try:
        return _message_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameError(f"the reader sent what is no message: {error}") from error


async def receive(stream: asyncio.StreamReader) -> Message | None:
    """Wait for the next message.

    Returns:
        The message, or None at the end of the stream.

    Raises:
        FrameError: If the stream is broken.
    """
    try:
        length = _frame_length(await stream.readexactly(_LENGTH.size))
        body = await stream.readexactly(length)
    except EOFError:  # asyncio's IncompleteReadError by its base: the reader process does without asyncio
        return None
    return decode_message(body)


def read_options(stream: BinaryIO) -> ReaderOptions:
    """Read the options that the agent writes first.

    Raises:
        FrameError: If the stream ends before, or holds something else.
    """
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise FrameError("the agent closed the pipe before it sent the reader's options")
    try:
        return _options_decoder.decode(stream.read(_frame_length(header)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameError(f"the agent sent what are no reader options: {error}") from error


def _frame_length(header: bytes) -> int:
    (length,) = _LENGTH.unpack(header)
    if length > _MAXIMUM_FRAME_BYTES:
        raise FrameError(
            f"a frame of {length} bytes is longer than {_MAXIMUM_FRAME_BYTES}: the stream is broken"
        )
    return int(length)
