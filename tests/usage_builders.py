"""A rack that takes energy and serves tokens, told what happens to it, with its account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from collector import catalog
from collector.efficiency.account import UsageAccount
from collector.efficiency.rollup import Rollup, decode, merge
from collector.efficiency.shelf import ShelfReading
from collector.health.ledger_usage import StoredRollup
from collector.health.rack_types import Poll
from collector.health.samples import NO_SAMPLES, Samples, SampleTable
from collector.model import HistogramSample, Value
from tests.rack_builders import SECOND, T0, make_view

Series = tuple[str, tuple[str, ...]]
"""Name of a metric without prefix, and label values."""


@lru_cache(maxsize=256)
def table(series: tuple[Series, ...]) -> SampleTable:
    return SampleTable([catalog.BY_NAME[name] for name, _ in series], [labels for _, labels in series])


def samples(values: Mapping[Series, Value | None]) -> Samples:
    return Samples(table(tuple(values)), tuple(values.values()))


def histogram(
    name: str, labels: tuple[str, ...], bounds: Iterable[float], counts: Iterable[float], total: float
) -> HistogramSample:
    return HistogramSample(catalog.BY_NAME[name], labels, tuple(bounds), tuple(counts), total)


@dataclass(slots=True)
class FakeEndpoint:
    """A serving endpoint: what it makes in a second, and what it has made."""

    name: str = "decode-0"
    engine: str = "vllm"
    model: str = "r1"
    role: str = "engine"
    gpus: tuple[str, ...] = ()
    up: bool = True
    at_finish: bool = False
    prompt_rate: float = 0.0
    generation_rate: float = 0.0
    prompt: float = 0.0
    generation: float = 0.0
    running: float | None = None
    waiting: float = 0.0
    request_counts: tuple[float, ...] | None = None
    request_sum: float = 0.0

    def go_on(self, seconds: float) -> None:
        self.prompt += self.prompt_rate * seconds
        self.generation += self.generation_rate * seconds

    def restart(self) -> None:
        self.prompt = self.generation = 0.0

    def values(self) -> dict[Series, Value | None]:
        own = (self.name, self.engine, self.role)
        found: dict[Series, Value | None] = {("llm_up", own): int(self.up)}
        found |= {("llm_gpu_info", (*own, gpu)): 1 for gpu in self.gpus}
        if self.up:
            labels = (self.name, self.engine, self.model, self.role)
            running = self.running
            if running is None:
                running = 1.0 if self.generation_rate or self.prompt_rate else 0.0
            found |= {
                ("llm_tokens_at_finish", own): int(self.at_finish),
                ("llm_tokens_total", (*labels, "prompt")): self.prompt,
                ("llm_tokens_total", (*labels, "generation")): self.generation,
                ("llm_requests_running", labels): running,
                ("llm_requests_waiting", labels): self.waiting,
            }
        return found

    def histograms(self) -> tuple[HistogramSample, ...]:
        if not self.up or self.request_counts is None:
            return ()
        labels = (self.name, self.engine, self.model, self.role)
        return (
            histogram(
                "llm_request_duration_seconds", labels, (1.0, 10.0), self.request_counts, self.request_sum
            ),
        )


@dataclass(slots=True)
class FakeNode:
    """A node with GPUs of a constant power and endpoints."""

    name: str
    gpu_watts: float = 1000.0
    gpus: int = 2
    module_watts: float | None = None
    cpu_watts: float | None = None
    counted: bool = True
    endpoints: list[FakeEndpoint] = field(default_factory=list)
    answers: bool = True
    sequence: int = 0
    clock_ahead_ns: int = 0
    joules: dict[int, float] = field(default_factory=dict)
    module_joules: float = 5e5

    def go_on(self, seconds: float) -> None:
        for gpu in range(self.gpus):
            self.joules[gpu] = self.joules.get(gpu, 1e6) + self.gpu_watts * seconds
        if self.module_watts is not None:
            self.module_joules += self.module_watts * seconds
        for own in self.endpoints:
            own.go_on(seconds)

    def uuid(self, gpu: int) -> str:
        return f"GPU-{self.name}-{gpu}"

    def values(self) -> dict[Series, Value | None]:
        found: dict[Series, Value | None] = {}
        for gpu in range(self.gpus):
            labels = (str(gpu), self.uuid(gpu))
            found["gpu_power_watts", labels] = self.gpu_watts
            if self.counted:
                found["gpu_energy_joules_total", labels] = self.joules.get(gpu, 1e6)
        if self.module_watts is not None:
            found["module_power_watts", (f"M-{self.name}",)] = self.module_watts
            found["module_energy_joules_total", (f"M-{self.name}",)] = self.module_joules
        if self.cpu_watts is not None:
            found["cpu_power_watts", ("0",)] = self.cpu_watts
        for own in self.endpoints:
            found |= own.values()
        return found

    def poll(self, now_ns: int, *, fresh: bool = True) -> Poll:
        if fresh:
            self.sequence += 1
        taken_ns = now_ns + self.clock_ahead_ns
        view = make_view(self.name, gpus=0, sequence=self.sequence, observed_ns=taken_ns)
        if not self.answers:
            return Poll(
                self.name, f"{self.name}:10072", view=view, error="connection timed out", samples=NO_SAMPLES
            )
        return Poll(
            self.name,
            f"{self.name}:10072",
            view=view,
            last_good_ns=now_ns,
            samples=samples(self.values()),
            histograms=tuple(one for own in self.endpoints for one in own.histograms()),
        )


@dataclass(slots=True)
class UsageRack:
    """A rack, its account, and what the account told so far; `step` polls every node once."""

    nodes: list[FakeNode]
    shelf_watts: dict[str, float] = field(default_factory=dict)
    modules_per_node: int | None = 0
    gpus_expected: int | None = None
    gap_seconds: float = 60.0
    now_ns: int = T0
    memory: dict[str, object] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    rows: dict[tuple[int, int], StoredRollup] = field(default_factory=dict)
    silent_shelves: set[str] = field(default_factory=set)
    readings: dict[str, ShelfReading] = field(default_factory=dict)
    account: UsageAccount = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start a service that takes up what the one before left."""
        self.account = UsageAccount(
            "r01",
            shelves=tuple(self.shelf_watts),
            modules_per_node=self.modules_per_node,
            memory=self.memory,
            rollups=tuple(self.rows.values()),
            maximum_gap_seconds=self.gap_seconds,
        )

    def go_on(self, seconds: float) -> None:
        """Let time pass without a look."""
        self.now_ns += round(seconds * SECOND)
        for node in self.nodes:
            node.go_on(seconds)

    def look(self) -> None:
        for shelf, watts in self.shelf_watts.items():
            if shelf not in self.silent_shelves:
                self.readings[shelf] = ShelfReading(shelf, self.now_ns, watts, "")
        self.account.observe(
            [node.poll(self.now_ns) for node in self.nodes],
            tuple(self.readings.values()),
            now_ns=self.now_ns,
            gpus_expected=self.gpus_expected,
        )
        self.take()

    def take(self) -> None:
        update = self.account.take()
        assert all(amount >= 0 for amount in update.counters.values())
        self.counters.update(update.counters)
        self.rows.update(((own.length_seconds, own.starts_ns), own) for own in update.rollups)

    def step(self, seconds: float = 5.0) -> None:
        self.go_on(seconds)
        self.look()

    def run(self, seconds: float, step: float = 5.0) -> None:
        for _ in range(round(seconds / step)):
            self.step(step)

    def restart(self, away_seconds: float = 0.0) -> None:
        self.memory = self.account.export()
        if away_seconds:
            self.go_on(away_seconds)
        self.begin()

    def rollup(self, length_seconds: int = 60) -> Rollup:
        """Return the sum of all minutes, or of all hours."""
        return merge(
            decode(own.data) for (length, _), own in sorted(self.rows.items()) if length == length_seconds
        )

    def joules(self, domain: str = "gpu") -> float:
        return self.counters[f"energy_mj:{domain}"] / 1000


def two_engines() -> UsageRack:
    """Two nodes of two GPUs at 1 kW each, an engine on each node that makes 5,000 tokens/s together."""
    nodes = [
        FakeNode(name, endpoints=[FakeEndpoint(gpus=("0", "1"), generation_rate=2500.0)])
        for name in ("n01", "n02")
    ]
    return UsageRack(nodes, gpus_expected=4)
