"""Measures a rack service: processor time, memory, how well it keeps its polls, and how fast it answers."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.bench.measuring import SCRAPE_INTERVAL_SECONDS, progress
from tests.bench.processes import Memory, family_cpu_nanoseconds, memory
from tests.bench.rack_agents import POLL_SECONDS, Stats
from tests.bench.rack_subject import RackSubject
from tests.bench.scraping import Answer, percentile

SETTLE_SECONDS: Final = 3 * POLL_SECONDS
"""Tables have travelled and connections are open by then."""
HEALTH_INTERVAL_SECONDS: Final = 0.05


@dataclass(frozen=True)
class RackLoad:
    """What a rack service costs with a number of agents.

    Attributes:
        racks: How many racks.
        agents: How many agents.
        series: Series that the agents have together.
        seconds: How long processor time was measured.
        cpu_percent: Processor time of the service, percent of one core.
        stand_in_percent: The same of the process that played the agents.
        memory: Memory of the service at the end.
        polls: What the agents saw meanwhile.
        health_seconds: Durations of `GET /v1/racks/{rack}/health`.
        health_bytes: Size of the largest answer.
        state_age_seconds: How old the state was that each of them told.
        start_seconds: From the start of the service until every node was known.
    """

    racks: int
    agents: int
    series: int
    seconds: float
    cpu_percent: float
    stand_in_percent: float
    memory: Memory
    polls: Stats
    health_seconds: tuple[float, ...]
    health_bytes: int
    state_age_seconds: tuple[float, ...]
    start_seconds: float

    @property
    def poll_milliseconds(self) -> float:
        """Processor time a poll, with all that is made of it: judged, recorded, served."""
        polls = max(1.0, self.polls.polls)
        return self.cpu_percent / 100 * self.seconds / polls * 1e3

    @property
    def health_p50_seconds(self) -> float:
        """Median duration of a health answer."""
        return percentile(self.health_seconds, 0.50)

    @property
    def health_p99_seconds(self) -> float:
        """Duration that 99 of 100 health answers do not exceed."""
        return percentile(self.health_seconds, 0.99)


def measure_racks(command: Path, agents: int, seconds: float, requests: int) -> RackLoad:
    """Start a rack service over played agents, measure it, and end both.

    Args:
        command: The `rackwatt` command.
        agents: How many agents.
        seconds: How long to measure processor time.
        requests: How many health answers to time.

    Raises:
        BenchError: It does not start, does not answer, or loses a node meanwhile.
    """
    with TemporaryDirectory(prefix="rackwatt-bench-") as folder:
        subject = RackSubject(command, agents, Path(folder))
        progress(f"rack service over {agents} agents: starting")
        with subject:
            progress(
                f"all nodes known after {subject.start_seconds:.1f} s; settling for {SETTLE_SECONDS:.0f} s"
            )
            time.sleep(SETTLE_SECONDS)
            subject.check()
            progress(f"measuring processor time for {seconds:.0f} s")
            cpu_percent, stand_in_percent, polls, elapsed = _processor_time(subject, seconds)
            progress(f"{cpu_percent:.1f} % of a core; {requests} health answers, 20 a second")
            answers, ages = _health(subject, requests)
            subject.check()
            return RackLoad(
                racks=len(subject.racks),
                agents=agents,
                series=polls.series,
                seconds=elapsed,
                cpu_percent=cpu_percent,
                stand_in_percent=stand_in_percent,
                memory=memory(subject.service.pids()),
                polls=polls,
                health_seconds=tuple(answer.seconds for answer in answers),
                health_bytes=max(len(answer.body) for answer in answers),
                state_age_seconds=tuple(ages),
                start_seconds=subject.start_seconds,
            )


def _processor_time(subject: RackSubject, seconds: float) -> tuple[float, float, Stats, float]:
    """Measure service and stand-in; a usual Prometheus scrapes meanwhile."""
    families = [subject.service.pids(), subject.stand_in.pids()]
    subject.stats()
    start = time.monotonic()
    used = [-family_cpu_nanoseconds(pids) for pids in families]
    next_scrape = start
    while time.monotonic() < start + seconds:
        if time.monotonic() >= next_scrape:
            subject.client.scrape()
            next_scrape += SCRAPE_INTERVAL_SECONDS
        time.sleep(max(0.0, min(next_scrape, start + seconds) - time.monotonic()))
    polls = subject.stats()
    elapsed = time.monotonic() - start
    service, stand_in = (
        (before + family_cpu_nanoseconds(pids)) / 1e9 / elapsed * 100
        for before, pids in zip(used, families, strict=True)
    )
    return service, stand_in, polls, elapsed


def _health(subject: RackSubject, requests: int) -> tuple[list[Answer], list[float]]:
    """Ask for the health of one rack after another, at a steady pace that no slow answer changes."""
    answers: list[Answer] = []
    ages: list[float] = []
    due = time.monotonic()
    for number in range(requests):
        time.sleep(max(0.0, due - time.monotonic()))
        due += HEALTH_INTERVAL_SECONDS
        rack = subject.racks[number % len(subject.racks)]
        answers.append(subject.client.get(f"/v1/racks/{rack}/health"))
        observed = datetime.fromisoformat(json.loads(answers[-1].body)["observed_at"])
        ages.append(time.time_ns() / 1e9 - observed.timestamp())
    return answers, ages
