"""The kernel log, followed on the event loop: records of the NVIDIA driver as they come.

Format of a record (Linux, Documentation/ABI/testing/dev-kmsg): `priority,sequence,microseconds,flags;text`,
then lines that begin with a blank, then the end of the line. A reader that is overtaken by the log gets EPIPE
once and goes on with what is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from collector.readings import KernelRecord

_logger = logging.getLogger("rackwatt.kernel")

DEVICE = Path("/dev/kmsg")

_READ_BYTES = 65_536
"""More than the longest record (`PRINTKRB_RECORD_MAX`, 1 KiB, with every byte escaped as four)."""
_MAXIMUM_LINE_BYTES = 16_384
_READS_A_TURN = 128
"""Reads after which the event loop gets its turn, so that a flood keeps nobody waiting."""
_POLL_SECONDS = 1.0
_KERNEL_FACILITY = 0
"""`LOG_KERN`. What a process writes to the log gets another facility (Linux, `devkmsg_write`)."""
_DRIVER = b"NVRM: Xid"
_DRIFT_NS = 2_000_000_000
"""The log's clock is not slewed and drifts from CLOCK_MONOTONIC: a record that has just come and seems older
than this gets the time of now."""

Deliver = Callable[[KernelRecord], None]


class LogFile(Protocol):
    """A kernel log that is open, without waiting."""

    def fileno(self) -> int | None:
        """Return a descriptor to wait on; None where there is none, so that it is looked at now and then."""

    def read(self) -> bytes:
        """Return what is there; empty at its end; raises BlockingIOError where nothing is there yet."""

    def close(self) -> None:
        """Close it."""


class DeviceFile:
    """The kernel log as a file."""

    def __init__(self, path: Path = DEVICE) -> None:
        """Open it.

        Raises:
            OSError: It cannot be read.
        """
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int | None:
        """Return its descriptor."""
        return self._descriptor

    def read(self) -> bytes:
        """Read one record, or as much as is there."""
        return os.read(self._descriptor, _READ_BYTES)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class _Raw:
    """A record as it stands in the log.

    Attributes:
        sequence: Its number within the boot.
        facility: Who wrote it.
        microseconds: When, on the log's clock.
        text: The message.
    """

    sequence: int
    facility: int
    microseconds: int
    text: bytes


class RecordReader:
    """Splits a stream of bytes into records; whatever is none is passed over."""

    def __init__(self) -> None:
        """Begin at the start of a line."""
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[_Raw]:
        """Yield the records that are complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._skipping or len(line) > _MAXIMUM_LINE_BYTES:
                self._skipping = False
            elif (record := _parse(line)) is not None:
                yield record
        if len(self._rest) > _MAXIMUM_LINE_BYTES:
            self._rest, self._skipping = b"", True


def _parse(line: bytes) -> _Raw | None:
    header, separator, text = line.partition(b";")
    fields = header.split(b",")
    if not separator or line.startswith(b" ") or len(fields) < 3:
        return None
    if not all(field.isdigit() and len(field) <= 20 for field in fields[:3]):
        return None
    priority, sequence, microseconds = map(int, fields[:3])
    return _Raw(sequence, priority >> 3, microseconds, text)


class KernelLog:
    """Follows the kernel log from its beginning.

    Attributes:
        lost: Records that were overwritten before they were read.
    """

    def __init__(
        self,
        open_file: Callable[[], LogFile] = DeviceFile,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Prepare; nothing is opened before `start`.

        Args:
            open_file: Opens the log; raises OSError where it cannot.
            monotonic_ns: The log's clock: nanoseconds since boot.
            wall_ns: Nanoseconds of Unix time.
            poll_seconds: How often a log is looked at that cannot be waited on.
        """
        self.lost = 0
        self._open_file = open_file
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self._poll_seconds = poll_seconds
        self._file: LogFile | None = None
        self._deliver: Deliver | None = None
        self._records = RecordReader()
        self._last: int | None = None
        self._overrun = False
        self._caught_up = False
        self._watched: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self, deliver: Deliver) -> None:
        """Begin to follow; a log that cannot be read is said once and left alone.

        Args:
            deliver: Takes the driver's records, on the event loop's thread.
        """
        self._deliver = deliver
        try:
            self._file = self._open_file()
        except OSError as error:
            _logger.warning("%s", why_not(error))
            return
        self._watch()

    async def close(self) -> None:
        """Stop following."""
        self._stop()

    def _watch(self) -> None:
        """Wait on the descriptor; what cannot be waited on, as a plain file, is looked at by the clock."""
        descriptor = self._file.fileno() if self._file is not None else None
        if descriptor is not None:
            # PermissionError: epoll refuses plain files.
            with contextlib.suppress(PermissionError, NotImplementedError):
                asyncio.get_running_loop().add_reader(descriptor, self._turn)
                self._watched = descriptor
                return
        self._poll()

    def _poll(self) -> None:
        self._turn()
        if self._file is not None:
            self._timer = asyncio.get_running_loop().call_later(self._poll_seconds, self._poll)

    def _turn(self) -> None:
        """Read what is there, up to a bound."""
        for _ in range(_READS_A_TURN):
            if self._file is None:
                return
            try:
                data = self._file.read()
            except BlockingIOError:
                self._caught_up = True
                return
            except BrokenPipeError:
                self._overrun = True
                continue
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EINVAL):  # EINVAL: a record longer than the buffer
                    continue
                _logger.warning(
                    "the kernel log cannot be read any more: %s; Xids come from NVML alone", error
                )
                self._stop()
                return
            if not data:
                self._at_end()
                return
            for record in self._records.feed(data):
                self._take(record)

    def _at_end(self) -> None:
        """At the end of a pipe or file: look again by the clock, as its descriptor is ready for ever."""
        self._caught_up = True
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None
            self._timer = asyncio.get_running_loop().call_later(self._poll_seconds, self._poll)

    def _take(self, record: _Raw) -> None:
        if self._overrun:
            self._count_lost(record.sequence)
        self._last = record.sequence
        wanted = record.facility == _KERNEL_FACILITY and record.text.startswith(_DRIVER)
        if wanted and self._deliver is not None:
            self._deliver(
                KernelRecord(
                    sequence=record.sequence,
                    time_ns=self._unix_time_ns(record.microseconds),
                    text=record.text.decode("utf-8", errors="replace"),
                )
            )

    def _count_lost(self, sequence: int) -> None:
        lost = max(1, sequence - self._last - 1) if self._last is not None else 1
        self.lost += lost
        self._overrun = False
        _logger.warning(
            "the kernel log overwrote %d records before they were read; an Xid may be missed", lost
        )

    def _unix_time_ns(self, microseconds: int) -> int:
        """Turn the time of a record into Unix time; never later than now."""
        now_ns = self._wall_ns()
        age_ns = self._monotonic_ns() - microseconds * 1000
        if age_ns < 0 or (self._caught_up and age_ns > _DRIFT_NS):
            return now_ns
        return max(0, now_ns - age_ns)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None
        if self._file is not None:
            self._file.close()
            self._file = None


def why_not(error: OSError) -> str:
    """Say why the kernel log is not read, and what would be right."""
    consequence = "Xids come from NVML alone, without sub-code, link, or those before the agent"
    if isinstance(error, FileNotFoundError):
        return f"there is no {DEVICE} here: {consequence}; give the container the device to have them"
    if isinstance(error, PermissionError):
        return f"{DEVICE} may not be read: {consequence}; grant CAP_SYSLOG to have them"
    return f"{DEVICE} cannot be read ({error.strerror}): {consequence}; see what is mounted there"
