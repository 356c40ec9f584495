"""What a rack service is made from: racks as they are declared, and where their agents are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collector.health.rack_types import ExpectedRack
from collector.sources.peers import PeerAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class RackServiceSettings:
    """Settings of a rack service.

    Attributes:
        racks: The racks as they are declared.
        agents: Where the agents of their nodes are, one a node.
        poll_seconds: Time between two polls of one agent.
        witness_port: TCP port by which hosts are asked as a second witness; None for none.
        token: Returns the bearer token that agents expect; None for none.
    """

    racks: tuple[ExpectedRack, ...]
    agents: tuple[PeerAddress, ...]
    poll_seconds: float = 5.0
    witness_port: int | None = None
    token: Callable[[], str] | None = None
