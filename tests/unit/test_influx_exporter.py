"""The exporter: from published Snapshots to what a server has, and what it says of itself."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector import catalog
from collector.catalog.influxdb import INFLUXDB, REJECT_CAUSES, SENDER_STATES, WRITE_ERRORS
from collector.errors import ConfigurationError
from collector.model import Snapshot
from exporters.influxdb.exporter import InfluxdbExporter, _Guard
from exporters.influxdb.failures import Failure
from exporters.influxdb.feed import InfluxdbFeed
from exporters.influxdb.inspection import read_status
from exporters.influxdb.sender import SenderStatus, State
from tests.exporter_snapshots import EMPTY, series, snapshot_of
from tests.influx_exporters import exporter_for, settle, until
from tests.influx_server import HANG, InfluxServer, Reply, failing, influx_server

SECOND_NS = 1_000_000_000


@pytest.fixture
def server() -> Iterator[InfluxServer]:
    with influx_server() as running:
        yield running


def at(second: int, watts: float = 1.5) -> Snapshot:
    snapshot = snapshot_of((series("gpu_power_watts", "0", "GPU-aaaa"), watts))
    return replace(snapshot, sequence=second, time_ns=EMPTY.time_ns + second * SECOND_NS)


async def run(exporter: InfluxdbExporter, use: Callable[[], object]) -> None:
    await exporter.start()
    try:
        await asyncio.to_thread(use)
    finally:
        await exporter.close()


def test_what_is_published_arrives_once_byte_for_byte(server: InfluxServer, tmp_path: Path) -> None:
    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        await exporter.start()
        for second in range(30):
            exporter.publish(at(second, second + 0.5))
        await asyncio.to_thread(settle, exporter)
        await exporter.close()

    asyncio.run(scenario())
    assert server.lines == [
        b"gpu,gpu=0,gpu_uuid=GPU-aaaa,node=n03,rack=r01 power_watts=%d.5 %d"
        % (second, EMPTY.time_ns + second * SECOND_NS)
        for second in range(30)
    ]


def test_a_request_is_the_same_bytes_however_often_it_is_repeated(
    server: InfluxServer, tmp_path: Path
) -> None:
    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        server.answer = lambda _: failing(503, "not yet") if len(server.requests) < 4 else Reply(204)
        await exporter.start()
        exporter.publish(at(1))
        await asyncio.to_thread(settle, exporter)
        await exporter.close()

    asyncio.run(scenario())
    assert len(server.requests) == 4
    assert len({request.lines for request in server.requests}) == 1
    assert len(server.points) == 1


def test_what_no_server_took_is_sent_after_a_restart(tmp_path: Path) -> None:
    async def scenario(url: str, seconds: range) -> None:
        exporter = exporter_for(url, tmp_path)
        await exporter.start()
        for second in seconds:
            exporter.publish(at(second))
        if url != "http://127.0.0.1:9":
            await asyncio.to_thread(settle, exporter)
        await exporter.close()

    asyncio.run(scenario("http://127.0.0.1:9", range(10)))  # the discard port: nobody there
    assert read_status(tmp_path / "spool", 0).points == 10
    with influx_server() as server:
        asyncio.run(scenario(server.url, range(10, 12)))
        assert len(server.points) == 12
    assert read_status(tmp_path / "spool", 0).points == 0


@pytest.mark.parametrize("how", ["up", "down", "hung"])
def test_closing_is_quick_and_loses_nothing(server: InfluxServer, tmp_path: Path, how: str) -> None:
    if how == "hung":
        server.answer = lambda _: Reply(HANG)
    url = "http://127.0.0.1:9" if how == "down" else server.url

    async def scenario() -> float:
        exporter = exporter_for(url, tmp_path)
        await exporter.start()
        exporter.publish(at(1))
        if how == "hung":
            await asyncio.to_thread(until, lambda: bool(server.requests))
        exporter.publish(at(2))
        started = time.monotonic()
        await exporter.close()
        return time.monotonic() - started

    # What the agent allows an exporter.
    assert asyncio.run(scenario()) < 5.0
    kept = read_status(tmp_path / "spool", 0).points
    assert (kept, len(server.points)) == ((0, 2) if how == "up" else (2, 0))


def test_a_spool_that_somebody_else_writes_cannot_be_started(server: InfluxServer, tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = exporter_for(server.url, tmp_path), exporter_for(server.url, tmp_path)
        await first.start()
        with pytest.raises(ConfigurationError, match="another agent"):
            await second.start()
        await second.close()
        await first.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_at_the_start_keeps_nobody_from_starting(
    server: InfluxServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    well = threading.Event()
    real = os.open

    def fail(path: Any, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith("lock") and not well.is_set():
            raise OSError(code, os.strerror(code))
        return real(path, flags, mode)

    monkeypatch.setattr("exporters.influxdb.spool_folder.os.open", fail)

    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        await exporter.start()
        for second in range(3):
            exporter.publish(at(second))
        await asyncio.to_thread(until, lambda: exporter.spool_status.write_failures > 1)
        status = exporter.spool_status
        assert (status.records, status.points, status.durable) == (3, 3, False)
        assert os.strerror(code) in status.error
        well.set()
        await asyncio.to_thread(settle, exporter)
        assert exporter.spool_status.write_failures > 1
        await exporter.close()

    asyncio.run(scenario())
    assert len(server.points) == 3
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    assert "until it can be opened points wait in memory only" in caplog.messages[0]


def test_a_disk_that_fails_all_the_time_ends_in_time(
    server: InfluxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("exporters.influxdb.spool_folder.os.open", fail)

    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        await exporter.start()
        exporter.publish(at(1))
        await exporter.close()

    asyncio.run(scenario())
    assert caplog.messages[-1].startswith("1 points that waited in memory are lost: spool ")


def test_the_account_is_in_the_catalogue_whole_and_in_its_order(server: InfluxServer, tmp_path: Path) -> None:
    rows = list(InfluxdbFeed(exporter_for(server.url, tmp_path)).rows())
    names = list(dict.fromkeys(entry.metric.name for entry, _ in rows))
    assert names == [metric.name for metric in INFLUXDB]
    for metric in INFLUXDB:
        own = [entry.labels for entry, _ in rows if entry.metric is metric]
        assert own == ([(value,) for value in metric.label_values] if metric.label else [()])
    assert set(INFLUXDB) <= set(catalog.ALL)


def test_the_words_of_code_and_catalogue_are_the_same() -> None:
    assert tuple(state.value for state in State) == SENDER_STATES
    assert tuple(sorted(failure.value for failure in Failure)) == WRITE_ERRORS
    assert REJECT_CAUSES == ("refused", "server_error", "too_large")


def test_before_the_start_everything_is_zero_and_no_success_is_claimed(
    server: InfluxServer, tmp_path: Path
) -> None:
    rows = {
        (entry.metric.name.removeprefix("agent_influxdb_"), *entry.labels): value
        for entry, value in InfluxdbFeed(exporter_for(server.url, tmp_path)).rows()
    }
    assert rows.pop(("last_success_timestamp_seconds",)) is None
    assert rows.pop(("sender_state", "idle")) == 1
    assert set(rows.values()) == {0}


def test_the_account_tells_what_happened(server: InfluxServer, tmp_path: Path) -> None:
    server.answer = lambda request: failing(401, "no") if len(server.requests) > 1 else Reply(204)
    rows: dict[tuple[str, ...], int | float | None] = {}

    async def scenario() -> None:
        exporter = exporter_for(server.url, tmp_path)
        await exporter.start()
        exporter.publish(at(1))
        await asyncio.to_thread(settle, exporter)
        exporter.publish(at(2))
        await asyncio.to_thread(until, lambda: exporter.sender_status.state is State.HELD)
        for entry, value in InfluxdbFeed(exporter).rows():
            rows[entry.metric.name.removeprefix("agent_influxdb_"), *entry.labels] = value
        await exporter.close()

    asyncio.run(scenario())
    assert rows["sender_state", "held"] == 1
    assert rows["sender_state", "idle"] == 0
    assert rows["spool_records",] == 1
    assert rows["points_written_total",] == 1
    assert rows["requests_total",] == 1
    assert rows["request_errors_total", "unauthorized"] == 1
    last = rows["last_success_timestamp_seconds",]
    assert last is not None
    assert abs(last - time.time_ns() / 1e9) < 600


def test_an_account_begins_with_nothing() -> None:
    assert SenderStatus() == SenderStatus(state=State.IDLE, words="", points_written=0, last_success_ns=None)


def test_a_thread_goes_on_whatever_goes_wrong_and_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    guard = _Guard("points cannot be sent now")
    for error in (OSError(5, "Input/output error"), OSError(5, "Input/output error"), None, ValueError("x")):
        with guard:
            if error is not None:
                raise error
    assert caplog.messages == [
        "points cannot be sent now: OSError: [Errno 5] Input/output error",
        "points cannot be sent now: ValueError: x",
    ]
    assert [record.exc_info is None for record in caplog.records] == [True, False]
    with pytest.raises(KeyboardInterrupt), guard:
        raise KeyboardInterrupt
