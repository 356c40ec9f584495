"""The files that a spool's records lie in: segments, each named after the number of its first record."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from exporters.influxdb import records
from exporters.influxdb.records import Record

_NAME = re.compile(r"(\d{20})\.segment")

_PAGE_BYTES = 4096
"""What a disk loses at a time: a sector of one of today, a page of the kernel's."""
_MOST_LOST_PAGES = 8
"""So many are tried in one file, as a disk may take seconds over each (chosen)."""


@dataclass(slots=True)
class Segment:
    """One file of records.

    Attributes:
        first: Number of its first record.
        path: The file.
        size: Its bytes, damaged ones included.
    """

    first: int
    path: Path
    size: int

    def read(self, offset: int = 0) -> bytes:
        """Return its bytes from an offset on; none if the file was removed.

        Pages that the disk has lost are zeros, so that the records around them are found.

        Raises:
            OSError: It cannot be read now.
        """
        try:
            with self.path.open("rb") as file:
                return _read(file.fileno(), offset, self.size)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EIO):
                return b""
            raise

    def head(self) -> Record | None:
        """Return its first intact record; None if it has none.

        Raises:
            OSError: It cannot be read now.
        """
        found = records.find(self.read())
        return None if found is None else found[1]


def _read(descriptor: int, start: int, end: int) -> bytes:
    """Read what lies between two places, at once if the disk has all of it."""
    try:
        return _read_whole(descriptor, start, end)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    pages: list[bytes] = []
    lost = 0
    while start < end and lost < _MOST_LOST_PAGES:
        after = min(end, start - start % _PAGE_BYTES + _PAGE_BYTES)
        try:
            pages.append(_read_whole(descriptor, start, after))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            pages.append(bytes(after - start))
            lost += 1
        start = after
    return b"".join(pages)


def _read_whole(descriptor: int, start: int, end: int) -> bytes:
    """Read what lies between two places, up to the end of the file."""
    parts: list[bytes] = []
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def list_segments(directory: Path) -> list[Segment]:
    """List the segments of a folder, oldest first; files of other names are left alone.

    Raises:
        OSError: The folder cannot be read.
    """
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            # Whoever looks on while an agent sends may find a name whose file is gone.
            with contextlib.suppress(FileNotFoundError):
                if match and entry.is_file(follow_symlinks=False):
                    found.append(Segment(int(match[1]), Path(entry.path), entry.stat().st_size))
    return sorted(found, key=lambda segment: segment.first)


class SegmentStore:
    """The segments of one spool; the newest is written.

    Attributes:
        segments: All of them, oldest first.
    """

    def __init__(self, directory: Path, segments: list[Segment], segment_bytes: int, *, go_on: bool) -> None:
        """Take over what there is.

        Args:
            directory: Where the files lie.
            segments: The files, oldest first.
            segment_bytes: Size that a segment does not exceed, unless a record alone is larger.
            go_on: Whether the newest segment ends with an intact record, so that more may be added to it.
        """
        self.segments = segments
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._may_go_on = go_on
        self._descriptor: int | None = None
        self._new_name = False
        self._synced = True

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def append(self, data: bytes, number: int) -> None:
        """Add a record to the newest segment, or to a new one; where that fails, nothing of it stays.

        Args:
            data: The record.
            number: Its number.

        Raises:
            OSError: The disk is full, or fails.
        """
        descriptor = self._writable(len(data), number)
        segment = self.segments[-1]
        rest = memoryview(data)
        self._synced = False
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            self._cut_off(descriptor, segment)
            raise
        segment.size += len(data)

    def sync(self) -> None:
        """Bring what was appended to the disk, the name of a new file included.

        Raises:
            OSError: The disk fails; more is added to a new segment only.
        """
        if self._descriptor is None:
            return
        try:
            os.fdatasync(self._descriptor)
            if self._new_name:
                self._sync_directory()
        except OSError:
            self._end_newest()
            raise
        self._synced = True

    def remove_first(self) -> None:
        """Remove the oldest segment. A file that cannot be removed is forgotten all the same."""
        segment = self.segments.pop(0)
        if not self.segments:
            self._end_newest()
        with contextlib.suppress(OSError):
            segment.path.unlink()

    def close(self) -> None:
        """Close the file that is written."""
        self._end_newest()

    def _writable(self, size: int, number: int) -> int:
        """Return a descriptor of a segment that has room; one that is full is on the disk then."""
        if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:
            self._end_newest()  # Somebody removed the file: what is added to it would never be found.
        has_room = bool(self.segments) and self.segments[-1].size + size <= self._segment_bytes
        if self._descriptor is not None and has_room:
            return self._descriptor
        goes_on = self._may_go_on and has_room
        if not self._synced:
            self.sync()
        self._end_newest()
        if goes_on:
            with contextlib.suppress(FileNotFoundError):  # Somebody removed it: a new one is begun.
                self._descriptor = self._open(self.segments[-1].path)
        if self._descriptor is None:
            self._descriptor = self._begin(number)
        return self._descriptor

    def _begin(self, number: int) -> int:
        """Begin a segment with a record; a file of its name holds what stayed of it when the disk failed."""
        if self.segments and self.segments[-1].first == number:
            self.segments.pop()
        path = self._directory / f"{number:020}.segment"
        new = os.O_CREAT | os.O_EXCL
        try:
            descriptor = self._open(path, new)
        except FileExistsError:
            path.unlink()
            descriptor = self._open(path, new)
        self.segments.append(Segment(number, path, 0))
        self._new_name = True
        return descriptor

    def _open(self, path: Path, more: int = 0) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | more, 0o600)

    def _cut_off(self, descriptor: int, segment: Segment) -> None:
        """Remove what was written of a record that did not become whole."""
        try:
            os.ftruncate(descriptor, segment.size)
        except OSError:
            segment.size = os.fstat(descriptor).st_size
            self._end_newest()
            return
        if segment.size == 0:
            self.segments.pop()
            self._end_newest()
            with contextlib.suppress(OSError):
                segment.path.unlink()

    def _sync_directory(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._new_name = False

    def _end_newest(self) -> None:
        """Add no more to the newest segment."""
        self._may_go_on = False
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(OSError):
                os.close(descriptor)
