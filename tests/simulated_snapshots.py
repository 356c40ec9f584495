"""Snapshots of a simulated node, one a second, by the shipped reader and assembly on a driven clock."""

from __future__ import annotations

from collections.abc import Iterator

from collector import profiles
from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.identity import Host, Names
from collector.model import Snapshot
from collector.readings import Layout
from collector.simulator import ManualClock, SimulatedNode
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from collector.sources.nvml.reader import NvmlReader

WALL_NS = 1_764_505_200_000_000_000  # 2025-11-30T12:20:00Z
_START_SECONDS = 1000.0

_HOST = Host(
    hostname="host-1",
    boot_id="4c3c1e2a-0000-4000-8000-000000000001",
    kernel="6.8.0-1032-nvidia",
    agent_version="0.0.0",
    agent_id="simulated",
    simulated=True,
)


def simulated_snapshots(platform: str, seconds: int) -> Iterator[Snapshot]:
    """Yield the Snapshots of so many seconds of a node.

    Args:
        platform: Name of its profile.
        seconds: How many.
    """
    profile = profiles.load(platform)
    clock = ManualClock(_START_SECONDS, limit=_START_SECONDS + seconds + 60)

    def wall_ns() -> int:
        return WALL_NS + round((clock() - _START_SECONDS) * 1e9)

    node = SimulatedNode(profile, clock=clock, sleep=clock.sleep, wall_clock_ns=wall_ns)
    hint = PlatformHint(profile.name, profile.gpus_per_node)
    options = ReaderOptions(platforms={profile.gpu.product_name: hint})
    reader = NvmlReader(lambda: NvmlLibrary(node.library), options, monotonic=clock, wall_ns=wall_ns)
    assembly = Assembly(Names("r01", "n01"), _HOST, Deadlines(), monotonic=clock, wall_ns=wall_ns)
    for _ in range(seconds):
        clock.advance(1.0)
        for message in reader.step(clock()):
            if isinstance(message, Layout):
                assembly.apply_layout(message)
            else:
                assembly.apply_reading(message)
                yield assembly.snapshot(restarts=0)
