"""Measures how long a backlog takes: the shipped spool, sender and pace on a clock that is driven.

The sender tries all through an outage, so that it waits as long as it can when the server comes back, and
Snapshots go on coming each second until the spool is empty.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from exporters.influxdb.backoff import Pace, Rate
from exporters.influxdb.failures import Failure
from exporters.influxdb.lines import LineWriter
from exporters.influxdb.selection import Selection
from exporters.influxdb.sender import Sender
from exporters.influxdb.spool import Spool
from exporters.influxdb.target import WRITTEN, Answer, Outcome
from tests.bench.measuring import progress
from tests.bench.spooling import PLATFORM, SECONDS
from tests.simulated_snapshots import WALL_NS, simulated_snapshots

_LIMIT_SECONDS: Final = 1800
"""How long an empty spool is waited for, the rest of the outage included (chosen: three times the bound)."""
_LONGEST_DRAW: Final = math.nextafter(1.0, 0.0)
"""What is drawn for each wait: the most, so that the figure is the worst and not one of luck."""
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True)
class Drain:
    """How a backlog went.

    Attributes:
        outage_seconds: How long there was no server.
        points: Lines that waited when it came back.
        disk_bytes: Bytes of the spool then.
        waited_seconds: How long after its return the first lines were taken.
        seconds: How long after its return nothing waited any more, that wait included; infinity if the limit
            of the measurement was not enough.
        points_sent: Lines that were sent in that time, those that were new included.
        requests: Requests that took them.
    """

    outage_seconds: int
    points: int
    disk_bytes: int
    waited_seconds: float
    seconds: float
    points_sent: int
    requests: int


class _Server:
    """A server that is away, then takes everything."""

    def __init__(self) -> None:
        self.is_up = False
        self.tries = 0
        self.requests = 0

    def write(self, body: bytes) -> Answer:
        """Take lines, if it is there."""
        del body
        if self.is_up:
            self.requests += 1
            return WRITTEN
        self.tries += 1
        return Answer(Outcome.UNREACHABLE, Failure.UNREACHABLE, "no connection")

    def abort(self) -> None:
        """Nothing is under way."""


def measure_drain(seconds: int = SECONDS) -> Drain:
    """Measure, in virtual seconds.

    Args:
        seconds: The least that the outage takes; it ends just after a try that failed.
    """
    progress(f"drain: {seconds} s of {PLATFORM} without a server, then as long as it takes")
    with tempfile.TemporaryDirectory(prefix="rackwatt-bench-") as name:
        return _drain(Path(name) / "spool", seconds)


def _drain(folder: Path, outage_seconds: int) -> Drain:
    now = 0.0

    def monotonic() -> float:
        return now

    def wall_ns() -> int:
        return WALL_NS + round(now * 1e9)

    server, rate, writer = _Server(), Rate(monotonic), LineWriter(Selection())
    spool = Spool.open(
        folder,
        maximum_bytes=512 * 1024**2,
        maximum_age_seconds=7 * _DAY_SECONDS,
        wall_ns=wall_ns,
        monotonic=monotonic,
    )
    pace = Pace(monotonic, rate.per_second)
    sender = Sender(spool, server, random=lambda: _LONGEST_DRAW, pace=pace, wall_ns=wall_ns)
    due = returned = 0.0
    taken = gone = math.inf
    backlog = spool.status()
    for second, snapshot in enumerate(simulated_snapshots(PLATFORM, outage_seconds + _LIMIT_SECONDS)):
        now = float(second)
        lines = writer.write(snapshot)
        spool.append(lines.payload, points=lines.points, time_ns=lines.time_ns)
        rate.add(len(lines.payload))
        spool.sync()
        tries = server.tries
        while due <= now:
            due = now + sender.step()
        if not server.is_up:
            if second >= outage_seconds and server.tries > tries:
                server.is_up, returned, backlog = True, now, spool.status()
            continue
        if server.requests:
            taken = min(taken, now)
        if not spool.status().records:
            gone = now
            break
    spool.close()
    return Drain(
        outage_seconds=int(returned),
        points=backlog.points,
        disk_bytes=backlog.bytes,
        waited_seconds=taken - returned,
        seconds=gone - returned,
        points_sent=sender.status.points_written,
        requests=server.requests,
    )
