"""What a rack service is made from: racks as they are declared, and where their agents are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collector.efficiency.price import Price
from collector.health.rack_types import ExpectedRack
from collector.sources.peers import PeerAddress
from collector.sources.redfish import BmcTarget, RedfishTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class RackServiceSettings:
    """Settings of a rack service.

    Attributes:
        racks: The racks as they are declared.
        agents: Where the agents of their nodes are, one a node.
        poll_seconds: Time between two polls of one agent.
        witness_port: TCP port by which hosts are asked as a second witness; None for none.
        token: Returns the bearer token that agents expect; None for none.
        prices: What things cost, by rack.
        shelves: The power shelves of each rack.
        redfish_seconds: Time between two readings of a power shelf.
        bmcs: BMCs of nodes, which are asked for the power state of silent ones.
    """

    racks: tuple[ExpectedRack, ...]
    agents: tuple[PeerAddress, ...]
    poll_seconds: float = 5.0
    witness_port: int | None = None
    token: Callable[[], str] | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    shelves: Mapping[str, tuple[RedfishTarget, ...]] = field(default_factory=dict)
    redfish_seconds: float = 15.0
    bmcs: tuple[BmcTarget, ...] = ()
