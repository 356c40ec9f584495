"""What must cost no point, or the one that is bad: outages, stalls, refusals, kills, ends, clocks."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from collector.model import Snapshot
from collector.timekeeping import SteadyClock
from exporters.influxdb.backoff import Pace, Rate
from exporters.influxdb.exporter import InfluxdbExporter
from exporters.influxdb.failures import Failure
from exporters.influxdb.inspection import read_quarantine, read_status
from exporters.influxdb.sender import Sender, State
from exporters.influxdb.spool_types import Batch, Position
from exporters.influxdb.target import WRITTEN, Answer, Outcome
from tests.exporter_snapshots import EMPTY, UUIDS, series, snapshot_of
from tests.faults.influx_agent import GPUS
from tests.influx_exporters import exporter_for, settle, until
from tests.influx_server import (
    BREAK,
    HANG,
    OK,
    InfluxServer,
    Reply,
    Request,
    failing,
    influx_server,
    refusing,
    split_line,
)
from tests.soaking import SOAKING, repetitions

ROOT = Path(__file__).resolve().parents[2]
SECOND_NS = 1_000_000_000
HALF_AN_HOUR = 1800
POINTS = HALF_AN_HOUR * GPUS
NOBODY = "http://127.0.0.1:9"  # the discard port


@pytest.fixture
def server() -> Iterator[InfluxServer]:
    with influx_server() as running:
        yield running


def of_second(second: int) -> Snapshot:
    """Eight GPUs, of which each value tells its second."""
    power = ((series("gpu_power_watts", str(gpu), f"{UUIDS[0]}-{gpu}"), second + 0.5) for gpu in range(GPUS))
    return replace(snapshot_of(*power), sequence=second + 1, time_ns=EMPTY.time_ns + second * SECOND_NS)


def publish(exporter: InfluxdbExporter, seconds: range) -> None:
    for second in seconds:
        exporter.publish(of_second(second))


def expected(seconds: range) -> dict[tuple[int, int], bytes]:
    """Fields by GPU and time."""
    return {
        (gpu, EMPTY.time_ns + second * SECOND_NS): b"power_watts=%d.5" % second
        for second in seconds
        for gpu in range(GPUS)
    }


def stored(server: InfluxServer) -> dict[tuple[int, int], bytes]:
    """What a server has of GPUs; fails where one point is there under two names."""
    found = {
        (int(labels.split(b"gpu=")[1].split(b",")[0]), time_ns): fields
        for (labels, time_ns), fields in server.points.items()
    }
    assert len(found) == len(server.points)
    return found


def fast() -> float:
    """A clock that runs 200 times as fast."""
    return time.monotonic() * 200


def jitter_of(loop_ticks: list[float], period: float) -> float:
    """Return the longest time that a loop was late."""
    return max(later - earlier - period for earlier, later in pairwise(loop_ticks))


# --- outages and stalls -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["down", "hung", "failing", "breaking"])
def test_half_an_hour_without_a_server_costs_no_point(server: InfluxServer, tmp_path: Path, how: str) -> None:
    # 8 GPUs x 1 s x 30 min = 14,400 points; at most 10 MB on disk (facts on reliability, §5, rows 1 and 2).
    ill: dict[str, Callable[[Request], Reply]] = {
        "down": lambda _: OK,
        "hung": lambda _: Reply(HANG),
        "failing": lambda _: failing(500, "out of order"),
        "breaking": lambda _: Reply(BREAK),
    }
    server.answer = ill[how]
    ticks: list[float] = []

    async def scenario() -> None:
        first = exporter_for(NOBODY if how == "down" else server.url, tmp_path)
        await first.start()
        for start in range(0, HALF_AN_HOUR, 60):
            publish(first, range(start, start + 60))
            await asyncio.sleep(0.05)
            ticks.append(time.monotonic())
        await asyncio.to_thread(until, lambda: first.spool_status.unsynced_records == 0)
        assert first.spool_status.points == POINTS
        assert first.spool_status.bytes <= 10_000_000
        assert first.sender_status.points_written == 0
        await first.close()
        server.answer = lambda _: OK
        second = exporter_for(server.url, tmp_path)
        await second.start()
        publish(second, range(HALF_AN_HOUR, HALF_AN_HOUR + 10))
        await asyncio.to_thread(settle, second)
        assert second.spool_status.damaged.points == 0
        await second.close()

    asyncio.run(scenario())
    assert stored(server) == expected(range(HALF_AN_HOUR + 10))
    # A server that hangs holds up nothing else; a wide margin, as this machine does other things, too.
    assert jitter_of(ticks, 0.05) < 5.0


def test_the_same_sender_goes_on_when_the_server_comes_back(tmp_path: Path) -> None:
    with influx_server() as server:
        port = server.port

    async def scenario() -> None:
        exporter = exporter_for(f"http://127.0.0.1:{port}", tmp_path)
        await exporter.start()
        publish(exporter, range(100))
        await asyncio.to_thread(until, lambda: exporter.sender_status.state is State.BACKING_OFF)
        with influx_server(port=port) as again:
            await asyncio.to_thread(settle, exporter)
            assert stored(again) == expected(range(100))
            assert exporter.sender_status.errors[Failure.UNREACHABLE] >= 1
        await exporter.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", repetitions(3, 60))
def test_whatever_a_server_does_in_between_nothing_is_lost(
    server: InfluxServer, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311 -- a test that repeats itself
    ways = [OK, OK, OK, failing(500, "no"), failing(429, "slow", Retry_After="0"), failing(503, "busy")]
    ways += [Reply(BREAK), failing(408, "late"), failing(413, "large")]
    server.answer = lambda _: draw.choice(ways)

    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        await exporter.start()
        for start in range(0, 200, 20):
            publish(exporter, range(start, start + 20))
            await asyncio.sleep(0.1)
        server.answer = lambda _: draw.choice(ways[:6])
        await asyncio.to_thread(settle, exporter)
        rejected = sum(exporter.sender_status.rejected.values())
        assert exporter.sender_status.points_written + rejected >= 200 * GPUS
        assert rejected == exporter.spool_status.quarantined_lines
        await exporter.close()

    asyncio.run(scenario())
    kept = {line for line in read_quarantine(tmp_path / "spool").encode().splitlines() if line[:1] != b"#"}
    have = {b"%s %s %d" % (labels, fields, at) for (labels, at), fields in server.points.items()}
    assert len(have | kept) == 200 * GPUS


def resident_bytes() -> int:
    """Memory of this process (proc(5), status)."""
    status = Path("/proc/self/status").read_text("ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def test_an_outage_in_real_time_ends_at_five_times_the_live_rate(tmp_path: Path) -> None:
    # Facts on reliability, §5, row 1: 30 minutes; memory at most 10 MB more.
    outage_seconds, per_second = (HALF_AN_HOUR, 1) if SOAKING else (8, 20)
    with influx_server() as server:
        port = server.port
    published = 0

    async def publish_until(exporter: InfluxdbExporter, done: Callable[[], bool]) -> float:
        """Publish as many a second as should be; return how long."""
        nonlocal published
        started, first = time.monotonic(), published
        while not done():
            exporter.publish(of_second(published))
            published += 1
            next_at = started + (published - first) / per_second
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
        return time.monotonic() - started

    async def scenario() -> None:
        exporter = exporter_for(f"http://127.0.0.1:{port}", tmp_path, paced=True)
        await exporter.start()
        ends_at = time.monotonic() + outage_seconds
        # The client is loaded by then.
        await publish_until(exporter, lambda: exporter.sender_status.state is State.BACKING_OFF)
        before = resident_bytes()
        await publish_until(exporter, lambda: time.monotonic() > ends_at)
        assert resident_bytes() - before <= 10_000_000
        waiting = exporter.spool_status.points
        assert waiting == published * GPUS
        with influx_server(port=port) as again:
            few = 5 * per_second * GPUS
            took = await publish_until(exporter, lambda: exporter.spool_status.points <= few)
            # Ten seconds' worth may go at once; a wait of up to a minute comes first, in which nothing goes.
            assert again.writes <= 1.2 * 5 * per_second * GPUS * (took + 2)
            await asyncio.to_thread(settle, exporter)
            assert stored(again) == expected(range(published))
        await exporter.close()

    asyncio.run(scenario())


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 422])
def test_a_poisonous_line_costs_itself(server: InfluxServer, tmp_path: Path, status: int) -> None:
    server.answer = refusing(b"power_watts=77.5", status=status)

    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        await exporter.start()
        publish(exporter, range(77))
        exporter.publish(replace(of_second(77), values=(77.5, *[78.0] * 7)))
        publish(exporter, range(78, 150))
        await asyncio.to_thread(settle, exporter)
        assert exporter.sender_status.rejected == {"refused": 1}
        await exporter.close()

    asyncio.run(scenario())
    assert len(server.points) == 150 * GPUS - 1
    head, line = read_quarantine(tmp_path / "spool").splitlines()
    assert f"HTTP {status}: unable to parse" in head
    assert split_line(line.encode())[2] == b"power_watts=77.5"


def test_what_is_too_large_is_split(server: InfluxServer, tmp_path: Path) -> None:
    server.answer = lambda request: failing(413) if len(request.lines) > 100 else OK

    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        publish(exporter, range(50))
        await exporter.start()
        publish(exporter, range(50, 300))
        await asyncio.to_thread(settle, exporter)
        assert exporter.sender_status.rejected == {}
        await exporter.close()

    asyncio.run(scenario())
    assert stored(server) == expected(range(300))


# --- kills and ends ---------------------------------------------------------------------------------------


class Child:
    """The program of `tests.faults.influx_agent` while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def published(self, before: int = -1) -> int:
        """The last number that it published; `before` if none."""
        numbers = [line.split()[1] for line in self.said().splitlines() if line.startswith("published ")]
        return int(numbers[-1]) if numbers else before

    def said(self) -> str:
        """What it said."""
        text = self._log.read_text("ascii")
        # A line that a kill cut off was not said.
        return text[: text.rfind("\n") + 1]


@contextmanager
def agent_process(url: str, folder: Path, first: int, per_second: int) -> Iterator[Child]:
    log = folder / "said"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.faults.influx_agent",
                url,
                str(folder),
                str(first),
                str(per_second),
            ],
            cwd=ROOT,
            stdout=output,
        )
    child = Child(process, log)
    try:
        until(lambda: child.said().startswith("ready\n"))
        yield child
    finally:
        process.kill()
        process.wait(60)


def test_kills_at_any_moment_cost_a_second_each_and_store_nothing_twice(
    server: InfluxServer, tmp_path: Path
) -> None:
    # Facts on reliability, §5, row 4: 200 kills; at most 1 s lost each.
    per_second = 20
    draw = random.Random(4)  # noqa: S311 -- a test that repeats itself
    number = 0
    lost_at_most = 0
    for _ in repetitions(5, 200):
        with agent_process(server.url, tmp_path, number, per_second) as child:
            time.sleep(draw.uniform(0.0, 2.5))
            child.process.kill()
            child.process.wait(60)
            number = child.published(number - 1) + 1
        # Synced each second, and a margin for a machine that does other things, too.
        lost_at_most += 2 * per_second * GPUS
    with agent_process(server.url, tmp_path, number, per_second) as child:
        time.sleep(1.0)
        child.process.send_signal(signal.SIGTERM)
        child.process.wait(60)
        published = range(child.published(number - 1) + 1)
    have = stored(server)
    assert have.items() <= expected(published).items()
    assert len(published) * GPUS - len(have) <= lost_at_most
    tail = range(number, published.stop)
    assert expected(tail).items() <= have.items()
    assert read_status(tmp_path / "spool", 0).points == 0


@pytest.mark.parametrize("how", ["up", "down", "hung"])
def test_sigterm_ends_within_five_seconds_and_loses_nothing(
    server: InfluxServer, tmp_path: Path, how: str
) -> None:
    server.answer = (lambda _: Reply(HANG)) if how == "hung" else (lambda _: OK)
    url = NOBODY if how == "down" else server.url
    with agent_process(url, tmp_path, 0, 20) as child:
        if how == "down":
            time.sleep(1.0)
        else:
            until(lambda: bool(server.requests))
        child.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        assert child.process.wait(60) == 0
        assert time.monotonic() - started <= 5.0
        assert child.said().endswith("closed\n")
        published = range(child.published() + 1)
    waiting = read_status(tmp_path / "spool", 0).points
    assert waiting + len(server.points) == len(published) * GPUS
    if how == "up":
        assert waiting == 0
    server.answer = lambda _: OK

    async def afterwards() -> None:
        exporter = exporter_for(server.url, tmp_path)
        await exporter.start()
        await asyncio.to_thread(settle, exporter)
        await exporter.close()

    asyncio.run(afterwards())
    assert stored(server) == expected(published)


# --- clocks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_seconds", [-3600, 3600, 30 * 86_400])
def test_a_wall_clock_that_is_set_costs_no_point(
    server: InfluxServer, tmp_path: Path, step_seconds: int
) -> None:
    # Facts on reliability, §5, row 8.
    offset_ns = [0]

    def wall_ns() -> int:
        return EMPTY.time_ns + int(fast() * 1e9) + offset_ns[0]

    clock = SteadyClock(fast, wall_ns)
    times: list[int] = []

    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path, monotonic=fast, wall_ns=wall_ns)
        await exporter.start()
        for second in range(200):
            if second == 100:
                offset_ns[0] = step_seconds * SECOND_NS
            times.append(clock.now_ns())
            exporter.publish(replace(of_second(second), time_ns=times[-1]))
            await asyncio.sleep(0.01)
        await asyncio.to_thread(settle, exporter)
        status = exporter.spool_status
        assert (status.dropped_for_age.points, status.dropped_for_size.points) == (0, 0)
        await exporter.close()

    asyncio.run(scenario())
    assert len(set(times)) == 200
    assert {time_ns for _, time_ns in server.points} == set(times)
    assert len(server.points) == 200 * GPUS


# --- many at once -----------------------------------------------------------------------------------------

RECORD = b"".join(b"gpu,gpu=%d %s=1 1\n" % (gpu, b"a" * 500) for gpu in range(GPUS))
"""A second of eight GPUs, some 4 kB."""


class Backlog:
    """A spool in memory: so many records of one size wait."""

    def __init__(self, records: int) -> None:
        self.waiting = records
        self.sent = 0

    def read(self, maximum_bytes: int) -> Batch | None:
        records = min(self.waiting, max(1, maximum_bytes // len(RECORD)))
        if not records:
            return None
        end = self.sent + records
        return Batch(RECORD * records, GPUS * records, records, 1, Position(end + 1, GPUS * end, 1, end))

    def acknowledge(self, position: Position) -> None:
        records = position.sequence - 1 - self.sent
        self.sent += records
        self.waiting -= records

    def quarantine(self, lines: object, reason: str) -> None:
        raise AssertionError("nothing is refused")


class Fleet:
    """A server that many senders share, down until a moment; counts what comes in each second."""

    def __init__(self, now: list[float], back_at: float) -> None:
        self.now = now
        self.back_at = back_at
        self.points: dict[int, int] = {}
        self.tries: dict[int, int] = {}

    def write(self, body: bytes) -> Answer:
        second = int(self.now[0])
        self.tries[second] = self.tries.get(second, 0) + 1
        if self.now[0] < self.back_at:
            return Answer(Outcome.UNREACHABLE, Failure.UNREACHABLE, "no connection")
        self.points[second] = self.points.get(second, 0) + body.count(b"\n")
        return WRITTEN

    def abort(self) -> None:
        """Nothing is under way."""


def test_thousands_that_recover_together_do_not_overrun_the_server() -> None:
    # Facts on reliability, §5, row 24: 2,000 spools drain; at most five times the live rate, retries spread.
    agents = 2000 if SOAKING else 200
    outage, after = 300, 180
    draw = random.Random(24)  # noqa: S311 -- a test that repeats itself
    now = [0.0]
    fleet = Fleet(now, back_at=float(outage))
    backlogs = [Backlog(0) for _ in range(agents)]
    rates = [Rate(lambda: now[0]) for _ in range(agents)]
    senders = [
        Sender(backlog, fleet, random=draw.random, pace=Pace(lambda: now[0], rate.per_second))
        for backlog, rate in zip(backlogs, rates, strict=True)
    ]
    due = [0.0] * agents
    for tenth in range((outage + after) * 10):
        now[0] = tenth / 10
        for place, sender in enumerate(senders):
            if tenth % 10 == 0:
                backlogs[place].waiting += 1
                rates[place].add(len(RECORD))
            while due[place] <= now[0]:
                due[place] = now[0] + sender.step()
                if due[place] > now[0]:
                    break
    live = agents * GPUS
    # Each may have saved up two seconds' worth, and begin one record more; a rate is known to some percent.
    for start in range(outage, outage + after - 60):
        assert sum(fleet.points.get(second, 0) for second in range(start, start + 60)) <= 64 * 5 * live
    assert max(fleet.points.values()) <= 3 * 5 * live
    assert sum(fleet.points.values()) + sum(backlog.waiting * GPUS for backlog in backlogs) == (
        (outage + after) * live
    )
    assert all(backlog.waiting <= 2 for backlog in backlogs)
    # At the end of an outage each tries twice a minute or so, and no second sees more than a tenth of them.
    late = [fleet.tries.get(second, 0) for second in range(outage - 120, outage)]
    assert max(late) <= agents / 10
    assert min(late) >= agents / 200
