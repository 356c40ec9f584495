"""A simulated node in place of hardware, also in the reader's process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collector.simulator import SimulatedNode
    from collector.simulator.hwmon import SimulatedSensors
    from collector.simulator.kernel_log import SimulatedKernelLog
    from collector.sources.nvml.library import NvmlLibrary


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """Which node is simulated.

    Attributes:
        platform: Name of its profile.
        rack: Name of the rack, which decides serials.
        tray: 0-based index of the compute tray.
        workload: What its GPUs do.
        faults: What goes wrong, as written on the command line.
        started_at: When it began, on the monotonic clock, which all processes of a machine share.
        started_wall_ns: The same moment, nanoseconds of Unix time.
    """

    platform: str
    rack: str = "r01"
    tray: int = 0
    workload: str = "decode"
    faults: tuple[str, ...] = ()
    started_at: float
    started_wall_ns: int


def begin(platform: str, rack: str, tray: int, workload: str, faults: tuple[str, ...]) -> Simulation:
    """Begin a simulation now.

    Args:
        platform: Name of a profile.
        rack: Name of the rack.
        tray: 0-based index of the compute tray.
        workload: Name of a workload.
        faults: Faults, as written on the command line.

    Returns:
        The simulation, which can be opened.

    Raises:
        ConfigurationError: Platform, tray, workload or a fault does not exist.
    """
    simulation = Simulation(
        platform=platform,
        rack=rack,
        tray=tray,
        workload=workload,
        faults=faults,
        started_at=time.monotonic(),
        started_wall_ns=time.time_ns(),
    )
    open_simulated(simulation)
    return simulation


def open_simulated(simulation: Simulation) -> NvmlLibrary:
    """Open the NVML library of a simulated node.

    A reader that is started anew finds the node where it was: its time goes on, faults included.

    Raises:
        ConfigurationError: Platform, tray, workload or a fault does not exist.
    """
    from collector.sources.nvml.library import NvmlLibrary

    return NvmlLibrary(simulated_node(simulation).library)


def open_simulated_log(simulation: Simulation) -> SimulatedKernelLog:
    """Open the kernel log of a simulated node.

    It may be read in another process than the library: a node tells the same story wherever it is made.
    """
    from collector.simulator.kernel_log import SimulatedKernelLog

    return SimulatedKernelLog(
        simulated_node(simulation), started_at=simulation.started_at, clock=time.monotonic
    )


def open_simulated_sensors(simulation: Simulation) -> SimulatedSensors:
    """Open the sensors of a simulated node's CPUs; one without Grace CPUs has none that count.

    Raises:
        ConfigurationError: Platform, tray, workload or a fault does not exist.
    """
    from collector.simulator.hwmon import SimulatedSensors

    return SimulatedSensors(simulated_node(simulation))


def simulated_node(simulation: Simulation) -> SimulatedNode:
    """Make a simulated node: the same, however often it is made, and its time goes on.

    Raises:
        ConfigurationError: Platform, tray, workload or a fault does not exist.
    """
    from collector import profiles
    from collector.simulator import SimulatedNode, parse_fault

    # The node takes its clock's first reading for its beginning.
    beginning = [simulation.started_at]
    return SimulatedNode(
        profiles.load(simulation.platform),
        rack=simulation.rack,
        tray=simulation.tray,
        workload=simulation.workload,
        faults=[parse_fault(text) for text in simulation.faults],
        clock=lambda: beginning.pop() if beginning else time.monotonic(),
        wall_clock_ns=lambda: simulation.started_wall_ns,
    )
