"""What the spool gives and says: places in it, batches to send, and an account of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two records.

    Attributes:
        sequence: Number of the record that follows: records are numbered 1, 2, 3 … as they arrive, over
            restarts.
        points: Points of all records before it.
        segment: Number of the first record of the segment that it lies in; names the file.
        offset: Bytes before it in that file.
    """

    sequence: int
    points: int
    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that follow one another, to be sent together.

    Attributes:
        payload: Their lines, byte for byte as they were appended.
        points: How many lines.
        records: How many records.
        oldest_ns: Time of the first record, nanoseconds of Unix time.
        position: Where the spool goes on once they were sent; hand it to `acknowledge`.
    """

    payload: bytes
    points: int
    records: int
    oldest_ns: int
    position: Position


@dataclass(frozen=True, slots=True)
class Loss:
    """Records, and the points in them, that will not be sent.

    Attributes:
        records: How many records.
        points: How many points; those of damaged records are known once a record behind them was read.
    """

    records: int = 0
    points: int = 0

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.records + other.records, self.points + other.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStatus:
    """What a spool holds, and what became of what it held. Counts are since it was opened.

    Attributes:
        records: Records that were not acknowledged yet, in memory and on disk.
        points: Points in them.
        bytes: Bytes of the segments on disk.
        unsynced_records: Of the records, those that wait in memory for the next `sync`.
        oldest_age_seconds: Age of the oldest record on disk; None where there is none.
        dropped_for_size: Dropped because the spool, or the memory before it, was full.
        dropped_for_age: Dropped because they were too old.
        dropped_for_disk: Dropped because the disk was full.
        damaged: Lost to damage of the files.
        quarantined_lines: Lines that were set aside.
        write_failures: Times that the disk refused what was written.
        durable: Whether the last `sync` brought everything to the disk.
        error: Why it did not, in words; empty if it did.
    """

    records: int = 0
    points: int = 0
    bytes: int = 0
    unsynced_records: int = 0
    oldest_age_seconds: float | None = None
    dropped_for_size: Loss = Loss()
    dropped_for_age: Loss = Loss()
    dropped_for_disk: Loss = Loss()
    damaged: Loss = Loss()
    quarantined_lines: int = 0
    write_failures: int = 0
    durable: bool = True
    error: str = ""
