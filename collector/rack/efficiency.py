"""What racks did with their energy, asked of the ledger; and the baselines that are kept there."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec

from collector.efficiency.answer import Efficiency, ExpectedUsage
from collector.efficiency.baseline import Baseline
from collector.efficiency.baselines import take_baselines
from collector.efficiency.compute import compute_efficiency
from collector.efficiency.fleet import fleet_of
from collector.efficiency.price import Price
from collector.efficiency.rollup import Rollup, decode, merge
from collector.efficiency.window import Window, parts, settled_window
from collector.health.gpu_counts import expected_gpus
from collector.health.ledger import KEEP_MINUTES_DAYS, Ledger
from collector.health.ledger_usage import StoredRollup
from collector.health.rack_types import RackStatus
from collector.profiles import references
from collector.rack.records import Records
from collector.rack.settings import RackServiceSettings
from collector.timekeeping import SteadyClock

_logger = logging.getLogger("rackwatt.rack")

_SECOND_NS = 1_000_000_000
_MINUTES_NS = int((KEEP_MINUTES_DAYS * 86_400 - 3600) * _SECOND_NS)
"""How far back there are minutes for sure: an hour less than they are kept, as pruning takes its time."""
_LEDGER_SECONDS = 10.0
"""What passes at most from a poll to the ledger: two rounds of writing."""


class EfficiencyDesk:
    """Answers what tokens took. Belongs to one event loop."""

    def __init__(
        self,
        settings: RackServiceSettings,
        statuses: Mapping[str, RackStatus],
        records: Records,
        clock: SteadyClock,
    ) -> None:
        """Prepare to answer.

        Args:
            settings: Racks and prices.
            statuses: The newest status of each rack.
            records: The ledger.
            clock: Time.
        """
        self._settings = settings
        self._expected = {rack.rack: rack for rack in settings.racks}
        self._statuses = statuses
        self._records = records
        self._clock = clock
        # An increase is known with the poll that ends it, power with the next reading of its shelf.
        self._settle_seconds = max(settings.poll_seconds, settings.redfish_seconds) + _LEDGER_SECONDS

    async def efficiency(self, rack: str, window_seconds: float) -> Efficiency | None:
        """Compute a rack's efficiency over the whole minutes until now.

        Returns:
            None if there is no such rack.
        """
        if rack not in self._expected:
            return None
        now_ns = self._clock.now_ns()
        window = settled_window(
            now_ns,
            window_seconds,
            settle_seconds=self._settle_seconds,
            minutes_from_ns=max(0, now_ns - _MINUTES_NS),
        )
        baselines = await self.baselines()
        # One question a rack: whoever asks for a long time of many racks keeps nobody from writing between.
        sums = {
            name: await self._records.ask(partial(_sum, rack=name, window=window))
            for name in self._alike(rack, baselines)
        }
        return compute_efficiency(
            sums[rack],
            self._usage(rack),
            starts_ns=window.starts_ns,
            ends_ns=window.ends_ns,
            price=self._settings.prices.get(rack, Price()),
            references=references.load(),
            baselines=baselines,
            fleet=fleet_of(sums, (window.ends_ns - window.starts_ns) / _SECOND_NS),
        )

    async def baselines(self, rack: str | None = None) -> tuple[Baseline, ...]:
        """Return the baselines, of one rack or of all, newest first."""
        found = await self._records.ask(lambda ledger: tuple(_read_baselines(ledger.baselines())))
        kept = [own for own in found if rack in (None, own.rack)]
        return tuple(sorted(kept, key=lambda own: (own.recorded_ns, own.id), reverse=True))

    async def record(
        self, rack: str, *, window_seconds: float, model: str | None, note: str, created_by: str
    ) -> tuple[Baseline, ...]:
        """Record what a rack did as one-rack baselines.

        Args:
            rack: The rack.
            window_seconds: The time until now that counts.
            model: The model; None for every one it serves.
            note: What its maker wants to remember.
            created_by: Who records it, as they say.

        Raises:
            LookupError: There is no such rack.
            ConfigurationError: What was measured is no baseline; the message says why.
        """
        measured = await self.efficiency(rack, window_seconds)
        if measured is None:
            raise LookupError(rack)
        now_ns = self._clock.now_ns()
        made = take_baselines(
            measured,
            model,
            recorded_ns=now_ns,
            note=note,
            created_by=created_by,
            make_id=lambda: f"b-{uuid.uuid4().hex[:12]}",
        )
        if not await self._records.ask(lambda ledger: _keep(ledger, made, now_ns)):
            _logger.warning("a baseline of rack %s is not on disk yet; a restart would forget it", rack)
        return made

    async def forget(self, baseline_id: str) -> Baseline | None:
        """Forget a baseline, and return what it was; None if there is none of this id."""
        known = {own.id: own for own in await self.baselines()}
        if baseline_id in known:
            now_ns = self._clock.now_ns()
            await self._records.ask(lambda ledger: ledger.forget_baseline(baseline_id, now_ns))
        return known.get(baseline_id)

    def _alike(self, rack: str, baselines: Iterable[Baseline]) -> tuple[str, ...]:
        """Return the racks that scaling is about: those of the rack's platform, if that has a baseline."""
        platform = self._expected[rack].platform
        if not any(own.platform == platform for own in baselines):
            return (rack,)
        return tuple(name for name, own in self._expected.items() if own.platform == platform)

    def _usage(self, rack: str) -> ExpectedUsage:
        expected = self._expected[rack]
        status = self._statuses.get(rack)
        return ExpectedUsage(
            rack=rack,
            platform=expected.platform,
            gpus=expected_gpus(status.nodes, expected.gpus_per_node) if status is not None else None,
            shelves_configured=bool(self._settings.shelves.get(rack)),
        )


def _keep(ledger: Ledger, made: Iterable[Baseline], now_ns: int) -> bool:
    """Keep baselines; tell whether they are on the disk."""
    kept = [ledger.keep_baseline(own.id, msgspec.json.encode(own).decode("utf-8"), now_ns) for own in made]
    return all(kept)


def _sum(ledger: Ledger, rack: str, window: Window) -> Rollup:
    """Add up a rack's roll-ups over a window."""
    return merge(
        own
        for part in parts(window)
        for own in _read(ledger.rollups(rack, part.length_seconds, part.starts_ns, part.ends_ns))
    )


def _read(rollups: Iterable[StoredRollup]) -> Iterator[Rollup]:
    """Read roll-ups; one that cannot be read leaves its time unwatched."""
    for own in rollups:
        try:
            yield decode(own.data)
        except ValueError as error:
            _skipped("a roll-up", error)


def _read_baselines(texts: Iterable[str]) -> Iterator[Baseline]:
    for text in texts:
        try:
            yield msgspec.json.decode(text, type=Baseline)
        except (msgspec.MsgspecError, RecursionError) as error:
            _skipped("a baseline", error)


def _skipped(what: str, error: Exception) -> None:
    _logger.warning("the ledger has %s that cannot be read and counts as not recorded: %s", what, error)
