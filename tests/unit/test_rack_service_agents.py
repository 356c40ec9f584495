"""From sockets to verdicts: a rack service over agents that are good, of another schema, or gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.health.rack_types import ExpectedRack
from collector.health.states import NodeState, Verdict
from collector.rack import RackService, RackServiceSettings
from collector.rack.records import Records
from tests.agent_http_client import run
from tests.peer_agents import FakeAgent, address, event, fields, serving, until

POLL_SECONDS = 0.4


def agent(node: str, **changes: object) -> FakeAgent:
    """Play the agent of a node whose clock is right."""
    own = fields(node=node, agent_id=f"agent-{node}", time_ns=time.time_ns(), **changes)
    for slot in own["slots"]:
        if slot[0].startswith("gpu_"):
            slot[2] = f"{slot[2]}-{node}"
        if slot[0] == "gpu_info":
            slot[10] = node[1:]  # its slot: the eighth text
    return FakeAgent(own)


@asynccontextmanager
async def watching(*agents: FakeAgent) -> AsyncIterator[RackService]:
    """Watch rack r01, whose nodes are n01, n02 … and need a block of two."""
    nodes = tuple(f"n{number:02d}" for number in range(1, len(agents) + 1))
    service = RackService(
        RackServiceSettings(
            racks=(ExpectedRack("r01", "gb300-nvl72", nodes, min_block=2, gpus_per_node=2),),
            agents=tuple(address(node, port=own.port) for node, own in zip(nodes, agents, strict=True)),
            poll_seconds=POLL_SECONDS,
        ),
        Records(None, poll_seconds=POLL_SECONDS),
    )
    await service.start()
    try:
        yield service
    finally:
        await service.close()


def verdict(service: RackService) -> Verdict:
    return service.racks()[0].verdict


def reasons(service: RackService, node: str) -> str:
    found = service.node(node)
    assert found is not None
    return "; ".join(reason.text for reason in found.status.reasons)


def state(service: RackService, node: str) -> NodeState:
    found = service.node(node)
    assert found is not None
    return found.status.state


def test_good_agents_make_an_available_rack_and_another_schema_an_unknown_node() -> None:
    async def scenario() -> None:
        agents = agent("n01"), agent("n02"), agent("n03", schema=2)
        async with serving(*agents), watching(*agents) as service:
            await until(service.ready)
            await until(lambda: verdict(service) is Verdict.AVAILABLE)
            assert state(service, "n03") is NodeState.UNKNOWN
            assert "the agent speaks schema 2 of the Snapshot, not 1" in reasons(service, "n03")
            gpu = service.gpu("GPU-1-n02")
            assert gpu is not None
            assert gpu.node.poll.samples.value("gpu_power_watts", "1", "GPU-1-n02") == 412.3

    run(scenario)


def test_an_agent_that_ends_leaves_its_node_unknown_and_one_that_returns_ready() -> None:
    async def scenario() -> None:
        staying, leaving = agent("n01"), agent("n02")
        async with serving(staying):
            async with serving(leaving):
                pass
            async with watching(staying, leaving) as service:
                async with serving(leaving):
                    await until(lambda: verdict(service) is Verdict.AVAILABLE)
                await until(lambda: verdict(service) is Verdict.UNKNOWN)
                assert "no agent listens there" in reasons(service, "n02")
                async with serving(leaving):
                    await until(lambda: verdict(service) is Verdict.AVAILABLE)
                told = [each.text.split(":")[0] for each in await service.events(kind="verdict")]
                assert told == ["UNKNOWN → AVAILABLE", "AVAILABLE → UNKNOWN"]
                assert await service.incidents() == ()

    run(scenario)


def test_events_of_agents_reach_the_ledger_once() -> None:
    async def scenario() -> None:
        first = agent("n01", events={"next": 1, "items": [event(1, time_ns=time.time_ns())]})
        second = agent("n02")
        async with serving(first, second), watching(first, second) as service:
            await until(service.ready)
            requests = len(first.requests)
            await until(lambda: len(first.requests) >= requests + 2)
            await asyncio.sleep(POLL_SECONDS)
            events = await service.events(kind="xid")
            assert [(each.node, each.code, each.gpu_uuid) for each in events] == [("n01", 79, "GPU-0")]

    run(scenario)
