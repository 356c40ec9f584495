"""What is measured: the agent, and the exporter beside it, both over the NVML double."""

from __future__ import annotations

import importlib.metadata
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.errors import BenchError
from tests.bench.processes import Program
from tests.bench.scraping import Client, wait_until

PLATFORM: Final = "b200"  # NVLink 5 has the most series: errors by kind, recoveries, bit error ratios
GPUS: Final = 8
LINKS: Final = 18
ENDPOINTS: Final = 8  # one engine a GPU: the most endpoints that a node usually has
START_SECONDS: Final = 60.0
PEER: Final = "nvitop-exporter"


@dataclass(frozen=True)
class Subject:
    """A program to measure.

    Attributes:
        name: As the tables show it.
        program: How it is started.
        port: Where it serves /metrics.
        is_ready: Whether it answers with everything that it will export.
        numbers_snapshots: Whether it numbers its Snapshots, so that a scrape can be made to follow a new one.
    """

    name: str
    program: Program
    port: int
    is_ready: Callable[[Client], bool]
    numbers_snapshots: bool

    def wait_until_ready(self, client: Client) -> None:
        """Wait until it exports everything."""
        what = f"the start of {self.name}"
        wait_until(lambda: self.is_ready(client), what, START_SECONDS, self.program.check_alive)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def over_the_double(library: Path) -> dict[str, str]:
    """Environment in which a process loads the double for NVML."""
    return {
        "LD_LIBRARY_PATH": str(library.parent),
        "RACKWATT_DOUBLE_PLATFORM": PLATFORM,
        "RACKWATT_DOUBLE_GPUS": str(GPUS),
    }


def agent(command: Path, library: Path, folder: Path, engines: Sequence[int] = ()) -> Subject:
    """The agent, with every setting at its default.

    Args:
        command: The `rackwatt` command.
        library: The double.
        folder: Where its configuration, state and log go, each of them new.
        engines: Ports of 127.0.0.1 on which serving engines listen, to be scraped.

    Raises:
        BenchError: There is no such command.
    """
    if not command.is_file():
        raise BenchError(
            f"{command} does not exist: install rackwatt (make .venv/.dev) or name it with --agent"
        )
    port = free_port()
    state = folder / "state"
    state.mkdir()
    configuration = folder / "agent.yaml"
    # JSON is YAML; the agent finds out by itself what platform it is on.
    serving = [
        {"name": f"engine-{gpu}", "url": f"http://127.0.0.1:{engine}/metrics", "gpus": [gpu]}
        for gpu, engine in enumerate(engines)
    ]
    settings = {"rack": "bench", "node": "n01", "state_dir": str(state), "serving": serving}
    configuration.write_text(json.dumps(settings), encoding="utf-8")
    arguments = [str(command), "agent", "--listen", f"127.0.0.1:{port}", "--config", str(configuration)]
    program = Program("rackwatt", arguments, folder / "agent.log", over_the_double(library))

    def is_ready(client: Client) -> bool:
        client.get("/-/ready")
        ages = client.document()["age_seconds"]
        if any(ages.get(cadence) is None for cadence in ("fast", "links", "slow")):
            return False
        return not engines or _engines_up(client.exposition()) == len(engines)

    name = f"rackwatt with {len(engines)} endpoints" if engines else "rackwatt"
    return Subject(name, program, port, is_ready, numbers_snapshots=True)


def _engines_up(exposition: str) -> int:
    """Count the serving endpoints that are up."""
    return sum(
        line.startswith("rackwatt_llm_up{") and line.endswith(" 1") for line in exposition.splitlines()
    )


def serving_engines(folder: Path) -> tuple[Program, list[int]]:
    """Serving engines, played by a process of their own.

    Args:
        folder: Where its log goes.

    Returns:
        The process, and where each engine listens.
    """
    ports = [free_port() for _ in range(ENDPOINTS)]
    arguments = [sys.executable, "-m", "tests.bench.serving_engines", *map(str, ports)]
    repository = str(Path(__file__).resolve().parents[2])
    return Program(
        "the stand-in for engines", arguments, folder / "engines.log", {"PYTHONPATH": repository}
    ), ports


def peer(command: Path, library: Path, folder: Path) -> Subject:
    """nvitop-exporter, with every setting at its default.

    Raises:
        BenchError: There is no such command.
    """
    if not command.is_file():
        raise BenchError(
            f"{command} does not exist: pip install --require-hashes -r deploy/requirements-bench.txt, "
            "name it with --peer, or leave it out with --no-peer"
        )
    port = free_port()
    arguments = [str(command), "--bind-address", "127.0.0.1", "--port", str(port)]
    program = Program(PEER, arguments, folder / "peer.log", over_the_double(library))

    def is_ready(client: Client) -> bool:
        return client.exposition().count("\ngpu_nvlink_rx_throughput_MiBps{") == GPUS * LINKS

    return Subject(f"{PEER} {version_of(command)}", program, port, is_ready, numbers_snapshots=False)


def version_of(command: Path) -> str:
    """Version of the peer: of this environment's package, or what the command says of itself."""
    printed = subprocess.run([command, "--version"], capture_output=True, text=True, check=False, timeout=60)
    words = printed.stdout.split()
    if len(words) > 1:
        return words[1]
    return importlib.metadata.version(PEER)
