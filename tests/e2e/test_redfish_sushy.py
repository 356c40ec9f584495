"""Power states of a Redfish service that others wrote: the emulator of OpenStack's sushy-tools."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.redfish import BmcTarget, PowerStates, RedfishError, RedfishTarget
from collector.sources.redfish.client import RedfishClient
from collector.sources.redfish.shelf_watch import ShelfReader
from tests.agent_http_client import run
from tests.e2e.programs import Program, free_port, get, running, until
from tests.peer_agents import until as soon

pytestmark = pytest.mark.e2e

SYSTEM = "27946b59-9e44-4fa7-8e91-f3527a1ef094"
"""The host of the emulator's fake driver."""
_EMULATOR = Path(sys.executable).with_name("sushy-emulator")
_RESET_SECONDS = 30.0
"""The fake driver takes 1 to 11 s to switch a host."""


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[int]:
    """Run an emulator with one fake host that is on; gives its port."""
    port = free_port()
    host = {"uuid": SYSTEM, "name": "fake", "power_state": "On", "external_notifier": False, "nics": []}
    configuration = tmp_path / "emulator.conf"
    configuration.write_text(
        f"SUSHY_EMULATOR_STATE_DIR = {str(tmp_path)!r}\nSUSHY_EMULATOR_FAKE_SYSTEMS = [{host!r}]\n", "utf-8"
    )
    command = [str(_EMULATOR), "--config", str(configuration), "--fake", "-i", "127.0.0.1", "-p", str(port)]
    with running(command, tmp_path / "emulator.log") as program:
        until(lambda: is_up(program, port), "the emulator answers")
        yield port


def is_up(program: Program, port: int) -> bool:
    assert program.process.poll() is None, program.output
    try:
        return get(port, "/redfish/v1/").status == 200
    except OSError:
        return False


def reset(port: int, kind: str) -> None:
    """Switch the host."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            "POST",
            f"/redfish/v1/Systems/{SYSTEM}/Actions/ComputerSystem.Reset",
            json.dumps({"ResetType": kind}),
            {"Content-Type": "application/json"},
        )
        assert connection.getresponse().status == 204
    finally:
        connection.close()


def power(port: int) -> str:
    return str(json.loads(get(port, f"/redfish/v1/Systems/{SYSTEM}").text)["PowerState"])


def test_a_host_that_is_switched_off_is_gone_until_it_is_on_again(emulator: int) -> None:
    service = RedfishTarget(name="bmc-n01", url=f"http://127.0.0.1:{emulator}")

    async def says(expected: bool | None) -> None:
        states = PowerStates([BmcTarget(rack="r01", node="n01", redfish=service)])

        def as_expected() -> bool:
            states.ask("r01", "n01")
            return states.says("r01", "n01") is expected

        try:
            await soon(as_expected)
        finally:
            await states.close()

    async def on() -> None:
        client = RedfishClient(service)
        states = PowerStates([BmcTarget(rack="r01", node="n01", redfish=service, system=SYSTEM)])
        try:
            states.ask("r01", "n01")
            with pytest.raises(RedfishError, match="nothing tells the input power"):
                await ShelfReader(client).watts()
            assert states.says("r01", "n01") is None
        finally:
            await states.close()
            await client.close()

    run(on)
    reset(emulator, "ForceOff")
    until(lambda: power(emulator) == "Off", "the host is off", _RESET_SECONDS)
    run(lambda: says(True))
    reset(emulator, "On")
    until(lambda: power(emulator) == "On", "the host is on", _RESET_SECONDS)
    run(lambda: says(None))
