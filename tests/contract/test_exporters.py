"""What every Exporter promises (collector.protocols.Exporter). Another exporter joins by one row."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest

from collector.errors import ConfigurationError
from collector.model import Snapshot
from collector.protocols import Exporter
from exporters.agent_http import AgentHttpExporter
from exporters.influxdb.exporter import InfluxdbExporter
from tests.agent_http_client import Clock, run
from tests.exporter_snapshots import EMPTY, series, snapshot_of, whole_catalogue
from tests.influx_exporters import exporter_for, settle
from tests.influx_server import InfluxServer

CLOSE_SECONDS = 5.0
"""Bound of `close` for any exporter; each may promise less."""


@dataclass(frozen=True)
class Case:
    """One exporter under the contract.

    Attributes:
        name: Its name in the test's id.
        make: Makes one that works here.
        make_unstartable: Makes one whose `start` must fail, given a port of 127.0.0.1 that is taken.
        received: Tells the number of GPUs present of the newest Snapshot that came through, None for none.
    """

    name: str
    make: Callable[[], Exporter]
    make_unstartable: Callable[[int], Exporter]
    received: Callable[[Exporter], Awaitable[int | None]]


async def scraped(exporter: Exporter) -> int | None:
    assert isinstance(exporter, AgentHttpExporter)
    address = f"http://127.0.0.1:{exporter.port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        text = await answer.text()
    samples = [line for line in text.splitlines() if line.startswith("rackwatt_node_gpus_present")]
    return int(samples[0].rpartition(" ")[2]) if samples else None


class InfluxdbCase:
    """Exporters to InfluxDB, each with a server of its own."""

    def __init__(self) -> None:
        self._servers: dict[InfluxdbExporter, tuple[InfluxServer, TemporaryDirectory[str]]] = {}

    def make(self) -> Exporter:
        server, folder = InfluxServer(), TemporaryDirectory()
        exporter = exporter_for(server.url, Path(folder.name))
        self._servers[exporter] = server, folder
        return exporter

    def make_unstartable(self, taken: int) -> Exporter:
        server, folder = InfluxServer(), TemporaryDirectory()
        file = Path(folder.name) / str(taken)
        file.touch()
        exporter = exporter_for(server.url, file)
        self._servers[exporter] = server, folder
        return exporter

    async def received(self, exporter: Exporter) -> int | None:
        assert isinstance(exporter, InfluxdbExporter)
        server, _ = self._servers[exporter]
        await asyncio.to_thread(settle, exporter)
        found = [match for line in server.lines if (match := re.search(rb"[ ,]gpus_present=(\d+)i", line))]
        return int(found[-1][1]) if found else None

    def close(self) -> None:
        for server, folder in self._servers.values():
            server.close()
            folder.cleanup()
        self._servers.clear()


INFLUXDB = InfluxdbCase()

EXPORTERS = (
    Case(
        name="agent_http",
        make=lambda: AgentHttpExporter("127.0.0.1", 0, monotonic=Clock()),
        make_unstartable=lambda taken: AgentHttpExporter("127.0.0.1", taken),
        received=scraped,
    ),
    Case(
        name="influxdb",
        make=INFLUXDB.make,
        make_unstartable=INFLUXDB.make_unstartable,
        received=INFLUXDB.received,
    ),
)


@pytest.fixture(autouse=True)
def close_servers() -> Iterator[None]:
    yield
    INFLUXDB.close()


every_exporter = pytest.mark.parametrize("case", EXPORTERS, ids=lambda case: case.name)


def with_gpus(count: int, sequence: int = 1) -> Snapshot:
    return at(sequence, snapshot_of((series("node_gpus_present"), count)))


def at(sequence: int, snapshot: Snapshot) -> Snapshot:
    """Number a Snapshot; each is a second later than the one before."""
    return replace(snapshot, sequence=sequence, time_ns=EMPTY.time_ns + sequence * 1_000_000_000)


@every_exporter
def test_what_is_published_comes_through_newest_last(case: Case) -> None:
    async def scenario() -> None:
        exporter = case.make()
        await exporter.start()
        for sequence, count in enumerate((4, 3, 2), start=1):
            exporter.publish(with_gpus(count, sequence))
            assert await case.received(exporter) == count
        await exporter.close()

    run(scenario)


@every_exporter
def test_publishing_before_the_start_is_not_lost(case: Case) -> None:
    async def scenario() -> None:
        exporter = case.make()
        exporter.publish(with_gpus(3, sequence=1))
        exporter.publish(with_gpus(4, sequence=2))
        await exporter.start()
        assert await case.received(exporter) == 4
        await exporter.close()

    run(scenario)


@every_exporter
def test_nothing_published_is_nothing_received(case: Case) -> None:
    async def scenario() -> None:
        exporter = case.make()
        await exporter.start()
        assert await case.received(exporter) is None
        await exporter.close()

    run(scenario)


@every_exporter
def test_an_empty_snapshot_and_absent_values_are_survived(case: Case) -> None:
    async def scenario() -> None:
        exporter = case.make()
        await exporter.start()
        whole = whole_catalogue()
        exporter.publish(EMPTY)
        assert await case.received(exporter) is None
        exporter.publish(at(8, replace(whole, values=tuple(None for _ in whole.values))))
        assert await case.received(exporter) is None
        exporter.publish(at(9, whole))
        assert await case.received(exporter) == 1
        await exporter.close()

    run(scenario)


@every_exporter
def test_close_is_idempotent_and_publishing_after_it_harmless(case: Case) -> None:
    async def scenario() -> None:
        exporter = case.make()
        await exporter.start()
        exporter.publish(EMPTY)
        async with asyncio.timeout(CLOSE_SECONDS):
            await exporter.close()
            await exporter.close()
        exporter.publish(EMPTY)

    run(scenario)


@every_exporter
def test_close_without_start(case: Case) -> None:
    async def scenario() -> None:
        exporter = case.make()
        exporter.publish(EMPTY)
        async with asyncio.timeout(CLOSE_SECONDS):
            await exporter.close()

    run(scenario)


@every_exporter
def test_what_cannot_start_says_so_and_closes(case: Case) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = int(taken.getsockname()[1])
            exporter = case.make_unstartable(port)
            with pytest.raises(ConfigurationError, match=str(port)):
                await exporter.start()
            await exporter.close()

    run(scenario)
