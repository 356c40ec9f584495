"""Whole programs for end-to-end tests: started on loopback, asked over HTTP, ended by pid."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.faults.processes import Pidfd

REPOSITORY = Path(__file__).resolve().parents[2]
MODULE = [sys.executable, "-m", "collector.cli"]
SCRIPT = [str(Path(sys.executable).with_name("rackwatt"))]

PATIENCE_SECONDS = 30.0
"""What nothing here needs, on a machine that does other things too."""
END_SECONDS = 10.0
"""Longest that an agent may take to end: 2 s for HTTP, 3 s for the reader, and a margin."""

_LISTENING = re.compile(r"listening address=(?:\S+):(\d+)")

Value = TypeVar("Value")


def until(ask: Callable[[], Value | None], what: str, seconds: float = PATIENCE_SECONDS) -> Value:
    """Ask again and again until the answer is something true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    text: str


def get(port: int, path: str, **headers: str) -> Answer:
    """Ask a server on loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, response.read().decode())
    finally:
        connection.close()


def values(exposition: str) -> dict[str, float]:
    """Read an exposition of our own making: values by series as written, without `rack` and `node`."""
    read = {}
    for line in exposition.splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            read[re.sub(r'rack="[^"]*",node="[^"]*",?', "", series).replace("{}", "")] = float(value)
    return read


class Program:
    """A program that runs.

    Attributes:
        process: The process.
        log: What it writes to standard output and standard error.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def output(self) -> str:
        """What it has written."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds: float = END_SECONDS) -> int:
        """Wait for its end, and return its status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {seconds:.0f} s; it said:\n{self.output}") from None

    def wait_for(self, text: str) -> None:
        """Wait until it has written a text."""
        until(lambda: text in self.output, f"the line {text!r} of:\n{self.output}")

    def children(self) -> list[int]:
        """Ids of its children."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


class AgentProgram(Program):
    """An agent that runs."""

    @property
    def port(self) -> int:
        """Where it listens; waits until it does."""

        def found() -> int | None:
            match = _LISTENING.search(self.output)
            assert match or self.process.poll() is None, self.output
            return int(match[1]) if match else None

        return until(found, "the agent listens")

    @property
    def values(self) -> dict[str, float]:
        """What `/metrics` says; empty while it has nothing to say."""
        answer = get(self.port, "/metrics")
        return values(answer.text) if answer.status == 200 else {}

    def wait_until_ready(self) -> None:
        """Wait until it reads the GPUs."""
        port = self.port
        until(lambda: get(port, "/-/ready").status == 200, "the agent is ready")

    def reader(self) -> Pidfd:
        """Hold on to its reader's process."""
        (pid,) = until(self.children, "the agent has a reader")
        return Pidfd(pid)


def environment(**more: str) -> dict[str, str]:
    """Make an environment without what an agent would take for settings."""
    ours = ("RACKWATT_", "NODE_NAME", "LD_LIBRARY_PATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    kind: type[Program] = Program,
) -> Iterator[Program]:
    """Start a program; at the end kill it if it still runs."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=env or environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C of a test reaches this program and its children alone
        )
    try:
        yield kind(process, log)
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


@contextmanager
def agent(
    folder: Path,
    *words: str,
    program: Sequence[str] = MODULE,
    settings: str = "",
    node: str = "n01",
    env: Mapping[str, str] | None = None,
) -> Iterator[AgentProgram]:
    """Run `rackwatt agent` on a free port, with its state in a folder.

    Args:
        folder: For configuration, state and log.
        words: Further arguments.
        program: How the command line is started.
        settings: Lines of configuration.
        node: Name of the node.
        env: The environment.
    """
    configuration = folder / "agent.yaml"
    configuration.write_text(f"rack: r01\nnode: {node}\nstate_dir: {folder / 'state'}\n{settings}", "utf-8")
    command = [*program, "agent", "--config", str(configuration), "--listen", "127.0.0.1:0", *words]
    with running(command, folder / "agent.log", env=env, kind=AgentProgram) as started:
        assert isinstance(started, AgentProgram)
        yield started


def run_to_end(*words: str, program: Sequence[str] = MODULE) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    return subprocess.run(
        [*program, *words],
        cwd=REPOSITORY,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def interrupt(program: Program) -> None:
    """Do what Ctrl-C in a terminal does: signal the whole process group."""
    os.killpg(program.process.pid, signal.SIGINT)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
