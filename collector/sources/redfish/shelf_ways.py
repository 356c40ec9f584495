"""The ways in which power shelves tell their input power, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from collector.sources.redfish.client import NotThereError, RedfishClient
from collector.sources.redfish.documents import (
    Chassis,
    EnvironmentMetrics,
    Excerpt,
    Power,
    PowerSupply,
    PowerSupplyMetrics,
    Sensor,
    Status,
    watts,
)
from collector.sources.redfish.target import RedfishError

NOT_DRAWING = frozenset({"Absent", "Disabled", "StandbyOffline", "UnavailableOffline"})
"""States (`Resource.State`) of a supply that carries nothing: not there, switched off, or not usable. Every
other state, also one that DMTF does not know, counts as drawing power: what is left out would flatter."""

TOTAL_SENSORS = frozenset({"total_power_in", "chassis_input_power"})
"""Sensors of a shelf's whole input power, by the last part of their path: of Delta's and of LITE-ON's 33 kW
shelves (LambdaLabs/redfish_exporter, docs/powershelf-metrics-contract.md, from captures of both)."""

_SENSOR_TYPE = "power_"
"""What OpenBMC puts before the name of a power sensor in its path (the same captures)."""

Read = Callable[[RedfishClient, str], Awaitable[float | None]]
"""Reads power from a resource, in watts; None where it is not told."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A resource that is part of a reading.

    Attributes:
        path: Its path.
        what: What it tells the power of, in words.
        read: Reads it.
    """

    path: str
    what: str
    read: Read


@dataclass(frozen=True, slots=True)
class ShelfChassis:
    """A chassis with what was found about its supplies.

    Attributes:
        path: Its path.
        chassis: The chassis.
        collection: Path of the collection of its supplies; None without one.
        supplies: The supplies.
    """

    path: str
    chassis: Chassis
    collection: str | None
    supplies: tuple[PowerSupply, ...]

    @property
    def drawing(self) -> tuple[PowerSupply, ...]:
        """The supplies that may draw power."""
        return tuple(each for each in self.supplies if is_drawing(each.status))


Offer = Callable[[RedfishClient, ShelfChassis], Awaitable[tuple[Leaf, ...]]]
"""Returns the leaves by which a chassis can be read; none if it cannot be read this way."""


def is_drawing(status: Status | None) -> bool:
    """Tell whether a supply may draw power."""
    return status is None or status.state not in NOT_DRAWING


async def _by_supplies(client: RedfishClient, shelf: ShelfChassis) -> tuple[Leaf, ...]:
    """`PowerSupplyMetrics.InputPowerWatts` of every supply that draws power."""
    leaves = [
        Leaf(
            each.metrics.path if each.metrics is not None else each.path,
            f"power supply {each.id or each.path}",
            _metrics_watts if each.metrics is not None else _nothing,
        )
        for each in shelf.drawing
    ]
    if len({leaf.path for leaf in leaves}) < len(leaves):
        raise RedfishError(f"{shelf.path}: several power supplies name the same metrics as theirs")
    told = [await leaf.read(client, leaf.path) for leaf in leaves]
    return tuple(leaves) if any(value is not None for value in told) else ()


async def _by_sensor(client: RedfishClient, shelf: ShelfChassis) -> tuple[Leaf, ...]:
    """The shelf's own sensor of its whole input power."""
    if shelf.chassis.sensors is None or not shelf.supplies:
        return ()
    for path in await client.members(shelf.chassis.sensors.path):
        if path.rpartition("/")[2].removeprefix(_SENSOR_TYPE) in TOTAL_SENSORS:
            return await _if_told(client, Leaf(path, f"sensor of {shelf.path}", _sensor_watts))
    return ()


async def _by_environment(client: RedfishClient, shelf: ShelfChassis) -> tuple[Leaf, ...]:
    """`EnvironmentMetrics.PowerWatts` of a chassis with a power subsystem."""
    if shelf.chassis.environment is None or shelf.chassis.power_subsystem is None:
        return ()
    return await _if_told(client, Leaf(shelf.chassis.environment.path, shelf.path, _environment_watts))


async def _by_power(client: RedfishClient, shelf: ShelfChassis) -> tuple[Leaf, ...]:
    """The deprecated `Power` of older shelves."""
    if shelf.chassis.power is None:
        return ()
    return await _if_told(client, Leaf(shelf.chassis.power.path, shelf.path, _power_watts))


WAYS: tuple[tuple[str, Offer, bool], ...] = (
    ("power supplies", _by_supplies, False),
    ("sensor of the input power", _by_sensor, True),
    ("environment metrics", _by_environment, True),
    ("power, deprecated", _by_power, True),
)
"""Name, way, and whether it tells one total for a chassis with all that it contains."""


async def _if_told(client: RedfishClient, leaf: Leaf) -> tuple[Leaf, ...]:
    return (leaf,) if await leaf.read(client, leaf.path) is not None else ()


# What stands in a resource.


async def _nothing(_client: RedfishClient, _path: str) -> float | None:
    return None


async def _metrics_watts(client: RedfishClient, path: str) -> float | None:
    try:
        document = await client.get(path, PowerSupplyMetrics)
    except NotThereError:
        return None
    return _told(document.input_power, path)


async def _sensor_watts(client: RedfishClient, path: str) -> float | None:
    document = await client.get(path, Sensor)
    if document.units not in (None, "W"):
        raise RedfishError(f"{path}: the sensor reads in {document.units!r}, not in W")
    return watts(document.reading, path)


async def _environment_watts(client: RedfishClient, path: str) -> float | None:
    try:
        document = await client.get(path, EnvironmentMetrics)
    except NotThereError:
        return None
    return _told(document.power, path)


async def _power_watts(client: RedfishClient, path: str) -> float | None:
    """Read the first PowerControl, which is the whole chassis; else sum the supplies.

    In this order: some controllers give a supply's rating for its `PowerInputWatts` (900 W of a 750 W supply,
    influxdata/telegraf issue 9575).
    """
    document = await client.get(path, Power)
    consumed = watts(document.control[0].consumed, path) if document.control else None
    if consumed is not None:
        return consumed
    inputs = [watts(each.input, path) for each in document.supplies if is_drawing(each.status)]
    known = [value for value in inputs if value is not None]
    return sum(known) if known and len(known) == len(inputs) else None


def _told(excerpt: Excerpt | None, path: str) -> float | None:
    return watts(excerpt.reading, path) if excerpt is not None else None
