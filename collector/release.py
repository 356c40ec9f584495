"""The switch between reading the GPUs and letting go of the driver, for an upgrade or a reset (DESIGN §3)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime

from collector.protocols import Source

_logger = logging.getLogger("rackwatt.agent")

MAXIMUM_SECONDS = 24 * 3600.0
"""Longest time after which a release may end by itself; what takes longer has no end that is known before."""

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Standing:
    """How a source stands.

    Attributes:
        released: Whether it is released.
        since_ns: Since when, nanoseconds of Unix time; None if it is not.
        until_ns: When it is resumed by itself; None if it is not.
        held_by: What still holds the driver although it is released, in words; empty if nothing does.
    """

    released: bool = False
    since_ns: int | None = None
    until_ns: int | None = None
    held_by: str = ""


class ReleaseSwitch:
    """Releases and resumes a source, one order after the other.

    It is forgotten with the process: an agent that is started anew reads.
    """

    def __init__(self, source: Source, *, wall_ns: Callable[[], int] = time.time_ns) -> None:
        """Begin with a source that is not released.

        Args:
            source: What is switched.
            wall_ns: Unix time in nanoseconds, for what people are told.
        """
        self._source = source
        self._wall_ns = wall_ns
        self._since_ns: int | None = None
        self._until_ns: int | None = None
        self._ending: asyncio.Task[None] | None = None
        self._orders: set[asyncio.Task[Standing]] = set()
        self._order = asyncio.Lock()

    def standing(self) -> Standing:
        """Say how the source stands."""
        if self._since_ns is None:
            return Standing()
        return Standing(True, self._since_ns, self._until_ns, self._source.held_by)

    async def release(self, seconds: float | None = None) -> Standing:
        """Let the source let go of the driver; it is done even if the caller is cancelled.

        A second release keeps the time of the first one, and decides anew when it ends.

        Args:
            seconds: Time after which it is resumed by itself; None for never.

        Returns:
            How it stands then.
        """
        return await self._in_turn(self._release(seconds))

    async def resume(self) -> Standing:
        """Let the source take the driver again; it is done even if the caller is cancelled.

        Returns:
            How it stands then.
        """
        return await self._in_turn(self._resume())

    async def close(self) -> None:
        """Give up what is to end by itself."""
        self._set_end(None)

    async def _in_turn(self, order: Coroutine[None, None, Standing]) -> Standing:
        task = asyncio.create_task(order, name="rackwatt-release")
        self._orders.add(task)
        task.add_done_callback(self._orders.discard)
        return await asyncio.shield(task)

    async def _release(self, seconds: float | None) -> Standing:
        async with self._order:
            self._set_end(seconds)
            now_ns = self._wall_ns()
            if self._since_ns is None:
                self._since_ns = now_ns
            self._until_ns = None if seconds is None else now_ns + round(seconds * _NS)
            await self._source.release(reason_of(self._since_ns, self._until_ns))
            return self.standing()

    async def _resume(self) -> Standing:
        async with self._order:
            self._set_end(None)
            self._since_ns = self._until_ns = None
            await self._source.resume()
            return self.standing()

    def _set_end(self, seconds: float | None) -> None:
        """Let a release end by itself after some time, or never."""
        if self._ending is not None:
            self._ending.cancel()
        self._ending = None if seconds is None else asyncio.create_task(self._end_after(seconds))

    async def _end_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._ending = None  # from here on nothing cancels it
        _logger.info("the release of the GPUs ends by itself, as it was ordered")
        await self.resume()


def reason_of(since_ns: int, until_ns: int | None) -> str:
    """Say why nothing is read.

    Args:
        since_ns: Since when, nanoseconds of Unix time.
        until_ns: When it ends by itself; None for never.
    """
    end = "" if until_ns is None else f", or the agent itself at {show_time(until_ns)}"
    return (
        f"released by `rackwatt release` at {show_time(since_ns)}; "
        f"`rackwatt resume` takes the GPUs again{end}"
    )


def show_time(unix_ns: int) -> str:
    """Write a time for people, to the second, in UTC."""
    return datetime.fromtimestamp(unix_ns // _NS, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
