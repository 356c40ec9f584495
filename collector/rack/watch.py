"""The work of a rack service: polls, judges, and hands what it made of it to the ledger."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from collector.health.ledger import KEEP_DAYS
from collector.health.maintenance import Maintenance
from collector.health.mass_failure import MassFailureGuard
from collector.health.rack_judge import RackJudge
from collector.health.rack_types import Poll, RackStatus
from collector.health.tracker_rules import TrackerRules
from collector.model import Event
from collector.rack.records import Records
from collector.rack.settings import RackServiceSettings
from collector.rack.usage import UsageWatch
from collector.timekeeping import SteadyClock

_logger = logging.getLogger("rackwatt.rack")

_KEEP_NS = int(KEEP_DAYS * 86400) * 1_000_000_000
_EVALUATION_SECONDS = 1.0
"""How often the racks are judged at least."""

_MAXIMUM_UNRECORDED = 10_000
"""Events of one node that wait to be recorded, at most a second away."""

_EVERY_RACK = "*"

SILENT_POLLS = 3
"""Poll intervals without a good poll that make a node UNKNOWN (CONTRACTS §3), and for which the service holds
its own verdicts back after a start, as it has not heard everybody yet."""


class Polling(Protocol):
    """What brings the news: a `Poller`, or a test's script.

    Attributes:
        started_at: When polling began, on the monotonic clock; None before.
    """

    started_at: float | None

    @property
    def unpolled(self) -> int:
        """Agents of which no poll has ended since the start, good or not."""

    async def start(self) -> None:
        """Begin to poll, and return at once."""

    async def close(self) -> None:
        """Stop polling."""

    def polls(self, rack: str, *, with_events: bool = True) -> tuple[Poll, ...]:
        """Return what is known of the nodes of a rack."""


class Watch:
    """Watches racks, until it is closed. Belongs to one event loop.

    Attributes:
        expected: The racks as they are declared, by name.
        statuses: The newest status of each, by name.
        maintenance: Declared maintenance.
        clock: Time in nanoseconds of Unix time, which never runs backwards.
        evaluations: How often a rack was judged.
    """

    def __init__(
        self,
        settings: RackServiceSettings,
        records: Records,
        poller: Polling,
        usage: UsageWatch,
        clock: SteadyClock,
        *,
        rules: TrackerRules | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Put the parts together; nothing runs before `start`.

        Args:
            settings: Racks and agents.
            records: The ledger.
            poller: What brings the news.
            usage: Accounts of energy and tokens.
            clock: Time, the same as the poller's: by it a good poll is believed for some seconds.
            rules: Times and counts of node states; None for the usual ones.
            monotonic: Clock in seconds.
        """
        self.expected = {rack.rack: rack for rack in settings.racks}
        self.statuses: dict[str, RackStatus] = {}
        self.maintenance = Maintenance()
        self.clock = clock
        self.evaluations = 0
        self._poll_seconds = settings.poll_seconds
        self._records = records
        self._poller = poller
        self._usage = usage
        self._rules = rules
        self._monotonic = monotonic
        self._judges: dict[str, RackJudge] = {}
        self._guard = MassFailureGuard()
        self._failing: set[str] = set()
        self._unrecorded: dict[str, dict[str, tuple[Event, ...]]] = {}
        self._settled = False
        self._concluded = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up what was known before a restart, begin to poll and to judge, and return.

        Raises:
            ConfigurationError: The racks cannot be judged as they are declared, or the ledger cannot be used.
        """
        kept = await self._records.open(self.expected, self.clock.now_ns())
        self.maintenance = Maintenance(kept.windows)
        self._usage.open(self.expected.values(), kept.judges, kept.rollups)
        rules = self._rules or TrackerRules(
            poll_interval_seconds=self._poll_seconds, missed_polls=SILENT_POLLS
        )
        self._judges = {
            name: RackJudge(rack, maintenance=self.maintenance, rules=rules, exported=kept.judges.get(name))
            for name, rack in self.expected.items()
        }
        self.evaluate()
        await self._poller.start()
        await self._usage.start()
        self._task = asyncio.create_task(self._evaluate_on(), name="judge racks")

    async def close(self) -> None:
        """Stop polling and judging, write what is to be remembered, and close the ledger."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._poller.close()
        await self._usage.close()
        now_ns = self.clock.now_ns()
        if self._settled:
            usage = self._usage.take(now_ns, last=True)
            self._records.note(self.statuses, now_ns, self._export, usage=usage, last=True)
        await self._records.close(self.clock.now_ns())

    async def _evaluate_on(self) -> None:
        # Spread over the period: a thousand nodes take 60 ms, and who asks need not wait for all of them.
        pause = min(_EVALUATION_SECONDS, self._poll_seconds) / max(1, len(self._judges))
        while self._judges:
            await asyncio.sleep(pause)
            try:
                settled = self._settle()
                for position, name in enumerate(self._judges):
                    if position:
                        await asyncio.sleep(pause)
                    self.evaluate_rack(name)
                    self._account(name, settled=settled)
                self._conclude(recorded=settled)
            except Exception:  # a defect must not end the watch; what it costs grows old where it is seen
                if _EVERY_RACK not in self._failing:
                    _logger.exception("the racks cannot be judged")
                self._failing.add(_EVERY_RACK)
            else:
                self._failing.discard(_EVERY_RACK)

    def evaluate(self) -> None:
        """Judge every rack by what is known now, and note it for the ledger."""
        settled = self._settle()
        for name in self._judges:
            self.evaluate_rack(name)
            self._account(name, settled=settled)
        self._conclude(recorded=settled)

    def evaluate_rack(self, name: str) -> None:
        """Judge one rack; a defect costs neither the others nor the service, and its status grows old."""
        before = self.statuses.get(name)
        try:
            status = self._judges[name].evaluate(
                self._polls(name), self.clock.now_ns(), frozen=self._guard.frozen
            )
        except Exception:
            if name not in self._failing:
                _logger.exception("rack %s cannot be judged; its last status stays and grows old", name)
            self._failing.add(name)
            return
        self._failing.discard(name)
        self.evaluations += 1
        self.statuses[name] = status
        if before is not None and before.verdict is not status.verdict:
            _logger.info(
                "rack %s is %s", name, status.verdict.value, extra={"largest_block": status.largest_block}
            )

    def _polls(self, name: str) -> tuple[Poll, ...]:
        """Return the polls of a rack, with every event that is not recorded yet.

        A rack may be judged more than once until its status is recorded, and the poller hands an event over
        but once.
        """
        # Events wait at the poller until what is judged is also recorded.
        polls = self._poller.polls(name, with_events=self._settled)
        unrecorded = self._unrecorded.setdefault(name, {})
        for poll in polls:
            if poll.events:
                events = (*unrecorded.get(poll.node, ()), *poll.events)
                unrecorded[poll.node] = events[-_MAXIMUM_UNRECORDED:]
        if not unrecorded:
            return polls
        return tuple(
            replace(poll, events=unrecorded[poll.node]) if poll.node in unrecorded else poll for poll in polls
        )

    def _account(self, name: str, *, settled: bool) -> None:
        """Add up what a rack used, once it is settled what is known of it."""
        if settled and name in self.statuses:
            self._usage.observe(self.expected[name], self.statuses[name], self.clock.now_ns())

    def _conclude(self, *, recorded: bool) -> None:
        """Draw conclusions over all racks."""
        if recorded:
            now_ns = self.clock.now_ns()
            self._guard.update(self.statuses.values(), now_ns)
            self._records.note(self.statuses, now_ns, self._export, usage=self._usage.take(now_ns))
            self.maintenance.forget(now_ns - _KEEP_NS)
            self._unrecorded.clear()
            self._concluded = True

    def _export(self, rack: str) -> Mapping[str, object]:
        return {**self._judges[rack].export(), **self._usage.export(rack)}

    def why_not_ready(self) -> str:
        """Say why the statuses are not complete yet; empty if they are."""
        if not self._settled:
            return f"{self._poller.unpolled} agents were not polled yet since the start."
        if not self._concluded:
            return "not all racks were judged yet since the start."
        if self._failing:
            return f"racks cannot be judged ({', '.join(sorted(self._failing))}); the log says why."
        return ""

    def release_latch(self, rack: str, node: str) -> bool:
        """Let a node in again that failed too often; tell whether it was held out."""
        judge = self._judges.get(rack)
        return judge is not None and judge.release_latch(node)

    def _settle(self) -> bool:
        """Tell whether every agent had its chance since the start."""
        if not self._settled:
            started = self._poller.started_at
            waited = self._monotonic() - started if started is not None else 0.0
            self._settled = started is not None and (
                self._poller.unpolled == 0 or waited > SILENT_POLLS * self._poll_seconds
            )
        return self._settled
