"""The release switch: what people are told, when a release ends by itself, and what a rack makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from collector import profiles
from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.health.incidents import IncidentBook
from collector.health.rack_types import NodeStatus, RackStatus
from collector.health.states import GpuState, NodeState
from collector.model import Snapshot
from collector.protocols import Deliver
from collector.readings import Layout, Message
from collector.release import ReleaseSwitch, Standing, reason_of
from collector.simulator import SimulatedNode
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from collector.sources.peers.document import decode
from collector.sources.peers.peer import Answered, Peer, PeerAddress
from exporters.snapshot import DocumentFormat, DocumentWriter
from tests.agent_http_client import Clock, run
from tests.rack_builders import SECOND, T0, SimulatedRack, nvl72
from tests.readings import HOST, NAMES, down

SINCE = "released by `rackwatt release` at 2026-01-01 00:00:00 UTC; `rackwatt resume` takes the GPUs again"


class NotingSource:
    """Notes what is ordered."""

    def __init__(self) -> None:
        self.restarts = 0
        self.held_by = ""
        self.said: list[str] = []
        self.lets_go = asyncio.Event()
        self.lets_go.set()

    async def start(self, deliver: Deliver) -> None:
        """Nothing is read."""

    async def release(self, reason: str) -> None:
        await self.lets_go.wait()
        self.said.append(reason)

    async def resume(self) -> None:
        self.said.append("resume")

    async def close(self) -> None:
        """Nothing is held."""


class Wall:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.ns = T0

    def __call__(self) -> int:
        return self.ns


def test_the_reason_names_both_times_in_utc() -> None:
    assert reason_of(T0, None) == SINCE
    assert reason_of(T0 + 999_999_999, T0 + 1800 * SECOND) == (
        f"{SINCE}, or the agent itself at 2026-01-01 00:30:00 UTC"
    )


def test_a_release_stands_until_it_is_resumed() -> None:
    async def scenario() -> None:
        source, wall = NotingSource(), Wall()
        switch = ReleaseSwitch(source, wall_ns=wall)
        assert switch.standing() == Standing()
        assert await switch.release() == Standing(True, T0)
        source.held_by = "readers that hang"
        assert switch.standing() == Standing(True, T0, held_by="readers that hang")
        assert await switch.resume() == Standing()
        assert source.said == [SINCE, "resume"]

    run(scenario)


def test_a_second_release_keeps_the_time_of_the_first_and_decides_anew_when_it_ends() -> None:
    async def scenario() -> None:
        source, wall = NotingSource(), Wall()
        switch = ReleaseSwitch(source, wall_ns=wall)
        await switch.release(3600)
        wall.ns += 60 * SECOND
        assert await switch.release(1800) == Standing(True, T0, T0 + 1860 * SECOND)
        assert await switch.release() == Standing(True, T0)
        assert source.said == [
            f"{SINCE}, or the agent itself at 2026-01-01 01:00:00 UTC",
            f"{SINCE}, or the agent itself at 2026-01-01 00:31:00 UTC",
            SINCE,
        ]

    run(scenario)


def test_a_release_ends_by_itself() -> None:
    async def scenario() -> None:
        source = NotingSource()
        switch = ReleaseSwitch(source, wall_ns=Wall())
        await switch.release(0.05)
        while switch.standing().released:  # noqa: ASYNC110 -- nothing tells of it, and `run` bounds it
            await asyncio.sleep(0.005)
        assert source.said[1:] == ["resume"]

    run(scenario)


@pytest.mark.parametrize("how", ["released anew", "resumed", "closed"])
def test_an_end_that_is_overtaken_does_not_come(how: str) -> None:
    async def scenario() -> None:
        source = NotingSource()
        switch = ReleaseSwitch(source, wall_ns=Wall())
        await switch.release(0.1)
        match how:
            case "released anew":
                await switch.release()
            case "resumed":
                await switch.resume()
                await switch.release()
            case _:
                await switch.close()
        said = list(source.said)
        await asyncio.sleep(0.3)
        assert source.said == said
        assert switch.standing().released

    run(scenario)


def test_orders_are_carried_out_one_after_the_other_even_if_their_client_goes_away() -> None:
    async def scenario() -> None:
        source = NotingSource()
        source.lets_go.clear()
        switch = ReleaseSwitch(source, wall_ns=Wall())
        released = asyncio.create_task(switch.release())
        await asyncio.sleep(0.01)
        resumed = asyncio.create_task(switch.resume())
        await asyncio.sleep(0.01)
        released.cancel()
        await asyncio.sleep(0.01)
        assert source.said == []
        source.lets_go.set()
        assert await resumed == Standing()
        assert source.said == [SINCE, "resume"]

    run(scenario)


def released_snapshots() -> tuple[Snapshot, Snapshot]:
    """A Snapshot of a simulated GB300 tray that is read, and the next one, after its release."""
    node, clock = SimulatedNode(profiles.load("gb300-nvl72"), tray=0), Clock()
    reader = NvmlReader(lambda: NvmlLibrary(node.library), ReaderOptions(gpus_expected=4), monotonic=clock)
    names = replace(NAMES, node="n01")
    # The wall clock stands still: a rack dates what it sees by its own.
    assembly = Assembly(names, HOST, Deadlines(), monotonic=clock, wall_ns=lambda: T0)
    messages: list[Message] = list(reader.step(clock()))
    for message in messages:
        if isinstance(message, Layout):
            assembly.apply_layout(message)
        else:
            assembly.apply_reading(message)
    read = assembly.snapshot(0)
    assert read.nvml_up
    assembly.apply_reading(down(clock() + 1, reason_of(T0, None)))
    return read, assembly.snapshot(0)


def polled(peer: Peer, snapshot: Snapshot, now_ns: int) -> None:
    body = DocumentWriter().write(snapshot, DocumentFormat.MESSAGEPACK)
    document = decode(body)
    answered = peer.take(document, monotonic=now_ns / SECOND, wall_ns=now_ns)
    assert answered is Answered.TAKEN


def node_of(status: RackStatus) -> NodeStatus:
    (own,) = (node for node in status.nodes if node.node == "n01")
    return own


def test_at_the_rack_a_released_node_is_unknown_with_the_reason_and_no_incident() -> None:
    read, released = released_snapshots()
    assert (released.nvml_up, released.reason) == (False, SINCE)
    assert released.ages_seconds["fast"] is None
    peer, rack, book = Peer(PeerAddress("r01", "n01", "n01", 10072)), SimulatedRack(nvl72()), IncidentBook()

    def step(snapshot: Snapshot) -> RackStatus:
        rack.now_ns += 5 * SECOND
        # The agent's wall clock stands still; its Snapshot would else be too old to be believed.
        polled(peer, replace(snapshot, time_ns=rack.now_ns, sequence=rack.now_ns // SECOND), rack.now_ns)
        others = [node.poll(rack.now_ns) for name, node in rack.nodes.items() if name != "n01"]
        status = rack.judge.evaluate([peer.poll(None), *others], rack.now_ns)
        assert book.observe("r01", node_of(status), rack.now_ns) == (None, False)
        return status

    own = node_of(step(read))
    assert own.poll is not None
    assert own.poll.view is not None
    assert len(own.poll.view.gpus) == 4
    statuses = [step(released) for _ in range(200)]
    # CONTRACTS §3: three poll intervals without a good poll make the node UNKNOWN at once.
    settled = [node_of(status) for status in statuses[3:]]
    assert {node.state for node in settled} == {NodeState.UNKNOWN}
    assert not any(node.schedulable for node in settled)
    for node in settled:
        assert [reason.check for reason in node.reasons] == ["poll"]
        assert SINCE in node.reasons[0].text
        assert node.poll is not None
        assert node.poll.view is not None
        assert {gpu.state for gpu in node.poll.view.gpus} == {GpuState.UNKNOWN}
    assert {node_of(status).state for status in statuses}.isdisjoint({NodeState.FAILED})
    assert book.latest() == ()
