"""A rack service whose agents are scripted and whose clock is turned by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from collector.health.rack_types import ExpectedRack, Poll
from collector.rack import RackService, RackServiceSettings
from collector.rack.records import Records
from collector.sources.peers import PeerAddress
from tests.rack_builders import SECOND, T0, SimulatedNode, SimulatedRack

POLL_SECONDS = 5.0


@dataclass
class HandClock:
    """Time that stands still until it is moved."""

    elapsed: float = 0.0

    def monotonic(self) -> float:
        return 1000.0 + self.elapsed

    def wall_ns(self) -> int:
        return T0 + int(self.elapsed * SECOND)


@dataclass
class ScriptedPoller:
    """Brings what the nodes of simulated racks are told to say.

    Attributes:
        nodes: Nodes by rack and name.
        clock: The clock.
        heard: Whether a first round of polls is over.
        started_at: When polling began.
        closed: Whether it was closed.
    """

    nodes: dict[str, dict[str, SimulatedNode]]
    clock: HandClock
    heard: bool = True
    started_at: float | None = None
    closed: bool = False

    @property
    def unpolled(self) -> int:
        return 0 if self._heard else sum(map(len, self.nodes.values()))

    @property
    def _heard(self) -> bool:
        return self.heard and self.started_at is not None

    async def start(self) -> None:
        self.started_at = self.clock.monotonic()

    async def close(self) -> None:
        self.closed = True

    def polls(self, rack: str, *, with_events: bool = True) -> tuple[Poll, ...]:
        if not self._heard:
            return tuple(Poll(node, f"{node}:10072", error="not polled yet") for node in self.nodes[rack])
        assert with_events
        return tuple(node.poll(self.clock.wall_ns()) for node in self.nodes[rack].values())


@dataclass
class Scene:
    """A running service, and what happens to it.

    Attributes:
        service: The service.
        poller: What its agents say.
        clock: Its time.
    """

    service: RackService
    poller: ScriptedPoller
    clock: HandClock

    def node(self, name: str, rack: str = "r01") -> SimulatedNode:
        return self.poller.nodes[rack][name]

    def step(self, seconds: float = POLL_SECONDS) -> None:
        """Let time pass and judge once."""
        self.clock.elapsed += seconds
        self.service.evaluate()

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()


@asynccontextmanager
async def scene(
    *racks: ExpectedRack,
    directory: Path | None = None,
    clock: HandClock | None = None,
    heard: bool = True,
) -> AsyncIterator[Scene]:
    """Run a service over racks whose nodes are all well to begin with."""
    own_clock = clock or HandClock()
    nodes = {rack.rack: SimulatedRack(rack).nodes for rack in racks}
    poller = ScriptedPoller(nodes, own_clock, heard=heard)
    service = RackService(
        RackServiceSettings(racks=racks, agents=addresses(racks), poll_seconds=POLL_SECONDS),
        Records(directory, poll_seconds=POLL_SECONDS),
        poller=poller,
        monotonic=own_clock.monotonic,
        wall_ns=own_clock.wall_ns,
    )
    try:
        await service.start()
        yield Scene(service, poller, own_clock)
    finally:
        await service.close()


def addresses(racks: Iterable[ExpectedRack]) -> tuple[PeerAddress, ...]:
    return tuple(PeerAddress(rack.rack, node, node, 10072) for rack in racks for node in rack.nodes)
