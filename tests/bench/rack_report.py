"""What the rack service promises, and what it costs as racks are added, as Markdown."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.bench.rack_agents import POLL_SECONDS
from tests.bench.rack_documents import TRAYS
from tests.bench.rack_measuring import HEALTH_INTERVAL_SECONDS, RackLoad
from tests.bench.report import MIB, Bound, most_memory_of
from tests.bench.scraping import percentile

GROWTH: Final = (TRAYS, 10 * TRAYS, 1000)
"""Agents of the three loads: one rack, ten, and 55 with ten nodes of one more."""


@dataclass(frozen=True)
class RackResults:
    """All that a run measured of the rack service, by rising load."""

    loads: tuple[RackLoad, ...]
    processor: str
    day: str

    @property
    def most(self) -> RackLoad:
        """The greatest load: the one that is judged."""
        return self.loads[-1]


BOUNDS: Final[tuple[Bound[RackResults], ...]] = (
    Bound("agents of one rack service", lambda r: r.most.agents, 1000, "{:,.0f}", is_minimum=True),
    Bound("`/v1/racks/{rack}/health`, p99", lambda r: r.most.health_p99_seconds * 1e3, 20, "{:.1f} ms"),
    Bound("polls missed", lambda r: r.most.polls.missed, 0, "{:,.0f}"),
    Bound("longest time between two polls", lambda r: r.most.polls.interval_max, 7.5, "{:.2f} s"),
    Bound("processor of the rack service", lambda r: r.most.cpu_percent, 50, "{:.1f} % of a core"),
    Bound("memory of the rack service", lambda r: most_memory_of(r.most.memory) / MIB, 512, "{:.0f} MiB"),
)
"""The p99 is what a scheduler that asks before each placement can bear; half a period late is late; half a
core and 512 MiB leave room beside Prometheus on a small machine."""

Row = tuple[str, Callable[[RackLoad], float], str]

_GROWTH_ROWS: Final[tuple[Row, ...]] = (
    ("series polled", lambda load: load.series, "{:,.0f}"),
    ("processor, % of a core", lambda load: load.cpu_percent, "{:.2f}"),
    ("processor, ms a poll, all included", lambda load: load.poll_milliseconds, "{:.2f}"),
    ("memory, MiB", lambda load: most_memory_of(load.memory) / MIB, "{:.1f}"),
    ("memory, KiB an agent", lambda load: most_memory_of(load.memory) / 1024 / load.agents, "{:.0f}"),
    ("health p50, ms", lambda load: load.health_p50_seconds * 1e3, "{:.2f}"),
    ("health p99, ms", lambda load: load.health_p99_seconds * 1e3, "{:.2f}"),
    ("age of what health tells, p99, s", lambda load: percentile(load.state_age_seconds, 0.99), "{:.2f}"),
    ("time between polls, p99, s", lambda load: load.polls.interval_p99, "{:.3f}"),
    ("from start to all nodes known, s", lambda load: load.start_seconds, "{:.1f}"),
)


def markdown(results: RackResults) -> str:
    """What the rack service promises, and how its cost grows."""
    most = results.most
    parts = [
        f"`rackwatt rack` over played agents of GB300 NVL72 racks, each a host of its own with "
        f"{most.series / most.agents:,.0f} series that change every second, polled each {POLL_SECONDS:.0f} "
        "s; a network's delay is not in these figures.",
        "",
        "| | Measured | Bound | Kept |",
        "|---|--:|--:|---|",
        *(bound.row(results) for bound in BOUNDS),
        "",
        f"| As racks are added | {' | '.join(map(_load_name, results.loads))} | last ÷ first |",
        f"|---|{'--:|' * (len(results.loads) + 1)}",
        *(_growth_row(row, results.loads) for row in _GROWTH_ROWS),
        "",
        f"{results.processor}; Python {platform.python_version()}; {results.day}. "
        f"Processor time over {most.seconds:.0f} s, with a scrape of all rack series each 15 s; then "
        f"{len(most.health_seconds):,} health answers of up to {most.health_bytes / 1024:.1f} KiB to one "
        f"client, one each {HEALTH_INTERVAL_SECONDS * 1e3:.0f} ms, while polling goes on. Every fifth rack "
        f"has a failed link. The process that plays the agents took {most.stand_in_percent:.1f} % of a core "
        "beside it.",
    ]
    return "\n".join(parts) + "\n"


def _load_name(load: RackLoad) -> str:
    return f"{load.agents:,} agents, {load.racks} rack{'s' if load.racks > 1 else ''}"


def _growth_row(row: Row, loads: tuple[RackLoad, ...]) -> str:
    what, measured, form = row
    values = [measured(load) for load in loads]
    ratio = f"{values[-1] / values[0]:.2f}" if values[0] else ""
    return f"| {what} | {' | '.join(form.format(value) for value in values)} | {ratio} |"


def broken_bounds(results: RackResults) -> list[str]:
    """One line for each promise that was not kept."""
    return [bound.complaint(results) for bound in BOUNDS if not bound.holds(results)]
