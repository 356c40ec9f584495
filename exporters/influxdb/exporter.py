"""The InfluxDB exporter: Snapshots become lines, lines go through the spool, a sender of its own sends them.

Nothing here makes the event loop wait: lines are written from memory to memory, and two threads wait for the
disk and for the server. They are daemon threads, so that neither a disk nor a server that hangs keeps the
process alive.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from collector.errors import ConfigurationError
from collector.model import Snapshot
from exporters.influxdb.backoff import Pace, Rate
from exporters.influxdb.intake import Intake, Item
from exporters.influxdb.lines import LineWriter
from exporters.influxdb.selection import Selection
from exporters.influxdb.sender import Sender, SenderStatus, State
from exporters.influxdb.spool import WAITING_BYTES, Spool
from exporters.influxdb.spool_folder import SpoolDiskError
from exporters.influxdb.spool_types import SpoolStatus
from exporters.influxdb.target import Writer

_logger = logging.getLogger("rackwatt.influxdb")

SYNC_SECONDS = 1.0
"""How often lines are brought to the disk: so much a crash may cost (facts on reliability, §1)."""
_FAREWELL_SECONDS = 1.0
"""How long the last lines have to get to a server that takes them, at the end (chosen)."""
_ABORT_SECONDS = 0.5
"""How long a request that is under way then may go on, and how long its end may take (chosen)."""
_DISK_SECONDS = 2.0
"""How long the last `sync` may take; the agent allows an exporter 5 s (chosen)."""
_AFTER_ERROR_SECONDS = 5.0
"""How long a thread waits after an error that it has no name for (chosen)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """Where lines wait.

    Attributes:
        path: The folder.
        maximum_bytes: Size from which on the oldest are dropped.
        maximum_age_seconds: Age from which on they are dropped.
    """

    path: Path
    maximum_bytes: int
    maximum_age_seconds: float


class InfluxdbExporter:
    """An Exporter. Belongs to one event loop, but for its threads."""

    def __init__(
        self,
        writer: Writer,
        spool: SpoolSettings,
        selection: Selection,
        *,
        paced: bool = True,
        draw: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Prepare; the spool is opened by `start`, and until then lines wait in memory.

        Args:
            writer: The server.
            spool: Where lines wait.
            selection: What is written, and how often.
            paced: Whether a backlog is sent at a multiple of the live rate, rather than at once.
            draw: Draws a number from 0 to below 1, for waits.
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
        """
        self._writer = writer
        self._settings = spool
        self._lines = LineWriter(selection)
        self._paced = paced
        self._draw = draw
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._rate = Rate(monotonic)
        self._intake = Intake(WAITING_BYTES)
        self._open_failures = 0
        self._open_error = ""
        self._spool: Spool | None = None
        self._sender: Sender | None = None
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._disk: threading.Thread | None = None
        self._send: threading.Thread | None = None

    @property
    def sender_status(self) -> SenderStatus:
        """What the sender does."""
        return self._sender.status if self._sender is not None else SenderStatus()

    @property
    def spool_status(self) -> SpoolStatus:
        """What waits, and what was lost."""
        if self._spool is not None:
            status = self._spool.status()
            return replace(status, write_failures=status.write_failures + self._open_failures)
        waiting, lost = self._intake.account()
        return SpoolStatus(
            records=waiting.records,
            points=waiting.points,
            unsynced_records=waiting.records,
            dropped_for_size=lost,
            write_failures=self._open_failures,
            durable=waiting.records == 0,
            error=self._open_error,
        )

    def publish(self, snapshot: Snapshot) -> None:
        """Take the newest Snapshot; what is due of it waits in memory for the disk."""
        if self._stopping.is_set():
            return
        lines = self._lines.write(snapshot)
        if lines.points:
            self._intake.put(Item(lines.payload, lines.points, lines.time_ns))
            self._rate.add(len(lines.payload))

    async def start(self) -> None:
        """Open the spool and begin to send; where the disk does not let it be opened, go on trying.

        Raises:
            ConfigurationError: The spool cannot be used.
        """
        try:
            await asyncio.to_thread(self._open)
        except SpoolDiskError as error:
            self._complain(error)
        self._disk = threading.Thread(target=self._keep_syncing, name="influxdb spool", daemon=True)
        self._disk.start()

    async def close(self) -> None:
        """Bring everything to the disk, and stop; what no server acknowledged is sent after the restart."""
        if self._disk is None or self._stopping.is_set():
            return
        self._stopping.set()
        await asyncio.to_thread(self._finish)

    def _open(self) -> None:
        """Open the spool and begin to send."""
        settings = self._settings
        spool = Spool.open(
            settings.path,
            maximum_bytes=settings.maximum_bytes,
            maximum_age_seconds=settings.maximum_age_seconds,
            wall_ns=self._wall_ns,
            monotonic=self._monotonic,
            intake=self._intake,
        )
        self._sender = sender = Sender(
            spool,
            self._writer,
            random=self._draw,
            pace=Pace(self._monotonic, self._rate.per_second) if self._paced else None,
            wall_ns=self._wall_ns,
        )
        self._spool = spool
        self._send = threading.Thread(
            target=self._keep_sending, args=(sender,), name="influxdb sender", daemon=True
        )
        self._send.start()

    def _try_to_open(self) -> None:
        try:
            self._open()
        except ConfigurationError as error:
            self._complain(error)
        else:
            _logger.info("the spool %s can be used now", self._settings.path)

    def _complain(self, error: ConfigurationError) -> None:
        """Log what is new of why the spool cannot be opened, and count each try."""
        self._open_failures += 1
        if self._open_error != str(error):
            self._open_error = str(error)
            _logger.error("%s; until it can be opened points wait in memory only", error)

    def _finish(self) -> None:
        _join(self._disk, _DISK_SECONDS)
        _join(self._send, _FAREWELL_SECONDS)
        self._ended.set()
        if _alive(self._send):
            # It waits for a server; what it waits for stays in the spool.
            self._writer.abort()
            _join(self._send, _ABORT_SECONDS)
        if _alive(self._disk) or _alive(self._send):
            _logger.warning("the disk or the server hangs; what they did not acknowledge may be sent twice")
            return
        if self._spool is not None:
            self._spool.close()
        elif waiting := self._intake.account()[0].points:
            _logger.error("%d points that waited in memory are lost: %s", waiting, self._open_error)

    def _keep_syncing(self) -> None:
        guard = _Guard("the spool cannot be written now")
        while True:
            stopping = self._stopping.wait(SYNC_SECONDS)
            with guard:
                if self._spool is None:
                    self._try_to_open()
                if self._spool is not None:
                    self._spool.sync()
            if stopping:
                return

    def _keep_sending(self, sender: Sender) -> None:
        guard = _Guard("points cannot be sent now")
        wait = 0.0
        while not self._stopping.wait(wait):
            wait = _AFTER_ERROR_SECONDS
            with guard:
                wait = sender.step()
        # What came last is on the disk now; a server that takes lines gets it, too.
        _join(self._disk, _DISK_SECONDS)
        with guard:
            while sender.status.state in _WELL and not self._ended.is_set() and sender.step() == 0.0:
                pass


_WELL = (State.IDLE, State.SENDING)


def _join(thread: threading.Thread | None, seconds: float) -> None:
    if thread is not None:
        thread.join(seconds)


def _alive(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.is_alive()


class _Guard:
    """Lets a thread go on, whatever goes wrong in it, and logs what does once, until it is well again."""

    def __init__(self, what: str) -> None:
        """Name what cannot be done while something is wrong."""
        self._what = what
        self._said = ""

    def __enter__(self) -> None:
        """Try."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Log what is new, and go on."""
        if error is None:
            self._said = ""
            return False
        if not isinstance(error, Exception):
            return False
        text = f"{type(error).__name__}: {error}"
        if text != self._said:
            self._said = text
            # A disk that fails is no defect of ours, and needs no traceback.
            _logger.error("%s: %s", self._what, text, exc_info=None if isinstance(error, OSError) else error)
        return True
