"""Which racks a history has, and what happens to them: the demo's, whole or cut down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from collector.cli.demonstration.story import STAGES, STORY, Scene

HOUR_SECONDS = 3600
LEAD_SECONDS = 300
"""Before the hour that is looked at, so that windows of rates are full when it begins; chosen."""
STORY_SECONDS = 1410
"""When the demo's story begins: there is a before, and no node is silent at the end; chosen."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Some nodes are away for some time.

    Attributes:
        before_seconds: When it begins, before the history.
        lasts_seconds: For how long; whole hours, as the past is polled each hour.
        nodes: How many of the rack's nodes, the last ones.
        witnessed: Whether a witness says that they are gone; else nobody knows.
    """

    before_seconds: int
    lasts_seconds: int
    nodes: int
    witnessed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRack:
    """A rack of a history, with a rack service of its own.

    Attributes:
        name: Its name.
        platform: Name of its profile.
        workload: What its GPUs do.
        nodes: Names of its nodes.
        trays: Tray of each, which decides its serials and its engine.
        min_block: Smallest usable block of nodes; None for the default.
        cluster: Label `cluster` of its series, as external labels give it; empty for none.
        outages: What happened in the month before, if the plan has one.
    """

    name: str
    platform: str
    workload: str
    nodes: tuple[str, ...]
    trays: tuple[int, ...]
    min_block: int | None = None
    cluster: str = ""
    outages: tuple[Outage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A history to make.

    Attributes:
        name: What it is called.
        racks: The racks.
        story: What happens, in seconds after the begin of the history.
        poll_seconds: How often agents read, are polled, and racks are judged.
        has_past: Whether the rack services have watched for a month.
        seconds: How long it is.
    """

    name: str
    racks: tuple[HistoryRack, ...]
    story: tuple[Scene, ...] = ()
    poll_seconds: int = 5
    has_past: bool = False
    seconds: int = LEAD_SECONDS + HOUR_SECONDS


_DAY_SECONDS = 86_400
_OUTAGES = (
    # Of 3 nodes: one more than a rack can do without (CONTRACTS §3). Of all: nobody knows anything.
    Outage(20 * _DAY_SECONDS, 3 * 3600, nodes=18, witnessed=False),
    Outage(12 * _DAY_SECONDS, 2 * 3600, nodes=3, witnessed=True),
)


def _rack(
    name: str,
    nodes: Iterable[str] = (),
    *,
    min_block: int | None = None,
    cluster: str = "",
    outages: tuple[Outage, ...] = (),
) -> HistoryRack:
    """Take one of the demo's racks, or some of its nodes."""
    (stage,) = [stage for stage in STAGES if stage.rack == name]
    chosen = tuple(nodes) or stage.nodes
    return HistoryRack(
        name=name,
        platform=stage.platform,
        workload=stage.workload,
        nodes=chosen,
        trays=tuple(map(stage.nodes.index, chosen)),
        min_block=min_block,
        cluster=cluster,
        outages=outages,
    )


_STORY = tuple(replace(scene, at_seconds=scene.at_seconds + STORY_SECONDS) for scene in STORY)

NORMAL = Plan(
    name="normal",
    racks=(_rack("r01", ("n01", "n02")), _rack("r02", ("h01",))),
    # As often as it is scraped: nothing happens in between.
    poll_seconds=15,
)
"""An hour in which nothing happens, without clusters."""

FAULTS = Plan(
    name="faults",
    # With 2 of 4 trays the verdicts are those of 16 of 18: n03 is excused, n07 lost, n12 silent at times.
    racks=(
        _rack("r01", ("n03", "n07", "n10", "n12"), min_block=2, cluster="west", outages=_OUTAGES),
        _rack("r02", ("h02",), cluster="east"),
    ),
    story=_STORY,
    has_past=True,
)
"""The demo's story on the nodes that it is about, each rack in a cluster of its own."""

DEMO = Plan(name="demo", racks=(_rack("r01", outages=_OUTAGES), _rack("r02")), story=_STORY, has_past=True)
"""The demo as it is."""

ONE_RACK = Plan(name="one-rack", racks=(_rack("r01"),), poll_seconds=15, has_past=True, seconds=360)
"""A whole rack for a few minutes, for the sake of its series."""
