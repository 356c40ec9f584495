"""Exporters to InfluxDB for tests, in haste: waits are short, and everything is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from exporters.influxdb.exporter import InfluxdbExporter, SpoolSettings
from exporters.influxdb.selection import Selection
from exporters.influxdb.target import InfluxWriter, Target

PATIENCE_SECONDS = 60.0
"""What no test needs: beyond it something hangs."""

HASTE = 0.02
"""Of each wait that is drawn, so much; from nothing to a fiftieth."""


def exporter_for(
    url: str,
    folder: Path,
    *,
    maximum_bytes: int = 64 * 2**20,
    selection: Selection | None = None,
    paced: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
    wall_ns: Callable[[], int] = time.time_ns,
) -> InfluxdbExporter:
    """Make an exporter.

    Args:
        url: The server.
        folder: Its spool is in there.
        maximum_bytes: Size of the spool.
        selection: What is written; everything where None.
        paced: Whether a backlog is sent slowly.
        monotonic: Clock in seconds.
        wall_ns: Unix time in nanoseconds.
    """
    return InfluxdbExporter(
        InfluxWriter(Target(url=url, bucket="gpu", org="ops")),
        SpoolSettings(path=folder / "spool", maximum_bytes=maximum_bytes, maximum_age_seconds=7 * 86_400.0),
        selection or Selection(),
        paced=paced,
        draw=lambda: HASTE,
        monotonic=monotonic,
        wall_ns=wall_ns,
    )


def until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def settle(exporter: InfluxdbExporter) -> None:
    """Wait until nothing waits any more."""
    until(lambda: exporter.spool_status.records == 0)
