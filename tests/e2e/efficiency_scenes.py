"""Two racks of real processes that are asked for their efficiency: one is left alone, one loses parts."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from collector.simulator import SimulatedNode
from collector.simulator.serving import DIALECTS, SimulatedEngine
from collector.simulator.serving.server import SimulatedEngineServer
from tests.e2e.efficiency_processes import (
    PROFILE,
    Background,
    Recorder,
    Shelves,
    Truth,
    begin_of,
    relaying,
)
from tests.e2e.rack_processes import Body, Loopback, RackService, Trays, until

QUICK = "sampling: {fast: 200ms, serving: 1s}\n"
"""So that what is read is young when it is polled."""
PRICE = {"gpu_hour_usd": 3.30, "kwh_usd": 0.08, "pue": 1.2}
SHELF_SECONDS = 5
"""Period of the shelves' readings: the shortest that can be configured."""
KNOWN_SECONDS = 240.0
"""Longest wait until two whole minutes are known: the rest of one, both, and until they have settled."""

_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS


def figures(body: Body, tokens: str, domain: str) -> Body:
    """Return what is said of tokens of a kind against the energy of a domain."""
    found: list[Body] = [own for own in body["domains"] if (own["tokens"], own["domain"]) == (tokens, domain)]
    assert len(found) == 1
    return found[0]


def moment_ns(moment: str) -> int:
    """Read a moment of an answer, a whole minute."""
    return int(datetime.fromisoformat(moment).timestamp()) * _SECOND_NS


def shelf_settings(shelves: Shelves) -> tuple[dict[str, object], dict[str, object]]:
    """Return what the rack and the service have in their configuration for shelves and prices."""
    rack: dict[str, object] = {"price": PRICE, "redfish": [{"url": url} for url in shelves.urls]}
    return rack, {"redfish_poll": f"{SHELF_SECONDS}s"}


# -- a rack that is left alone ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SteadyRack:
    """Three trays, eight shelves and a rack service.

    Attributes:
        service: The service.
        recorders: What it is told, by tray.
        shelves: The shelves.
        truth: What there really is.
    """

    service: RackService
    recorders: list[Recorder]
    shelves: Shelves
    truth: Truth

    def answer(self) -> Body:
        """Wait until all of two whole minutes is known, and return what is said of them."""
        found: list[Body] = []

        def is_known() -> bool:
            found[:] = [self.service.efficiency("2m")]
            per_joule = figures(found[0], "total", "rack_input")["tokens_per_joule"]
            return per_joule is not None and found[0]["watched_ratio"] > 0.999

        until("two minutes are known", is_known, seconds=KNOWN_SECONDS)
        return found[0]

    def real_joules(self) -> dict[str, float]:
        """Return what was used from the first word of each tray and shelf to the newest, by domain."""
        nodes = [
            self.truth.node_joules(number, recorder.first.time_ns, recorder.newest.time_ns)
            for number, recorder in enumerate(self.recorders)
            if recorder.first is not None and recorder.newest is not None
        ]
        assert len(nodes) == len(self.recorders)
        read = [(shelf.readings[0][0], shelf.readings[-1][0]) for shelf in self.shelves.shelves]
        shelves = [self.truth.shelf_joules(number, *moments) for number, moments in enumerate(read)]
        return {domain: sum(own[domain] for own in nodes) for domain in nodes[0]} | {
            "rack_input": sum(shelves)
        }


@contextmanager
def steady_rack(folder: Path, loop: Background) -> Iterator[SteadyRack]:
    """Run a rack, and say what really is."""
    network = Loopback()
    trays = Trays(network, folder, count=3, settings=QUICK)
    with ExitStack() as stack:
        stack.callback(trays.kill)
        trays.heal()
        begins = [begin_of(tray) for tray in trays.all]
        shelves = Shelves(network, loop, begins)
        recorders = [Recorder(tray) for tray in trays.all]
        relays = [stack.enter_context(relaying(recorder)) for recorder in recorders]
        rack, settings = shelf_settings(shelves)
        service = RackService(
            trays,
            folder,
            agents=[f"{tray.node}={relay}" for tray, relay in zip(trays.all, relays, strict=True)],
            rack=rack,
            settings=settings,
        )
        stack.callback(service.kill)
        service.start()
        # It is ready, and counts from the first Snapshot of each tray. From now on shelves can be read, too.
        for recorder in recorders:
            recorder.hold(on=False)
        stack.callback(shelves.stop)
        shelves.start()
        yield SteadyRack(service, recorders, shelves, Truth(begins))
        assert service.process.terminate() == 0
        assert not re.search(r"Traceback|\bERROR\b", service.process.log), service.process.log


# -- a rack that loses an engine and a shelf, and gets them back ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was said of a rack whose engine and shelf were away in one minute, and back in the next.

    Attributes:
        while_away: Series of the service while they were away.
        blank: The answer about the minute in which they were.
        back: The answer about the minute after it.
    """

    while_away: dict[str, float | None]
    blank: Body
    back: Body


class TroubledRack:
    """One tray with two engines, two shelves, and a rack service."""

    def __init__(self, folder: Path, loop: Background, stack: ExitStack) -> None:
        """Start everything; the stack ends it."""
        self._over = threading.Event()
        self._loop = loop
        network = Loopback()
        node = SimulatedNode(PROFILE)
        self._engines = [
            SimulatedEngineServer({"": SimulatedEngine(node, DIALECTS["vllm-0.16.0"], gpus)})
            for gpus in ((0, 1), (2, 3))
        ]
        self._host, self._ports = network.host(50), (network.free_port(), network.free_port())
        for number in range(2):
            self._start_engine(number)
            stack.callback(self._stop_engine, number)
        left, right = (f'"http://{self._host}:{port}/metrics"' for port in self._ports)
        trays = Trays(
            network,
            folder,
            count=1,
            settings=f"{QUICK}serving:\n"
            f"  - {{name: left, url: {left}, gpus: [0, 1]}}\n"
            f"  - {{name: right, url: {right}, gpus: [2, 3]}}\n",
        )
        stack.callback(trays.kill)
        trays.heal()
        self._shelves = Shelves(network, loop, [begin_of(trays["n01"])], 2)
        rack, settings = shelf_settings(self._shelves)
        self._service = RackService(trays, folder, rack=rack, settings=settings)
        stack.callback(self.end)
        stack.callback(self._shelves.stop)
        self._shelves.start()
        self._service.start()

    def end(self) -> None:
        """End the service, and the story with it."""
        self._over.set()
        self._service.kill()

    def story(self) -> Trouble:
        """Let an engine and a shelf be away for 27 s of a minute; wait until it and the next are known."""
        begins_ns = (time.time_ns() // _MINUTE_NS + 1) * _MINUTE_NS
        self._wait(begins_ns + 3 * _SECOND_NS)
        self._stop_engine(1)
        self._shelves.stop(1)
        # A shelf that says nothing is believed for 15 s: three readings (docs/redfish.md).
        self._wait(begins_ns + 26 * _SECOND_NS)
        while_away = {
            "expected": self._service.metric("rack_llm_endpoints_expected"),
            "up": self._service.metric("rack_llm_endpoints_up"),
            "coverage": self._service.metric("rack_energy_coverage_ratio", domain="rack_input"),
            "rack_input": self._watts("rack_input"),
            "gpu": self._watts("gpu"),
        }
        self._wait(begins_ns + 30 * _SECOND_NS)
        self._start_engine(1)
        self._shelves.start(1)
        return Trouble(while_away, self._minute(begins_ns), self._minute(begins_ns + _MINUTE_NS))

    def _watts(self, domain: str) -> float | None:
        found = self._service.series("rack_power_watts")
        return next((value for labels, value in found.items() if f'domain="{domain}"' in labels), None)

    def _minute(self, begins_ns: int) -> Body:
        """Wait until a minute has settled, and return what is said of it."""
        found: list[Body] = []

        def has_settled() -> bool:
            found[:] = [self._service.efficiency("1m")]
            return moment_ns(found[0]["starts_at"]) >= begins_ns

        until("the minute has settled", has_settled, seconds=KNOWN_SECONDS)
        assert moment_ns(found[0]["starts_at"]) == begins_ns
        return found[0]

    def _wait(self, moment: int) -> None:
        ended = self._over.wait(max(0, moment - time.time_ns()) / _SECOND_NS)
        assert not ended, "the rack was ended before its story"

    def _start_engine(self, number: int) -> None:
        self._loop.run(self._engines[number].start(self._host, self._ports[number]))

    def _stop_engine(self, number: int) -> None:
        self._loop.run(self._engines[number].close())
