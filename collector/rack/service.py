"""The rack service: what is known of the racks, answered from memory, and their past, from the ledger."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator

from collector.efficiency.answer import Efficiency
from collector.efficiency.baseline import Baseline
from collector.health.availability import Availability, VerdictInterval
from collector.health.incidents import Incident
from collector.health.ledger_rows import LedgerEvent
from collector.health.maintenance import MaintenanceWindow
from collector.health.rack_types import DomainStatus, ExpectedRack, RackStatus
from collector.health.tracker_rules import TrackerRules
from collector.health.verdict import check_min_block
from collector.model import Snapshot
from collector.rack.answers import GpuFound, NodeFound, Target, find_gpu, find_node
from collector.rack.efficiency import EfficiencyDesk
from collector.rack.records import Records
from collector.rack.series import NO_PRICE, RackSeries, RackState
from collector.rack.settings import RackServiceSettings
from collector.rack.usage import Shelves, UsageWatch
from collector.rack.watch import SILENT_POLLS, Polling, Watch
from collector.sources.peers import Poller, PollerSettings
from collector.sources.redfish import PowerStates, ShelfWatch
from collector.timekeeping import SteadyClock

_logger = logging.getLogger("rackwatt.rack")

_SECOND_NS = 1_000_000_000
_LARGEST = 2**63 - 1


class RackService:
    """Racks and what is known of them. Belongs to one event loop.

    What reads the present returns at once; what reads or writes the ledger is a coroutine, and waits for the
    disk in a thread of its own, never the polling.
    """

    def __init__(
        self,
        settings: RackServiceSettings,
        records: Records,
        *,
        poller: Polling | None = None,
        shelves: Shelves | None = None,
        rules: TrackerRules | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Put the parts together; nothing runs before `start`.

        Args:
            settings: Racks and agents.
            records: The ledger.
            poller: What brings the news; None to poll the agents of the settings.
            shelves: What reads power shelves; None to read those of the settings.
            rules: Times and counts of node states; None for the usual ones.
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
        """
        self._settings = settings
        self._records = records
        clock = SteadyClock(monotonic, wall_ns)
        self._usage = UsageWatch(settings, shelves or _shelves(settings, monotonic, clock))
        self._watch = Watch(
            settings,
            records,
            poller or _poller(settings, monotonic, clock),
            self._usage,
            clock,
            rules=rules,
            monotonic=monotonic,
        )
        self._desk = EfficiencyDesk(settings, self._watch.statuses, records, clock)
        self._series = RackSeries(uuid.uuid4().hex)
        self._snapshot: Snapshot | None = None
        self._evaluation = -1

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then close everything within a bounded time.

        Raises:
            ConfigurationError: The racks cannot be judged as they are declared, or the ledger cannot be used.
        """
        try:
            await self.start()
            await stop.wait()
        finally:
            await self.close()

    async def start(self) -> None:
        """Take up what was known before a restart, begin to poll and to judge, and return.

        Raises:
            ConfigurationError: See `run`.
        """
        await self._watch.start()

    async def close(self) -> None:
        """Stop polling and judging, write what is to be remembered, and close the ledger."""
        await self._watch.close()

    def evaluate(self) -> None:
        """Judge every rack by what is known now; it also happens once a second."""
        self._watch.evaluate()

    # -- the present --------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Rises with every change of anything but times and values, over restarts, too."""
        return sum(status.generation for status in self._watch.statuses.values())

    @property
    def observed_ns(self) -> int:
        """When the racks were judged last, nanoseconds of Unix time; the oldest if they differ."""
        return min((status.observed_ns for status in self._watch.statuses.values()), default=0)

    @property
    def stale_after_seconds(self) -> float:
        """Age from which on an answer is not to be relied upon."""
        return SILENT_POLLS * self._settings.poll_seconds

    def why_not_ready(self) -> str:
        """Say why the answers are not complete yet; empty if they are."""
        return self._watch.why_not_ready()

    def ready(self) -> bool:
        """Tell whether every agent had its chance since the start, so that verdicts count."""
        return not self.why_not_ready()

    def racks(self) -> tuple[RackStatus, ...]:
        """Return the newest status of every rack, in the order of declaration."""
        return tuple(
            self._watch.statuses[name] for name in self._watch.expected if name in self._watch.statuses
        )

    def rack(self, name: str) -> RackStatus | None:
        """Return the newest status of a rack; None if there is none of this name."""
        return self._watch.statuses.get(name)

    def expected(self, name: str) -> ExpectedRack | None:
        """Return a rack as it is declared; None if there is none of this name."""
        return self._watch.expected.get(name)

    def node(self, name: str, rack: str | None = None) -> NodeFound | None:
        """Find a node.

        Args:
            name: Its name.
            rack: Its rack; None to look in all.

        Raises:
            AmbiguousNameError: No rack is named, and several have such a node.
        """
        return find_node(self._watch.statuses, name, rack)

    def gpu(self, gpu_uuid: str) -> GpuFound | None:
        """Find a GPU by its UUID: where it answers, else where it was last seen."""
        return find_gpu(self._watch.statuses.values(), gpu_uuid)

    def domains(self) -> tuple[tuple[str, DomainStatus], ...]:
        """Return every NVLink domain, or clique of one, with the name of its rack."""
        return tuple((status.rack, domain) for status in self.racks() for domain in status.domains)

    def targets(self) -> tuple[Target, ...]:
        """Return every expected agent, whether it answers or not."""
        return tuple(
            Target(address.authority, address.rack, address.node) for address in self._settings.agents
        )

    def snapshot(self) -> Snapshot:
        """Return the series of all racks; the same object until they are judged again."""
        if self._snapshot is None or self._evaluation != self._watch.evaluations:
            self._evaluation = self._watch.evaluations
            self._snapshot = self._series.snapshot(self._states(), self._watch.clock.now_ns())
        return self._snapshot

    def _states(self) -> Iterator[RackState]:
        for name, expected in self._watch.expected.items():
            if name in self._watch.statuses:
                yield RackState(
                    expected=expected,
                    status=self._watch.statuses[name],
                    price=self._settings.prices.get(name, NO_PRICE),
                    counters=self._records.counters.get(name),
                    used=self._records.usage.get(name),
                    usage=self._usage.now.get(name),
                )

    # -- the past -----------------------------------------------------------------------------------------

    async def availability(
        self, rack: str, window_seconds: float, min_block: int | None = None
    ) -> Availability | None:
        """Compute a rack's availability over the time until now.

        Args:
            rack: The rack.
            window_seconds: Length of the window.
            min_block: Block to judge the past anew for; None for the block that was asked for at each time.

        Returns:
            None if there is no such rack.

        Raises:
            ConfigurationError: The block lies outside 1 to the number of expected nodes.
        """
        expected = self._watch.expected.get(rack)
        if expected is None:
            return None
        if min_block is not None:
            check_min_block(min_block, len(expected.nodes))
        ends_ns = self._watch.clock.now_ns()
        starts_ns = max(0, ends_ns - int(window_seconds * _SECOND_NS))
        return await self._records.ask(
            lambda ledger: ledger.availability(
                rack, starts_ns=starts_ns, ends_ns=ends_ns, slo=expected.slo, min_block=min_block
            )
        )

    async def history(self, rack: str, window_seconds: float) -> tuple[VerdictInterval, ...]:
        """Return a rack's verdicts over the time until now, in order."""
        ends_ns = self._watch.clock.now_ns()
        starts_ns = max(0, ends_ns - int(window_seconds * _SECOND_NS))
        return await self._records.ask(lambda ledger: ledger.history(rack, starts_ns, ends_ns))

    async def events(
        self,
        *,
        after: int | None = None,
        limit: int = 100,
        rack: str | None = None,
        node: str | None = None,
        kind: str | None = None,
        gpu_uuid: str | None = None,
        since_ns: int = 0,
        until_ns: int = _LARGEST,
    ) -> tuple[LedgerEvent, ...]:
        """Return events, newest first.

        Args:
            after: Id of the last event of the page before; None for the first page.
            limit: Most events of a page.
            rack: Events of this rack only.
            node: Events of this node only.
            kind: Events of this kind only.
            gpu_uuid: Events of this GPU only.
            since_ns: Events at or after this instant, nanoseconds of Unix time.
            until_ns: Events before this instant.
        """
        return await self._records.ask(
            lambda ledger: ledger.events(
                rack=rack,
                node=node,
                kind=kind,
                gpu_uuid=gpu_uuid,
                starts_ns=since_ns,
                ends_ns=until_ns,
                before_id=_LARGEST if after is None else after,
                limit=limit,
            )
        )

    async def incidents(
        self, rack: str | None = None, *, node: str | None = None, since_ns: int = 0, limit: int = 100
    ) -> tuple[Incident, ...]:
        """Return incidents of nodes, newest first."""
        return await self._records.ask(
            lambda ledger: ledger.incidents(rack=rack, node=node, starts_ns=since_ns, limit=limit)
        )

    async def efficiency(self, rack: str, window_seconds: float) -> Efficiency | None:
        """Compute a rack's efficiency over the whole minutes until now; None if there is no such rack."""
        return await self._desk.efficiency(rack, window_seconds)

    async def baselines(self, rack: str | None = None) -> tuple[Baseline, ...]:
        """Return the baselines, of one rack or of all, newest first."""
        return await self._desk.baselines(rack)

    async def record_baseline(
        self, rack: str, *, window_seconds: float, model: str | None, note: str, created_by: str
    ) -> tuple[Baseline, ...]:
        """Record what a rack did as one-rack baselines; see `EfficiencyDesk.record`."""
        return await self._desk.record(
            rack, window_seconds=window_seconds, model=model, note=note, created_by=created_by
        )

    async def forget_baseline(self, baseline_id: str) -> Baseline | None:
        """Forget a baseline, and return what it was; None if there is none of this id."""
        return await self._desk.forget(baseline_id)

    # -- maintenance --------------------------------------------------------------------------------------

    def maintenance_windows(self, rack: str | None = None) -> tuple[MaintenanceWindow, ...]:
        """Return declared maintenance, of one rack or of all, by its start; what has ended, too."""
        return self._watch.maintenance.windows(rack)

    def maintenance_window(self, window_id: str) -> MaintenanceWindow | None:
        """Return one declared maintenance; None if there is none of this id."""
        return self._watch.maintenance.get(window_id)

    async def create_maintenance(
        self,
        rack: str,
        *,
        ends_ns: int,
        starts_ns: int | None = None,
        nodes: Iterable[str] = (),
        reason: str = "",
        created_by: str = "",
    ) -> MaintenanceWindow:
        """Declare a maintenance, which counts from the next evaluation on.

        Args:
            rack: The rack.
            ends_ns: Its end, nanoseconds of Unix time.
            starts_ns: Its begin; None for now.
            nodes: Nodes concerned; none for the whole rack.
            reason: Why, in words.
            created_by: Who declares it.

        Returns:
            The maintenance, with its id.

        Raises:
            LookupError: There is no such rack.
            ConfigurationError: It cannot be declared like this; the message says why.
        """
        expected = self._watch.expected[rack]
        now_ns = self._watch.clock.now_ns()
        window = self._watch.maintenance.declare(
            MaintenanceWindow(
                id=f"m-{uuid.uuid4().hex[:12]}",
                rack=rack,
                nodes=tuple(dict.fromkeys(nodes)),
                starts_ns=now_ns if starts_ns is None else starts_ns,
                ends_ns=ends_ns,
                created_ns=now_ns,
                reason=reason,
                created_by=created_by,
            ),
            expected.nodes,
        )
        await self._keep(window)
        return window

    async def end_maintenance(self, window_id: str) -> MaintenanceWindow | None:
        """End a declared maintenance now.

        Returns:
            The maintenance as it is now; None if there is none of this id.
        """
        window = self._watch.maintenance.end(window_id, self._watch.clock.now_ns())
        if window is not None:
            await self._keep(window)
        return window

    def release_latch(self, rack: str, node: str) -> bool:
        """Let a node in again that failed too often; tell whether it was held out."""
        return self._watch.release_latch(rack, node)

    async def _keep(self, window: MaintenanceWindow) -> None:
        """Write a maintenance to the disk; one that does not get there counts until a restart, as logged."""
        self._watch.evaluate_rack(window.rack)
        now_ns = self._watch.clock.now_ns()
        if not await self._records.ask(lambda ledger: ledger.keep_window(window, now_ns)):
            _logger.warning("maintenance %s is not on disk yet; a restart would forget it", window.id)


def _poller(settings: RackServiceSettings, monotonic: Callable[[], float], clock: SteadyClock) -> Poller:
    return Poller(
        settings.agents,
        PollerSettings(
            period_seconds=settings.poll_seconds, witness_port=settings.witness_port, token=settings.token
        ),
        monotonic=monotonic,
        wall_ns=clock.now_ns,
        power_states=PowerStates(settings.bmcs, monotonic=monotonic),
    )


def _shelves(settings: RackServiceSettings, monotonic: Callable[[], float], clock: SteadyClock) -> ShelfWatch:
    return ShelfWatch(
        settings.shelves,
        period_seconds=settings.redfish_seconds,
        monotonic=monotonic,
        wall_ns=clock.now_ns,
    )
