"""`rackwatt agent` as a process: it serves, and ends when it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.cli import reader

pytestmark = pytest.mark.e2e

MAIN = Path(reader.__file__).with_name("__main__.py")
LISTEN = ("--listen", "127.0.0.1:0")
SIMULATE = ("--simulate", "gb300-nvl72")
PATIENCE_SECONDS = 60.0


class Process:
    """A running command whose lines, of output and log together, are read one by one."""

    def __init__(self, *words: str, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(MAIN), *words],
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
        self.lines: list[str] = []
        self._rest = b""

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read lines until one matches."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        seen = 0
        while True:
            while seen < len(self.lines):
                match = re.search(pattern, self.lines[seen])
                if match:
                    return match
                seen += 1
            assert self._read(deadline - time.monotonic()), f"no {pattern!r} in {self.lines}"

    def _read(self, seconds: float) -> bool:
        """Read what comes within some time; False when there is no more."""
        stdout = self.process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, seconds)):
                return False
        chunk = os.read(stdout.fileno(), 65536)
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        self.lines += [line.decode() for line in whole]
        return bool(chunk)

    def end(self, number: signal.Signals, times: int = 1) -> int:
        """Send a signal, once or more often, and return the exit status."""
        for _ in range(times):
            self.process.send_signal(number)
            with contextlib.suppress(AssertionError):
                self.wait_for("stopping")
        status = self.process.wait(PATIENCE_SECONDS)
        while self._read(0.0):
            pass
        return status


@contextlib.contextmanager
def running(*words: str, environ: dict[str, str] | None = None) -> Iterator[Process]:
    process = Process(*words, environ=environ or {})
    try:
        yield process
    finally:
        process.process.kill()
        process.process.wait(PATIENCE_SECONDS)
        if process.process.stdout is not None:
            process.process.stdout.close()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:  # noqa: S310 -- our own server
        body: bytes = response.read()
    return body.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("inline", [(), ("--inline",)], ids=["child", "inline"])
def test_the_agent_serves_until_a_signal_ends_it(number: signal.Signals, inline: tuple[str, ...]) -> None:
    with running("agent", *SIMULATE, *LISTEN, "--tray", "3", *inline) as agent:
        url = agent.wait_for(r"serving url=(\S+)")[1]
        lines = [line for line in get(url).splitlines() if line.startswith("rackwatt_gpu_up{")]
        # A GB300 tray has four GPUs; tray 3 is node n04.
        assert len(lines) == 4
        assert all('rack="r01",node="n04"' in line and line.endswith(" 1") for line in lines)
        assert agent.end(number) == 0
        assert "Traceback" not in "\n".join(agent.lines)


def test_a_call_that_hangs_does_not_hold_the_agent() -> None:
    with running("agent", *SIMULATE, *LISTEN, "--fault", "call_hangs:start=1") as agent:
        agent.wait_for("serving")
        agent.wait_for("silent")
        assert agent.end(signal.SIGTERM) == 0


def test_a_second_signal_ends_the_agent_at_once() -> None:
    with running("agent", *SIMULATE, *LISTEN, "--fault", "call_hangs:start=1") as agent:
        agent.wait_for("silent")
        # 128 + SIGTERM: it did not close what it had open.
        assert agent.end(signal.SIGTERM, times=2) == 143


def test_with_a_driver_or_without_the_agent_runs_and_says_how_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(f"state_dir: {tmp_path}\n")
    with running("agent", *LISTEN, "--config", str(file), environ={"RACKWATT_NODE": "n09"}) as agent:
        port = agent.wait_for(r"listening address=127\.0\.0\.1:(\d+)")[1]
        said = agent.wait_for("NVML cannot be read|NVML is read")[0]
        text = get(f"http://127.0.0.1:{port}/metrics")
        up = "1" if said == "NVML is read" else "0"
        assert re.search(rf'^rackwatt_agent_nvml_up\{{rack="[^"]+",node="n09"\}} {up}$', text, re.MULTILINE)
        assert agent.end(signal.SIGTERM) == 0
        assert sum("NVML" in line for line in agent.lines) == 1


def test_the_state_of_a_simulation_goes_away_with_it(tmp_path: Path) -> None:
    with running("agent", *SIMULATE, *LISTEN, environ={"TMPDIR": str(tmp_path)}) as agent:
        agent.wait_for("serving")
        (folder,) = tmp_path.iterdir()
        assert folder.name.startswith("rackwatt-")
        assert agent.end(signal.SIGTERM) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_state_of_a_simulation_is_kept_where_the_configuration_says(tmp_path: Path) -> None:
    file, state = tmp_path / "agent.yaml", tmp_path / "state"
    file.write_text(f"rack: r07\nstate_dir: {state}\nlog: {{format: json}}\n")
    with running("agent", *SIMULATE, *LISTEN, "--config", str(file)) as agent:
        agent.wait_for('"message": "serving"')
        assert agent.end(signal.SIGTERM) == 0
        assert [json.loads(line)["level"] for line in agent.lines].count("info") >= 4
    kept = json.loads((state / "agent.json").read_text())
    assert (kept["rack"], kept["node"], len(kept["gpus"])) == ("r07", "n01", 4)


def test_the_level_of_the_log_is_configured(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("log: {level: error}\n")
    with running("agent", *SIMULATE, "--listen", "256.1.1.1.example:1", "--config", str(file)) as agent:
        agent.wait_for("rackwatt: cannot listen on")
        assert agent.process.wait(PATIENCE_SECONDS) == 2
        assert len(agent.lines) == 1


def test_an_address_that_is_taken_is_told() -> None:
    with running("agent", *SIMULATE, *LISTEN) as first:
        address = first.wait_for(r"http://([^/]+)/")[1]
        with running("agent", *SIMULATE, "--listen", address) as second:
            assert second.process.wait(PATIENCE_SECONDS) == 2
            second.wait_for(f"^rackwatt: cannot listen on {re.escape(address)}: Address already in use")
        assert first.end(signal.SIGTERM) == 0


def test_check_knows_an_agent_that_already_listens(tmp_path: Path) -> None:
    with running("agent", *SIMULATE, *LISTEN) as agent:
        address = agent.wait_for(r"http://([^/]+)/")[1]
        file = tmp_path / "agent.yaml"
        file.write_text(f"listen: {address}\n")
        done = subprocess.run(
            [sys.executable, "-P", str(MAIN), "check", "--config", str(file), "--json"],
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        found = {each["check"]: each["finding"] for each in json.loads(done.stdout)["findings"]}
        assert found["address"] == f"a rackwatt agent already answers on {address}"
        assert found["configuration"] == f"{file} is valid"
        assert agent.end(signal.SIGTERM) == 0
