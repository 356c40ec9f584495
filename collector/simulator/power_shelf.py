"""What the power shelves of a simulated rack draw: the sum of everything in the rack, and their own losses.

It follows from the GPUs' physics, so that a rack's input power, its modules and its GPUs agree: power is
constant within a tick, and energy is exactly its integral.

A figure that no source gives is "chosen".
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collector.profiles import Profile, RackProfile
from collector.simulator.gpu import MODULE_LOAD_WATTS
from collector.simulator.node import SimulatedNode

SUPPLIES_PER_SHELF: Final = 6
SUPPLY_CAPACITY_WATTS: Final = 5500
"""NVIDIA Mission Control, "BCM Power Shelf Integration", §4: 6 supplies of 5.5 kW in a shelf."""

EFFICIENCY: Final = 0.975
"""Output to input power of a supply: "> 97.5 %" at its peak (Delta, "ORV3 33kW Power System"). Taken at every
load: chosen."""

# A tray's network cards, DPUs, SSDs, fans and regulators. NVIDIA DPS, "Device Specifications", gives a
# compute tray 1,000 to 6,667 W, of which 4 GPUs take 200 to 1,200 W each and 2 Grace 50 to 420 W each.
_TRAY_REST_IDLE_WATTS: Final = 1000 - 4 * 200 - 2 * 50
_TRAY_REST_FULL_WATTS: Final = 6667 - 4 * 1200 - 2 * 420

_SWITCH_TRAY_WATTS: Final = 3600 / 9
"""Nine NVLink switch trays of a GB300 NVL72 take 3.6 kW (introl.com, after Supermicro); steady: chosen."""

# Shelves on one busbar share its load nearly evenly, and so do the supplies of a shelf: chosen.
_SHARE_RANGE: Final = (0.98, 1.02)


@dataclass(frozen=True, slots=True)
class Draw:
    """Power at a moment, and energy until then.

    Attributes:
        watts: Power.
        joules: Its integral since the rack's start.
    """

    watts: float
    joules: float

    def times(self, factor: float) -> Draw:
        """Return a share of it."""
        return Draw(self.watts * factor, self.joules * factor)


class SimulatedRackPower:
    """The input power of a simulated rack.

    Args:
        rack: The rack's figures.
        nodes: Its compute trays. They may be shared with whoever reads them, or be others of the same story.
    """

    def __init__(self, rack: RackProfile, nodes: Sequence[SimulatedNode]) -> None:
        self._rack = rack
        self._nodes = tuple(nodes)

    def draw(self, now: float | None = None) -> Draw:
        """Return what the rack takes from its supply lines.

        Args:
            now: Reading of the nodes' clock; None for the present. One before what was asked last is answered
                too, but everything is computed again from the start.
        """
        trays = [_tray(node, now) for node in self._nodes]
        switches = self._rack.switch_trays * _SWITCH_TRAY_WATTS
        watts = sum(tray.watts for tray, _ in trays) + switches
        # Switch trays run since the first tray does.
        joules = sum(tray.joules for tray, _ in trays) + switches * max(elapsed for _, elapsed in trays)
        return Draw(watts / EFFICIENCY, joules / EFFICIENCY)


class SimulatedShelf:
    """One power shelf.

    Args:
        name: Its name.
        power: What the rack draws.
        shares: Share of each supply in that.

    Attributes:
        name: Its name.
        shares: As given.
    """

    def __init__(self, name: str, power: SimulatedRackPower, shares: tuple[float, ...]) -> None:
        self.name = name
        self.shares = shares
        self._power = power

    def supply_watts(self, now: float | None = None) -> tuple[float, ...]:
        """Return the input power of each supply; `now` as in `SimulatedRackPower.draw`."""
        watts = self._power.draw(now).watts
        return tuple(watts * share for share in self.shares)

    def draw(self, now: float | None = None) -> Draw:
        """Return the input power of the shelf, and its exact integral: the truth for tests."""
        return self._power.draw(now).times(sum(self.shares))


def simulate_shelves(
    profile: Profile,
    nodes: Sequence[SimulatedNode],
    *,
    seed: int = 0,
    supplies: int = SUPPLIES_PER_SHELF,
) -> tuple[SimulatedShelf, ...]:
    """Make the power shelves of a rack.

    Args:
        profile: The platform.
        nodes: The rack's compute trays, all of one clock.
        seed: Seed of how unevenly the shelves share.
        supplies: Supplies of a shelf.

    Returns:
        The shelves, `shelf-1` first; none for a platform whose rack has none.
    """
    if profile.rack is None or not nodes:
        return ()
    power = SimulatedRackPower(profile.rack, nodes)
    draw = random.Random(f"{seed}/{nodes[0].identity.chassis_serial}/shelves")
    count = profile.rack.power_shelves
    weights = [[draw.uniform(*_SHARE_RANGE) for _ in range(supplies)] for _ in range(count)]
    whole = sum(map(sum, weights))
    return tuple(
        SimulatedShelf(f"shelf-{number}", power, tuple(weight / whole for weight in row))
        for number, row in enumerate(weights, start=1)
    )


def _tray(node: SimulatedNode, now: float | None) -> tuple[Draw, float]:
    """Return what a compute tray takes from the busbar, and the time since its start."""
    profile = node.profile
    gpus = node.gpus
    timekeeper = gpus[0].timekeeper
    with timekeeper.lock:
        if now is None:
            timekeeper.refresh()
        else:
            timekeeper.move_to(now)
        for gpu in gpus:
            gpu.sync()
        offset, elapsed = timekeeper.offset_seconds, timekeeper.elapsed_seconds
        watts = sum(gpu.physics.watts for gpu in gpus)
        joules = sum(gpu.physics.joules_at(offset) for gpu in gpus)
        load = sum(gpu.physics.load for gpu in gpus) / len(gpus)
        load_seconds = sum(gpu.physics.load_seconds_at(offset) for gpu in gpus) / len(gpus)
    module = profile.module
    steady, moving = float(_TRAY_REST_IDLE_WATTS), float(_TRAY_REST_FULL_WATTS - _TRAY_REST_IDLE_WATTS)
    if module is not None:
        modules = len(gpus) // module.gpus
        steady += modules * (module.idle_watts - module.gpus * profile.gpu.idle_watts)
        moving += modules * MODULE_LOAD_WATTS
    return Draw(watts + steady + moving * load, joules + steady * elapsed + moving * load_seconds), elapsed
