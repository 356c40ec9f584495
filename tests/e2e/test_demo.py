"""`rackwatt demo` as it is started: it says what there is, and what it says works and comes true."""

from __future__ import annotations

import json
import re
import shlex
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import MODULE, Program, environment, get, interrupt, running, until

pytestmark = pytest.mark.e2e

READY_SECONDS = 60.0
SCENE_SECONDS = 90.0
"""Longest wait for a scene: at five times the speed the last one begins after 30 s."""
EFFICIENCY_SECONDS = 240.0
"""Longest wait for a whole minute of the clock that was watched and is written down."""
END_SECONDS = 3.0
"""Longest that the demo may take to end."""

_RACKS = re.compile(r"http://127\.0\.0\.1:(\d+)/v1/racks ")


class Demo:
    """A demo that is ready.

    Attributes:
        program: The process.
        port: Port of its rack service.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

        def ready() -> bool:
            assert program.process.poll() is None, program.output
            return program.output.endswith("Ctrl-C ends it.\n")

        until(ready, "the demo is ready", READY_SECONDS)
        found = _RACKS.search(program.output)
        assert found, program.output
        self.port = int(found[1])

    def body(self, path: str) -> dict[str, Any]:
        """Ask the rack service."""
        answer = get(self.port, path)
        assert answer.status == 200, answer.text
        body: dict[str, Any] = json.loads(answer.text)
        return body

    def wait_for_node(self, name: str, state: str, *checks: str, words: str = "") -> dict[str, Any]:
        """Wait until a node is in a state for certain reasons, and one of them says certain words."""

        def reached() -> dict[str, Any] | None:
            node = self.body(f"/v1/nodes/{name}")
            reasons = {reason["check"]: reason["text"] for reason in node["reasons"]}
            fits = node["state"] == state and reasons.keys() >= set(checks)
            return node if fits and words in " ".join(reasons.values()) else None

        return until(reached, f"{name} is {state} by {checks}", SCENE_SECONDS)

    def wait_for_rack(self, name: str, verdict: str, **counts: int) -> dict[str, Any]:
        """Wait until a rack has a verdict with certain counts of nodes."""

        def reached() -> dict[str, Any] | None:
            health = self.body(f"/v1/racks/{name}/health")
            fits = health["verdict"] == verdict and counts.items() <= health["counts"].items()
            return health if fits else None

        return until(reached, f"{name} is {verdict} with {counts}", SCENE_SECONDS)

    def agent_port(self, node: str) -> int:
        """Find the port of a node's agent."""
        targets = json.loads(get(self.port, "/sd/prometheus").text)
        (address,) = [each["targets"][0] for each in targets if each["labels"].get("node") == node]
        return int(address.rpartition(":")[2])

    def efficiency(self) -> dict[str, Any]:
        """Wait until r01's tokens and input power of a minute are known."""

        def reached() -> dict[str, Any] | None:
            # It changes once a minute.
            time.sleep(0.5)
            body = self.body("/v1/racks/r01/efficiency?window=1m")
            (joined,) = [
                each
                for each in body["domains"]
                if (each["tokens"], each["domain"]) == ("total", "rack_input")
            ]
            return body if joined["tokens_per_joule"] is not None else None

        return until(reached, "a minute of r01 is known", EFFICIENCY_SECONDS)


def value_of(port: int, series: str) -> float | None:
    """Read a series whose name and some labels a pattern describes."""
    found = re.search(rf"^{series}\}} (\S+)$", get(port, "/metrics").text, re.MULTILINE)
    return float(found[1]) if found else None


@contextmanager
def demo(folder: Path, *words: str) -> Iterator[Demo]:
    """Run the demo on ports that the system chooses, with its temporary files in a folder."""
    temporary = folder / "temporary"
    temporary.mkdir()
    command = [*MODULE, "demo", "--listen", "127.0.0.1:0", *words]
    with running(command, folder / "demo.log", env=environment(TMPDIR=str(temporary))) as program:
        yield Demo(program)


def fetch(line: str) -> str:
    """Do what a printed command line does; curl's arguments as a shell would hand them over."""
    line = re.sub(r"\$\(cat (\S+)\)", lambda found: Path(found[1]).read_text("ascii"), line)
    words = shlex.split(line)
    assert words[:2] == ["curl", "-s"], line
    headers, data, url = {}, None, ""
    rest = iter(words[2:])
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            data = next(rest).encode()
        else:
            assert word.startswith("http://127.0.0.1:"), line
            url = word
    request = urllib.request.Request(url, data, headers)  # noqa: S310 -- our own server
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 -- the same; raises above 299
        text: str = response.read().decode()
        return text


def test_every_line_that_it_prints_works(tmp_path: Path) -> None:
    with demo(tmp_path) as shown:
        output = shown.program.output
        assert output.startswith(
            "r01: a simulated NVIDIA GB300 NVL72, 18 compute trays, 72 GPUs, 1,296 NVLinks\n"
        )
        # Every agent was judged before it said that it is ready.
        for rack, nodes in (("r01", 18), ("r02", 4)):
            body = shown.body(f"/v1/racks/{rack}")
            assert [node["state"] for node in body["nodes"]].count("UNKNOWN") == 0
            assert len(body["nodes"]) == nodes
        for url in set(re.findall(r"^  (http://\S+)  ", output, re.MULTILINE)):
            assert fetch(f"curl -s {url}")
        lines = re.findall(r"^  (curl .*)$", output, re.MULTILINE)
        assert len(lines) >= 6
        for line in lines:
            command, _, pattern = line.partition(" | grep ")
            answer = fetch(command)
            if pattern:
                assert re.search(shlex.split(pattern)[0], answer, re.MULTILINE), line
            else:
                assert isinstance(json.loads(answer), dict), line
        targets = json.loads(get(shown.port, "/sd/prometheus").text)
        assert len(targets) == 22
        assert 'simulated="true"' in fetch(f"curl -s http://{targets[0]['targets'][0]}/metrics")
        interrupt(shown.program)
        assert shown.program.wait(END_SECONDS) == 0
    assert list((tmp_path / "temporary").iterdir()) == []


def test_what_it_says_comes_true(tmp_path: Path) -> None:
    with demo(tmp_path, "--speed", "5") as shown:
        r01 = shown.body("/v1/racks/r01")
        assert (r01["verdict"], r01["min_block"]) == ("AVAILABLE", 16)

        hot = shown.wait_for_node("h02", "DEGRADED", "gpu_temperature_margin")
        assert hot["schedulable"] is True
        r02 = shown.wait_for_rack("r02", "AVAILABLE", degraded=1, ready=3)
        assert r02["largest_block"]["nodes"] == 4

        shown.wait_for_node("n03", "MAINTENANCE", "maintenance", "gpu_xid_fatal", words="link 9")
        shown.wait_for_node("n07", "FAILED", "gpu_lost", "node_gpus_missing", words="Xid 79: ")
        health = shown.wait_for_rack("r01", "AVAILABLE", ready=16, failed=1, maintenance=1)
        assert {node["node"] for node in health["avoid"]} == {"n03", "n07"}
        assert all(node["action"] for node in health["avoid"])
        assert health["drain_budget"]["allow"] is False

        shown.wait_for_node("n12", "UNKNOWN", "poll")
        # 15/1/1/1 (CONTRACTS §3).
        health = shown.wait_for_rack("r01", "MAINTENANCE", ready=15, failed=1, unknown=1, maintenance=1)
        assert health["reasons"][0]["check"] == "block"

        shown.wait_for_node("n12", "READY")
        shown.wait_for_rack("r01", "AVAILABLE", ready=16, failed=1, maintenance=1)
        assert {"FAILED", "MAINTENANCE"} == {
            node["state"] for node in shown.body("/v1/racks/r01")["nodes"] if node["state"] != "READY"
        }

        # An engine counts on for an hour at least before it is first seen: 4 GPUs * 18,131.6 tokens/s
        # (InferenceX, GB300 FP4) * 3,600 s * 8/9 = 232 million prompt tokens. Less is a restart's.
        n10 = shown.agent_port("n10")
        prompt = until(
            lambda: value_of(n10, 'rackwatt_llm_tokens_total{.*phase="prompt"'), "n10 counts tokens"
        )
        assert 0 < prompt < 200e6
        # What engines had counted before is not the rack's: it makes 1.2 million tokens a second.
        rack = value_of(shown.port, 'rackwatt_rack_llm_tokens_total{rack="r01".*phase="prompt"')
        assert rack is not None
        assert 0 < rack < 1e9

        efficiency = shown.efficiency()
        (total,) = [each for each in efficiency["tokens"] if each["tokens"] == "total"]
        # 8.63 million tokens a second and provisioned MW: InferenceX, GB300 FP4, 8k/1k.
        measured = total["tokens_per_second_per_provisioned_megawatt"]
        assert 0.8 * 8.63e6 <= measured <= 1.2 * 8.63e6
        assert efficiency["price"] == {
            "gpu_hour_usd": 3.3,
            "kwh_usd": 0.08,
            "pue": 1.2,
            "gpu_hour_includes_energy": True,
        }
        shown.program.process.send_signal(signal.SIGTERM)
        assert shown.program.wait(END_SECONDS) == 0
        assert "Traceback" not in shown.program.output


def test_an_address_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    with demo(tmp_path) as shown:
        address = f"127.0.0.1:{shown.port}"
        with running([*MODULE, "demo", "--listen", address], tmp_path / "second.log") as second:
            assert second.wait() == 2
            assert second.output == (
                f"rackwatt: cannot listen on {address}: Address already in use; stop what listens there,"
                " or listen on another port (`listen:` or --listen HOST:PORT)\n"
            )


def test_a_signal_ends_it_before_it_is_ready(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [*MODULE, "demo", "--listen", "127.0.0.1:0"]
    with running(command, tmp_path / "demo.log", env=environment(TMPDIR=str(temporary))) as program:
        # Its ledger is opened after it took over signals and before it is ready.
        until(lambda: list(temporary.glob("*/ledger.sqlite")), "the ledger is opened")
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0
        assert program.output == ""
    assert list(temporary.iterdir()) == []
