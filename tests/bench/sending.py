"""Measures what writing to InfluxDB adds to the agent: lines, spool and sender, against a server that takes
everything."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.abi.double.build import build
from tests.bench import subjects
from tests.bench.errors import BenchError
from tests.bench.influx_sink import received, sink
from tests.bench.measuring import Measurement, measure, progress
from tests.bench.scraping import Client
from tests.bench.subjects import Subject

_SCRAPES: Final = 1
"""Scrapes that are timed, which are no part of this (chosen: the least)."""
LEAST_LINES_PER_SECOND: Final = subjects.GPUS
"""A line for each GPU and second is what an agent sends at the least (CONTRACTS §7)."""


@dataclass(frozen=True)
class Sending:
    """What an agent costs without InfluxDB and with it.

    Attributes:
        without: The agent, with every setting at its default.
        beside: The same with `influxdb`, at its defaults, too.
        lines_per_second: Lines that the server got in a second.
        bytes_per_second: Bytes that were sent for them, packed.
        requests_per_second: Requests that it took.
    """

    without: Measurement
    beside: Measurement
    lines_per_second: float
    bytes_per_second: float
    requests_per_second: float

    @property
    def cpu_percent(self) -> float:
        """Processor time that is added, percent of one core."""
        return self.beside.cpu_percent - self.without.cpu_percent


def measure_sending(command: Path, seconds: float) -> Sending:
    """Measure an agent over the NVML double without InfluxDB, then another with it.

    Args:
        command: The `rackwatt` command.
        seconds: How long to measure processor time, of each.

    Raises:
        BenchError: One of them does not run, or sent less than it samples.
        BuildError: The double cannot be built.
    """
    with tempfile.TemporaryDirectory(prefix="rackwatt-bench-") as name:
        folder = Path(name)
        progress("building the NVML double")
        library = build(folder)
        own = folder / "own"
        own.mkdir()
        without, _ = measure(subjects.agent(command, library, own), seconds, _SCRAPES)
        port = subjects.free_port()
        with sink(port, folder) as server:
            beside, _ = measure(_with_influxdb(command, library, folder, port), seconds, _SCRAPES)
            server.check_alive()
            counts = received(port)
    return judged(without, beside, counts)


def judged(without: Measurement, beside: Measurement, counts: dict[str, float]) -> Sending:
    """Put the measurements together.

    Args:
        without: The agent without InfluxDB.
        beside: The agent with it.
        counts: What the server got (`influx_sink.Tally.document`).

    Raises:
        BenchError: That is less than is sampled, so that not all of the cost was measured.
    """
    rate = counts["lines"] / counts["seconds"] if counts["seconds"] > 0 else 0.0
    if rate < LEAST_LINES_PER_SECOND:
        raise BenchError(
            f"{beside.name} sent {rate:.1f} lines a second; {LEAST_LINES_PER_SECOND} or more were sampled"
        )
    seconds = counts["seconds"]
    return Sending(without, beside, rate, counts["sent_bytes"] / seconds, counts["requests"] / seconds)


def _with_influxdb(command: Path, library: Path, folder: Path, port: int) -> Subject:
    own = folder / "with-influxdb"
    own.mkdir()
    subject = subjects.agent(command, library, own)
    configuration = own / "agent.yaml"
    settings = json.loads(configuration.read_text(encoding="utf-8"))
    settings["influxdb"] = {"url": f"http://127.0.0.1:{port}", "bucket": "bench"}
    configuration.write_text(json.dumps(settings), encoding="utf-8")

    def is_ready(client: Client) -> bool:
        return subject.is_ready(client) and received(port)["lines"] > 0

    return replace(subject, name=f"{subject.name} with InfluxDB", is_ready=is_ready)
