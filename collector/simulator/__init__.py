"""A simulated NVML: nodes of real platforms, with workloads and scripted faults, and no hardware."""

from __future__ import annotations

from collector.simulator.codes import Return, ValueType
from collector.simulator.faults import Fault, FaultKind, parse_fault
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.library import SimulatedLibrary
from collector.simulator.manual_clock import ManualClock
from collector.simulator.node import SimulatedNode
from collector.simulator.workloads import WORKLOADS, Workload, find_workload

__all__ = [
    "WORKLOADS",
    "Fault",
    "FaultKind",
    "ManualClock",
    "Return",
    "SimulatedGpu",
    "SimulatedLibrary",
    "SimulatedNode",
    "ValueType",
    "Workload",
    "find_workload",
    "parse_fault",
]
