"""The agent: makes Snapshots of what source and feeds bring, hands them to its exporters. Nothing else."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.health.evaluate import Checker
from collector.identity import UNASSIGNED, Host, Names, settle_names
from collector.kernel_watch import KernelWatch
from collector.model import Snapshot
from collector.protocols import Control, Exporter, Feed, KernelLog, Source
from collector.readings import KernelRecord, Layout, Message, Reading
from collector.state import StateStore

_logger = logging.getLogger("rackwatt.agent")

_CLOSE_SECONDS = 5.0
"""Longest that closing one source, feed or exporter may take before it is left behind."""
_SLOW_TICK_SECONDS = 1.0
"""How often Snapshots are made at least, however slow or silent the source is."""


@dataclass(frozen=True, slots=True)
class Naming:
    """Where the node's names may come from.

    Attributes:
        rack: Rack by configuration or environment, or None.
        node: Node by configuration or environment, or None.
    """

    rack: str | None
    node: str | None


class Agent:
    """One node's agent."""

    def __init__(
        self,
        source: Source,
        exporters: Sequence[Exporter],
        *,
        naming: Naming,
        host: Host,
        store: StateStore,
        deadlines: Deadlines,
        feeds: Sequence[Feed] = (),
        kernel_log: KernelLog | None = None,
        control: Control | None = None,
        checker: Checker | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Put the parts together; nothing runs before `run`.

        Args:
            source: What reads.
            exporters: What writes.
            naming: Where the node's names may come from.
            host: What the operating system says.
            store: What is remembered over a restart.
            deadlines: How long silence is borne.
            feeds: What reads beside the GPUs.
            kernel_log: What follows the kernel log; None to leave it alone.
            control: What takes orders while the agent runs; None for nothing.
            checker: Judges the node; one with default thresholds where None.
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
        """
        self._source = source
        self._exporters = tuple(exporters)
        self._naming = naming
        self._host = host
        self._store = store
        self._deadlines = deadlines
        self._feeds = tuple(feeds)
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._kernel_log = kernel_log
        self._control = control
        self._kernel_watch = KernelWatch(host.boot_id, store)
        self._checker = checker
        self._laid_out = False
        self._assembly: Assembly | None = None
        self._names: Names | None = None
        self._published_at = float("-inf")
        self._said: str | None = None
        self._stale_said = False
        self._last_reading_at: float | None = None
        self._failing: set[str] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then close everything within a bounded time.

        Raises:
            ConfigurationError: An exporter or the control socket cannot start as it is configured.
        """
        started: list[Exporter] = []
        try:
            for exporter in self._exporters:
                await exporter.start()
                started.append(exporter)
            if self._control is not None:
                await self._control.start()
            await self._source.start(self.deliver)
            if self._kernel_log is not None:
                await self._kernel_log.start(self.take_record)
            for feed in self._feeds:
                await _start(feed)
            await self._tick_until(stop)
        finally:
            if self._control is not None:
                await _close("the control socket", self._control)
            if self._kernel_log is not None:
                await _close("the kernel log", self._kernel_log)
            self._kernel_watch.save()
            await asyncio.gather(*(_close(type(feed).__name__, feed) for feed in self._feeds))
            await _close("the reader", self._source)
            self._publish_last()
            for exporter in reversed(started):
                await _close(type(exporter).__name__, exporter)

    def deliver(self, message: Message) -> None:
        """Take a message of the source; after a Reading the exporters have a new Snapshot."""
        assembly = self._assembly or self._settle(message)
        if isinstance(message, Layout):
            assembly.apply_layout(message)
            self._remember(message)
            self._laid_out = True
            self._kernel_watch.hand_over(assembly)
            return
        assembly.apply_reading(message)
        self._say(message)
        self._publish(assembly)

    def take_record(self, record: KernelRecord) -> None:
        """Take a record of the kernel log; the next Snapshot has it."""
        self._kernel_watch.take(record)
        if self._assembly is not None and self._laid_out:
            self._kernel_watch.hand_over(self._assembly)

    async def _tick_until(self, stop: asyncio.Event) -> None:
        """Publish while the source is silent, too, so that ages grow where they are seen."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(_SLOW_TICK_SECONDS):
                    await stop.wait()
            except TimeoutError:
                self._tick()

    def _tick(self) -> None:
        self._kernel_watch.save()
        now = self._monotonic()
        silent_for = now - self._last_reading_at if self._last_reading_at is not None else 0.0
        if silent_for > self._deadlines.stale and not self._stale_said:
            self._stale_said = True
            _logger.warning("the reader has been silent for %.1f s; its data are stale", silent_for)
        quiet = min(self._deadlines.stale / 2, _SLOW_TICK_SECONDS)
        if self._assembly is not None and now - self._published_at > quiet:
            self._publish(self._assembly)

    def _publish(self, assembly: Assembly) -> None:
        lost = self._kernel_log.lost if self._kernel_log is not None else 0
        snapshot = assembly.snapshot(self._source.restarts, kernel_records_lost=lost)
        self._published_at = self._monotonic()
        for exporter in self._exporters:
            self._hand_over(exporter, snapshot)

    def _publish_last(self) -> None:
        """Publish what came since the last Snapshot, an Xid of the last second among it."""
        if self._assembly is None:
            return
        try:
            self._publish(self._assembly)
        except Exception:  # the exporters are closed all the same
            _logger.exception("the last Snapshot could not be made")

    def _hand_over(self, exporter: Exporter, snapshot: Snapshot) -> None:
        """Publish to one exporter; a defect of its costs neither the others nor the source."""
        name = type(exporter).__name__
        try:
            exporter.publish(snapshot)
        except Exception:
            if name not in self._failing:
                _logger.exception("%s cannot take the Snapshot; the others get it all the same", name)
            self._failing.add(name)
        else:
            self._failing.discard(name)

    def _settle(self, message: Message) -> Assembly:
        """Settle the node's names with the first message; they stay until the agent restarts."""
        gpus = message.gpus if isinstance(message, Layout) else ()
        serials = {gpu.texts.get("chassis_serial", "") for gpu in gpus if gpu.present} - {""}
        self._names = settle_names(
            rack=self._naming.rack,
            node=self._naming.node,
            state=self._store.state,
            chassis_serial=serials.pop() if len(serials) == 1 else "",
            hostname=self._host.hostname,
        )
        _logger.info("this is node %s of rack %s", self._names.node, self._names.rack)
        self._assembly = Assembly(
            self._names,
            self._host,
            self._deadlines,
            monotonic=self._monotonic,
            wall_ns=self._wall_ns,
            checker=self._checker,
            feeds=self._feeds,
        )
        return self._assembly

    def _remember(self, layout: Layout) -> None:
        if self._names is not None:
            rack, node = ("" if name == UNASSIGNED else name for name in (self._names.rack, self._names.node))
            state = msgspec.structs.replace(self._store.state, rack=rack, node=node, gpus=layout.gpus)
            self._store.save(state)

    def _say(self, reading: Reading) -> None:
        """Log what changed, once."""
        self._last_reading_at = self._monotonic()
        if self._stale_said and reading.up:
            self._stale_said = False
            _logger.info("the reader brings data again")
        said = "" if reading.up else reading.reason
        if said != self._said:
            self._said = said
            if said:
                _logger.warning("NVML cannot be read: %s", said)
            else:
                _logger.info("NVML is read")
        for incident in reading.incidents:
            _logger.warning(
                "%s on %s%s", incident.kind, incident.gpu_uuid or "an unknown GPU", _code(incident.code)
            )


def _code(code: int | None) -> str:
    return "" if code is None else f": {code}"


async def _start(feed: Feed) -> None:
    """Start one feed; a defect of its costs neither the others nor the agent."""
    try:
        await feed.start()
    except Exception:
        _logger.exception("%s cannot start; the others do all the same", type(feed).__name__)


async def _close(name: str, part: Source | Exporter | Feed | KernelLog | Control) -> None:
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await part.close()
    except TimeoutError:
        _logger.exception("%s did not close within %.0f s and is left behind", name, _CLOSE_SECONDS)
    except Exception:  # the others are closed all the same
        _logger.exception("%s could not be closed", name)
