"""The spool's records on disk: added at the end, read from the cursor on, dropped from the front.

Not thread-safe: the spool lets one call after the other in.
"""

from __future__ import annotations

import enum
import errno
import logging
from dataclasses import replace
from pathlib import Path

from exporters.influxdb.cursor import save_cursor
from exporters.influxdb.intake import Item
from exporters.influxdb.reading import Found, walk
from exporters.influxdb.records import MAXIMUM_PAYLOAD_BYTES, Record, compress
from exporters.influxdb.recovery import recover
from exporters.influxdb.segments import SegmentStore
from exporters.influxdb.spool_types import Batch, Loss, Position

_logger = logging.getLogger("rackwatt.influxdb")

SEGMENT_BYTES = 1024 * 1024
"""Size of a segment, the least that is dropped at a time (chosen)."""
_LEAST_SEGMENTS = 16
"""A small journal has at least so many segments, so that dropping one costs little (chosen)."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Reason(enum.Enum):
    """Why a record is lost; the value says it in words."""

    SIZE = "it is full; from now on the oldest go, and are counted"
    AGE = "some are older than allowed; such are counted from now on"
    DISK = "the disk is full; from now on the oldest go, and are counted"
    DAMAGE = "a file of it is damaged; such are counted from now on"


class Journal:
    """Records in segments, and the cursor that says which of them were sent.

    Attributes:
        lost: What was lost since it was opened, by reason.
        failures: Times that the disk refused something.
        oldest_ns: Time of the oldest record that was not sent; None where there is none.
    """

    def __init__(self, directory: Path, maximum_bytes: int) -> None:
        """Take over what the folder holds, in whatever state it was left.

        Args:
            directory: The folder; its lock is held.
            maximum_bytes: Most bytes of all segments.

        Raises:
            OSError: The folder cannot be read or written.
        """
        recovered = recover(directory)
        for segment in recovered.sent:
            segment.path.unlink(missing_ok=True)
        self.lost = dict.fromkeys(Reason, Loss())
        self.failures = 0
        self.oldest_ns: int | None = None
        self._directory = directory
        self._maximum_bytes = maximum_bytes
        self._store = SegmentStore(
            directory,
            recovered.segments,
            min(SEGMENT_BYTES, maximum_bytes // _LEAST_SEGMENTS),
            go_on=recovered.goes_on,
        )
        self._cursor = recovered.cursor
        self._cursor_saved = False
        self._number = recovered.number
        self._points = recovered.points
        self._missed_up_to = 0
        self._look_at_oldest()

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments."""
        return self._store.total_bytes

    @property
    def unsent(self) -> Loss:
        """Records that would be lost with the journal, and their points."""
        return Loss(self._number - self._cursor.sequence, self._points - self._cursor.points)

    def add(self, item: Item) -> None:
        """Add a record; the oldest make room for it, where the journal or the disk is full.

        On a full disk one segment is dropped at most: what it took may be free a little later only, or be
        taken by others.

        Raises:
            OSError: The disk fails, or is full all the same; the record was not added.
        """
        if len(item.payload) > MAXIMUM_PAYLOAD_BYTES:
            self._lose(Reason.SIZE, Loss(1, item.points))
            return
        record = Record(self._number, item.points, self._points, item.time_ns, compress(item.payload))
        if record.size > self._maximum_bytes:
            self._lose(Reason.SIZE, Loss(1, item.points))
            return
        while self.total_bytes + record.size > self._maximum_bytes:
            self._drop_first(Reason.SIZE)
        self._append(record)
        self._number += 1
        self._points += item.points
        if self.oldest_ns is None:
            self.oldest_ns = item.time_ns

    def sync(self) -> None:
        """Bring everything to the disk.

        Raises:
            OSError: The disk fails.
        """
        if not self._cursor_saved:
            self._save_cursor()
        self._store.sync()

    def batch(self, maximum_bytes: int, *, healthy: bool = True) -> Batch | None:
        """Return the oldest records that were not sent, at least one; None where there is none.

        Args:
            maximum_bytes: Most bytes of their lines, unless one record has more.
            healthy: Whether the disk takes what is written. One that does not may give back later what it
                does not give now, so nothing counts as lost.

        Raises:
            OSError: The disk cannot be read now.
        """
        payloads: list[bytes] = []
        found: list[Found] = []
        size, before = 0, self._cursor
        for each in walk(self._store.segments, self._cursor):
            try:
                payload = each.record.payload()
            except ValueError:
                continue  # The gap before the next one says that it is missing.
            size += len(payload)
            if payloads and size > maximum_bytes:
                break
            self._see_gap(before, each.record.number, each.record.points_before)
            before = each.after
            payloads.append(payload)
            found.append(each)
        if not found:
            if healthy:
                self._pass_damage()
            return None
        points = sum(each.record.points for each in found)
        return Batch(b"".join(payloads), points, len(found), found[0].record.time_ns, before)

    def acknowledge(self, position: Position) -> None:
        """Forget what lies before a place, unless the cursor is behind it already."""
        if position.sequence > self._cursor.sequence:
            self._move_to(position)

    def expire(self, limit_ns: int) -> None:
        """Drop the records that are older than a time.

        Raises:
            OSError: The disk cannot be read now.
        """
        if self.oldest_ns is None or self.oldest_ns >= limit_ns:
            return
        segments = self._store.segments
        while len(segments) > 1 and (head := segments[1].head()) is not None and head.time_ns < limit_ns:
            self._drop_first(Reason.AGE)
        before = self._cursor
        for found in walk(segments, before):
            if found.record.time_ns >= limit_ns:
                break
            self._see_gap(before, found.record.number, found.record.points_before)
            self._lose(Reason.AGE, Loss(1, found.record.points))
            before = found.after
        self.acknowledge(before)

    def close(self) -> None:
        """Close the file that is written."""
        self._store.close()

    def _append(self, record: Record) -> None:
        data = record.encode()
        try:
            self._store.append(data, record.number)
        except OSError as error:
            if error.errno not in _FULL or not self._store.segments:
                raise
            self.failures += 1
            self._drop_first(Reason.DISK)
            self._store.append(data, record.number)

    def _pass_damage(self) -> None:
        """Nothing intact is left: what should be there is damaged, and the cursor goes behind it."""
        if self._cursor.sequence < self._number:
            self._see_gap(self._cursor, self._number, self._points)
            newest = self._store.segments[-1] if self._store.segments else None
            segment, offset = (newest.first, newest.size) if newest else (self._number, 0)
            self._move_to(Position(self._number, self._points, segment, offset))

    def _see_gap(self, before: Position, number: int, points: int) -> None:
        """Count the records that are missing between two places, unless they were counted before."""
        start = max(before.sequence, self._missed_up_to)
        if number > start:
            all_points = points - before.points if start == before.sequence else 0
            self._lose(Reason.DAMAGE, Loss(number - start, max(0, all_points)))
            self._missed_up_to = number

    def _drop_first(self, reason: Reason) -> None:
        """Drop the oldest segment, and count what of it was not sent."""
        segments = self._store.segments
        place = Position(self._number, self._points, self._number, 0)
        if len(segments) > 1:
            first, head = segments[1].first, segments[1].head()
            points = self._cursor.points if head is None else head.points_before
            place = Position(first, points, first, 0)
        self._store.remove_first()
        if place.sequence > self._cursor.sequence:
            cursor = self._cursor
            unsent = Loss(place.sequence - cursor.sequence, max(0, place.points - cursor.points))
            self._lose(reason, unsent)
            self._move_to(place)

    def _move_to(self, position: Position) -> None:
        """Move the cursor forward, and remove the segments that lie behind it."""
        segments = self._store.segments
        behind = sum(1 for each in segments[1:] if each.first <= position.sequence)
        if behind and position.segment < segments[behind].first:
            position = replace(position, segment=segments[behind].first, offset=0)
        self._cursor = position
        self._save_cursor()
        for _ in range(behind):
            self._store.remove_first()
        self._look_at_oldest()

    def _save_cursor(self) -> None:
        """Keep the cursor; where the disk refuses it, the next `sync` tries again."""
        try:
            save_cursor(self._directory, self._cursor)
            self._cursor_saved = True
        except OSError:
            self._cursor_saved = False
            self.failures += 1

    def _look_at_oldest(self) -> None:
        oldest = next(walk(self._store.segments, self._cursor), None)
        self.oldest_ns = None if oldest is None else oldest.record.time_ns

    def _lose(self, reason: Reason, loss: Loss) -> None:
        if not self.lost[reason].records:
            _logger.warning("the spool %s loses its first record: %s", self._directory, reason.value)
        self.lost[reason] += loss
