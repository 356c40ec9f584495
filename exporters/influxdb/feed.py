"""What the exporter says of itself, as a Feed: on `/metrics`, and among the lines that it writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.catalog import BY_NAME
from collector.catalog.influxdb import DROP_CAUSES, REJECT_CAUSES, SENDER_STATES, WRITE_ERRORS
from collector.model import HistogramSample, Series, Value
from exporters.influxdb.exporter import InfluxdbExporter
from exporters.influxdb.failures import Failure

Row = tuple[Series, Value | None]


class InfluxdbFeed:
    """A Feed of the exporter's account; always the same series."""

    def __init__(self, exporter: InfluxdbExporter) -> None:
        """Look at an exporter; somebody else starts and closes it."""
        self._exporter = exporter

    @property
    def revision(self) -> int:
        """Never changes."""
        return 1

    def rows(self) -> Iterable[Row]:
        """Return every row with its present value."""
        return tuple(_rows(self._exporter))

    def histograms(self) -> Iterable[HistogramSample]:
        """Return none."""
        return ()

    async def start(self) -> None:
        """Do nothing: the exporter runs by itself."""

    async def close(self) -> None:
        """Do nothing."""


def _rows(exporter: InfluxdbExporter) -> Iterator[Row]:
    sender, spool = exporter.sender_status, exporter.spool_status
    for state in SENDER_STATES:
        yield _row("sender_state", int(sender.state.value == state), state)
    yield _row("spool_records", spool.records)
    yield _row("spool_points", spool.points)
    yield _row("spool_bytes", spool.bytes)
    yield _row("spool_age_seconds", spool.oldest_age_seconds or 0.0)
    yield _row("points_written_total", sender.points_written)
    for cause in REJECT_CAUSES:
        yield _row("points_rejected_total", sender.rejected.get(cause, 0), cause)
    dropped = {"age": spool.dropped_for_age, "disk": spool.dropped_for_disk, "size": spool.dropped_for_size}
    for cause in DROP_CAUSES:
        yield _row("points_dropped_total", dropped[cause].points, cause)
    yield _row("points_damaged_total", spool.damaged.points)
    yield _row("requests_total", sender.requests)
    for error in WRITE_ERRORS:
        yield _row("request_errors_total", sender.errors.get(Failure(error), 0), error)
    yield _row("spool_write_errors_total", spool.write_failures)
    last_ns = sender.last_success_ns
    yield _row("last_success_timestamp_seconds", None if last_ns is None else last_ns / 1e9)


def _row(name: str, value: Value | None, *labels: str) -> Row:
    return Series(BY_NAME[f"agent_influxdb_{name}"], labels), value
