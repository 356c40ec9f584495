"""`rackwatt rack` as a process over real agents: it answers, survives, and ends when it is told to."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_cli_agent import PATIENCE_SECONDS, get, running

pytestmark = pytest.mark.e2e

AGENT = ("agent", "--simulate", "gb300-nvl72", "--inline", "--listen", "127.0.0.1:0")
SERVING = r"serving url=http://(127\.0\.0\.1:\d+)/"


def configure(directory: Path, *agents: str) -> str:
    file = directory / "rack.yaml"
    listed = ", ".join(f'"n{number:02d}={address}"' for number, address in enumerate(agents, start=1))
    file.write_text(
        f"listen: 127.0.0.1:0\nstate_dir: {directory}\npoll: 1s\n"
        f"racks: {{r01: {{platform: gb300-nvl72, agents: [{listed}]}}}}\n"
    )
    return str(file)


def poll_until(ask: Callable[[], Any], condition: Callable[[Any], bool]) -> Any:
    """Ask until the answer is as it should be."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = ask()
        if condition(answer):
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.2)


def test_a_rack_is_watched_through_its_agents_until_a_signal_ends_it(tmp_path: Path) -> None:
    with running(*AGENT, "--tray", "0") as first, running(*AGENT, "--tray", "1") as second:
        addresses = [agent.wait_for(SERVING)[1] for agent in (first, second)]
        file = configure(tmp_path, *addresses)
        with running("rack", "--config", file) as service:
            base = f"http://{service.wait_for(SERVING)[1]}"

            def rack() -> Any:
                return json.loads(get(f"{base}/v1/racks"))["racks"][0]

            # Two of two nodes; two of them are needed (K = n - n // 9).
            seen = poll_until(rack, lambda rack: rack["verdict"] == "AVAILABLE")
            assert (seen["largest_block"], seen["min_block"]) == (2, 2)
            assert '\nrackwatt_rack_gpus{rack="r01",state="OK"} 8\n' in get(f"{base}/metrics")
            second.end(signal.SIGTERM)
            seen = poll_until(rack, lambda rack: rack["verdict"] == "UNKNOWN")
            assert (seen["largest_block"], seen["counts"]["unknown"]) == (1, 1)
            assert service.end(signal.SIGTERM) == 0
            assert "Traceback" not in "\n".join(service.lines)
        with running("rack", "--config", file) as service:
            base = f"http://{service.wait_for(SERVING)[1]}"
            events = poll_until(lambda: json.loads(get(f"{base}/v1/events"))["events"], bool)
            # What the restart found is what was known before: nothing has happened since.
            assert {event["kind"] for event in events} == {"verdict", "node_state"}
            assert len(events) == 2
            assert service.end(signal.SIGINT) == 0


def test_an_address_that_is_taken_ends_it_with_status_2(tmp_path: Path) -> None:
    with running(*AGENT) as agent:
        address = agent.wait_for(SERVING)[1]
        with running("rack", "--config", configure(tmp_path, address), "--listen", address) as service:
            service.wait_for("rackwatt: cannot listen on")
            assert service.process.wait(PATIENCE_SECONDS) == 2


def test_a_second_service_on_one_ledger_ends_with_status_2(tmp_path: Path) -> None:
    file = configure(tmp_path, "127.0.0.1:1")
    with running("rack", "--config", file) as first:
        first.wait_for(SERVING)
        with running("rack", "--config", file) as second:
            second.wait_for("another rack service")
            assert second.process.wait(PATIENCE_SECONDS) == 2


def test_a_mistake_in_the_configuration_ends_it_with_status_2_and_its_place(tmp_path: Path) -> None:
    file = tmp_path / "rack.yaml"
    file.write_text("racks: {}\n")
    with running("rack", "--config", str(file)) as service:
        service.wait_for(r"^rackwatt: .*rack\.yaml:1:8: racks: there is none")
        assert service.process.wait(PATIENCE_SECONDS) == 2
