"""Spools for tests: records that say which they are, and clocks that a test drives."""

from __future__ import annotations

from pathlib import Path

from exporters.influxdb import records
from exporters.influxdb.spool import MINIMUM_BYTES, Spool

T0 = 1_764_505_200_000_000_000  # 2025-11-30T12:20:00Z
SECOND = 1_000_000_000
DAY = 86_400 * SECOND


class Clocks:
    """A wall clock and a monotonic one that go when a test says so."""

    def __init__(self) -> None:
        self.now_ns = T0
        self.monotonic_seconds = 1000.0

    def wall_ns(self) -> int:
        """Unix time in nanoseconds."""
        return self.now_ns

    def monotonic(self) -> float:
        """Seconds."""
        return self.monotonic_seconds

    def advance(self, seconds: float) -> None:
        """Let both go on."""
        self.now_ns += round(seconds * SECOND)
        self.monotonic_seconds += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock."""
        self.now_ns += round(seconds * SECOND)


class Opener:
    """Opens spools, on clocks that stand still unless a test drives them, and closes them at its own end."""

    def __init__(self) -> None:
        self._opened: list[Spool] = []

    def __call__(
        self,
        directory: Path,
        clocks: Clocks | None = None,
        *,
        maximum_bytes: int = 64 * MINIMUM_BYTES,
        maximum_age_seconds: float = 7 * 86_400,
    ) -> Spool:
        """Open a spool."""
        clocks = clocks or Clocks()
        spool = Spool.open(
            directory,
            maximum_bytes=maximum_bytes,
            maximum_age_seconds=maximum_age_seconds,
            wall_ns=clocks.wall_ns,
            monotonic=clocks.monotonic,
        )
        self._opened.append(spool)
        return spool

    def __enter__(self) -> Opener:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what a test left open."""
        for spool in self._opened:
            let_die(spool)


def let_die(spool: Spool) -> None:
    """Let go of a spool's files as a process that is killed does."""
    spool._journal.close()
    spool._lock_file.close()


def payload(number: int, padding: int = 0) -> bytes:
    """Make the two lines of a record, and as many bytes more, which do not compress."""
    noise = b"".join(b"%08x" % (hash((number, place)) & 0xFFFFFFFF) for place in range(padding // 8))
    return b'gpu,gpu=0 number=%di %d\ngpu,gpu=1 number=%di,noise="%s" %d\n' % (
        number,
        number,
        number,
        noise,
        number,
    )


def fill(spool: Spool, numbers: range, *, padding: int = 0, time_ns: int | None = None) -> None:
    """Append records and bring them to the disk, all together; each is a second later than the one before."""
    for number in numbers:
        at = T0 + number * SECOND if time_ns is None else time_ns
        spool.append(payload(number, padding), points=2, time_ns=at)
    spool.sync()


def numbers_of(lines: bytes) -> list[int]:
    """Say which records lines are of."""
    return [int(line.split(b" ")[-1]) for line in lines.splitlines()[::2]]


def drain(spool: Spool, maximum_bytes: int = 64 * 1024) -> list[int]:
    """Read and acknowledge all that is on the disk; say which records it was."""
    found: list[int] = []
    while (batch := spool.read(maximum_bytes)) is not None:
        numbers = numbers_of(batch.payload)
        assert batch.payload == b"".join(_same_length(batch.payload, number) for number in numbers)
        assert (batch.records, batch.points) == (len(numbers), 2 * len(numbers))
        found += numbers
        spool.acknowledge(batch.position)
    return found


def _same_length(lines: bytes, number: int) -> bytes:
    """Make a record anew, with the padding that it has in lines."""
    own = next(line for line in lines.splitlines()[1::2] if line.endswith(b" %d" % number))
    return payload(number, len(own.split(b'"')[1]))


def segments(directory: Path) -> list[Path]:
    """List the segments of a spool, oldest first."""
    return sorted(directory.glob("*.segment"))


def record_ends(content: bytes) -> list[int]:
    """Say where each record of an intact segment ends."""
    ends = []
    at = 0
    while (record := records.decode(content, at)) is not None:
        at += record.size
        ends.append(at)
    assert at == len(content)
    return ends
