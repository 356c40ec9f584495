"""Bounds and tables: what the agent promises, and what was measured, as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, Generic, TypeVar

from collector.sources.serving.feed import PERIOD_SECONDS
from tests.bench.errors import BenchError
from tests.bench.measuring import SCRAPE_INTERVAL_SECONDS, Measurement
from tests.bench.processes import Memory
from tests.bench.rendering import Rendering
from tests.bench.subjects import GPUS, LINKS, PEER

BEGIN: Final = "<!-- bench:begin -->"
END: Final = "<!-- bench:end -->"
MIB: Final = 1024 * 1024


@dataclass(frozen=True)
class Serving:
    """What scraping serving engines adds to the agent.

    Attributes:
        agent: The agent that scrapes them.
        endpoints: How many there are.
        lines: How many lines each of them answers.
    """

    agent: Measurement
    endpoints: int
    lines: int


@dataclass(frozen=True)
class Results:
    """All that a run measured; the parts of peer and engines are missing where they were left out."""

    agent: Measurement
    rendering: Rendering
    peer: Measurement | None
    processor: str
    day: str
    serving: Serving | None = None


Measured = TypeVar("Measured")
"""What a promise is about: the results of one subject."""


@dataclass(frozen=True)
class Bound(Generic[Measured]):
    """A promise.

    Attributes:
        what: What is bounded.
        measured: Takes it from the results.
        limit: The bound.
        is_minimum: Whether the measured value must reach the bound rather than stay within it.
        form: How a value is written, with its unit.
    """

    what: str
    measured: Callable[[Measured], float]
    limit: float
    form: str
    is_minimum: bool = False

    def holds(self, results: Measured) -> bool:
        """Whether the results keep the promise."""
        value = self.measured(results)
        return value >= self.limit if self.is_minimum else value <= self.limit

    def row(self, results: Measured) -> str:
        """The promise and what became of it, as a row of a table."""
        sign = "≥" if self.is_minimum else "≤"
        verdict = "yes" if self.holds(results) else "**no**"
        measured, limit = self.form.format(self.measured(results)), self.form.format(self.limit)
        return f"| {self.what} | {measured} | {sign} {limit} | {verdict} |"

    def complaint(self, results: Measured) -> str:
        """One line that says how far the promise was missed."""
        return (
            f"{self.what}: {self.form.format(self.measured(results))}, bound {self.form.format(self.limit)}"
        )


def most_memory(measurement: Measurement) -> float:
    """The larger of the two ways to count memory, in bytes."""
    return most_memory_of(measurement.memory)


def most_memory_of(memory: Memory) -> float:
    """The larger of the two ways to count memory, in bytes."""
    return float(max(memory))


BOUNDS: Final[tuple[Bound[Results], ...]] = (
    Bound("series in a scrape", lambda r: r.agent.series, 1600, "{:,.0f}", is_minimum=True),
    Bound("processor, agent and reader together", lambda r: r.agent.cpu_percent, 0.7, "{:.2f} % of a core"),
    Bound("memory, all processes", lambda r: most_memory(r.agent) / MIB, 96, "{:.1f} MiB"),
    Bound("scrape after a new Snapshot, p50", lambda r: r.agent.p50_seconds * 1e3, 3, "{:.2f} ms"),
    Bound("scrape after a new Snapshot, p99", lambda r: r.agent.p99_seconds * 1e3, 15, "{:.2f} ms"),
    Bound(
        "rendering faster than `generate_latest`",
        lambda r: r.rendering.ratio,
        10,
        "{:.1f} times",
        is_minimum=True,
    ),
)


def processor_name() -> str:
    """Name of the processor and number of its cores, as /proc/cpuinfo has it."""
    name = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    return f"{name}, {os.cpu_count()} cores"


def today() -> str:
    """The date, for the table."""
    return date.today().isoformat()  # noqa: DTZ011 # a day for people, where they are


def markdown(results: Results) -> str:
    """All tables: what the agent promises, and what it costs beside the other exporter."""
    agent, rendering = results.agent, results.rendering
    parts = [
        f"Over an NVML double that answers at once: {GPUS} GPUs with {LINKS} links each, default cadences, "
        f"one scrape each {SCRAPE_INTERVAL_SECONDS:.0f} s. A driver's own time is not in these figures.",
        "",
        "| | Measured | Bound | Kept |",
        "|---|--:|--:|---|",
        *(bound.row(results) for bound in BOUNDS),
        "",
    ]
    if results.serving is not None:
        parts += [*_with_serving(agent, results.serving), ""]
    if results.peer is not None:
        parts += [*_comparison(agent, results.peer), ""]
    parts.append(
        f"{results.processor}; Python {platform.python_version()}; {results.day}. "
        f"Processor time over {agent.seconds:.0f} s. "
        f"Memory is what the processes take together if nobody else runs Python; "
        f"their PSS sum beside the bench is {agent.memory.pss / MIB:.1f} MiB. "
        f"{len(agent.scrape_seconds)} scrapes, gzip and connection included. "
        f"Rendering: {rendering.series:,} series in {rendering.ours_seconds * 1e3:.2f} ms "
        f"against {rendering.theirs_seconds * 1e3:.2f} ms."
    )
    if results.peer is not None:
        parts[-1] += (
            f" {PEER} exports host and process series besides, and reads no events; a driver would hold it "
            "for 20 ms in each PCIe call, where the double answers at once."
        )
    return "\n".join(parts) + "\n"


def _with_serving(agent: Measurement, serving: Serving) -> list[str]:
    """What the agent costs without and with serving engines."""
    own = serving.agent
    rows: list[tuple[str, float, float, str]] = [
        ("series", agent.series, own.series, "{:,.0f}"),
        ("processor, % of a core", agent.cpu_percent, own.cpu_percent, "{:.2f}"),
        ("memory, MiB", most_memory(agent) / MIB, most_memory(own) / MIB, "{:.1f}"),
        ("scrape p50, ms", agent.p50_seconds * 1e3, own.p50_seconds * 1e3, "{:.2f}"),
    ]
    what = f"{serving.endpoints} vLLM endpoints of {serving.lines:,} lines, every {PERIOD_SECONDS:.0f} s"
    return [
        f"| Reading {what} | added | without | with |",
        "|---|--:|--:|--:|",
        *(
            f"| {name} | **{form.format(after - before)}** | {form.format(before)} | {form.format(after)} |"
            for name, before, after, form in rows
        ),
    ]


def _comparison(agent: Measurement, peer: Measurement) -> list[str]:
    rows: list[tuple[str, float, float, str]] = [
        ("series", agent.series, peer.series, "{:,.0f}"),
        ("processes", agent.processes, peer.processes, "{:.0f}"),
        ("processor, % of a core", agent.cpu_percent, peer.cpu_percent, "{:.2f}"),
        ("processor, µs a second and series", _cpu_per_series(agent), _cpu_per_series(peer), "{:.1f}"),
        ("memory, MiB", most_memory(agent) / MIB, most_memory(peer) / MIB, "{:.1f}"),
        ("memory, KiB a series", _memory_per_series(agent), _memory_per_series(peer), "{:.1f}"),
        ("scrape p50, ms", agent.p50_seconds * 1e3, peer.p50_seconds * 1e3, "{:.2f}"),
        ("scrape p99, ms", agent.p99_seconds * 1e3, peer.p99_seconds * 1e3, "{:.2f}"),
        ("scrape p50, µs a series", _scrape_per_series(agent), _scrape_per_series(peer), "{:.1f}"),
        ("scrape, KiB sent", agent.scrape_bytes / 1024, peer.scrape_bytes / 1024, "{:.1f}"),
    ]
    return [
        f"| Beside {peer.name} | rackwatt ÷ {PEER} | rackwatt | {PEER} |",
        "|---|--:|--:|--:|",
        *(
            f"| {what} | **{ours / theirs:.2f}** | {form.format(ours)} | {form.format(theirs)} |"
            for what, ours, theirs, form in rows
        ),
    ]


def _cpu_per_series(measurement: Measurement) -> float:
    return measurement.cpu_percent / 100 * 1e6 / measurement.series


def _memory_per_series(measurement: Measurement) -> float:
    return most_memory(measurement) / 1024 / measurement.series


def _scrape_per_series(measurement: Measurement) -> float:
    return measurement.p50_seconds * 1e6 / measurement.series


def broken_bounds(results: Results) -> list[str]:
    """One line for each promise that was not kept."""
    return [bound.complaint(results) for bound in BOUNDS if not bound.holds(results)]


def put_between_markers(text: str, tables: str) -> str:
    """Replace what stands between the markers of a document.

    Raises:
        BenchError: The markers are missing, doubled or the wrong way round.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise BenchError(f"{BEGIN} and {END} must each stand once in the document, in this order")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{tables.rstrip()}\n{END}{rest.split(END)[1]}"
