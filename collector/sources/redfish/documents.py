"""Redfish resources as far as they are needed: members of DMTF's schemas, with types and bounds.

The names are those of the schemas (DMTF DSP8010): ServiceRoot, Chassis, PowerSubsystem, PowerSupply,
PowerSupplyMetrics, Sensor, EnvironmentMetrics, the deprecated Power, ComputerSystem. What else a service
tells is passed over undecoded: shelves in the field have members of other types than the schemas say
(`PowerState` of a supply as a boolean, NVIDIA/nv-redfish pull request 71), and none of them matters here.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from collector.sources.redfish.target import RedfishError

MAXIMUM_BYTES = 1024 * 1024
"""Largest resource. A sensor collection of 140 expanded members has about 100 KiB; chosen."""

MAXIMUM_MEMBERS = 1024
"""Most members of a collection, over all its pages. The longest known, a shelf's sensors, has 142; chosen."""

MAXIMUM_WATTS = 1e6
"""Largest reading that is believed: the largest shelves deliver 110 kW (Vera Rubin); chosen."""

Path = Annotated[str, Meta(min_length=1, max_length=1024)]
Text = Annotated[str, Meta(max_length=256)]
Number = int | float | None

Resource = TypeVar("Resource")


class Link(Struct, frozen=True):
    """A reference to a resource."""

    path: Path = field(name="@odata.id")


class Status(Struct, frozen=True):
    """`Resource.Status`; states beside DMTF's are in the field (`Standby`, `Sleep`), so any text is one."""

    state: Text | None = field(default=None, name="State")


class Excerpt(Struct, frozen=True):
    """What another resource repeats of a Sensor; the unit follows from the member's name."""

    reading: Number = field(default=None, name="Reading")


class ExpandQuery(Struct, frozen=True):
    """`ServiceRoot.ProtocolFeaturesSupported.ExpandQuery`."""

    no_links: bool | None = field(default=None, name="NoLinks")


class ProtocolFeatures(Struct, frozen=True):
    """`ServiceRoot.ProtocolFeaturesSupported`."""

    expand: ExpandQuery | None = field(default=None, name="ExpandQuery")


class ServiceRoot(Struct, frozen=True):
    """`ServiceRoot`."""

    chassis: Link | None = field(default=None, name="Chassis")
    systems: Link | None = field(default=None, name="Systems")
    features: ProtocolFeatures | None = field(default=None, name="ProtocolFeaturesSupported")

    @property
    def expands(self) -> bool:
        """Whether `$expand=.` may be asked."""
        expand = self.features.expand if self.features is not None else None
        return expand is not None and expand.no_links is True


class Collection(Struct, frozen=True):
    """Any collection, or a page of it."""

    members: Annotated[tuple[Link, ...], Meta(max_length=MAXIMUM_MEMBERS)] = field(name="Members")
    next_page: Path | None = field(default=None, name="Members@odata.nextLink")


class ChassisLinks(Struct, frozen=True):
    """`Chassis.Links`."""

    contained_by: Link | None = field(default=None, name="ContainedBy")


class Chassis(Struct, frozen=True):
    """`Chassis`."""

    serial: Text | None = field(default=None, name="SerialNumber")
    power_subsystem: Link | None = field(default=None, name="PowerSubsystem")
    power: Link | None = field(default=None, name="Power")
    environment: Link | None = field(default=None, name="EnvironmentMetrics")
    sensors: Link | None = field(default=None, name="Sensors")
    links: ChassisLinks | None = field(default=None, name="Links")


class PowerSubsystem(Struct, frozen=True):
    """`PowerSubsystem`."""

    supplies: Link | None = field(default=None, name="PowerSupplies")


class PowerSupply(Struct, frozen=True):
    """`PowerSupply`; as a member of a collection that is not expanded it has a path only."""

    path: Path = field(default="", name="@odata.id")
    id: Text | None = field(default=None, name="Id")
    status: Status | None = field(default=None, name="Status")
    metrics: Link | None = field(default=None, name="Metrics")


class PowerSupplyCollection(Struct, frozen=True):
    """`PowerSupplyCollection`, expanded or not."""

    members: Annotated[tuple[PowerSupply, ...], Meta(max_length=MAXIMUM_MEMBERS)] = field(name="Members")
    next_page: Path | None = field(default=None, name="Members@odata.nextLink")


class PowerSupplyMetrics(Struct, frozen=True):
    """`PowerSupplyMetrics`."""

    input_power: Excerpt | None = field(default=None, name="InputPowerWatts")


class EnvironmentMetrics(Struct, frozen=True):
    """`EnvironmentMetrics`."""

    power: Excerpt | None = field(default=None, name="PowerWatts")


class Sensor(Struct, frozen=True):
    """`Sensor`; units are codes of UCUM."""

    reading: Number = field(default=None, name="Reading")
    units: Text | None = field(default=None, name="ReadingUnits")


class PowerControl(Struct, frozen=True):
    """`Power.PowerControl[]`."""

    consumed: Number = field(default=None, name="PowerConsumedWatts")


class PowerSupplyOfPower(Struct, frozen=True):
    """`Power.PowerSupplies[]`."""

    status: Status | None = field(default=None, name="Status")
    input: Number = field(default=None, name="PowerInputWatts")


class Power(Struct, frozen=True):
    """`Power`, deprecated in favour of PowerSubsystem since 2020.4."""

    control: Annotated[tuple[PowerControl, ...], Meta(max_length=MAXIMUM_MEMBERS)] = field(
        default=(), name="PowerControl"
    )
    supplies: Annotated[tuple[PowerSupplyOfPower, ...], Meta(max_length=MAXIMUM_MEMBERS)] = field(
        default=(), name="PowerSupplies"
    )


class ComputerSystem(Struct, frozen=True):
    """`ComputerSystem`."""

    power_state: Text | None = field(default=None, name="PowerState")


def decode(body: bytes | bytearray, kind: type[Resource]) -> Resource:
    """Decode and check a resource.

    Args:
        body: JSON, `MAXIMUM_BYTES` at most.
        kind: What it should be.

    Raises:
        RedfishError: It is no JSON, or a member has another type or size than it may have.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError) as error:
        text = str(error)
        raise RedfishError(
            f"the answer is no {kind.__name__}: {text if len(text) <= 200 else text[:197] + '...'}"
        ) from None


def watts(number: Number, path: str) -> float | None:
    """Take a power reading over; None stays None.

    Args:
        number: The reading.
        path: Where it stands, for the message.

    Raises:
        RedfishError: It cannot be one.
    """
    if number is None:
        return None
    if not 0 <= number <= MAXIMUM_WATTS:
        shown = str(number)  # A whole number may have more digits than a float can hold.
        raise RedfishError(f"{path}: a power of {shown[:40]} W cannot be; 0 to {MAXIMUM_WATTS:g} W can")
    return float(number)
