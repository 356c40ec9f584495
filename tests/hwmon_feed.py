"""A feed of CPU power over sensors that a test makes, on a clock that it drives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from collector.model import Value
from collector.sources.host.hwmon import HwmonFeed
from collector.sources.host.sensor_files import SensorTree

# Only bounds how long a failing test takes.
DEADLINE_SECONDS = 20.0

Job = Callable[[], Awaitable[None]]


class Jobs:
    """Keeps the jobs that a feed asks for, and runs them when a test says so.

    Attributes:
        jobs: Period and job by name.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[float, Job]] = {}

    def every(self, name: str, seconds: float, job: Job, *, first_after_seconds: float = 0.0) -> None:
        """Keep a job."""
        self.jobs[name] = seconds, job

    async def end(self, *names: str) -> None:
        """Forget jobs."""
        for name in names:
            self.jobs.pop(name, None)

    async def run(self) -> None:
        """Run every job once."""
        for _, job in self.jobs.values():
            await job()


class FeedWatch:
    """A feed, its clock and its jobs.

    Attributes:
        feed: The feed.
        jobs: Its jobs.
        now: Its clock.
    """

    def __init__(self, tree: SensorTree) -> None:
        self.now = 1000.0
        self.jobs = Jobs()
        self.feed = HwmonFeed(self.jobs, tree, spacing_seconds=0.0, monotonic=lambda: self.now)

    async def run(self, until: Callable[[], bool], seconds: float = 0.0) -> None:
        """Move the clock, run the jobs once, and wait for what comes of it.

        What was asked for before is over first, unless it hangs: a thread that has told its last may not have
        ended yet, and a round beside it would leave out what it still holds.
        """
        for _ in range(250):
            if self.feed._rounds._running:
                await asyncio.sleep(0.002)
        self.now += seconds
        await self.jobs.run()
        await eventually(until)

    def values(self) -> dict[tuple[str, str], Value | None]:
        """Return the values by metric and socket."""
        return {(series.metric.name, series.labels[0]): value for series, value in self.feed.rows()}


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something is the case."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.002)


def power_meter(root: Path, number: int, info: str, microwatts: int | str, *, moved: bool = False) -> Path:
    """Make the files of a power meter, where they stand before or after Linux moved them.

    Returns:
        The file with the power.
    """
    directory = root / f"hwmon{number}"
    place = directory if moved else directory / "device"
    place.mkdir(parents=True)
    (place / "name").write_text("power_meter\n")
    (place / "power1_oem_info").write_text(f"{info}\n")
    (place / "power1_average_interval").write_text("50\n")
    power = place / "power1_average"
    power.write_text(f"{microwatts}\n")
    return power
