"""`/metrics` of simulated nodes, through the real reader, assembly and exporter, on a driven clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from collector import profiles
from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.identity import Host, Names
from collector.readings import Layout
from collector.simulator import ManualClock, SimulatedNode, parse_fault
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from exporters.prometheus import Exposition, TextFormat
from tests.feeds import ScriptedFeed

WALL_NS = 1_764_505_200_000_000_000  # 2025-11-30T12:20:00Z
START_SECONDS = 1000.0
_TOLERANCE = 1e-12
STEPS = 12
"""Seconds that pass: every cadence but the slow one has been read more than once by then."""

HOST = Host(
    hostname="host-1",
    boot_id="4c3c1e2a-0000-4000-8000-000000000001",
    kernel="6.8.0-1032-nvidia-64k",
    agent_version="0.0.0",
    agent_id="golden",
    simulated=True,
)


@dataclass(frozen=True)
class GoldenNode:
    """A node of which there are golden files.

    Attributes:
        platform: Name of its profile.
        faults: What goes wrong, as on the command line.
        serves: Whether a serving engine runs on it.
        format: Which exposition.
    """

    platform: str
    faults: tuple[str, ...]
    serves: bool
    format: TextFormat


_GB300 = ("gb300-nvl72", ("link_down:gpu=1,link=4,start=3",), True)
_H100 = ("hgx-h100", ("gpu_lost:gpu=2,start=5",), False)

NODES: Mapping[str, GoldenNode] = {
    "gb300-nvl72.txt": GoldenNode(*_GB300, TextFormat.PLAIN),
    "gb300-nvl72.openmetrics.txt": GoldenNode(*_GB300, TextFormat.OPENMETRICS),
    "hgx-h100.txt": GoldenNode(*_H100, TextFormat.PLAIN),
    "hgx-h100.openmetrics.txt": GoldenNode(*_H100, TextFormat.OPENMETRICS),
}
"""Files, and what they show."""


def render(name: str) -> str:
    """Write the exposition of a file."""
    golden = NODES[name]
    profile = profiles.load(golden.platform)
    clock = ManualClock(START_SECONDS, limit=START_SECONDS + 3600)

    def wall_ns() -> int:
        return WALL_NS + round((clock() - START_SECONDS) * 1e9)

    node = SimulatedNode(
        profile,
        faults=[parse_fault(fault) for fault in golden.faults],
        clock=clock,
        sleep=clock.sleep,
        wall_clock_ns=wall_ns,
    )
    hint = PlatformHint(profile.name, profile.gpus_per_node)
    options = ReaderOptions(platforms={profile.gpu.product_name: hint})
    reader = NvmlReader(lambda: NvmlLibrary(node.library), options, monotonic=clock, wall_ns=wall_ns)
    feeds = [ScriptedFeed()] if golden.serves else []
    assembly = Assembly(Names("r01", "n01"), HOST, Deadlines(), monotonic=clock, wall_ns=wall_ns, feeds=feeds)
    exposition = Exposition()
    for _ in range(STEPS):
        clock.advance(1.0)
        for message in reader.step(clock()):
            if isinstance(message, Layout):
                assembly.apply_layout(message)
            else:
                assembly.apply_reading(message)
                exposition.publish(assembly.snapshot(restarts=0))
    return exposition.body(golden.format).decode()


def alike(left: str, right: str) -> bool:
    """Tell whether two expositions are the same but for the last digits of values.

    The simulation takes sines, whose last bit depends on whether the processor has fused multiply-add.
    """
    pairs = list(zip_longest(left.splitlines(), right.splitlines(), fillvalue=""))
    return left[-1:] == right[-1:] and all(one == other or _close(one, other) for one, other in pairs)


def _close(one: str, other: str) -> bool:
    (series, _, value), (other_series, _, other_value) = one.rpartition(" "), other.rpartition(" ")
    if series != other_series or series.startswith("#"):
        return False
    try:
        return math.isclose(float(value), float(other_value), rel_tol=_TOLERANCE)
    except ValueError:
        return False
