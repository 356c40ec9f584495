"""Energy and tokens over a simulated hour, from NVML to the rack's counters, held against the exact truth.

Every part on the way is the shipped one: reader, assembly, Snapshot document as bytes, peer, account. Sockets
and threads alone are missing, and time is a clock that the test turns; tests/e2e has the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from collector import profiles
from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.efficiency.account import UsageAccount
from collector.efficiency.shelf import ShelfReading
from collector.identity import Names
from collector.readings import Layout
from collector.simulator import SimulatedNode, parse_fault
from collector.simulator.hwmon import SimulatedSensors
from collector.simulator.power_shelf import simulate_shelves
from collector.simulator.serving import SimulatedEngine, dialect_of_tray
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from collector.sources.peers import Peer, PeerAddress
from collector.sources.peers.document import decode
from exporters.snapshot import DocumentFormat, DocumentWriter
from tests.history.feeds import EngineFeed, SensorFeed
from tests.nvml_node import HINTS, Clock
from tests.rack_truth import NODE_DOMAINS, engine_tokens, node_joules
from tests.readings import HOST

GB300 = profiles.load("gb300-nvl72")
TRAYS = 3
"""One a dialect: two versions of vLLM, and SGLang."""
HOUR_SECONDS = 3600
POLL_SECONDS = 5
"""Period of polls, and of what is read of CPUs: the default."""
SLOW_SECONDS = 15
"""Period of the shelves' readings: the default. Of scrapes, too: thrice theirs, as they take longest here."""
CLOSES_WITHIN = 0.005


class Tray:
    """A simulated tray, its agent without a server, and what a rack service knows of it.

    Attributes:
        node: The tray.
        engine: Its engine.
        peer: What is known of it.
    """

    def __init__(self, number: int, clock: Clock, faults: Sequence[str] = ()) -> None:
        self.node = SimulatedNode(
            GB300,
            tray=number,
            faults=map(parse_fault, faults),
            clock=clock,
            sleep=clock.advance,
            wall_clock_ns=clock.wall_ns,
        )
        self.engine = SimulatedEngine(self.node, dialect_of_tray(number))
        name = f"n{number + 1:02d}"
        self.peer = Peer(PeerAddress("r01", name, name, 10072))
        self._clock = clock
        self._reader = NvmlReader(
            lambda: NvmlLibrary(self.node.library),
            ReaderOptions(platforms=HINTS, level="core"),
            monotonic=clock,
            wall_ns=clock.wall_ns,
        )
        self._engine_feed = EngineFeed(self.engine, clock, SLOW_SECONDS)
        self._sensor_feed = SensorFeed(SimulatedSensors(self.node))
        self._assembly = Assembly(
            Names("r01", name),
            replace(HOST, agent_id=f"agent-{number}"),
            Deadlines(),
            monotonic=clock,
            wall_ns=clock.wall_ns,
            feeds=(self._engine_feed, self._sensor_feed),
        )
        self._writer = DocumentWriter()

    def read(self) -> None:
        """Read the GPUs, as each second."""
        for message in self._reader.step(self._clock.now):
            if isinstance(message, Layout):
                self._assembly.apply_layout(message)
            else:
                self._assembly.apply_reading(message)

    def scrape(self) -> None:
        self._engine_feed.read()

    def read_sensors(self) -> None:
        self._sensor_feed.read()

    def poll(self) -> None:
        asked = parse_qs(self.peer.query())
        document = self._writer.write(
            self._assembly.snapshot(0),
            DocumentFormat.MESSAGEPACK,
            slots_held=asked.get("slots", [""])[0],
            after=int(asked["after"][0]),
        )
        self.peer.take(decode(document), monotonic=self._clock.now, wall_ns=self._clock.wall_ns())
        assert self.peer.error == ""


class Rack:
    """Trays and shelves, and the account of what they use and make."""

    def __init__(self, trays: int = TRAYS, faults: Sequence[str] = ()) -> None:
        """Begin, and take in what everybody says first."""
        self.clock = Clock()
        self.counters: Counter[str] = Counter()
        self.trays = [Tray(number, self.clock, faults) for number in range(trays)]
        self.shelves = simulate_shelves(GB300, [tray.node for tray in self.trays])
        self._readings: dict[str, ShelfReading] = {}
        self._account = UsageAccount(
            "r01",
            shelves=[shelf.name for shelf in self.shelves],
            modules_per_node=2,
        )
        self._second = 0
        self._round()
        self.began = self.truth()

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            self._second += 1
            self._round()

    def truth(self) -> dict[str, float]:
        """Return energy by domain, and tokens, at the present."""
        now = self.clock.now
        nodes = [node_joules(tray.node, now) for tray in self.trays]
        return {
            **{domain: sum(own[domain] for own in nodes) for domain in NODE_DOMAINS},
            "rack_input": sum(shelf.draw(now).joules for shelf in self.shelves),
            "tokens": sum(engine_tokens(tray.engine, now) for tray in self.trays),
        }

    def really(self, what: str) -> float:
        """Return what was used or made since the beginning."""
        return self.truth()[what] - self.began[what]

    def joules(self, domain: str) -> float:
        return self.counters[f"energy_mj:{domain}"] / 1000

    def error_joules(self, domain: str) -> float:
        return self.counters[f"energy_error_mj:{domain}"] / 1000

    def tokens(self) -> int:
        return sum(count for name, count in self.counters.items() if name.startswith("tokens:"))

    def _round(self) -> None:
        for tray in self.trays:
            tray.read()
        if self._second % SLOW_SECONDS == 0:
            for shelf in self.shelves:
                watts = round(shelf.draw(self.clock.now).watts, 1)
                self._readings[shelf.name] = ShelfReading(shelf.name, self.clock.wall_ns(), watts, "")
            for tray in self.trays:
                tray.scrape()
        if self._second % POLL_SECONDS == 0:
            for tray in self.trays:
                tray.read_sensors()
                tray.poll()
        self._account.observe(
            [tray.peer.poll(None) for tray in self.trays],
            tuple(self._readings.values()),
            now_ns=self.clock.wall_ns(),
            gpus_expected=len(self.trays) * 4,
        )
        self.counters.update(self._account.take().counters)


@pytest.fixture(scope="module")
def hour() -> Rack:
    rack = Rack()
    rack.run(HOUR_SECONDS)
    return rack


@pytest.mark.parametrize("domain", [*NODE_DOMAINS, "rack_input"])
def test_the_energy_of_an_hour_closes(hour: Rack, domain: str) -> None:
    really = hour.really(domain)
    off = hour.joules(domain) - really
    assert abs(off) <= CLOSES_WITHIN * really
    # Counters are whole millijoules, and NVML's of each GPU are, too.
    assert abs(off) <= hour.error_joules(domain) + 0.1


def test_what_hardware_counts_has_no_error(hour: Rack) -> None:
    assert hour.error_joules("gpu") == 0
    assert hour.joules("gpu") == pytest.approx(hour.really("gpu"), abs=0.1)


def test_the_parts_of_a_rack_are_in_their_order(hour: Rack) -> None:
    gpu, module, cpu = (hour.joules(domain) for domain in NODE_DOMAINS)
    assert gpu < module < hour.joules("rack_input")
    # A module is two GPUs and a Grace.
    assert gpu + cpu == pytest.approx(module, rel=CLOSES_WITHIN)


def test_the_tokens_of_an_hour_close(hour: Rack) -> None:
    # SGLang counts a request's tokens when it ends: as much is under way at the begin as at the end.
    assert hour.tokens() == pytest.approx(hour.really("tokens"), rel=CLOSES_WITHIN)
    # 12 GPUs at 18,131.6 tokens/s (InferenceX, GB300 FP4, 8k/1k) for an hour, as the load has it on average.
    assert hour.tokens() == pytest.approx(12 * 18_131.6 * 3600, rel=0.02)
    # 8,192 tokens of a prompt to 1,024 generated.
    prompt = sum(count for name, count in hour.counters.items() if name.startswith("tokens:prompt:"))
    assert prompt / hour.tokens() == pytest.approx(8192 / 9216, rel=CLOSES_WITHIN)


def test_a_restarted_engine_costs_what_one_scrape_may_cost_and_no_energy() -> None:
    # Without SGLang's tray: what it has not ended when it goes away was never counted.
    rack = Rack(trays=2, faults=["engine_restart:start=302,duration=20"])
    rack.run(300)
    counted = [rack.tokens()]
    begun = rack.really("tokens")
    assert counted[0] == pytest.approx(begun, rel=CLOSES_WITHIN)
    for _ in range(20):
        rack.run(SLOW_SECONDS)
        counted.append(rack.tokens())
    assert counted == sorted(counted)
    # From 302 s to 322 s nothing is made; then it is counted from zero. 2 s of 8 GPUs were never scraped, and
    # are in none of these numbers.
    assert counted[-1] == pytest.approx(begun + rack.truth()["tokens"], rel=CLOSES_WITHIN)
    for domain in ("gpu", "module"):
        assert rack.joules(domain) == pytest.approx(rack.really(domain), rel=CLOSES_WITHIN)
