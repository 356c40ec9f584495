"""The intact records of a spool, one after the other, past whatever is damaged between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporters.influxdb import records
from exporters.influxdb.records import Record
from exporters.influxdb.segments import Segment
from exporters.influxdb.spool_types import Position


@dataclass(frozen=True, slots=True)
class Found:
    """An intact record.

    Attributes:
        record: The record.
        after: The place behind it.
    """

    record: Record
    after: Position


def walk(segments: Sequence[Segment], start: Position) -> Iterator[Found]:
    """Yield the intact records from a place on. The numbers of those that are missing are passed over.

    Args:
        segments: The segments, oldest first.
        start: Where to begin.

    Raises:
        OSError: A segment cannot be read now.
    """
    number = start.sequence
    for segment in tuple(segments):
        if segment.first < start.segment:
            continue
        offset = start.offset if segment.first == start.segment else 0
        data = segment.read(offset)
        at = 0
        while (found := records.find(data, at)) is not None:
            place, record = found
            at = place + record.size
            if record.number < number:
                continue  # A copy of what was sent.
            number = record.number + 1
            points = record.points_before + record.points
            yield Found(record, Position(number, points, segment.first, offset + at))
