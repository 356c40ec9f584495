"""Where a power shelf tells its input power: found out once, read often.

The first way by which anything tells its power is taken, for the whole shelf: two ways are never summed, as
one is part of the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from collector.sources.redfish.client import SERVICE_ROOT, RedfishClient
from collector.sources.redfish.documents import Chassis, PowerSubsystem, PowerSupply, ServiceRoot
from collector.sources.redfish.shelf_ways import WAYS, Leaf, ShelfChassis, is_drawing
from collector.sources.redfish.target import RedfishError

MAXIMUM_CHASSIS = 64
"""Most chassis of one service; chosen: a shelf has one or two."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read a shelf.

    Attributes:
        way: Name of the way.
        leaves: What is summed.
        guards: What must still be true for the leaves to be all; each tells whether it is.
    """

    way: str
    leaves: tuple[Leaf, ...]
    guards: tuple[Callable[[RedfishClient], Awaitable[bool]], ...] = ()

    async def holds(self, client: RedfishClient) -> bool:
        """Tell whether nothing was plugged or switched since the plan was made.

        Raises:
            RedfishError: That cannot be read.
        """
        return all([await guard(client) for guard in self.guards])

    async def read(self, client: RedfishClient) -> float:
        """Read the shelf's input power, in watts.

        Raises:
            RedfishError: A part of it cannot be read, so that nothing is known of the whole.
        """
        total = 0.0
        for leaf in self.leaves:
            value = await leaf.read(client, leaf.path)
            if value is None:
                raise RedfishError(f"{leaf.path}: {leaf.what} tells no input power now")
            total += value
        return total


async def find_plan(client: RedfishClient) -> Plan:
    """Find out how a shelf is to be read.

    Args:
        client: Asks it.

    Raises:
        RedfishError: It does not answer as it should, or tells no input power in any known way.
    """
    root = await client.get(SERVICE_ROOT, ServiceRoot)
    if root.chassis is None:
        raise RedfishError(f"{SERVICE_ROOT}: the service has no chassis; this is no power shelf")
    paths = await client.members(root.chassis.path)
    if len(paths) > MAXIMUM_CHASSIS:
        raise RedfishError(f"{root.chassis.path}: {len(paths)} chassis; {MAXIMUM_CHASSIS} at most are read")
    shelves = [await _look_at(client, path, root) for path in dict.fromkeys(paths)]
    for way, offer, is_total in WAYS:
        offers = {shelf.path: await offer(client, shelf) for shelf in shelves}
        chosen = [shelf for shelf in shelves if offers[shelf.path]]
        if not chosen:
            continue
        _check_all_are_read(chosen, shelves)
        counted = _without_parts(_without_aliases(chosen)) if is_total else _without_aliases(chosen)
        leaves = {leaf.path: leaf for shelf in counted for leaf in offers[shelf.path]}
        guards = () if is_total else tuple(guard for shelf in counted for guard in _guards(shelf))
        return Plan(way, tuple(leaves.values()), guards)
    raise RedfishError(
        "nothing tells the input power: neither PowerSupplyMetrics.InputPowerWatts, nor a known sensor, nor "
        "EnvironmentMetrics.PowerWatts, nor Power of a chassis with power supplies"
    )


async def _look_at(client: RedfishClient, path: str, root: ServiceRoot) -> ShelfChassis:
    chassis = await client.get(path, Chassis)
    if chassis.power_subsystem is None:
        return ShelfChassis(path, chassis, None, ())
    subsystem = await client.get(chassis.power_subsystem.path, PowerSubsystem)
    if subsystem.supplies is None:
        return ShelfChassis(path, chassis, None, ())
    collection = subsystem.supplies.path
    supplies = await client.power_supplies(collection, expand=root.expands)
    return ShelfChassis(path, chassis, collection, supplies)


# What counts once.


def _without_aliases(shelves: Sequence[ShelfChassis]) -> list[ShelfChassis]:
    """Leave out a chassis that is another one under a second name: same serial number."""
    by_serial = {shelf.chassis.serial or shelf.path: shelf for shelf in reversed(shelves)}
    return [shelf for shelf in shelves if by_serial[shelf.chassis.serial or shelf.path] is shelf]


def _without_parts(shelves: Sequence[ShelfChassis]) -> list[ShelfChassis]:
    """Leave out a chassis that another one of them contains: its power is part of the other's."""
    paths = {shelf.path.rstrip("/") for shelf in shelves}

    def is_part(shelf: ShelfChassis) -> bool:
        whole = shelf.chassis.links.contained_by if shelf.chassis.links is not None else None
        return whole is not None and whole.path.rstrip("/") in paths - {shelf.path.rstrip("/")}

    return [shelf for shelf in shelves if not is_part(shelf)]


def _check_all_are_read(chosen: Sequence[ShelfChassis], shelves: Sequence[ShelfChassis]) -> None:
    """Refuse a reading that leaves out a chassis with supplies of its own.

    One without a serial number, or with that of a chassis that is read, is taken for a second name of it.
    """
    serials = {shelf.chassis.serial for shelf in chosen}
    for shelf in shelves:
        serial = shelf.chassis.serial
        if shelf not in chosen and shelf.drawing and serial and serial not in serials:
            raise RedfishError(
                f"{shelf.path}: its power supplies do not tell their input power as those of "
                f"{chosen[0].path} do; a sum without them would be too small"
            )


def _guards(shelf: ShelfChassis) -> list[Callable[[RedfishClient], Awaitable[bool]]]:
    """Watch for a supply that is plugged in or switched on, which the leaves do not tell."""
    if shelf.collection is None:
        return []
    paths = frozenset(each.path for each in shelf.supplies)
    idle = [each.path for each in shelf.supplies if not is_drawing(each.status)]
    return [
        partial(_same_members, path=shelf.collection, members=paths),
        *(partial(_still_idle, path=path) for path in idle),
    ]


async def _same_members(client: RedfishClient, *, path: str, members: frozenset[str]) -> bool:
    return frozenset(await client.members(path)) == members


async def _still_idle(client: RedfishClient, *, path: str) -> bool:
    return not is_drawing((await client.get(path, PowerSupply)).status)
