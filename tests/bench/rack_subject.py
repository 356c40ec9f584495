"""What is measured: `rackwatt rack` over many played agents, both in processes of their own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tests.bench.errors import BenchError
from tests.bench.processes import Program
from tests.bench.rack_agents import Stats, host_of, places
from tests.bench.rack_documents import PLATFORM, node_name, rack_name
from tests.bench.scraping import Client, wait_until
from tests.bench.subjects import START_SECONDS, free_port


class RackSubject:
    """A rack service that polls a number of agents; runs while its block does.

    Attributes:
        agents: How many agents.
        racks: Names of the racks, in order.
        service: The rack service.
        stand_in: The process that plays the agents.
        client: A client of the rack service.
        start_seconds: From the start of the rack service until every node was known.
    """

    def __init__(self, command: Path, agents: int, folder: Path) -> None:
        """Prepare both.

        Args:
            command: The `rackwatt` command.
            agents: How many agents to play: full racks of 18, and what is left in one more.
            folder: For configuration, state and logs; it must exist.

        Raises:
            BenchError: There is no such command.
        """
        if not command.is_file():
            raise BenchError(
                f"{command} does not exist: install rackwatt (make .venv/.dev) or name it with --agent"
            )
        self.agents = agents
        own = places(agents)
        self._nodes = Counter(rack_name(rack) for rack, _ in own)
        self.racks = list(self._nodes)
        network, port = 1 + os.getpid() % 254, free_port()
        self._control = Client(control_port := free_port())
        self._stack = ExitStack()
        repository = str(Path(__file__).resolve().parents[2])
        self.stand_in = Program(
            "the stand-in for agents",
            [
                *(sys.executable, "-m", "tests.bench.rack_agents", "--agents", str(agents)),
                *("--network", str(network), "--port", str(port), "--control-port", str(control_port)),
            ],
            folder / "agents.log",
            {"PYTHONPATH": repository},
        )
        racks: dict[str, Any] = {}  # JSON
        for rack, tray in own:
            entry = racks.setdefault(rack_name(rack), {"platform": PLATFORM, "agents": []})
            entry["agents"].append(f"{node_name(tray)}={host_of(network, rack, tray)}:{port}")
        listen = free_port()
        (folder / "state").mkdir()
        # JSON is YAML.
        settings = {"listen": f"127.0.0.1:{listen}", "state_dir": str(folder / "state"), "racks": racks}
        (folder / "rack.yaml").write_text(json.dumps(settings), encoding="utf-8")
        self.service = Program(
            "rackwatt rack",
            [str(command), "rack", "--config", str(folder / "rack.yaml")],
            folder / "rack.log",
            {},
        )
        self.client = Client(listen)
        self.start_seconds = 0.0

    def __enter__(self) -> RackSubject:
        """Start both, and wait until every node is known."""
        with ExitStack() as stack:
            stack.enter_context(self.stand_in)
            wait_until(
                lambda: self.stats().agents == self.agents,
                f"the start of {self.agents} played agents",
                START_SECONDS,
                self.stand_in.check_alive,
            )
            started = time.monotonic()
            stack.enter_context(self.service)
            wait_until(
                self._is_ready,
                f"the first poll of {self.agents} agents",
                START_SECONDS,
                self.service.check_alive,
            )
            self.start_seconds = time.monotonic() - started
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End both."""
        self._stack.close()

    def stats(self) -> Stats:
        """What the rack service asked since this was asked for last."""
        return msgspec.json.decode(self._control.get("/stats").body, type=Stats)

    def unknown_nodes(self) -> int:
        """How many nodes are UNKNOWN."""
        racks = self._document("/v1/racks")["racks"]
        return sum(rack["counts"]["unknown"] for rack in racks)

    def check(self) -> None:
        """Raise BenchError if something has gone wrong that would make the figures worthless."""
        self.service.check_alive()
        self.stand_in.check_alive()
        if unknown := self.unknown_nodes():
            raise BenchError(f"{unknown} nodes are UNKNOWN; the rack service said:\n{self.service.output()}")

    def _is_ready(self) -> bool:
        self.client.get("/-/ready")
        return self.unknown_nodes() == 0

    def _document(self, path: str) -> dict[str, Any]:  # Any: a JSON document
        document = json.loads(self.client.get(path).body)
        if not isinstance(document, dict):
            raise BenchError(f"{path} is not an object")
        return document
