"""A rack service without sockets and threads of its own: polls and shelves come when the clock is turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from collector import profiles
from collector.cli.demonstration.story import fault_texts
from collector.cli.rack_compose import service_settings
from collector.config import Listen, RackConfiguration, RackEntry
from collector.config.rack_schema import AgentEntry, PriceSetting, RedfishSetting
from collector.efficiency.shelf import ShelfReading
from collector.health.rack_types import Poll
from collector.identity import Names
from collector.rack import RackService
from collector.rack.records import Records
from collector.simulator import ManualClock
from collector.simulator.power_shelf import simulate_shelves
from tests.history.past import POLL_SECONDS as PAST_POLL_SECONDS
from tests.history.past import Past
from tests.history.plans import HistoryRack, Plan
from tests.history.tray import AGENT_PORT, HistoryTray, wall_ns_of

PRICE = PriceSetting(gpu_hour_usd=3.30, kwh_usd=0.08, pue=1.2)
"""The example of CONTRACTS §6, as in the demo."""


class _Polls:
    """Hands on what the trays' peers know."""

    def __init__(self, trays: Sequence[HistoryTray], clock: ManualClock) -> None:
        self.started_at: float | None = None
        self.polled = False
        self._trays = trays
        self._clock = clock

    @property
    def unpolled(self) -> int:
        return 0 if self.polled else len(self._trays)

    async def start(self) -> None:
        self.started_at = self._clock()

    async def close(self) -> None:
        pass

    def polls(self, rack: str, *, with_events: bool = True) -> tuple[Poll, ...]:
        assert rack == self._trays[0].peer.address.rack
        return tuple(tray.peer.poll(None, with_events=with_events) for tray in self._trays)


class _Shelves:
    """Says what the shelves said last."""

    def __init__(self) -> None:
        self.newest: tuple[ShelfReading, ...] = ()

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def readings(self, rack: str) -> tuple[ShelfReading, ...]:
        assert rack
        return self.newest


class WatchedRack:
    """A rack: its trays, its shelves, and the service that watches it.

    Attributes:
        plan: What it is.
        trays: Its trays.
        shelves: Its power shelves, which are the truth of its input.
        service: The service.
    """

    def __init__(self, rack: HistoryRack, plan: Plan, clock: ManualClock, folder: Path | None) -> None:
        """Begin, without reading anything.

        Args:
            rack: What it is.
            plan: The history that it is part of.
            clock: The clock of the history.
            folder: Where the ledger lies; None to keep it in memory.
        """
        self.plan = rack
        self._poll_seconds = plan.poll_seconds
        self._scenes = tuple(scene for scene in plan.story if scene.rack == rack.name)
        self._undeclared = [scene for scene in self._scenes if scene.maintenance_seconds is not None]
        self._clock = clock
        self._began = clock()
        self.trays = [
            HistoryTray(
                Names(rack.name, node),
                rack.platform,
                tray,
                workload=rack.workload,
                faults=fault_texts(plan.story, rack.name, node, speed=1.0),
                clock=clock,
                poll_seconds=plan.poll_seconds,
            )
            for node, tray in zip(rack.nodes, rack.trays, strict=True)
        ]
        self.shelves = simulate_shelves(profiles.load(rack.platform), [tray.node for tray in self.trays])
        self._polls, self._shelves = _Polls(self.trays, clock), _Shelves()
        self._folder = folder
        self._settings = service_settings(self._configuration())
        self.service = RackService(
            self._settings,
            Records(folder, poll_seconds=plan.poll_seconds),
            poller=self._polls,
            shelves=self._shelves,
            monotonic=clock,
            wall_ns=lambda: wall_ns_of(clock),
        )

    def past(self) -> Past:
        """Return a service that has watched the rack for a month, in the same ledger."""
        for tray in self.trays:
            tray.read()
            tray.poll(silent=False)
        records = Records(self._folder, poll_seconds=PAST_POLL_SECONDS)
        return Past(self._settings, records, self.trays, self.plan.outages)

    def _configuration(self) -> RackConfiguration:
        agents = tuple(AgentEntry(node, Listen(node, AGENT_PORT)) for node in self.plan.nodes)
        redfish = tuple(RedfishSetting(url=f"https://{shelf.name}") for shelf in self.shelves)
        entry = RackEntry(
            platform=self.plan.platform, agents=agents, min_block=self.plan.min_block, redfish=redfish
        )
        return RackConfiguration(racks={self.plan.name: entry}, poll_seconds=self._poll_seconds, price=PRICE)

    def silent(self) -> Mapping[str, bool]:
        """Tell which nodes' agents do not answer now."""
        elapsed = self._clock() - self._began
        quiet = {
            scene.node
            for scene in self._scenes
            if scene.silence is not None
            and elapsed >= scene.at_seconds
            and (elapsed - scene.at_seconds) % scene.silence.period_seconds < scene.silence.lasts_seconds
        }
        return {tray.name: tray.name in quiet for tray in self.trays}

    def read_slow(self) -> None:
        """Read engines, sensors and shelves."""
        for tray in self.trays:
            tray.read_feeds()
        now_ns = wall_ns_of(self._clock)
        self._shelves.newest = tuple(
            ShelfReading(shelf.name, now_ns, round(shelf.draw().watts, 1), "") for shelf in self.shelves
        )

    async def step(self) -> None:
        """Read the trays, poll them, and judge the rack; what the ledger counts is there afterwards."""
        silent = self.silent()
        for tray in self.trays:
            tray.read()
            tray.poll(silent=silent[tray.name])
        self._polls.polled = True
        await self._declare()
        self.service.evaluate()
        # What is asked of the ledger comes after what it has to write.
        await self.service.incidents(limit=1)

    async def _declare(self) -> None:
        elapsed = self._clock() - self._began
        while self._undeclared and elapsed >= self._undeclared[0].at_seconds:
            scene = self._undeclared.pop(0)
            assert scene.maintenance_seconds is not None
            await self.service.create_maintenance(
                self.plan.name,
                nodes=(scene.node,),
                ends_ns=wall_ns_of(self._clock) + round(scene.maintenance_seconds * 1e9),
                reason=scene.maintenance_reason,
                created_by="the demo",
            )
