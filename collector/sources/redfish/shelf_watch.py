"""Reads the power shelves of racks, each on its own, so that one that hangs costs itself only."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collector.efficiency.shelf import ShelfReading
from collector.sources.redfish.client import RedfishClient, RedfishLimits
from collector.sources.redfish.shelf_plan import Plan, find_plan
from collector.sources.redfish.target import RedfishError, RedfishTarget

_logger = logging.getLogger("rackwatt.redfish")

PERIOD_SECONDS = 15.0
"""Time between two readings of a shelf; chosen: a quarter of the 60 s of facts on tokens, §4."""

PLAN_SECONDS = 3600.0
"""Age at which it is found out anew where a shelf tells its power; chosen."""

_NUMBER = re.compile(r"[0-9.]+")


class ShelfReader:
    """Reads one shelf, and remembers where it tells its power."""

    def __init__(self, client: RedfishClient, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin without knowing anything of the shelf.

        Args:
            client: Asks it.
            monotonic: Clock in seconds.
        """
        self._client = client
        self._monotonic = monotonic
        self._plan: Plan | None = None
        self._planned_at = 0.0

    async def watts(self) -> float:
        """Read the input power.

        Raises:
            RedfishError: It cannot be read; next time it is found out anew where it stands.
        """
        limit = self._client.limits.reading_seconds
        # Whatever ends the reading early, a deadline among it, leaves no plan behind.
        plan, self._plan = self._plan, None
        try:
            async with asyncio.timeout(limit):
                if plan is None or self._is_old() or not await plan.holds(self._client):
                    plan = await find_plan(self._client)
                    self._planned_at = self._monotonic()
                value = await plan.read(self._client)
        except TimeoutError:
            raise RedfishError(f"the shelf did not tell its power within {limit:g} s") from None
        self._plan = plan
        return value

    def _is_old(self) -> bool:
        return self._monotonic() - self._planned_at > PLAN_SECONDS


@dataclass(slots=True)
class _Shelf:
    rack: str
    client: RedfishClient
    reader: ShelfReader
    reading: ShelfReading
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ShelfWatch:
    """The power shelves of a rack service's racks. Belongs to one event loop."""

    def __init__(
        self,
        racks: Mapping[str, Sequence[RedfishTarget]],
        *,
        period_seconds: float = PERIOD_SECONDS,
        limits: RedfishLimits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Prepare to read; nothing is asked before `start`.

        Args:
            racks: The shelves of each rack, as configured.
            period_seconds: Time between two readings of a shelf.
            limits: How long a shelf may take; None for the usual times.
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds, for the readings.

        Raises:
            ConfigurationError: A file with certificates cannot be used.
        """
        self._period_seconds = period_seconds
        self._wall_ns = wall_ns
        self._shelves: list[_Shelf] = []
        for rack, targets in racks.items():
            for target in targets:
                client = RedfishClient(target, limits)
                reader = ShelfReader(client, monotonic=monotonic)
                self._shelves.append(_Shelf(rack, client, reader, ShelfReading(target.name)))
        self._tasks: list[asyncio.Task[None]] = []

    def readings(self, rack: str) -> tuple[ShelfReading, ...]:
        """Return the newest word of each shelf of a rack, in the order of configuration.

        Args:
            rack: Name of the rack; one without shelves has no readings.
        """
        return tuple(shelf.reading for shelf in self._shelves if shelf.rack == rack)

    async def start(self) -> None:
        """Begin to read every shelf, at once and then each at its own moment of a period, and return."""
        self._tasks = [
            asyncio.create_task(
                self._read_on(shelf, self._period_seconds * (position + 1) / len(self._shelves)),
                name=f"read {shelf.client.target.name}",
            )
            for position, shelf in enumerate(self._shelves)
        ]

    async def close(self) -> None:
        """Stop reading and end every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(shelf.client.close() for shelf in self._shelves))

    async def read_all(self) -> None:
        """Read every shelf now, and return when each has told its power or failed."""
        await asyncio.gather(*map(self._read, self._shelves))

    async def _read_on(self, shelf: _Shelf, pause_seconds: float) -> None:
        """Read a shelf on and on.

        Args:
            shelf: The shelf.
            pause_seconds: Time to the second reading. Shelves that were read at one moment would all miss
                what happens between two, and the rack's energy would rise in steps.
        """
        while True:
            began = asyncio.get_running_loop().time()
            await self._read(shelf)
            # A reading that took longer than the period is not made up for.
            spent = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(0.0, pause_seconds - spent))
            pause_seconds = self._period_seconds

    async def _read(self, shelf: _Shelf) -> None:
        before = shelf.reading
        try:
            async with shelf.lock:
                value = await shelf.reader.watts()
        except RedfishError as error:
            shelf.reading = replace(before, error=str(error))
        except Exception:
            _logger.exception("reading the shelf %s failed; this is a defect", before.shelf)
            shelf.reading = replace(before, error="the rack service failed to read it; its log says why")
        else:
            shelf.reading = ShelfReading(before.shelf, self._wall_ns(), value, "")
        self._say(shelf, before)

    def _say(self, shelf: _Shelf, before: ShelfReading) -> None:
        """Log what changed, once; a number in it is no change."""
        now = shelf.reading
        if _NUMBER.sub("0", now.error) == _NUMBER.sub("0", before.error):
            return
        extra = {"rack": shelf.rack}
        if now.error:
            _logger.warning("power shelf %s: %s", now.shelf, now.error, extra=extra)
        elif before.watts is not None:
            _logger.info("power shelf %s tells its power again", now.shelf, extra=extra)
        else:
            _logger.info("power shelf %s tells its power", now.shelf, extra=extra)
