"""What an agent reads beside the GPUs, read when somebody turns the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from collector.catalog.spec import Level
from collector.model import HistogramSample, Series, Value
from collector.simulator.hwmon import SimulatedSensors
from collector.simulator.serving import SimulatedEngine
from collector.sources.host.sensor_files import PowerSensor, identify, read_watts
from collector.sources.serving.endpoint import ScrapeError, ServingEndpoint
from collector.sources.serving.normalize import Normalizer
from collector.sources.serving.watched import Watched

_FRESH_PERIODS = 3.0
"""A good scrape holds for so many of its periods, as in `collector.sources.serving.feed`."""
_CPU_METRICS = ("cpu_power_watts", "cpu_cores_power_watts", "cpu_sysio_power_watts")
"""What sensors of CPUs bring, in the catalogue's order."""


class EngineFeed:
    """A serving engine."""

    def __init__(self, engine: SimulatedEngine, clock: Callable[[], float], period_seconds: float) -> None:
        endpoint = ServingEndpoint(name="decode-0", url="http://127.0.0.1:1/metrics", gpus=engine.gpus)
        self._engine = engine
        self._clock = clock
        self._watched = Watched(
            endpoint,
            Normalizer(endpoint),
            level=Level.STANDARD,
            fresh_seconds=_FRESH_PERIODS * period_seconds,
        )

    @property
    def revision(self) -> int:
        """As the protocol has it."""
        return self._watched.revision

    def rows(self) -> Iterable[tuple[Series, Value | None]]:
        """As the protocol has it."""
        return self._watched.rows(self._clock())

    def histograms(self) -> Iterable[HistogramSample]:
        """As the protocol has it."""
        return self._watched.histograms(self._clock())

    async def start(self) -> None:
        """Never called: no agent runs."""
        raise NotImplementedError

    async def close(self) -> None:
        """Never called: no agent runs."""
        raise NotImplementedError

    def read(self) -> None:
        """Scrape the engine."""
        # A scrape over loopback takes about so long; nothing is measured here.
        self._watched.scrape_seconds = 0.002
        text = self._engine.text()
        if text is None:
            self._watched.fail(ScrapeError("connection", "nobody listens"))
        else:
            self._watched.take(self._watched.reader.read(text.encode()), self._clock())


class SensorFeed:
    """The power sensors of a node's Grace CPUs."""

    def __init__(self, tree: SimulatedSensors) -> None:
        self.revision = 1
        found = (identify(tree, directory) for directory in tree.directories())
        self._tree = tree
        self._watts: dict[PowerSensor, float | None] = {each: None for each in found if each is not None}

    def rows(self) -> Iterable[tuple[Series, Value | None]]:
        """As the protocol has it."""
        rows = [(Series(each.metric, (each.socket,)), watts) for each, watts in self._watts.items()]
        return sorted(rows, key=lambda row: (_CPU_METRICS.index(row[0].metric.name), row[0].labels))

    def histograms(self) -> Iterable[HistogramSample]:
        """As the protocol has it."""
        return ()

    async def start(self) -> None:
        """Never called: no agent runs."""
        raise NotImplementedError

    async def close(self) -> None:
        """Never called: no agent runs."""
        raise NotImplementedError

    def read(self) -> None:
        """Read the sensors."""
        self._watts = {each: read_watts(self._tree, each) for each in self._watts}
