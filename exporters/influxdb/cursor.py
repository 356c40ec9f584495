"""How far a spool was sent: one small file, replaced as a whole."""

from __future__ import annotations

import errno
import os
import re
import zlib
from pathlib import Path

from exporters.influxdb.spool_types import Position

_FILE_NAME = "cursor"
_MAXIMUM_BYTES = 200
_LINE = re.compile(rb"rackwatt-spool-1 (\d{1,20}) (\d{1,20}) (\d{1,20}) (\d{1,20}) ([0-9a-f]{8})\n")
"""Version, the four numbers of a Position, and the CRC-32 of all before it."""


def load_cursor(directory: Path) -> Position | None:
    """Read the cursor; None where there is none, or a damaged one: then everything is sent once more.

    Raises:
        OSError: The file is there, and may not be read.
    """
    try:
        with (directory / _FILE_NAME).open("rb") as file:
            content = file.read(_MAXIMUM_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EIO):
            return None
        raise
    match = _LINE.fullmatch(content)
    if match is None or zlib.crc32(content[: match.start(5)]) != int(match[5], 16):
        return None
    return Position(*(int(match[group]) for group in range(1, 5)))


def save_cursor(directory: Path, position: Position) -> None:
    """Replace the cursor.

    It is not brought to the disk at once: where a power failure takes it, what was sent is sent once more.

    Raises:
        OSError: The disk is full, or fails; the cursor before is kept.
    """
    numbers = (position.sequence, position.points, position.segment, position.offset)
    text = f"rackwatt-spool-1 {' '.join(map(str, numbers))} ".encode("ascii")
    fresh = directory / f"{_FILE_NAME}.new"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text + f"{zlib.crc32(text):08x}\n".encode("ascii"))
    fresh.replace(directory / _FILE_NAME)
