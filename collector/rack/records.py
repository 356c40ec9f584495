"""The ledger behind one worker thread, so that a slow disk delays what is written and never the polling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from collector.efficiency.rollup import HOUR_SECONDS, MINUTE_SECONDS
from collector.efficiency.spreading import KEEP_NS
from collector.health.ledger import Ledger, RackCounters
from collector.health.ledger_usage import StoredRollup, UsageCounters, UsageUpdate
from collector.health.maintenance import MaintenanceWindow
from collector.health.rack_types import RackStatus
from collector.health.samples import NO_SAMPLES

_logger = logging.getLogger("rackwatt.rack")

FILE_NAME = "ledger.sqlite"

_FLUSH_SECONDS = 5.0
"""How often what did not change is written: what a crash loses at most."""
_MEMORY_SECONDS = 60.0
"""How often the judges' memories are written while nothing changes."""
_PRUNE_SECONDS = 86_400.0
_STEP_SECONDS = 5.0
"""Distance of records that wait for the disk while nothing changes; far below the ledger's longest gap."""
_MAXIMUM_WAITING = 2000
_CLOSE_SECONDS = 10.0
"""Longest that closing waits for the disk."""
_SECOND_NS = 1_000_000_000

Memory = Mapping[str, object]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Kept:
    """What was known before a restart.

    Attributes:
        judges: What the judges exported, by rack.
        windows: Maintenance windows.
        rollups: Roll-ups of energy and tokens that may still change, by rack.
    """

    judges: Mapping[str, Memory]
    windows: tuple[MaintenanceWindow, ...]
    rollups: Mapping[str, tuple[StoredRollup, ...]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """One evaluation of all racks.

    Attributes:
        statuses: What was made of each rack.
        memories: What the judges remember, by rack; of those whose memory is to be written.
        urgent: Whether something changed, so that it is written at once.
        now_ns: When it was.
        usage: What changed of energy and tokens, by rack.
    """

    statuses: tuple[RackStatus, ...]
    memories: Mapping[str, Memory]
    urgent: bool
    now_ns: int
    usage: Mapping[str, UsageUpdate]

    def after(self, dropped: _Batch) -> _Batch:
        """Return the same with the energy and tokens of an earlier batch, which is not written."""
        joined = dict(dropped.usage)
        for rack, update in self.usage.items():
            joined[rack] = joined[rack].followed_by(update) if rack in joined else update
        return replace(self, usage=joined)


class Records:
    """The ledger of a rack service.

    Attributes:
        counters: What was counted, by rack, as it is on disk; empty until the ledger was read.
        usage: Energy and tokens that were counted, likewise.
    """

    def __init__(self, directory: Path | None, *, poll_seconds: float) -> None:
        """Prepare; nothing is opened before `open`.

        Args:
            directory: Where the ledger lies; None to keep it in memory only.
            poll_seconds: Time between two polls of a node, by which gaps are told.
        """
        self._path = directory / FILE_NAME if directory is not None else None
        # A gap is three poll intervals (CONTRACTS §3); records come each second at least.
        self._maximum_gap_seconds = max(15.0, 3 * poll_seconds)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._ledger: Ledger | None = None
        self._waiting: list[_Batch] = []
        self._writing = 0
        self._generations: dict[str, int] = {}
        self._remembered_ns = 0
        self._pruned_ns = 0
        self._flushed_ns = 0
        self._lost_said = False
        self._failure_said = False
        self.counters: Mapping[str, RackCounters] = {}
        self.usage: Mapping[str, UsageCounters] = {}

    async def open(self, racks: Iterable[str], now_ns: int) -> Kept:
        """Open the ledger and read what was known.

        Args:
            racks: Names of the racks.
            now_ns: The present, Unix nanoseconds.

        Raises:
            ConfigurationError: Another process writes it, or it cannot be opened.
        """
        names = tuple(racks)

        def read() -> tuple[Ledger, Kept]:
            ledger = Ledger(self._path, now_ns, maximum_gap_seconds=self._maximum_gap_seconds)
            kept = Kept(
                judges={name: ledger.memory(name) for name in names},
                windows=ledger.windows(),
                rollups={name: tuple(_unsettled(ledger, name, now_ns)) for name in names},
            )
            self._show(ledger, names)
            return ledger, kept

        self._ledger, kept = await self._in_thread(read)
        self._remembered_ns = self._pruned_ns = now_ns
        return kept

    def note(
        self,
        statuses: Mapping[str, RackStatus],
        now_ns: int,
        export: Callable[[str], Memory],
        *,
        usage: Mapping[str, UsageUpdate] | None = None,
        last: bool = False,
    ) -> None:
        """Take in an evaluation of all racks, and write it in the background.

        Args:
            statuses: What was made of each rack.
            now_ns: The present.
            export: Returns what is to be remembered of a rack.
            usage: What changed of energy and tokens, by rack.
            last: Whether the service ends, so that everything is to be remembered.
        """
        changed = {
            name for name, status in statuses.items() if self._generations.get(name) != status.generation
        }
        self._generations.update((name, status.generation) for name, status in statuses.items())
        due = last or now_ns - self._remembered_ns >= _MEMORY_SECONDS * _SECOND_NS
        if due:
            self._remembered_ns = now_ns
        batch = _Batch(
            statuses=tuple(statuses.values()),
            memories={name: export(name) for name in (statuses if due else changed)},
            urgent=last or bool(changed),
            now_ns=now_ns,
            usage=usage or {},
        )
        self._put(batch)
        if not self._writing:
            self._write_on()

    async def ask(self, question: Callable[[Ledger], Result]) -> Result:
        """Read from the ledger, after what was noted before.

        Args:
            question: Reads; called in the worker thread.

        Raises:
            RuntimeError: The ledger is not open.
        """
        self._write_on()
        return await self._in_thread(lambda: question(self._opened()))

    async def close(self, now_ns: int) -> None:
        """Write what waits and close the ledger; a disk that hangs is left behind after a while.

        Args:
            now_ns: The present.
        """
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._ledger is not None:
                    await self.ask(lambda ledger: ledger.close(now_ns))
                    self._ledger = None
        except TimeoutError:
            _logger.error("the disk does not take the ledger; what waits for it is lost")  # noqa: TRY400 - no stack
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _put(self, batch: _Batch) -> None:
        """Queue a batch; where nothing changed, one every few seconds is enough while the disk is slow."""
        waiting = self._waiting
        if waiting:
            # What waits need not keep the values of all series alive.
            waiting[-1] = _without_samples(waiting[-1])
        if len(waiting) > 1 and not waiting[-1].urgent and not _has_events(waiting[-1]):
            since_ns = batch.now_ns - waiting[-2].now_ns
            if since_ns < _STEP_SECONDS * _SECOND_NS:
                batch = batch.after(waiting.pop())
        if len(waiting) >= _MAXIMUM_WAITING:
            dropped = waiting.pop(0)
            waiting[0] = waiting[0].after(dropped)
            if not self._lost_said:
                self._lost_said = True
                _logger.error("the disk has not taken the ledger for long; its oldest records are lost")
        waiting.append(batch)

    def _write_on(self) -> None:
        """Hand what waits to the worker, and come again when it is done."""
        batches, self._waiting = self._waiting, []
        if not batches:
            return
        future = asyncio.get_running_loop().run_in_executor(self._worker, self._write, batches)
        self._writing += 1
        future.add_done_callback(self._written)

    def _written(self, future: asyncio.Future[None]) -> None:
        self._writing -= 1
        if future.cancelled():
            return
        if (error := future.exception()) is not None and not self._failure_said:
            self._failure_said = True
            _logger.error("the ledger cannot take a record; this is a defect", exc_info=error)
        if not self._writing:
            self._write_on()

    def _write(self, batches: list[_Batch]) -> None:
        """Record and flush; runs in the worker."""
        ledger = self._opened()
        for batch in batches:
            for status in batch.statuses:
                ledger.record(status, batch.memories.get(status.rack))
            for rack, update in batch.usage.items():
                ledger.add_usage(rack, update, batch.now_ns)
        now_ns = batches[-1].now_ns
        urgent = any(batch.urgent for batch in batches)
        if urgent or now_ns - self._flushed_ns >= _FLUSH_SECONDS * _SECOND_NS:
            self._flushed_ns = now_ns
            ledger.flush(now_ns)
            self._show(ledger, [status.rack for status in batches[-1].statuses])
        if now_ns - self._pruned_ns >= _PRUNE_SECONDS * _SECOND_NS:
            self._pruned_ns = now_ns
            ledger.prune(now_ns)

    def _show(self, ledger: Ledger, racks: Iterable[str]) -> None:
        """Show what was counted; each mapping is replaced as a whole, since another thread reads them."""
        names = tuple(racks)
        self.counters = {name: ledger.counters(name) for name in names}
        self.usage = {name: ledger.usage(name) for name in names}

    def _opened(self) -> Ledger:
        if self._ledger is None:
            raise RuntimeError("the ledger is not open")
        return self._ledger

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)


def _unsettled(ledger: Ledger, rack: str, now_ns: int) -> Iterator[StoredRollup]:
    """Yield the roll-ups of a rack that time may still touch."""
    for length in (MINUTE_SECONDS, HOUR_SECONDS):
        starts_ns = max(0, now_ns - KEEP_NS - length * _SECOND_NS)
        yield from ledger.rollups(rack, length, starts_ns, now_ns + _SECOND_NS)


def _has_events(batch: _Batch) -> bool:
    return any(node.poll.events for status in batch.statuses for node in status.nodes)


def _without_samples(batch: _Batch) -> _Batch:
    return replace(
        batch,
        statuses=tuple(
            replace(
                status,
                nodes=tuple(
                    replace(node, poll=replace(node.poll, samples=NO_SAMPLES, histograms=()))
                    for node in status.nodes
                ),
            )
            for status in batch.statuses
        ),
    )
