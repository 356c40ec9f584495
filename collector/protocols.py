"""The two seams of an agent: what reads, and what writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from collector.model import Snapshot
from collector.readings import KernelRecord, Message

Deliver = Callable[[Message], None]
"""Takes a source's message; called on the event loop's thread only."""


class Source(Protocol):
    """Reads something and delivers Layouts and Readings until it is closed.

    A source isolates its own failures: what cannot be read now is a Reading with `up` False and a reason.
    """

    @property
    def restarts(self) -> int:
        """Times that the source had to be started anew."""

    async def start(self, deliver: Deliver) -> None:
        """Begin to read, and return at once; deliver from then on."""

    async def close(self) -> None:
        """Stop reading and give back what is held, within a bounded time, whatever hangs."""


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
