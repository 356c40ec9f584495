"""One simulated GPU: the truth for tests, what tests may pin, and the figures that NVML reads off it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from collector.profiles import Profile
from collector.simulator.codes import Return, ValueType
from collector.simulator.driver import Driver
from collector.simulator.identity import GpuIdentity, NodeIdentity
from collector.simulator.physics import GpuPhysics
from collector.simulator.timekeeper import TICK_SECONDS, Timekeeper
from collector.simulator.timeline import Timeline
from collector.simulator.workloads import Workload

# A superchip under load draws more than its GPUs: Grace takes 98 to 109 W a socket in disaggregated
# serving (NVIDIA/srt-slurm pull request 481) and about half of that at idle: chosen.
MODULE_LOAD_WATTS = 45.0
# Links differ a little in what they carry, and before the start they carried something: chosen.
_LINK_WEIGHT_RANGE = (0.97, 1.03)
_EARLIER_BYTES_RANGE = (1e12, 1e14)


@dataclass(frozen=True, slots=True)
class Pin:
    """A field value set by a test.

    Attributes:
        raw: What is written to the union, or None to leave it alone.
        code: The field's own return code.
        value_type: How it is stored; None takes the field's own type.
    """

    raw: float | None
    code: int
    value_type: ValueType | None


class SimulatedGpu:
    """One GPU.

    Args:
        profile: The platform.
        node: The node's identity.
        identity: The GPU's identity.
        driver: The driver.
        workload: What the GPU does.
        timeline: The node's faults.
        timekeeper: The node's time.
        physics: The GPU's moving state.
        seed: Seed of what is fixed about its links.

    Attributes:
        profile: The platform.
        node: The node's identity.
        identity: The GPU's identity.
        driver: The driver.
        workload: What the GPU does.
        timeline: The node's faults.
        timekeeper: The node's time.
        physics: The GPU's moving state.
        module_gpus: The GPUs of its module, itself among them; empty without modules.
        field_pins: Pinned fields by (field id, scope id).
        return_pins: Pinned return codes by function name.
    """

    def __init__(
        self,
        *,
        profile: Profile,
        node: NodeIdentity,
        identity: GpuIdentity,
        driver: Driver,
        workload: Workload,
        timeline: Timeline,
        timekeeper: Timekeeper,
        physics: GpuPhysics,
        seed: str,
    ) -> None:
        self.profile = profile
        self.node = node
        self.identity = identity
        self.driver = driver
        self.workload = workload
        self.timeline = timeline
        self.timekeeper = timekeeper
        self.physics = physics
        self.module_gpus: tuple[SimulatedGpu, ...] = ()
        self.field_pins: dict[tuple[int, int], Pin] = {}
        self.return_pins: dict[str, int] = {}
        draw = random.Random(seed)
        links = range(profile.nvlink.links_per_gpu)
        nominal = profile.nvlink.nominal_bytes_per_second
        self._transmit_rates = [
            nominal * workload.nvlink_transmit_share * draw.uniform(*_LINK_WEIGHT_RANGE) for _ in links
        ]
        self._receive_rates = [
            nominal * workload.nvlink_receive_share * draw.uniform(*_LINK_WEIGHT_RANGE) for _ in links
        ]
        self._transmitted_before = [int(draw.uniform(*_EARLIER_BYTES_RANGE)) for _ in links]
        self._received_before = [int(draw.uniform(*_EARLIER_BYTES_RANGE)) for _ in links]

    # What tests pin.

    def pin_field(
        self,
        field_id: int,
        scope_id: int,
        raw: float | None,
        *,
        code: int = Return.SUCCESS,
        value_type: ValueType | None = None,
    ) -> None:
        """Make a field read as a test wants it, in the field's own unit.

        Args:
            field_id: NVML field id.
            scope_id: Its scope: a link, a power scope, or 0.
            raw: Raw value, such as 1000 for 1000 KiB of field 138; None writes none.
            code: Return code of the field.
            value_type: Type to report and store; by default the field's own.
        """
        self.field_pins[field_id, scope_id] = Pin(raw, code, value_type)

    def unpin_field(self, field_id: int, scope_id: int) -> None:
        """Let a field read the simulation again."""
        self.field_pins.pop((field_id, scope_id), None)

    def pin_return(self, function: str, code: int) -> None:
        """Make a function of this GPU return a code and write nothing.

        Args:
            function: Name of the C function.
            code: The return code.
        """
        self.return_pins[function] = code

    def unpin_return(self, function: str) -> None:
        """Let a function answer again."""
        self.return_pins.pop(function, None)

    def pin_power(self, milliwatts: int) -> None:
        """Make both power readings of the GPU, fields 185 and 186 of scope 0, read as given.

        Args:
            milliwatts: The reading; energy and `nvmlDeviceGetPowerUsage` keep to the simulation.
        """
        self.pin_field(185, 0, milliwatts)
        self.pin_field(186, 0, milliwatts)

    # The truth, for tests, at a reading of the node's clock.

    @property
    def index(self) -> int:
        """Index with all GPUs present."""
        return self.identity.index

    @property
    def uuid(self) -> str:
        """NVML UUID."""
        return self.identity.uuid

    def _move(self, now: float) -> None:
        self.timekeeper.move_to(now)
        self.sync()

    def energy_joules(self, now: float) -> float:
        """Return the energy since the counters began."""
        with self.timekeeper.lock:
            self._move(now)
            return self.energy

    def power_watts(self, now: float) -> float:
        """Return the power at an instant."""
        with self.timekeeper.lock:
            self._move(now)
            return self.physics.watts

    def load_ratio(self, now: float) -> float:
        """Return the load at an instant, from 0 to 1."""
        with self.timekeeper.lock:
            self._move(now)
            return self.physics.load

    def load_seconds(self, now: float) -> float:
        """Return the integral of the load since the node's start."""
        with self.timekeeper.lock:
            self._move(now)
            return self.physics.load_seconds_at(self.timekeeper.offset_seconds)

    def temperature_celsius(self, now: float) -> float:
        """Return the GPU temperature at an instant."""
        with self.timekeeper.lock:
            self._move(now)
            return self.physics.celsius

    def nvlink_transmitted_bytes(self, now: float, link: int | None = None) -> int:
        """Return the bytes transmitted since the counters began, of one link or of all."""
        with self.timekeeper.lock:
            self._move(now)
            return self.total_transmitted_bytes if link is None else self.transmitted_bytes(link)

    def nvlink_received_bytes(self, now: float, link: int | None = None) -> int:
        """Return the bytes received since the counters began, of one link or of all."""
        with self.timekeeper.lock:
            self._move(now)
            return self.total_received_bytes if link is None else self.received_bytes(link)

    def module_energy_joules(self, now: float) -> float:
        """Return the energy of the GPU's module since the driver was loaded; 0 without a module."""
        with self.timekeeper.lock:
            self._move(now)
            return self.module_energy

    # What NVML reads, at the timekeeper's moment. The caller holds the lock and has called sync().

    def sync(self) -> None:
        """Bring this GPU, and those of its module, to the timekeeper's tick."""
        tick = self.timekeeper.tick
        for gpu in self.module_gpus or (self,):
            if gpu.physics.tick != tick:
                gpu.physics.advance(tick)

    @property
    def energy(self) -> float:
        """Joules since the counters began."""
        return self.physics.joules_at(self.timekeeper.offset_seconds) - self.physics.base_joules

    @property
    def mean_watts(self) -> float:
        """Mean power of the last second."""
        return self.physics.mean_watts_at(self.timekeeper.offset_seconds)

    @property
    def mean_load(self) -> float:
        """Mean load of the last second."""
        return self.physics.mean_load_at(self.timekeeper.offset_seconds)

    @property
    def engine_load_seconds(self) -> float:
        """Integral of the load since the serving engine began, or since the node's start if that is later."""
        physics = self.physics
        return physics.load_seconds_at(self.timekeeper.offset_seconds) - physics.engine_base_load_seconds

    @property
    def mean_memory_watts(self) -> float:
        """Mean memory power of the last second."""
        return self.physics.mean_memory_watts_at(self.timekeeper.offset_seconds)

    @property
    def _module_base_watts(self) -> float:
        """Power of the module's other parts at idle."""
        module = self.profile.module
        return module.idle_watts - module.gpus * self.profile.gpu.idle_watts if module else 0.0

    @property
    def module_mean_watts(self) -> float:
        """Mean power of the module over the last second."""
        gpus = self.module_gpus
        load = sum(gpu.mean_load for gpu in gpus) / len(gpus)
        return sum(gpu.mean_watts for gpu in gpus) + self._module_base_watts + MODULE_LOAD_WATTS * load

    @property
    def module_watts(self) -> float:
        """Power of the module now."""
        gpus = self.module_gpus
        load = sum(gpu.physics.load for gpu in gpus) / len(gpus)
        return sum(gpu.physics.watts for gpu in gpus) + self._module_base_watts + MODULE_LOAD_WATTS * load

    @property
    def module_energy(self) -> float:
        """Joules of the module since the driver was loaded."""
        gpus = self.module_gpus
        if not gpus:
            return 0.0
        offset = self.timekeeper.offset_seconds
        first = gpus[0].physics
        seconds = self.timekeeper.elapsed_seconds - first.driver_base_tick * TICK_SECONDS
        joules = sum(gpu.physics.joules_at(offset) - gpu.physics.driver_base_joules for gpu in gpus)
        load_seconds = sum(
            gpu.physics.load_seconds_at(offset) - gpu.physics.driver_base_load_seconds for gpu in gpus
        )
        return joules + self._module_base_watts * seconds + MODULE_LOAD_WATTS * load_seconds / len(gpus)

    @property
    def celsius(self) -> int:
        """GPU temperature in whole degrees, as the sensor reads."""
        return round(self.physics.celsius)

    @property
    def margin_celsius(self) -> int:
        """T.limit margin in whole degrees."""
        return self.profile.gpu.temperature_limit_sum_celsius - self.celsius

    @property
    def thermal_slowdown_ns(self) -> int:
        """Time in thermal slowdown since the counters began."""
        elapsed = self.timekeeper.elapsed_seconds
        seconds = self.timeline.overheated_seconds(self.index, self.physics.base_tick, elapsed)
        return round(seconds * 1_000_000_000)

    @property
    def memory_used_bytes(self) -> int:
        """Memory allocated to processes, in whole 2 MiB pages."""
        gpu = self.profile.gpu
        usable = gpu.memory_total_bytes - gpu.memory_reserved_bytes
        return int(usable * self.workload.memory_used_share) // 2**21 * 2**21

    def transmitted_bytes(self, link: int) -> int:
        """Bytes that a link has transmitted since the counters began."""
        carried = self.physics.link_load_seconds_at(link, self.timekeeper.offset_seconds)
        before = 0 if self.physics.restarted else self._transmitted_before[link]
        return before + int(carried * self._transmit_rates[link])

    def received_bytes(self, link: int) -> int:
        """Bytes that a link has received since the counters began."""
        carried = self.physics.link_load_seconds_at(link, self.timekeeper.offset_seconds)
        before = 0 if self.physics.restarted else self._received_before[link]
        return before + int(carried * self._receive_rates[link])

    @property
    def total_transmitted_bytes(self) -> int:
        """Bytes transmitted by all links; one that is down keeps what it had."""
        return sum(map(self.transmitted_bytes, range(len(self._transmit_rates))))

    @property
    def total_received_bytes(self) -> int:
        """Bytes received by all links; one that is down keeps what it had."""
        return sum(map(self.received_bytes, range(len(self._receive_rates))))

    def link_failures(self, link: int) -> int:
        """Failed recoveries of a link since the counters began."""
        return self.timeline.link_failures(self.index, link, self.physics.base_tick, self.timekeeper.tick)

    @property
    def memory_errors(self) -> int:
        """Uncorrectable memory errors since the counters began."""
        return self.timeline.memory_errors(self.index, self.physics.base_tick, self.timekeeper.tick)

    @property
    def memory_errors_ever(self) -> int:
        """Uncorrectable memory errors since the node's start."""
        return self.timeline.memory_errors(self.index, 0, self.timekeeper.tick)
