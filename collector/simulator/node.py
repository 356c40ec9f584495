"""A simulated node: GPUs, faults, time, and the NVML library that shows them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

from collector.errors import ConfigurationError
from collector.profiles import Profile
from collector.simulator.driver import parse_driver
from collector.simulator.faults import Fault, FaultKind
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.gpu_fields import gpu_fields
from collector.simulator.identity import identify
from collector.simulator.library import SimulatedLibrary
from collector.simulator.link_fields import link_fields
from collector.simulator.physics import GpuPhysics
from collector.simulator.timekeeper import Timekeeper
from collector.simulator.timeline import Timeline
from collector.simulator.workloads import WORKLOADS, find_workload


class SimulatedNode:
    """One node of a platform.

    Two nodes with the same arguments tell the same story, however they are polled.

    Args:
        profile: The platform.
        rack: Name of the rack; nodes of one rack and seed share chassis serial and cluster UUID.
        tray: 0-based index of the compute tray, or of the node where there are no trays.
        seed: Seed of everything random.
        workload: Name of what the GPUs do.
        faults: What goes wrong, and when.
        clock: Monotonic seconds; the node's start is its reading now.
        sleep: Sleeps on that clock; hanging and waiting calls use it.
        driver_version: Version of the simulated driver; None takes the profile's.
        wall_clock_ns: Nanoseconds since 1970, for the timestamps of field values.

    Attributes:
        profile: The platform.
        identity: Serial, slot, cluster UUID, and the GPUs' identities.
        driver: The driver.
        workload: What the GPUs do.
        timeline: The faults.
        gpus: The GPUs by index: the truth for tests, and where values are pinned.
        library: The NVML library object.

    Raises:
        ConfigurationError: The workload, tray, driver version or a fault cannot be, alone or together.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        rack: str = "r01",
        tray: int = 0,
        seed: int = 0,
        workload: str = "decode",
        faults: Iterable[Fault] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        driver_version: str | None = None,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        if tray < 0:
            raise ConfigurationError(f"tray {tray} does not exist: trays count from 0")
        faults = tuple(faults)
        for fault in faults:
            fault.check(profile)
        self.profile = profile
        self.identity = identify(profile, rack, tray, seed)
        self.driver = parse_driver(driver_version or profile.driver_version)
        self.workload = find_workload(workload)
        if not self.workload.has_engine and any(each.kind is FaultKind.ENGINE_RESTART for each in faults):
            raise ConfigurationError(
                f"fault {FaultKind.ENGINE_RESTART}: workload {workload} has no serving engine; it needs"
                f" {' or '.join(name for name, each in WORKLOADS.items() if each.has_engine)}"
            )
        self.timeline = Timeline(faults, profile.nvlink.generation)
        self._timekeeper = Timekeeper(clock, sleep, wall_clock_ns)
        place = f"{seed}/{rack}/{tray}"
        phase = random.Random(f"{place}/phase").random()
        self.gpus = tuple(
            SimulatedGpu(
                profile=profile,
                node=self.identity,
                identity=gpu,
                driver=self.driver,
                workload=self.workload,
                timeline=self.timeline,
                timekeeper=self._timekeeper,
                physics=GpuPhysics(
                    profile.gpu,
                    self.workload,
                    self.timeline,
                    gpu.index,
                    f"{place}/{gpu.index}/physics",
                    phase,
                ),
                seed=f"{place}/{gpu.index}/links",
            )
            for gpu in self.identity.gpus
        )
        if profile.module:
            for gpu in self.gpus:
                first = gpu.index - gpu.index % profile.module.gpus
                gpu.module_gpus = self.gpus[first : first + profile.module.gpus]
        self.library = SimulatedLibrary(
            self.gpus,
            self.driver,
            self.timeline,
            self._timekeeper,
            gpu_fields(profile, self.driver) | link_fields(profile),
        )

    def pin_return(self, function: str, code: int) -> None:
        """Make a function without a device return a code and write nothing.

        Args:
            function: Name of the C function, such as `nvmlSystemGetDriverVersion`.
            code: The return code; 0 lets the function answer again.
        """
        self.library.pins[function] = code
