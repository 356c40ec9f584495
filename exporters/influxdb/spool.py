"""The spool: lines on disk between sampling and sending, so that neither an outage nor a crash loses them.

**Threads.** `append` and `status` may be called from any thread, the event loop's among them: they touch no
file and wait for nobody. All else reads or writes files, may wait for the disk, and belongs into worker
threads; one lock lets one such call after the other in. So a disk that hangs holds up neither sampling nor
`/metrics`.

**Promises.** What was appended is on the disk once a `sync` has returned and `status().durable` is true: it
survives the process, the kernel and the power. Damage costs the records that it is in, and no others. `read`
gives what was appended, byte for byte, until it is acknowledged. An acknowledgement that a crash takes costs
a second sending, and InfluxDB takes that for the same points.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from collector.errors import ConfigurationError
from exporters.influxdb.clock_trust import ClockTrust
from exporters.influxdb.intake import Intake, Item
from exporters.influxdb.journal import Journal, Reason
from exporters.influxdb.quarantine import Quarantine
from exporters.influxdb.spool_folder import lock, prepare, unusable
from exporters.influxdb.spool_types import Batch, Position, SpoolStatus

_logger = logging.getLogger("rackwatt.influxdb")

MINIMUM_BYTES = 1024 * 1024
"""Smallest bound for a spool: some minutes of 8 GPUs (chosen)."""
WAITING_BYTES = 8 * 1024 * 1024
"""Most bytes that wait in memory while the disk takes nothing: some minutes of 8 GPUs (chosen)."""


class Spool:
    """Records on their way to a server; the module says which thread may do what, and what is promised."""

    def __init__(
        self,
        directory: Path,
        lock_file: BinaryIO,
        journal: Journal,
        intake: Intake,
        *,
        maximum_age_seconds: float,
        wall_ns: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        """Use `Spool.open`."""
        self._directory = directory
        self._lock_file = lock_file
        self._maximum_age_ns = int(maximum_age_seconds * 1e9)
        self._wall_ns = wall_ns
        self._intake = intake
        self._disk = threading.Lock()
        # All below is changed by whoever holds the lock, and by nobody else.
        self._journal = journal
        self._trust = ClockTrust(wall_ns, monotonic)
        self._quarantine = Quarantine(directory)
        self._quarantined = 0
        self._error = ""
        self._published = (SpoolStatus(), journal.oldest_ns)
        self._publish()

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        maximum_bytes: int,
        maximum_age_seconds: float,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
        intake: Intake | None = None,
    ) -> Spool:
        """Open a spool, in whatever state it was left, and become its one writer.

        Args:
            directory: Its folder; made if it is missing, mode 0700.
            maximum_bytes: Most bytes of its segments; beyond that the oldest are dropped.
            maximum_age_seconds: Older records are dropped, once the clock can be believed.
            wall_ns: Unix time in nanoseconds, for ages.
            monotonic: Clock in seconds, to find steps of the other one.
            intake: What waits for the disk already; None for nothing.

        Raises:
            ConfigurationError: The folder cannot be used, another process writes it, or a bound is too small.
            SpoolDiskError: The disk fails, or is full or read-only.
        """
        if maximum_bytes < MINIMUM_BYTES:
            raise ConfigurationError(
                f"spool {directory}: {maximum_bytes} bytes are too few; at least {MINIMUM_BYTES} are needed"
            )
        if maximum_age_seconds <= 0:
            raise ConfigurationError(
                f"spool {directory}: a maximum age of {maximum_age_seconds:g} s keeps nothing; 7d is usual"
            )
        prepare(directory)
        lock_file = lock(directory)
        try:
            return cls(
                directory,
                lock_file,
                Journal(directory, maximum_bytes),
                intake or Intake(WAITING_BYTES),
                maximum_age_seconds=maximum_age_seconds,
                wall_ns=wall_ns,
                monotonic=monotonic,
            )
        except OSError as error:
            lock_file.close()
            raise unusable(directory, error) from error
        except BaseException:
            lock_file.close()
            raise

    def append(self, payload: bytes, *, points: int, time_ns: int) -> None:
        """Take lines over, as one record. Any thread; nothing is written before the next `sync`.

        Where the disk takes nothing for long, the oldest that wait in memory are dropped, and counted.

        Args:
            payload: The lines, each with its newline.
            points: How many lines.
            time_ns: When they were sampled, nanoseconds of Unix time.
        """
        self._intake.put(Item(payload, points, time_ns))

    def sync(self) -> None:
        """Bring to the disk what was appended, and drop what is too old. Worker threads.

        What the disk refuses stays in memory until the next time, and `status` says why. A disk that is full
        costs the oldest segment, and the next time the next one.
        """
        with self._disk:
            try:
                while (item := self._intake.take()) is not None:
                    self._journal.add(item)
                    self._publish()
                    self._intake.done()
                self._journal.sync()
                if self._trust.settled():
                    self._journal.expire(self._wall_ns() - self._maximum_age_ns)
            except OSError as error:
                self._intake.give_back()
                self._complain(error)
            else:
                self._error = ""
            self._publish()

    def read(self, maximum_bytes: int) -> Batch | None:
        """Return the oldest records that were not acknowledged. Worker threads.

        It does not advance: until something is acknowledged or dropped, the same call gives the same bytes.

        Args:
            maximum_bytes: Most bytes of their lines; one record is returned however large it is.

        Returns:
            The records; None where nothing on the disk is left to send.

        Raises:
            OSError: The disk cannot be read now.
        """
        with self._disk:
            batch = self._journal.batch(maximum_bytes, healthy=not self._error)
            self._publish()
            return batch

    def acknowledge(self, position: Position) -> None:
        """Forget everything before a batch's `position`. Worker threads.

        A place that lies before what was acknowledged or dropped already changes nothing.

        Raises:
            OSError: The disk cannot be read now; the acknowledgement holds.
        """
        with self._disk:
            self._journal.acknowledge(position)
            self._publish()

    def quarantine(self, lines: Sequence[bytes], reason: str) -> None:
        """Set lines aside that a server refuses for good. Worker threads. A full disk costs their text.

        Args:
            lines: The lines.
            reason: What the server said.
        """
        with self._disk:
            self._quarantined += len(lines)
            try:
                self._quarantine.add(lines, reason, self._wall_ns())
            except OSError as error:
                self._journal.failures += 1
                _logger.warning(
                    "%d lines could not be set aside in %s: %s", len(lines), self._directory, error
                )
            self._publish()

    def status(self) -> SpoolStatus:
        """Give an account. Any thread."""
        waiting, lost = self._intake.account()
        published, oldest_ns = self._published
        return replace(
            published,
            records=published.records + waiting.records,
            points=published.points + waiting.points,
            unsynced_records=waiting.records,
            oldest_age_seconds=None if oldest_ns is None else max(0, self._wall_ns() - oldest_ns) / 1e9,
            dropped_for_size=published.dropped_for_size + lost,
            durable=published.durable and waiting.records == 0,
        )

    def close(self) -> None:
        """Bring everything to the disk, and let others write the spool. Worker threads."""
        self.sync()
        with self._disk:
            self._journal.close()
            self._lock_file.close()
        waiting, _ = self._intake.account()
        if waiting.records:
            _logger.error(
                "%d records (%d points) that waited in memory are lost: the spool %s cannot be used",
                waiting.records,
                waiting.points,
                self._directory,
            )

    def _complain(self, error: OSError) -> None:
        self._journal.failures += 1
        text = str(error)
        if text != self._error:
            self._error = text
            _logger.error(
                "the spool %s cannot be used now: %s; what is new waits in memory", self._directory, text
            )

    def _publish(self) -> None:
        """Let `status` see how things stand, without the lock."""
        journal = self._journal
        status = SpoolStatus(
            records=journal.unsent.records,
            points=journal.unsent.points,
            bytes=journal.total_bytes,
            dropped_for_size=journal.lost[Reason.SIZE],
            dropped_for_age=journal.lost[Reason.AGE],
            dropped_for_disk=journal.lost[Reason.DISK],
            damaged=journal.lost[Reason.DAMAGE],
            quarantined_lines=self._quarantined,
            write_failures=journal.failures,
            durable=not self._error,
            error=self._error,
        )
        self._published = (status, journal.oldest_ns)
