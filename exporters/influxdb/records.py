"""Records of the spool, as they lie in a file.

```
marker          4 bytes   where a reader that lost its way finds the next record
CRC-32          4         of all that follows, body included (zlib.crc32)
body length     4         bytes
points          4         lines in this record
time            8         nanoseconds of Unix time, signed
number          8         1, 2, 3 … over all segments
points before   8         lines in all records before this one
body                      the lines, compressed by zlib
```

Numbers are big-endian. The last two tell how much is missing where records are damaged, and how much goes
with a segment that is dropped, without reading it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

MARKER = b"\xf5RW\x01"
"""No UTF-8 text has the byte F5, so no text that got into a file looks like it; the last is the version."""

_CHECKED = struct.Struct(">IIqQQ")
_CRC = struct.Struct(">I")
_BODY_AT = len(MARKER) + _CRC.size + _CHECKED.size

COMPRESSION_LEVEL = 6
"""Of zlib. Over 300 s of 8 simulated GPUs a record takes 2.58 kB at level 1 in 0.05 ms, 2.26 kB at level 6 in
0.09 ms, and 2.24 kB at level 9 in 0.11 ms (measured on 2 cores of an AMD EPYC, zlib 1.2.13)."""

MAXIMUM_PAYLOAD_BYTES = 16 * 1024 * 1024
"""Largest payload of a record: some 20 times what 8 GPUs with 18 links and 100 models make (chosen)."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Attributes:
        number: Its number.
        points: How many lines it has.
        points_before: How many all records before it have.
        time_ns: When its lines were sampled, nanoseconds of Unix time.
        body: Its lines, compressed.
    """

    number: int
    points: int
    points_before: int
    time_ns: int
    body: bytes

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return _BODY_AT + len(self.body)

    def payload(self) -> bytes:
        """Return its lines.

        Raises:
            ValueError: They cannot be decompressed, or are more than a record may have.
        """
        decompressor = zlib.decompressobj()
        try:
            payload = decompressor.decompress(self.body, MAXIMUM_PAYLOAD_BYTES)
        except zlib.error as error:
            raise ValueError(f"record {self.number}: {error}") from error
        if not decompressor.eof:
            raise ValueError(f"record {self.number} has more than {MAXIMUM_PAYLOAD_BYTES} bytes, or no end")
        return payload

    def encode(self) -> bytes:
        """Write the record as it lies in a file."""
        checked = _CHECKED.pack(len(self.body), self.points, self.time_ns, self.number, self.points_before)
        crc = zlib.crc32(self.body, zlib.crc32(checked))
        return MARKER + _CRC.pack(crc) + checked + self.body


def compress(payload: bytes) -> bytes:
    """Make the body of a record."""
    return zlib.compress(payload, COMPRESSION_LEVEL)


def decode(data: bytes, offset: int = 0) -> Record | None:
    """Read the record that begins at an offset; None where there is none, or not an intact one."""
    body_at = offset + _BODY_AT
    if len(data) < body_at or not data.startswith(MARKER, offset):
        return None
    (crc,) = _CRC.unpack_from(data, offset + len(MARKER))
    length, points, time_ns, number, points_before = _CHECKED.unpack_from(data, body_at - _CHECKED.size)
    if len(data) < body_at + length:
        return None
    checked = memoryview(data)[body_at - _CHECKED.size : body_at + length]
    if zlib.crc32(checked) != crc:
        return None
    return Record(number, points, points_before, time_ns, bytes(checked[_CHECKED.size :]))


def find(data: bytes, offset: int = 0) -> tuple[int, Record] | None:
    """Find the first intact record at or after an offset.

    Returns:
        Where it begins, and the record; None where there is none.
    """
    while (offset := data.find(MARKER, offset)) >= 0:
        record = decode(data, offset)
        if record is not None:
            return offset, record
        offset += 1
    return None


@dataclass(frozen=True, slots=True)
class Tail:
    """How the records of a file end.

    Attributes:
        last: The last intact record; None if there is none.
        end: Where it ends.
        damaged: Records behind it that seem to be damaged: one a marker, and one where there are any bytes.
    """

    last: Record | None
    end: int
    damaged: int


def tail(data: bytes) -> Tail:
    """Find how the records of a file end."""
    last: Record | None = None
    end = 0
    while (found := find(data, end)) is not None:
        start, last = found
        end = start + last.size
    rest = len(data) - end
    return Tail(last, end, max(1, data.count(MARKER, end)) if rest else 0)
