"""Power of Grace CPUs, from the sensors that Linux shows: for the split of a module's power, beside NVML.

Reading one can take as long as it averages, or hang with the firmware that it asks. So it is done on a
thread, and what hangs costs its own series alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from collector.model import HistogramSample, Series, Value
from collector.sources.host.rounds import Errand, Rounds
from collector.sources.host.sensor_files import (
    HWMON,
    METRICS,
    HwmonTree,
    PowerSensor,
    SensorTree,
    identify,
    read_watts,
)

_logger = logging.getLogger("rackwatt.host")

PERIOD_SECONDS = 5.0
"""How often power is read: chosen, as the endpoints of serving engines are (DESIGN §5)."""
DISCOVERY_SECONDS = 60.0
"""How often it is looked which sensors there are: chosen; the driver can be loaded later, or anew."""
STALE_SECONDS = 3 * PERIOD_SECONDS
"""Values that are older are not shown: chosen."""
SPACING_SECONDS = 0.06
"""Time between the readings of two sensors. The firmware measures for one of a socket's meters each 50 ms at
most; what is asked sooner gets its earlier measurement (edk2-nvidia, `TH500_BPMP_IPC_CALL_INTERVAL_50MS`)."""
PATIENCE_SECONDS = 3.0
"""What takes longer hangs: chosen, three times the longest interval that the firmware averages (edk2-nvidia,
`PWR_METER_MEASUREMENT_SAMPLING_TIME_1SEC`)."""

_LIST, _TELL = "list", "tell"


class Jobs(Protocol):
    """Runs what is due, as `collector.schedule.Schedule` does."""

    def every(
        self,
        name: str,
        seconds: float,
        job: Callable[[], Awaitable[None]],
        *,
        first_after_seconds: float = 0.0,
    ) -> None:
        """Run a job each so many seconds."""

    async def end(self, *names: str) -> None:
        """End jobs."""


class HwmonFeed:
    """Feeds the power of each Grace socket, of its CPU rail and of its SysIO rail.

    A machine without such sensors has no series and says nothing.
    """

    def __init__(
        self,
        jobs: Jobs,
        tree: SensorTree | None = None,
        *,
        name: str = "cpu power",
        spacing_seconds: float = SPACING_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare; nothing is read before `start`.

        Args:
            jobs: Runs the feed's job.
            tree: The sensors; None for those of this machine.
            name: Name of the job.
            spacing_seconds: Time between the readings of two sensors.
            monotonic: Clock in seconds.
            pause: Waits for some seconds, on a thread.
        """
        self._jobs = jobs
        self._tree = HwmonTree() if tree is None else tree
        self._name = name
        self._spacing_seconds = spacing_seconds
        self._monotonic = monotonic
        self._pause = pause
        self._rounds = Rounds(PATIENCE_SECONDS, monotonic)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._discover_at: float | None = None
        self._revision = 0
        self._sensors: tuple[PowerSensor, ...] = ()
        self._readings: dict[PowerSensor, tuple[float, float | None]] = {}
        self._refused = False

    @property
    def revision(self) -> int:
        """Return a number that changes with the series."""
        return self._revision

    def rows(self) -> Iterable[tuple[Series, Value | None]]:
        """Return the power of each sensor; None where it is unknown or too old."""
        oldest = self._monotonic() - STALE_SECONDS
        for sensor in self._sensors:
            read_at, watts = self._readings.get(sensor, (oldest, None))
            yield Series(sensor.metric, (sensor.socket,)), watts if read_at >= oldest else None

    def histograms(self) -> Iterable[HistogramSample]:
        """Return none."""
        return ()

    async def start(self) -> None:
        """Begin to read."""
        self._loop = asyncio.get_running_loop()
        self._jobs.every(self._name, PERIOD_SECONDS, self._turn)

    async def close(self) -> None:
        """Stop reading; what hangs is left behind with its thread."""
        self._loop = None
        self._rounds.stop()
        await self._jobs.end(self._name)

    async def _turn(self) -> None:
        """Begin a round of readings, unless one is under way."""
        discover = self._discover_at is None or self._monotonic() >= self._discover_at
        self._rounds.begin(self._round(self._sensors, discover=discover))

    def _found(self, sensors: tuple[PowerSensor, ...]) -> None:
        """Take what a discovery found."""
        if self._discover_at is None and not sensors:
            _logger.debug("no sensors of a Grace CPU's power here")
        self._discover_at = self._monotonic() + DISCOVERY_SECONDS
        if sensors != self._sensors:
            self._sensors = sensors
            self._revision += 1
            self._readings = {key: value for key, value in self._readings.items() if key in sensors}

    def _take(self, sensor: PowerSensor, read_at: float, watts: float | None) -> None:
        """Take what a sensor answered."""
        if sensor in self._sensors:
            self._readings[sensor] = read_at, watts

    def _refuse(self, file: str) -> None:
        """Say once that something may not be read."""
        if not self._refused:
            self._refused = True
            _logger.warning(
                "%s may not be read: power of the CPU is not known; let the agent's user read it", file
            )

    # On a thread of the rounds.

    def _round(self, known: tuple[PowerSensor, ...], *, discover: bool) -> Iterator[Errand]:
        """Yield what is to be read, each when the one before is done."""
        sensors = {sensor.directory: sensor for sensor in known}
        if discover:
            listings: list[Sequence[str]] = []
            yield _LIST, partial(self._list, listings)
            for directories in listings:
                for directory in sensors.keys() - directories:
                    del sensors[directory]
                # One that hangs stays what it was.
                for directory in directories:
                    yield directory, partial(self._identify, directory, sensors)
            # As an errand, so that a round that was left behind does not tell what it found long ago.
            yield _TELL, partial(self._post, partial(self._found, one_of_each(sensors.values())))
        for sensor in one_of_each(sensors.values()):
            yield sensor.directory, partial(self._read, sensor)

    def _list(self, listings: list[Sequence[str]]) -> None:
        with self._forgiving(str(HWMON)):
            listings.append(self._tree.directories())

    def _identify(self, directory: str, sensors: dict[str, PowerSensor]) -> None:
        with self._forgiving(directory):
            sensor = identify(self._tree, directory)
            if sensor is None:
                sensors.pop(directory, None)
            else:
                sensors[directory] = sensor

    def _read(self, sensor: PowerSensor) -> None:
        self._pause(self._spacing_seconds)
        # The beginning: what took long may have been measured at any time since.
        read_at = self._monotonic()
        watts = None
        with self._forgiving(sensor.directory):
            watts = read_watts(self._tree, sensor)
        self._post(partial(self._take, sensor, read_at, watts))

    @contextlib.contextmanager
    def _forgiving(self, what: str) -> Iterator[None]:
        """Let a failure to read be; where permission is missing, have it said."""
        try:
            yield
        except PermissionError as error:
            self._post(partial(self._refuse, str(error.filename or what)))
        except OSError as error:
            _logger.debug("%s cannot be read: %s", what, error)

    def _post(self, call: Callable[[], None]) -> None:
        """Have something done on the event loop; after the end of the feed nothing is."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call)


def one_of_each(sensors: Iterable[PowerSensor]) -> tuple[PowerSensor, ...]:
    """Put sensors in the order of the catalogue and of their sockets; of two of the same the first counts."""
    chosen: dict[tuple[str, str], PowerSensor] = {}
    for sensor in sorted(sensors, key=_order):
        chosen.setdefault((sensor.metric.name, sensor.socket), sensor)
    return tuple(chosen.values())


def _order(sensor: PowerSensor) -> tuple[int, int, int, str]:
    return METRICS.index(sensor.metric), int(sensor.socket), len(sensor.directory), sensor.directory
