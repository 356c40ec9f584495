"""A reader over an NVML library on a clock that tests drive, and everything that it delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from collector import profiles
from collector.model import Value
from collector.readings import Incident, Layout, Reading, SeriesKey
from collector.simulator import Fault, SimulatedNode
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from collector.sources.nvml.reader import NvmlReader

WALL_NS = 1_764_505_200_000_000_000  # 2025-11-30T12:20:00Z
START = 1000.0
HINTS = {
    "NVIDIA GB300": PlatformHint("gb300-nvl72", 4),
    "NVIDIA GB200": PlatformHint("gb200-nvl72", 4),
    "NVIDIA B200": PlatformHint("hgx-b200", 8),
    "NVIDIA H200": PlatformHint("hgx-h200", 8),
    "NVIDIA H100 80GB HBM3": PlatformHint("hgx-h100", 8),
}
"""Product names: `nvidia-smi -q -x` captures, see the profiles."""


class Clock:
    """Monotonic seconds that move when a test says so; calling it reads it."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def wall_ns(self) -> int:
        """Unix time that goes with it."""
        return WALL_NS + round((self.now - START) * 1e9)

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.now += seconds


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the library."""

    at: float
    name: str
    arguments: tuple[object, ...]


class Recorder:
    """A library that notes every call before it passes it on, or answers as a test says.

    Attributes:
        calls: The calls so far.
        answers: Return codes by function name, which keep a call from the library.
        before: What happens before a call, by function name.
    """

    def __init__(self, raw: object, clock: Callable[[], float]) -> None:
        self._raw = raw
        self._clock = clock
        self.calls: list[Call] = []
        self.answers: dict[str, int] = {}
        self.before: dict[str, Callable[[], None]] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        function: Callable[..., int] = getattr(self._raw, name)

        def call(*arguments: object) -> int:
            self.calls.append(Call(self._clock(), name, arguments))
            if name in self.before:
                self.before[name]()
            code = self.answers.get(name)
            return function(*arguments) if code is None else code

        return call

    def named(self, name: str) -> list[Call]:
        """List the calls of a function."""
        return [call for call in self.calls if call.name == name]


class Watch:
    """A reader that is stepped, with the newest value of every series.

    Attributes:
        reader: The reader.
        clock: Its clock.
        layouts: Every Layout.
        readings: Every Reading.
        values: Newest values by series; empty while NVML is not read.
        times: When each block's cadence and first series were read.
        incidents: All of them.
        errors: Sum of all readings' errors.
    """

    def __init__(self, reader: NvmlReader, clock: Clock) -> None:
        self.reader = reader
        self.clock = clock
        self.layouts: list[Layout] = []
        self.readings: list[Reading] = []
        self.values: dict[SeriesKey, Value | None] = {}
        self.times: dict[tuple[str, SeriesKey], list[float]] = {}
        self.incidents: list[Incident] = []
        self.errors: Counter[str] = Counter()

    @property
    def layout(self) -> Layout:
        """Return the newest Layout."""
        return self.layouts[-1]

    @property
    def reading(self) -> Reading:
        """Return the newest Reading."""
        return self.readings[-1]

    def is_up(self) -> bool:
        """Tell whether NVML was read by the last step."""
        return self.reading.up

    def step(self, seconds: float = 1.0) -> Reading:
        """Move the clock on, step once, and take what comes."""
        self.clock.advance(seconds)
        for message in self.reader.step(self.clock.now):
            if isinstance(message, Layout):
                self.layouts.append(message)
                self.values = {series: None for block in message.blocks for series in block.series}
            else:
                self._take(message)
        return self.reading

    def run(self, seconds: int) -> None:
        """Step once a second."""
        for _ in range(seconds):
            self.step()

    def _take(self, reading: Reading) -> None:
        self.readings.append(reading)
        self.incidents += reading.incidents
        self.errors.update(reading.errors)
        if not reading.up:
            assert reading.generation == 0
            assert reading.batches == ()
            self.values.clear()
            return
        assert reading.generation == self.layout.generation
        for batch in reading.batches:
            block = self.layout.blocks[batch.block]
            self.values |= dict(zip(block.series, batch.values, strict=True))
            self.times.setdefault((block.cadence, block.series[0]), []).append(self.clock.now)

    def value(self, name: str, *labels: str) -> Value | None:
        """Return the newest value of a series that the layout has; raises KeyError if it has not."""
        return self.values[name, labels]

    def has(self, name: str, *labels: str) -> bool:
        """Tell whether the layout has series whose labels begin so."""
        return any(key == name and own[: len(labels)] == labels for key, own in self.values)

    def named(self, name: str) -> dict[tuple[str, ...], Value | None]:
        """Return a metric's series: labels to newest value."""
        return {labels: value for (key, labels), value in self.values.items() if key == name}


class NodeWatch(Watch):
    """A reader over a simulated node.

    Attributes:
        node: The node.
        recorder: Its library, with every call noted.
    """

    def __init__(self, node: SimulatedNode, clock: Clock, options: ReaderOptions) -> None:
        self.node = node
        self.recorder = Recorder(node.library, clock)
        reader = NvmlReader(
            lambda: NvmlLibrary(self.recorder), options, monotonic=clock, wall_ns=clock.wall_ns
        )
        super().__init__(reader, clock)

    def labels(self, gpu: int) -> tuple[str, str]:
        """Return the labels of a GPU by the index that it has in a complete node."""
        return str(gpu), self.node.gpus[gpu].uuid

    def gpu(self, name: str, gpu: int, *labels: str) -> Value | None:
        """Return the newest value of a GPU's series."""
        return self.value(name, *self.labels(gpu), *labels)

    def active(self, name: str, gpu: int) -> list[str]:
        """Return the labels of a GPU's states that are 1; each of its states must be known."""
        found = {key: value for key, value in self.named(name).items() if key[:2] == self.labels(gpu)}
        assert None not in found.values()
        return [labels[2] for labels, value in found.items() if value]

    def texts(self, gpu: int) -> dict[str, str]:
        """Return a GPU's identity, as the layout has it."""
        return next(each.texts for each in self.layout.gpus if each.uuid == self.node.gpus[gpu].uuid)

    def field_calls(self) -> list[list[tuple[int, int]]]:
        """List the fields and scopes of each call for field values."""
        calls = self.recorder.named("nvmlDeviceGetFieldValues")
        arrays: list[Any] = [call.arguments[2] for call in calls]
        return [[(entry.fieldId, entry.scopeId) for entry in array] for array in arrays]


def watch(
    platform: str,
    *,
    workload: str = "idle",
    faults: Iterable[Fault] = (),
    driver: str | None = None,
    tray: int = 0,
    seed: int = 7,
    options: ReaderOptions | None = None,
) -> NodeWatch:
    """Make a reader over a simulated node of a platform; nothing is read yet."""
    clock = Clock()
    node = SimulatedNode(
        profiles.load(platform),
        tray=tray,
        seed=seed,
        workload=workload,
        faults=faults,
        clock=clock,
        sleep=clock.advance,
        driver_version=driver,
        wall_clock_ns=clock.wall_ns,
    )
    return NodeWatch(node, clock, options or ReaderOptions(platforms=HINTS))
