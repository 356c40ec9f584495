"""The seams of an agent: what reads, and what writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from collector.model import HistogramSample, Series, Snapshot, Value
from collector.readings import KernelRecord, Message

Deliver = Callable[[Message], None]
"""Takes a source's message; called on the event loop's thread only."""


class Source(Protocol):
    """Reads something and delivers Layouts and Readings until it is closed.

    A source isolates its own failures: what cannot be read now is a Reading with `up` False and a reason.

    It can be released, and then lets go of the hardware without an end of its deliveries: each second at most
    there is a Reading with `up` False and the reason that was given. Released before its start, it begins so.
    """

    @property
    def restarts(self) -> int:
        """Times that the source had to be started anew; a release and its end do not count."""

    @property
    def held_by(self) -> str:
        """What still holds the hardware of a released source, in words; empty if nothing does."""

    async def start(self, deliver: Deliver) -> None:
        """Begin to read, and return at once; deliver from then on."""

    async def release(self, reason: str) -> None:
        """Let go of the hardware, within a bounded time, whatever hangs; `held_by` says what did not let go.

        Args:
            reason: Why nothing is read, for the Readings. A second release changes nothing but the reason.
        """

    async def resume(self) -> None:
        """Take the hardware again, and return at once; of a source that is not released nothing changes."""

    async def close(self) -> None:
        """Stop reading and give back what is held, within a bounded time, whatever hangs."""


class Feed(Protocol):
    """Reads something beside the GPUs, on a schedule of its own; each Snapshot takes what it has then.

    A feed isolates its own failures: what cannot be read, or is too old, is None, and a series of the feed
    says why it is. It belongs to the event loop's thread, and never blocks it.
    """

    @property
    def revision(self) -> int:
        """A number that changes whenever `rows` gives other series, or the same in another order."""

    def rows(self) -> Iterable[tuple[Series, Value | None]]:
        """Return its series with their values now; None where nothing valid is known."""

    def histograms(self) -> Iterable[HistogramSample]:
        """Return the histograms that are known now, grouped by metric in the order of the catalogue."""

    async def start(self) -> None:
        """Begin to read, and return at once."""

    async def close(self) -> None:
        """Stop reading, within a bounded time, whatever hangs."""


class Control(Protocol):
    """Takes orders from people on this machine while the agent runs."""

    async def start(self) -> None:
        """Open what orders come through; raises ConfigurationError where another agent has it open."""

    async def close(self) -> None:
        """Take no more orders; what was ordered for later is given up."""


class KernelLog(Protocol):
    """Follows the kernel log from its beginning and delivers what is about GPUs.

    One that cannot be read says so once and delivers nothing.
    """

    @property
    def lost(self) -> int:
        """Records that were overwritten before they were read."""

    async def start(self, deliver: Callable[[KernelRecord], None]) -> None:
        """Begin to follow, and return at once; deliver on the event loop's thread from then on."""

    async def close(self) -> None:
        """Stop following."""


class Exporter(Protocol):
    """Sends Snapshots out of the agent.

    `publish` is called for every Snapshot, in order, and must return at once.
    """

    def publish(self, snapshot: Snapshot) -> None:
        """Take the newest Snapshot."""

    async def start(self) -> None:
        """Open what is needed to send; raises ConfigurationError where that cannot work."""

    async def close(self) -> None:
        """Send or keep what is left, and close, within a bounded time."""
