"""What the power state of a host proves, and for how long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from collector.simulator.redfish_server import SimulatedRedfishServer
from collector.sources.redfish import BmcTarget, PowerStates
from collector.sources.redfish.power_states import REMEMBERED_SECONDS
from tests.agent_http_client import Clock, run
from tests.peer_agents import until
from tests.redfish_services import PATIENT, ROOT, Document, LiteralService, collection, link, serving, target


class Bmc(SimulatedRedfishServer):
    """A simulated BMC that counts how often power states were read."""

    def __init__(self, systems: Mapping[str, str]) -> None:
        super().__init__(systems=systems)
        self.read: list[str] = []

    def resource(self, path: str) -> dict[str, object] | None:
        if path.startswith(f"{ROOT}/Systems/"):
            self.read.append(path.rpartition("/")[2])
        return super().resource(path)


def one_system(state: str) -> dict[str, Document]:
    return {
        ROOT: {"Systems": link(f"{ROOT}/Systems")},
        f"{ROOT}/Systems": collection(f"{ROOT}/Systems/System_0"),
        f"{ROOT}/Systems/System_0": {"PowerState": state},
    }


@asynccontextmanager
async def asking(
    bmc: SimulatedRedfishServer, clock: Clock | None = None, system: str = ""
) -> AsyncIterator[PowerStates]:
    async with serving(bmc):
        own = BmcTarget(rack="r01", node="n01", redfish=target(bmc, "bmc-n01"), system=system)
        states = PowerStates([own], limits=PATIENT, monotonic=clock or Clock())
        try:
            yield states
        finally:
            await states.close()


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("Off", True),
        ("On", None),
        ("PoweringOn", None),
        ("PoweringOff", None),
        ("Paused", None),
        ("off", None),
    ],
)
def test_off_is_a_proof_and_nothing_else_is(state: str, says: bool | None) -> None:
    async def scenario() -> None:
        bmc = Bmc({"System_0": state})
        async with asking(bmc) as states:
            assert states.says("r01", "n01") is None
            states.ask("r01", "n01")
            states.ask("r01", "n01")  # while the first question runs: no second one
            await until(lambda: bmc.read)
            await until(lambda: states.says("r01", "n01") is says)
            assert len(bmc.read) == 1
            assert states.says("r01", "n02") is states.says("r02", "n01") is None

    run(scenario)


def test_a_node_without_a_bmc_is_not_asked() -> None:
    async def scenario() -> None:
        bmc = Bmc({"System_0": "Off"})
        async with asking(bmc) as states:
            states.ask("r01", "n02")
            states.forget("r01", "n02")
            assert states.says("r01", "n02") is None
            assert bmc.read == []

    run(scenario)


def test_an_answer_counts_for_a_minute() -> None:
    async def scenario() -> None:
        clock = Clock()
        async with asking(Bmc({"System_0": "Off"}), clock) as states:
            states.ask("r01", "n01")
            await until(lambda: states.says("r01", "n01"))
            clock.seconds += REMEMBERED_SECONDS
            assert states.says("r01", "n01") is True
            clock.seconds += 0.1
            assert states.says("r01", "n01") is None

    run(scenario)


def test_a_host_that_answers_needs_no_witness() -> None:
    async def scenario() -> None:
        async with asking(Bmc({"System_0": "Off"})) as states:
            states.ask("r01", "n01")
            await until(lambda: states.says("r01", "n01"))
            states.forget("r01", "n01")
            assert states.says("r01", "n01") is None

    run(scenario)


def test_what_was_asked_before_the_host_answered_counts_no_more() -> None:
    async def scenario() -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def wait(_: web.BaseRequest) -> None:
            asked.set()
            await may_answer.wait()

        service = LiteralService(one_system("Off"), answer=wait)
        async with asking(service) as states:
            states.ask("r01", "n01")
            await asked.wait()
            states.forget("r01", "n01")
            may_answer.set()
            # The next question is asked as soon as the last one is given up, and sees the host on.
            service.documents |= one_system("On")
            count = len(service.requests)

            def ask_again() -> bool:
                states.ask("r01", "n01")
                assert states.says("r01", "n01") is None
                return len(service.requests) >= count + 3

            await until(ask_again)

    run(scenario)


def test_the_system_is_found_once_and_anew_after_an_error() -> None:
    async def scenario() -> None:
        path = f"{ROOT}/Systems/System_0"
        service = LiteralService(one_system("On"))

        def asked(times: int) -> Callable[[], bool]:
            def ask() -> bool:
                states.ask("r01", "n01")
                return service.requests.count(path) >= times

            return ask

        async with asking(service) as states:
            await until(asked(3))
            assert service.requests.count(f"{ROOT}/Systems") == 1
            del service.documents[path]
            await until(asked(service.requests.count(path) + 2))
            assert service.requests.count(f"{ROOT}/Systems") > 1

    run(scenario)


def test_the_system_of_a_gpu_baseboard_is_not_the_host() -> None:
    async def scenario() -> None:
        bmc = Bmc({"HGX_Baseboard_0": "On", "System_0": "Off"})
        async with asking(bmc) as states:
            states.ask("r01", "n01")
            await until(lambda: states.says("r01", "n01"))
            assert bmc.read == ["System_0"]

    run(scenario)


def test_a_system_that_is_named_is_taken() -> None:
    async def scenario() -> None:
        bmc = Bmc({"1": "On", "2": "Off"})
        async with asking(bmc, system="2") as states:
            states.ask("r01", "n01")
            await until(lambda: states.says("r01", "n01"))
            assert bmc.read == ["2"]

    run(scenario)


@pytest.mark.parametrize(
    ("systems", "system", "said"),
    [
        (["1", "2"], "", "it is not clear which system is the host; known: 1, 2; name one in `system`"),
        (["1", "2"], "3", "there is no system '3'; known: 1, 2"),
        ([], "", "it is not clear which system is the host; the BMC knows none"),
    ],
)
def test_a_system_that_cannot_be_found_is_told_once(
    systems: list[str], system: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with asking(Bmc(dict.fromkeys(systems, "Off")), system=system) as states:
            for _ in range(2):
                states.ask("r01", "n01")
                await until(lambda: said in caplog.text)
            assert states.says("r01", "n01") is None

    with caplog.at_level(logging.INFO, "rackwatt.redfish"):
        run(scenario)
    assert caplog.text.count(said) == 1
