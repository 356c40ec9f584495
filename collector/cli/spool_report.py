"""What `rackwatt spool status` and `quarantine` print."""

from __future__ import annotations

import json
import time
from pathlib import Path

from collector.cli.findings import count
from collector.cli.spool_place import SpoolPlace
from collector.config.values import show_bytes
from collector.errors import RackwattError
from exporters.influxdb.inspection import (
    clear_quarantine,
    part_with_quarantine,
    read_quarantine,
    read_status,
)
from exporters.influxdb.quarantine import lines_of
from exporters.influxdb.spool_types import SpoolStatus

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class ExportError(RackwattError):
    """The lines that were set aside cannot be written where they should be."""


def describe(place: SpoolPlace) -> str:
    """Say in some lines what a spool holds."""
    status = read_status(place.path, time.time_ns())
    waits = "nothing waits"
    if status.records:
        waits = f"{count(status.points, 'point')} in {count(status.records, 'record')}"
        if status.oldest_age_seconds is not None:
            waits += f", the oldest {_age(status.oldest_age_seconds)} old"
    aside = "no line"
    if status.quarantined_lines:
        aside = f"{count(status.quarantined_lines, 'line')}: `rackwatt spool quarantine` shows them"
    rows = (
        ("spool", str(place.path)),
        ("waits", waits),
        ("on disk", _disk(place, status)),
        ("set aside", aside),
        ("writer", _writer(place)),
    )
    return "\n".join(f"{name:<11} {text}" for name, text in rows)


def describe_json(place: SpoolPlace) -> str:
    """Say the same for programs; ages in seconds, sizes in bytes."""
    status = read_status(place.path, time.time_ns())
    setting = place.setting
    return json.dumps(
        {
            "path": str(place.path),
            "records": status.records,
            "points": status.points,
            "bytes": status.bytes,
            "max_bytes": setting.spool.max_bytes if setting is not None else None,
            "oldest_age_seconds": status.oldest_age_seconds,
            "quarantined_lines": status.quarantined_lines,
            "writer_runs": place.writer_runs(),
        },
        indent=2,
    )


def show_quarantine(place: SpoolPlace, *, export: str | None, clear: bool) -> str:
    """Return what was set aside, or say where it was written and that it was removed.

    Args:
        place: The spool.
        export: File to write the lines to, which must not exist; None to return them.
        clear: Whether to remove them then.

    Raises:
        ConfigurationError: The spool cannot be read or written.
        ExportError: The file cannot be written; then nothing is removed.
    """
    # It also says where there is no spool at all.
    read_status(place.path, time.time_ns())
    text = part_with_quarantine(place.path) if clear else read_quarantine(place.path)
    lines = lines_of(text)
    said = text.rstrip("\n") if lines else "no line was set aside"
    if export is not None:
        try:
            with Path(export).open("x", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise ExportError(f"{export}: {error.strerror}; write the name of a new file") from None
        said = f"{count(len(lines), 'line')} written to {export}"
    if clear:
        clear_quarantine(place.path)
        said += f"\n{count(len(lines), 'line')} removed from {place.path}"
    return said


def _disk(place: SpoolPlace, status: SpoolStatus) -> str:
    size = next((f"{status.bytes / unit:.1f} {name}" for unit, name in _SIZES if status.bytes >= unit), None)
    size = size or count(status.bytes, "byte")
    return size if place.setting is None else f"{size} of {show_bytes(place.setting.spool.max_bytes)}"


def _writer(place: SpoolPlace) -> str:
    if not place.writer_runs():
        return "none runs: `rackwatt spool drain` can send what waits"
    pid = place.writer_pid()
    return f"process {pid} runs" if pid else "one runs"


def _age(seconds: float) -> str:
    return next((f"{seconds / unit:.0f} {name}" for unit, name in _UNITS if seconds >= unit), "0 s")
