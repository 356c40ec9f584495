"""What efficiency is proven with beside agents and a rack service: a recorder, truth, shelves, Prometheus."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from urllib.request import urlopen

from msgspec import UNSET

from collector import profiles
from collector.cli.simulation import Simulation, simulated_node
from collector.simulator import ManualClock, SimulatedNode
from collector.simulator.power_shelf import Draw, SimulatedShelf, simulate_shelves
from collector.simulator.redfish_server import SimulatedShelfServers
from collector.sources.peers.document import decode
from tests.e2e.programs import Program, free_port, running
from tests.e2e.rack_processes import PLATFORM, Loopback, Tray, get
from tests.rack_truth import NODE_DOMAINS, elapsed_at, node_joules

PROFILE = profiles.load(PLATFORM)
_MINUTES_SECONDS = 600.0
"""No test runs as long."""
_DOMAIN_OF = {"gpu_energy_joules_total": "gpu", "module_energy_joules_total": "module"}
_READING_SECONDS = 2.0
"""Longest time between two requests of one reading of a shelf; readings are 5 s apart."""

Result = TypeVar("Result")


class Background:
    """An event loop in a thread, for servers that a test runs itself."""

    def __init__(self) -> None:
        """Start it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something in it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    @contextmanager
    def inside(self, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
        """Be inside a context of it."""
        entered = self.run(manager.__aenter__())
        try:
            yield entered
        finally:
            self.run(manager.__aexit__(None, None, None))

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


@contextmanager
def background() -> Iterator[Background]:
    """Have an event loop in a thread."""
    own = Background()
    try:
        yield own
    finally:
        own.close()


# -- what a rack service was told ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """A Snapshot that an agent told.

    Attributes:
        time_ns: When it was taken.
        values: Values by name and labels.
    """

    time_ns: int
    values: Mapping[tuple[str, ...], float]

    def of(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the values of a metric."""
        return {series: value for series, value in self.values.items() if series[0] == name}


class Recorder:
    """Stands between a rack service and an agent: keeps the first Snapshot and the newest.

    While it holds, it tells the newest one again and again, so that it is known what the service knows.

    Attributes:
        first: The first one; None before.
        newest: The newest one.
    """

    def __init__(self, tray: Tray) -> None:
        """Begin with nothing, and hold what comes first."""
        self.first: Told | None = None
        self.newest: Told | None = None
        self._tray = tray
        self._lock = threading.Lock()
        self._holds = True
        self._body = b""
        self._slots: dict[str, list[tuple[str, ...]]] = {}

    def hold(self, *, on: bool) -> None:
        """Hold what was told last, or go on."""
        with self._lock:
            self._holds = on

    def answer(self, path: str) -> bytes:
        """Answer a poll."""
        with self._lock:
            if not (self._holds and self._body):
                accept = {"Accept": "application/msgpack"}
                status, body = get(self._tray.host, self._tray.port, path, headers=accept)
                assert status == 200, body
                self._body = body
                self._record(body)
            return self._body

    def _record(self, body: bytes) -> None:
        document = decode(body)
        if document.slots is not UNSET:
            self._slots[document.slots_hash] = [tuple(row) for row in document.slots]
        rows = zip(self._slots[document.slots_hash], document.values, strict=True)
        self.newest = Told(document.time_ns, {series: value for series, value in rows if value is not None})
        self.first = self.first or self.newest

    def risen(self, name: str) -> float:
        """Return by how much the counters of a metric rose from the first Snapshot to the newest."""
        assert self.first is not None
        assert self.newest is not None
        before = self.first.of(name)
        return sum(value - before[series] for series, value in self.newest.of(name).items())


class _Relay(BaseHTTPRequestHandler):
    recorder: Recorder

    def do_GET(self) -> None:
        body = self.recorder.answer(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/msgpack")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def relaying(recorder: Recorder) -> Iterator[str]:
    """Serve what a recorder has; gives the address."""
    handler = type("Handler", (_Relay,), {"recorder": recorder})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(5)


# -- what there really was ----------------------------------------------------------------------------------


def begin_of(tray: Tray) -> Simulation:
    """Find out when the node of an agent that runs began: by its first GPU's energy, which tells time."""
    status, body = get(tray.host, tray.port, "/v1/snapshot")
    assert status == 200, body
    document = json.loads(body)
    number = int(tray.node.removeprefix("n")) - 1
    node = SimulatedNode(PROFILE, tray=number, clock=ManualClock())
    place = document["slots"].index(["gpu_energy_joules_total", "0", node.gpus[0].uuid])
    elapsed = elapsed_at(node, document["values"][place], _MINUTES_SECONDS)
    began_ns = document["time_ns"] - int(elapsed * 1e9)
    return Simulation(
        platform=PLATFORM, tray=number, started_at=_monotonic(began_ns), started_wall_ns=began_ns
    )


def _monotonic(wall_ns: int) -> float:
    return time.monotonic() - (time.time_ns() - wall_ns) / 1e9


class Truth:
    """What the nodes of a rack really use, by the simulator's exact integrals."""

    def __init__(self, begins: Sequence[Simulation]) -> None:
        """Make the same nodes again; the agents' own are in other processes."""
        self._nodes = [simulated_node(each) for each in begins]
        # Shelves of their own, as they ask their nodes for other times.
        self.shelves = simulate_shelves(PROFILE, [simulated_node(each) for each in begins])

    def node_joules(self, number: int, starts_ns: int, ends_ns: int) -> dict[str, float]:
        """Return what a node used by domain, between two moments of Unix time."""
        node = self._nodes[number]
        # The earlier one first: the simulation need not begin anew.
        before, after = (node_joules(node, _monotonic(moment)) for moment in (starts_ns, ends_ns))
        return {domain: after[domain] - before[domain] for domain in NODE_DOMAINS}

    def joules(self, starts_ns: int, ends_ns: int) -> dict[str, float]:
        """Return what all nodes and shelves used by domain."""
        nodes = [self.node_joules(number, starts_ns, ends_ns) for number in range(len(self._nodes))]
        shelves = [self.shelf_joules(number, starts_ns, ends_ns) for number in range(len(self.shelves))]
        return {domain: sum(own[domain] for own in nodes) for domain in NODE_DOMAINS} | {
            "rack_input": sum(shelves)
        }

    def shelf_joules(self, number: int, starts_ns: int, ends_ns: int) -> float:
        """Return what a shelf took."""
        shelf = self.shelves[number]
        before, after = (shelf.draw(_monotonic(moment)).joules for moment in (starts_ns, ends_ns))
        return after - before


# -- shelves ------------------------------------------------------------------------------------------------


@dataclass
class ReadShelf(SimulatedShelf):
    """A shelf that notes when its power was read.

    Attributes:
        own: The shelf.
        readings: Unix nanoseconds and power of each reading.
    """

    own: SimulatedShelf
    readings: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Be the shelf."""
        self.name, self.shares = self.own.name, self.own.shares

    def supply_watts(self, now: float | None = None) -> tuple[float, ...]:
        """Return the input power of each supply, and note that it was read."""
        watts = self.own.supply_watts(now)
        moment = time.time_ns()
        # A reading asks for each supply; what is asked in one go is one reading.
        if self.readings and moment - self.readings[-1][0] < _READING_SECONDS * 1e9:
            self.readings.pop()
        self.readings.append((moment, sum(watts)))
        return watts

    def draw(self, now: float | None = None) -> Draw:
        """Return the input power of the shelf, and its exact integral."""
        return self.own.draw(now)


class Shelves:
    """Power shelves of a rack, each a service of its own on a host of its own.

    Attributes:
        shelves: The shelves.
        urls: Where they are, whether they run or not.
    """

    def __init__(
        self, network: Loopback, loop: Background, begins: Sequence[Simulation], count: int | None = None
    ) -> None:
        """Prepare; nothing serves before `start`.

        Args:
            network: Where to serve.
            loop: What runs the servers.
            begins: The nodes of the rack.
            count: How many of the shelves there are to be; None for all.
        """
        made = simulate_shelves(PROFILE, [simulated_node(each) for each in begins])[:count]
        self.shelves = [ReadShelf(each) for each in made]
        self._hosts = [network.host(61 + number) for number in range(len(made))]
        self._port = network.free_port()
        self._loop = loop
        self._servers = [SimulatedShelfServers([shelf]) for shelf in self.shelves]
        self.urls = [f"http://{host}:{self._port}" for host in self._hosts]

    def start(self, *numbers: int) -> None:
        """Start some, or all."""
        for number in numbers or range(len(self._servers)):
            self._loop.run(self._servers[number].start(self._hosts[number], [self._port]))

    def stop(self, *numbers: int) -> None:
        """Stop some, or all; those that do not run are left alone."""
        for number in numbers or range(len(self._servers)):
            self._loop.run(self._servers[number].close())

    def ages_seconds(self) -> list[float]:
        """Return how long ago each was read last; 0 for one that was not read yet."""
        now = time.time_ns()
        return [(now - shelf.readings[-1][0]) / 1e9 if shelf.readings else 0.0 for shelf in self.shelves]


# -- Prometheus ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus that runs."""

    program: Program
    port: int

    def at(self, moment_ns: int, expression: str) -> float:
        """Evaluate an instant query at a moment; it must give one value."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?query={quote(expression)}&time={moment_ns / 1e9}"
        with urlopen(url, timeout=10) as response:
            document = json.load(response)
        assert document["status"] == "success", document
        (found,) = document["data"]["result"]
        return float(found["value"][1])


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes something each second."""
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": "rack", "honor_labels": True, "static_configs": [{"targets": [target]}]}
        ],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(settings), "utf-8")  # JSON is YAML
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, folder / "prometheus.log") as program:
        program.wait_for("Server is ready to receive web requests")
        yield Prometheus(program, port)
