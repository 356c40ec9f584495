"""The demo as data: which racks there are, and what happens to them when.

Times are seconds after the start, at speed 1. What is written under `shows` follows from the states and
verdicts of CONTRACTS §3, by the default block of 16 of 18 trays and 3 of 4 nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from collector.simulator import FaultKind


@dataclass(frozen=True, slots=True)
class Stage:
    """A simulated rack.

    Attributes:
        rack: Its name.
        platform: Name of its profile.
        workload: What its GPUs do.
        nodes: Names of its nodes, in the order of their slots.
    """

    rack: str
    platform: str
    workload: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptedFault:
    """A fault of a node.

    Attributes:
        kind: What happens.
        place: Where, as on the command line: `gpu=1,link=9`; empty for the whole node.
        after_seconds: When, after the scene's begin.
        lasts_seconds: For how long; None for ever.
    """

    kind: FaultKind
    place: str
    after_seconds: float = 0.0
    lasts_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """A node whose agent does not serve for a while, again and again.

    Attributes:
        lasts_seconds: For how long it is silent.
        period_seconds: From one silence to the next.
    """

    lasts_seconds: float
    period_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One thing that happens to one node.

    Attributes:
        at_seconds: When it begins.
        rack: The rack.
        node: The node.
        what: What happens, in words.
        shows: What the rack service makes of it, in words.
        faults: Faults of the node's hardware.
        silence: Silence of its agent.
        maintenance_seconds: Length of a maintenance that is declared for it.
        maintenance_reason: Why it is declared.
    """

    at_seconds: float
    rack: str
    node: str
    what: str
    shows: str
    faults: tuple[ScriptedFault, ...] = ()
    silence: Silence | None = None
    maintenance_seconds: float | None = None
    maintenance_reason: str = ""


STAGES = (
    Stage("r01", "gb300-nvl72", "decode", tuple(f"n{number:02d}" for number in range(1, 19))),
    Stage("r02", "hgx-h200", "training", tuple(f"h{number:02d}" for number in range(1, 5))),
)
"""The racks. A GB300 NVL72 has 18 compute trays (its profile). Node names differ, so that one is enough to
find a node."""

_FLAPPING_LINK = "gpu=1,link=9"
_FLAPS = (
    *(ScriptedFault(FaultKind.LINK_DOWN, _FLAPPING_LINK, 30.0 * flap, 12.0) for flap in range(8)),
    ScriptedFault(FaultKind.LINK_DOWN, _FLAPPING_LINK, 240.0),
)
"""Down for 12 s of every 30 s, which spans a sweep of the links (every 10 s); then down for good."""

STORY = (
    Scene(
        at_seconds=0,
        rack="r02",
        node="h02",
        what="GPU 5 overheats, and its clocks are halved",
        shows="h02 is DEGRADED: a warning, it stays schedulable; r02 is AVAILABLE",
        faults=(ScriptedFault(FaultKind.THERMAL_SLOWDOWN, "gpu=5"),),
    ),
    Scene(
        at_seconds=30,
        rack="r01",
        node="n03",
        what="NVLink 9 of GPU 1 flaps; after 4 minutes it stays down",
        shows="n03 is FAILED (Xid 149, failed recoveries); r01 is AVAILABLE with 17 trays",
        faults=_FLAPS,
    ),
    Scene(
        at_seconds=60,
        rack="r01",
        node="n10",
        what="its serving engine restarts, and is away for 20 seconds",
        shows="tokens of n10 count from zero again, and none is counted twice; n10 stays READY",
        faults=(ScriptedFault(FaultKind.ENGINE_RESTART, "", lasts_seconds=20.0),),
    ),
    Scene(
        at_seconds=75,
        rack="r01",
        node="n03",
        what="its maintenance is declared",
        shows="n03 is in MAINTENANCE, which excuses it; it keeps its reasons",
        maintenance_seconds=8 * 3600.0,
        maintenance_reason="NVLink 9 of GPU 1 flaps: look at cable and connector",
    ),
    Scene(
        at_seconds=105,
        rack="r01",
        node="n07",
        what="GPU 2 falls off the bus",
        shows="n07 is FAILED (Xid 79); r01 is AVAILABLE with 16 trays, none to spare",
        faults=(ScriptedFault(FaultKind.GPU_LOST, "gpu=2"),),
    ),
    Scene(
        at_seconds=150,
        rack="r01",
        node="n12",
        what="its agent is silent for 2 minutes, and again every 5 minutes",
        shows="n12 is UNKNOWN after 15 s; r01 is in MAINTENANCE, as with n03 it would have 16",
        silence=Silence(lasts_seconds=120.0, period_seconds=300.0),
    ),
)
"""What happens. It comes to rest after five minutes: r01 is AVAILABLE with n03 in MAINTENANCE and n07 FAILED,
but for the silences of n12; r02 is AVAILABLE with h02 DEGRADED."""


def fault_texts(story: Iterable[Scene], rack: str, node: str, speed: float) -> tuple[str, ...]:
    """Write the faults of a node as on the command line.

    Args:
        story: What happens.
        rack: The rack.
        node: The node.
        speed: How many times as fast the story is told.
    """
    return tuple(
        _text(fault, scene.at_seconds, speed)
        for scene in story
        if (scene.rack, scene.node) == (rack, node)
        for fault in scene.faults
    )


def _text(fault: ScriptedFault, scene_seconds: float, speed: float) -> str:
    start = (scene_seconds + fault.after_seconds) / speed
    text = f"{fault.kind}:{fault.place}{',' if fault.place else ''}start={start:.3f}"
    return text if fault.lasts_seconds is None else f"{text},duration={fault.lasts_seconds / speed:.3f}"
