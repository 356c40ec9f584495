"""A spool looked at from outside, while an agent may be writing it."""

from __future__ import annotations

from pathlib import Path

from collector.errors import ConfigurationError
from exporters.influxdb.quarantine import Quarantine
from exporters.influxdb.reading import walk
from exporters.influxdb.recovery import recover
from exporters.influxdb.spool_types import SpoolStatus


def read_status(directory: Path, now_ns: int) -> SpoolStatus:
    """Say what a spool holds; what an agent has in memory, and what it counted, is not known here.

    Args:
        directory: The spool's folder.
        now_ns: The present, nanoseconds of Unix time.

    Raises:
        ConfigurationError: The folder cannot be read.
    """
    try:
        found = recover(directory)
        oldest = next(walk(found.segments, found.cursor), None)
        quarantined = Quarantine(directory).lines()
    except OSError as error:
        raise _unreadable(directory, error) from error
    age_ns = None if oldest is None else max(0, now_ns - oldest.record.time_ns)
    return SpoolStatus(
        records=found.number - found.cursor.sequence,
        points=found.points - found.cursor.points,
        bytes=sum(segment.size for segment in found.segments),
        oldest_age_seconds=None if age_ns is None else age_ns / 1e9,
        quarantined_lines=quarantined,
    )


def read_quarantine(directory: Path) -> str:
    """Return the lines that were set aside, oldest first, with time and reason above each group.

    Raises:
        ConfigurationError: The folder cannot be read.
    """
    try:
        return Quarantine(directory).text()
    except OSError as error:
        raise _unreadable(directory, error) from error


def part_with_quarantine(directory: Path) -> str:
    """Return the same, put by: what an agent sets aside from now on is not removed with it.

    Raises:
        ConfigurationError: The folder cannot be written.
    """
    try:
        return Quarantine(directory).part_with()
    except OSError as error:
        raise _unreadable(directory, error) from error


def clear_quarantine(directory: Path) -> None:
    """Remove the lines that were put by.

    Raises:
        ConfigurationError: The folder cannot be written.
    """
    try:
        Quarantine(directory).remove()
    except OSError as error:
        raise _unreadable(directory, error) from error


def _unreadable(directory: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"spool {directory}: {error}; it must be the folder of a spool that you may read"
    )
