"""The power state of a silent node's host, joined with what its witness port says, over real sockets."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from collector.sources.peers import Poller, PollerSettings
from collector.sources.peers.witness import Heard
from collector.sources.redfish import BmcTarget, PowerStates
from tests.agent_http_client import run
from tests.peer_agents import FakeAgent, address, until
from tests.peer_agents import serving as serving_agents
from tests.redfish_services import PATIENT, ROOT, Document, LiteralService, collection, link, serving, target


def bmc_documents(state: str) -> dict[str, Document]:
    return {
        ROOT: {"Systems": link(f"{ROOT}/Systems")},
        f"{ROOT}/Systems": collection(f"{ROOT}/Systems/System_0"),
        f"{ROOT}/Systems/System_0": {"PowerState": state},
    }


async def silent(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


def poller(agents: list[FakeAgent], bmc: LiteralService, heard: Heard | None) -> Poller:
    """Make a poller whose node n01 has a BMC; `heard` is what every host's witness port answers."""

    async def ask(host: str, port: int) -> Heard:
        assert heard is not None
        return heard

    states = PowerStates([BmcTarget(rack="r01", node="n01", redfish=target(bmc, "bmc-n01"))], limits=PATIENT)
    settings = PollerSettings(period_seconds=0.4, witness_port=None if heard is None else 22)
    addresses = [address(f"n{number:02d}", port=each.port) for number, each in enumerate(agents, start=1)]
    return Poller(addresses, settings, ask=ask, power_states=states)


@pytest.mark.parametrize(
    ("state", "heard", "says"),
    [
        ("Off", None, True),
        ("Off", Heard.NOTHING, True),
        ("Off", Heard.SILENCE, True),
        # A host that answers has power, whatever its BMC, or that of another host, says.
        ("Off", Heard.ANSWER, False),
        ("On", None, None),
        ("On", Heard.ANSWER, False),
        ("PoweringOff", None, None),
    ],
)
def test_power_and_port_together_say_whether_a_silent_host_is_gone(
    state: str, heard: Heard | None, says: bool | None
) -> None:
    async def scenario() -> None:
        bmc, agent = LiteralService(bmc_documents(state)), FakeAgent(answer=silent)
        async with serving(bmc), serving_agents(agent):
            own = poller([agent], bmc, heard)
            await own.start()
            try:
                await until(lambda: bmc.requests.count(f"{ROOT}/Systems/System_0") >= 2)
                await until(lambda: own.polls("r01")[0].witness is says)
            finally:
                await own.close()

    run(scenario)


def test_a_bmc_is_asked_only_while_the_agent_is_silent() -> None:
    async def scenario() -> None:
        bmc, agent = LiteralService(bmc_documents("Off")), FakeAgent()
        async with serving(bmc), serving_agents(agent):
            own = poller([agent], bmc, None)
            await own.start()
            try:
                await until(lambda: len(agent.requests) >= 2)
                assert bmc.requests == []
                agent.answer = silent
                await until(lambda: own.polls("r01")[0].witness is True)
                agent.answer = None
                await until(lambda: own.polls("r01")[0].witness is None)
            finally:
                await own.close()

    run(scenario)


def test_a_bmc_that_hangs_holds_up_no_poll() -> None:
    async def scenario() -> None:
        bmc, agent = LiteralService({}, answer=silent), FakeAgent(answer=silent)
        async with serving(bmc), serving_agents(agent):
            own = poller([agent], bmc, None)
            await own.start()
            try:
                await until(lambda: len(agent.requests) >= 4)
                assert len(bmc.requests) == 1
                assert own.overruns == 0
                assert own.polls("r01")[0].witness is None
            finally:
                await own.close()

    run(scenario)
