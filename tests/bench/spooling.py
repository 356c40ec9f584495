"""Measures line protocol and spool: half an hour of 8 simulated GPUs with 18 links, as fast as it goes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from influxdb_client.client.write.point import Point

from collector.model import Snapshot, Value
from exporters.influxdb.lines import Lines, LineWriter
from exporters.influxdb.schema import Form, field_key, rule_of
from exporters.influxdb.selection import SHORTEST_PERIOD_SECONDS, Selection
from exporters.influxdb.spool import Spool
from tests.bench.measuring import progress
from tests.simulated_snapshots import simulated_snapshots

PLATFORM: Final = "hgx-b200"
SECONDS: Final = 1800
"""Half an hour: the outage that a spool must bridge (facts on reliability, §5, row 1)."""
_BATCH_BYTES: Final = 512 * 1024
_POINTS_OF_OTHERS: Final = 10
"""Snapshots that influxdb_client's Point is timed with: one in which everything is due, and nine others."""


@dataclass(frozen=True)
class Spooling:
    """What lines and spool cost.

    Attributes:
        seconds: How many Snapshots, one for each second.
        points: Lines of all of them.
        raw_bytes: Bytes of the lines.
        disk_bytes: Bytes of the spool that holds them all.
        writing_seconds: Processor time of making the lines.
        filling_seconds: Time of bringing them to the disk, Snapshot by Snapshot.
        draining_seconds: Time of reading and acknowledging them.
        processor_seconds: Processor time of all three together, the kernel's included.
        peer_ratio: How many times as long influxdb_client's Point takes for the same fields.
    """

    seconds: int
    points: int
    raw_bytes: int
    disk_bytes: int
    writing_seconds: float
    filling_seconds: float
    draining_seconds: float
    processor_seconds: float
    peer_ratio: float

    @property
    def bytes_per_point(self) -> float:
        """Bytes on the disk for a point."""
        return self.disk_bytes / self.points

    @property
    def half_an_hour_bytes(self) -> float:
        """Bytes on the disk after 30 minutes without a server."""
        return self.disk_bytes * SECONDS / self.seconds

    @property
    def lines_per_second(self) -> float:
        """Lines that go through the spool in a second: to the disk, synchronized, and back."""
        return self.points / (self.filling_seconds + self.draining_seconds)

    @property
    def cpu_percent(self) -> float:
        """Processor time that lines and spool add to an agent, percent of one core."""
        return self.processor_seconds / self.seconds * 100

    @property
    def writing_milliseconds(self) -> float:
        """Processor time for the lines of one Snapshot."""
        return self.writing_seconds / self.seconds * 1e3


def measure_spool(seconds: int = SECONDS) -> Spooling:
    """Measure.

    Args:
        seconds: How many seconds of Snapshots.
    """
    progress(f"spool: simulating {seconds} s of {PLATFORM}")
    snapshots = list(simulated_snapshots(PLATFORM, seconds))
    progress("spool: lines, to the disk and back")
    writer = LineWriter(Selection())
    begin = time.process_time()
    lines = [writer.write(snapshot) for snapshot in snapshots]
    writing = time.process_time() - begin
    with tempfile.TemporaryDirectory(prefix="rackwatt-bench-") as name:
        filling, draining, processor, disk_bytes = _through(Path(name) / "spool", lines)
    progress("spool: the same points by influxdb_client")
    return Spooling(
        seconds,
        sum(own.points for own in lines),
        sum(len(own.payload) for own in lines),
        disk_bytes,
        writing,
        filling,
        draining,
        writing + processor,
        _peer_ratio(snapshots[:_POINTS_OF_OTHERS]),
    )


def _through(folder: Path, lines: Sequence[Lines]) -> tuple[float, float, float, int]:
    spool = Spool.open(folder, maximum_bytes=512 * 1024**2, maximum_age_seconds=7 * 86_400)
    begin, used = time.perf_counter(), -time.process_time()
    for own in lines:
        spool.append(own.payload, points=own.points, time_ns=own.time_ns)
        spool.sync()
    filled = time.perf_counter()
    disk_bytes = spool.status().bytes
    while (batch := spool.read(_BATCH_BYTES)) is not None:
        spool.acknowledge(batch.position)
    drained = time.perf_counter()
    used += time.process_time()
    spool.close()
    return filled - begin, drained - filled, used, disk_bytes


def _peer_ratio(snapshots: Sequence[Snapshot]) -> float:
    writer = LineWriter(Selection(periods_of=(("*", SHORTEST_PERIOD_SECONDS),)))
    writer.write(snapshots[0])  # prepared once a table, as what the other one is given is
    plan = _plan(snapshots[0])

    def ours() -> None:
        for snapshot in snapshots:
            writer.write(snapshot)

    def theirs() -> None:
        for snapshot in snapshots:
            _by_points(snapshot, plan)

    return _fastest(theirs) / _fastest(ours)


def _fastest(work: Callable[[], None]) -> float:
    times = []
    for _ in range(3):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


@dataclass(frozen=True, slots=True)
class _Planned:
    """Where the value of a series goes."""

    measurement: str
    tags: tuple[tuple[str, str], ...]
    field: str
    convert: Callable[[Value], bool | int | float]


_CONVERT: Final[Mapping[Form, Callable[[Value], bool | int | float]]] = {
    Form.INTEGER: int,
    Form.FLOAT: float,
    Form.FLAG: bool,
}


def _plan(snapshot: Snapshot) -> tuple[_Planned | None, ...]:
    """Say where each number of a Snapshot goes; its few texts are left out."""
    planned: list[_Planned | None] = []
    for entry in snapshot.table.series:
        rule = rule_of(entry.metric)
        labels = dict(zip(entry.metric.label_names, entry.labels, strict=True))
        labels |= {"rack": snapshot.rack, "node": snapshot.node}
        convert = _CONVERT.get(rule.form)
        tags = tuple((name, labels[name]) for name in rule.tags)
        key = field_key(rule, labels)
        planned.append(_Planned(rule.measurement, tags, key, convert) if convert else None)
    return tuple(planned)


def _by_points(snapshot: Snapshot, plan: Sequence[_Planned | None]) -> bytes:
    """Write a Snapshot's numbers with influxdb_client, a Point for each set of tags."""
    points: dict[tuple[str, tuple[tuple[str, str], ...]], Point] = {}
    for planned, value in zip(plan, snapshot.values, strict=True):
        if planned is None or value is None:
            continue
        key = (planned.measurement, planned.tags)
        point = points.get(key)
        if point is None:
            point = points[key] = Point(planned.measurement)  # type: ignore[no-untyped-call] # it has no types
            point.time(snapshot.time_ns)  # type: ignore[no-untyped-call] # nor here
            for name, text in planned.tags:
                point.tag(name, text)  # type: ignore[no-untyped-call] # nor here
        point.field(planned.field, planned.convert(value))  # type: ignore[no-untyped-call] # nor here
    lines = (point.to_line_protocol() for point in points.values())  # type: ignore[no-untyped-call] # nor here
    return "\n".join(lines).encode()
