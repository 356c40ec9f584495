"""What the files of a spool say, after whatever happened to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from exporters.influxdb import records
from exporters.influxdb.cursor import load_cursor
from exporters.influxdb.segments import Segment, list_segments
from exporters.influxdb.spool_types import Position


@dataclass(frozen=True, slots=True)
class Recovered:
    """A spool as it was left.

    Attributes:
        segments: Its segments that hold anything unsent, oldest first, and the newest.
        sent: Segments that were sent, or are empty.
        cursor: What was sent.
        number: Number of the next record; those that are damaged at the end have theirs, and will be missed.
        points: Points of all records before it.
        goes_on: Whether the newest segment ends with an intact record.
    """

    segments: list[Segment]
    sent: list[Segment]
    cursor: Position
    number: int
    points: int
    goes_on: bool


@dataclass(frozen=True, slots=True)
class _End:
    number: int = 1
    points: int = 0
    goes_on: bool = False


def recover(directory: Path) -> Recovered:
    """Read the files of a spool; nothing is changed.

    Raises:
        OSError: The folder cannot be read.
    """
    found = list_segments(directory)
    segments = [segment for segment in found if segment.size]
    empty = [segment for segment in found if not segment.size]
    end = _end(segments)
    kept = load_cursor(directory)
    if kept is not None:
        end = replace(end, number=max(end.number, kept.sequence), points=max(end.points, kept.points))
    sent = [] if kept is None else _sent(segments, kept)
    unsent = segments[len(sent) :]
    return Recovered(unsent, sent + empty, _cursor(kept, unsent, end), end.number, end.points, end.goes_on)


def _end(segments: Sequence[Segment]) -> _End:
    """Find the last intact record, and what must come after it."""
    number = 1
    for segment in reversed(segments):
        tail = records.tail(segment.read())
        if tail.last is not None:
            number = max(number, tail.last.number + 1 + tail.damaged)
            goes_on = segment is segments[-1] and not tail.damaged
            return _End(number, tail.last.points_before + tail.last.points, goes_on)
        number = max(number, segment.first + tail.damaged)
    return _End(number)


def _sent(segments: Sequence[Segment], cursor: Position) -> list[Segment]:
    """Return the segments whose successor begins before the cursor, or at it."""
    return [each for each, following in pairwise(segments) if following.first <= cursor.sequence]


def _cursor(kept: Position | None, segments: Sequence[Segment], end: _End) -> Position:
    """Say where to go on. Without a cursor everything is sent, for sending twice does no harm."""
    if not segments:
        return kept or Position(end.number, end.points, end.number, 0)
    first = segments[0].first
    if kept is None:
        head = segments[0].head()
        points = head.points_before if head is not None else end.points
        return Position(first, points, first, 0)
    sizes = {segment.first: segment.size for segment in segments}
    if kept.segment not in sizes:
        return replace(kept, segment=first, offset=0)
    return replace(kept, offset=min(kept.offset, sizes[kept.segment]))
