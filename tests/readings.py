"""Layouts and Readings of a small node, for tests of what stands between a source and the exporters."""

from __future__ import annotations

from collections.abc import Sequence

from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.identity import Host, Names
from collector.model import Snapshot, Value
from collector.protocols import Feed
from collector.readings import Batch, Block, GpuIdentity, Incident, Layout, Reading, SeriesKey
from tests.agent_http_client import Clock

UUIDS = ("GPU-aaaa", "GPU-bbbb")
PRESENCE: tuple[SeriesKey, ...] = (
    ("node_gpus_present", ()),
    ("gpu_up", ("0", "GPU-aaaa")),
    ("gpu_up", ("1", "GPU-bbbb")),
)
FAST: tuple[SeriesKey, ...] = (
    ("gpu_power_watts", ("0", "GPU-aaaa")),
    ("gpu_energy_joules_total", ("0", "GPU-aaaa")),
)
FAST_OF_THE_SECOND: tuple[SeriesKey, ...] = (("gpu_power_watts", ("1", "GPU-bbbb")),)
LINKS: tuple[SeriesKey, ...] = (
    ("nvlink_up", ("0", "GPU-aaaa", "0")),
    ("nvlink_up", ("0", "GPU-aaaa", "1")),
)

LAYOUT = Layout(
    generation=1,
    blocks=(
        Block("fast", PRESENCE),
        Block("fast", FAST),
        Block("fast", FAST_OF_THE_SECOND),
        Block("links", LINKS),
    ),
    gpus=tuple(
        GpuIdentity(uuid=uuid, index=index, present=True, texts={"chassis_serial": "1820000000001"})
        for index, uuid in enumerate(UUIDS)
    ),
    driver_version="580.105.08",
    cuda_version="13.0",
    platform="gb300-nvl72",
    gpus_expected=4,
)
"""Two GPUs, the first with two links; the last block alone is of the cadence `links`."""

HOST = Host(
    hostname="host-3",
    boot_id="boot-1",
    kernel="6.8.0",
    agent_version="0.1.0",
    agent_id="agent-1",
    simulated=True,
)
NAMES = Names(rack="r01", node="n03")
WALL_NS = 1_764_504_000_000_000_000  # 2025-11-30T12:00:00Z

EVERY_BATCH = (Batch(0, [2, 1, 1]), Batch(1, [412.3, 1000.0]), Batch(2, [399.5]), Batch(3, [1, 0]))


def reading(
    taken_at: float,
    batches: Sequence[Batch] = EVERY_BATCH,
    *,
    generation: int = 1,
    incidents: Sequence[Incident] = (),
) -> Reading:
    """Make a reading of a source that is up."""
    return Reading(taken_at, generation, up=True, batches=tuple(batches), incidents=tuple(incidents))


def down(taken_at: float, reason: str) -> Reading:
    """Make a reading of a source that is not up."""
    return Reading(taken_at, 0, up=False, reason=reason)


def assembly_at(clock: Clock, deadlines: Deadlines | None = None, feeds: Sequence[Feed] = ()) -> Assembly:
    """Make an assembly on a clock that a test drives; its wall clock stands still."""
    return Assembly(
        NAMES, HOST, deadlines or Deadlines(), monotonic=clock, wall_ns=lambda: WALL_NS, feeds=feeds
    )


def shown(snapshot: Snapshot) -> dict[SeriesKey, Value]:
    """Return the values that are present, by name and labels."""
    return {(sample.metric.name, sample.labels): sample.value for sample in snapshot.samples()}


_OWN = ("agent_", "node_info", "node_gpus_expected", "gpu_xid_", "gpu_check_", "node_check_")
"""Beginnings of the metrics that the agent itself makes."""
_FED = ("llm_", "cpu_")
"""Beginnings of the metrics that feeds bring."""


def sourced(snapshot: Snapshot) -> dict[SeriesKey, Value]:
    """Return the values that the source read: all but what feeds bring and the agent itself makes."""
    return {key: value for key, value in shown(snapshot).items() if not key[0].startswith(_OWN + _FED)}


def fed(snapshot: Snapshot) -> dict[SeriesKey, Value]:
    """Return the values that feeds brought."""
    return {key: value for key, value in shown(snapshot).items() if key[0].startswith(_FED)}
