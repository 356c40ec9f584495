"""Measures one program: processor time and memory over a minute, then scrapes one by one."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.errors import BenchError
from tests.bench.processes import Memory, family_cpu_nanoseconds, memory
from tests.bench.scraping import (
    Answer,
    Client,
    count_series,
    percentile,
    uncompressed_size,
    wait_for_new_snapshot,
)
from tests.bench.subjects import Subject

SETTLE_SECONDS: Final = 12.0  # one links cadence and a little: what is read for the first time has been read
SCRAPE_INTERVAL_SECONDS: Final = 15.0  # a usual scrape interval; its cost is part of the processor time
_MEMORY_INTERVAL_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Measurement:
    """What one program costs.

    Attributes:
        name: The program.
        series: Series that it exports.
        seconds: How long processor time was measured.
        cpu_percent: Processor time of all its processes, percent of one core.
        memory: The most memory that all its processes took together.
        processes: How many these were.
        scrape_seconds: Durations of the scrapes.
        scrape_bytes: Size of a scrape as sent.
        exposition_bytes: Size of a scrape as rendered.
    """

    name: str
    series: int
    seconds: float
    cpu_percent: float
    memory: Memory
    processes: int
    scrape_seconds: tuple[float, ...]
    scrape_bytes: int
    exposition_bytes: int

    @property
    def p50_seconds(self) -> float:
        """Median duration of a scrape."""
        return percentile(self.scrape_seconds, 0.50)

    @property
    def p99_seconds(self) -> float:
        """Duration that 99 of 100 scrapes do not exceed."""
        return percentile(self.scrape_seconds, 0.99)


@dataclass(frozen=True)
class Capture:
    """Two Snapshots after one another that the agent served, for the comparison of renderers."""

    documents: tuple[dict[str, Any], dict[str, Any]]  # Any: JSON documents


def progress(text: str) -> None:
    """Say on standard error what goes on."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def measure(subject: Subject, seconds: float, scrapes: int) -> tuple[Measurement, Capture | None]:
    """Start a program, measure it and end it.

    Args:
        subject: The program.
        seconds: How long to measure processor time.
        scrapes: How many scrapes to time.

    Returns:
        What it costs, and what it served if it is an agent.

    Raises:
        BenchError: It does not start, does not answer, or one of its processes was replaced meanwhile.
    """
    with subject.program:
        client = Client(subject.port)
        progress(f"{subject.name}: starting")
        subject.wait_until_ready(client)
        progress(f"{subject.name}: settling for {SETTLE_SECONDS:.0f} s")
        time.sleep(SETTLE_SECONDS)
        series = count_series(client.exposition())
        progress(f"{subject.name}: {series} series; measuring processor time for {seconds:.0f} s")
        cpu_percent, most, processes = _cpu_and_memory(subject, client, seconds)
        progress(f"{subject.name}: {cpu_percent:.3f} % of a core; {scrapes} scrapes, one a second")
        answers = _scrapes(subject, client, scrapes)
        capture = _capture(client) if subject.numbers_snapshots else None
        client.close()
    measurement = Measurement(
        name=subject.name,
        series=series,
        seconds=seconds,
        cpu_percent=cpu_percent,
        memory=most,
        processes=processes,
        scrape_seconds=tuple(answer.seconds for answer in answers),
        scrape_bytes=len(answers[-1].body),
        exposition_bytes=uncompressed_size(answers[-1]),
    )
    return measurement, capture


def _cpu_and_memory(subject: Subject, client: Client, seconds: float) -> tuple[float, Memory, int]:
    pids = subject.program.pids()
    samples = [memory(pids)]
    start = time.monotonic()
    used = -family_cpu_nanoseconds(pids)
    next_scrape, next_memory = start, start + _MEMORY_INTERVAL_SECONDS
    while time.monotonic() < start + seconds:
        if time.monotonic() >= next_scrape:
            client.scrape()
            next_scrape += SCRAPE_INTERVAL_SECONDS
        if time.monotonic() >= next_memory:
            samples.append(memory(pids))
            next_memory += _MEMORY_INTERVAL_SECONDS
        time.sleep(max(0.0, min(next_scrape, next_memory, start + seconds) - time.monotonic()))
    used += family_cpu_nanoseconds(pids)
    elapsed = time.monotonic() - start
    if subject.program.pids() != pids:
        raise BenchError(
            f"{subject.name} replaced a process while it was measured:\n{subject.program.output()}"
        )
    most = Memory(max(sample.pss for sample in samples), max(sample.alone for sample in samples))
    return used / 1e9 / elapsed * 100, most, len(pids)


def _scrapes(subject: Subject, client: Client, scrapes: int) -> list[Answer]:
    """Time scrapes, each after a new Snapshot where the program numbers them, else one a second."""
    answers = []
    document = client.document() if subject.numbers_snapshots else {}
    held, number = str(document.get("slots_hash", "")), int(document.get("seq", 0))
    client.scrape()
    for _ in range(scrapes):
        if subject.numbers_snapshots:
            number = wait_for_new_snapshot(client, held, number)
        else:
            time.sleep(1.0)
        answers.append(client.scrape())
        subject.program.check_alive()
    return answers


def _capture(client: Client) -> Capture:
    first = client.document()
    wait_for_new_snapshot(client, str(first["slots_hash"]), int(first["seq"]))
    return Capture((first, client.document()))
