"""A simulated node and its agent without a process: reader, assembly, checks, feeds and kernel log."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs

from collector import profiles
from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.identity import Host, Names
from collector.kernel_watch import KernelWatch
from collector.model import Snapshot
from collector.readings import KernelRecord, Layout
from collector.simulator import ManualClock, SimulatedNode, parse_fault
from collector.simulator.hwmon import SimulatedSensors
from collector.simulator.kernel_log import SimulatedKernelLog
from collector.simulator.serving import SimulatedEngine, dialect_of_tray
from collector.sources.host.kmsg import RecordReader
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from collector.sources.peers import Peer, PeerAddress
from collector.sources.peers.document import decode
from collector.state import StateStore
from exporters.snapshot import DocumentFormat, DocumentWriter
from tests.history.feeds import EngineFeed, SensorFeed

AGENT_PORT = 10072
START_SECONDS = 1000.0
"""What the monotonic clock says at the begin of a history."""
BEGIN_NS = 1_764_505_200_000_000_000
"""2025-11-30T12:20:00Z: what follows lies within one block of Prometheus, from 12:00 to 14:00."""
SCRAPE_SECONDS = 15
"""Period of the scrapes of agents, rack services, engines and shelves."""


def wall_ns_of(clock: ManualClock) -> int:
    """Return the Unix time that goes with a clock of a history."""
    return BEGIN_NS + round((clock() - START_SECONDS) * 1e9)


class HistoryTray:
    """A node of a history.

    Attributes:
        name: Its name.
        node: The simulated node, which is the truth.
        engine: Its serving engine, if it has one.
        peer: What a rack service knows of its agent.
        snapshot: Its newest Snapshot.
    """

    def __init__(
        self,
        place: Names,
        platform: str,
        tray: int,
        *,
        workload: str,
        faults: Iterable[str],
        clock: ManualClock,
        poll_seconds: float,
    ) -> None:
        """Begin, without reading anything.

        Args:
            place: Rack and node.
            platform: Name of its profile.
            tray: Its tray.
            workload: What its GPUs do.
            faults: Its faults, as on the command line.
            clock: The clock of the history.
            poll_seconds: How often it is read and polled.
        """
        profile = profiles.load(platform)
        self.name = place.node
        self._clock = clock
        self.node = SimulatedNode(
            profile,
            rack=place.rack,
            tray=tray,
            workload=workload,
            faults=map(parse_fault, faults),
            clock=clock,
            sleep=clock.sleep,
            wall_clock_ns=self._wall_ns,
        )
        has_engine = self.node.workload.has_engine
        self.engine = SimulatedEngine(self.node, dialect_of_tray(tray)) if has_engine else None
        self._feeds: list[EngineFeed | SensorFeed] = [SensorFeed(SimulatedSensors(self.node))]
        if self.engine is not None:
            self._feeds.insert(0, EngineFeed(self.engine, clock, SCRAPE_SECONDS))
        # Read as often as polled: what is between two polls nobody sees.
        options = ReaderOptions(
            platforms={profile.gpu.product_name: PlatformHint(profile.name, profile.gpus_per_node)},
            fast_seconds=poll_seconds,
        )
        self._reader = NvmlReader(
            lambda: NvmlLibrary(self.node.library), options, monotonic=clock, wall_ns=self._wall_ns
        )
        host = Host(
            hostname=place.node,
            boot_id="4c3c1e2a-0000-4000-8000-000000000001",
            kernel="6.8.0-1032-nvidia",
            agent_version="0.0.0",
            agent_id=f"agent-{place.rack}-{place.node}",
            simulated=True,
        )
        self._assembly = Assembly(
            place,
            host,
            Deadlines.for_period(poll_seconds),
            monotonic=clock,
            wall_ns=self._wall_ns,
            feeds=self._feeds,
        )
        self._kernel_log = SimulatedKernelLog(self.node, started_at=clock(), clock=clock)
        self._kernel_watch = KernelWatch(host.boot_id, StateStore(None))
        self._laid_out = False
        self._writer = DocumentWriter()
        self.peer = Peer(PeerAddress(place.rack, place.node, place.node, AGENT_PORT))
        self.snapshot: Snapshot = self._assembly.snapshot(0)

    def _wall_ns(self) -> int:
        return wall_ns_of(self._clock)

    def read_feeds(self) -> None:
        """Scrape the engine and read the sensors of the CPUs."""
        for feed in self._feeds:
            feed.read()

    def read(self) -> None:
        """Read GPUs and kernel log, and make a Snapshot."""
        for record in self._kernel_records():
            self._kernel_watch.take(record)
        for message in self._reader.step(self._clock()):
            if isinstance(message, Layout):
                self._assembly.apply_layout(message)
                self._laid_out = True
            else:
                self._assembly.apply_reading(message)
        if self._laid_out:
            self._kernel_watch.hand_over(self._assembly)
        self.snapshot = self._assembly.snapshot(0)

    def poll(self, *, silent: bool) -> None:
        """Answer a rack service, or let it wait in vain."""
        if silent:
            self.peer.fail("connection refused")
            return
        asked = parse_qs(self.peer.query())
        document = self._writer.write(
            self.snapshot,
            DocumentFormat.MESSAGEPACK,
            slots_held=asked.get("slots", [""])[0],
            after=int(asked["after"][0]),
        )
        self.peer.take(decode(document), monotonic=self._clock(), wall_ns=self._wall_ns())

    def _kernel_records(self) -> Iterable[KernelRecord]:
        records = RecordReader()
        while True:
            try:
                data = self._kernel_log.read()
            except BlockingIOError:
                return
            for each in records.feed(data):
                age_ns = round(self._clock() * 1e9) - each.microseconds * 1000
                text = each.text.decode("utf-8", errors="replace")
                yield KernelRecord(sequence=each.sequence, time_ns=self._wall_ns() - age_ns, text=text)
