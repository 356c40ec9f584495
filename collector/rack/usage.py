"""Energy and tokens of all racks, beside their judging: what accounts take in, and give to the ledger."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from collector.efficiency.account import UsageAccount, UsageNow
from collector.efficiency.shelf import ShelfReading
from collector.health.gpu_counts import expected_gpus
from collector.health.ledger_usage import StoredRollup, UsageUpdate
from collector.health.rack_types import ExpectedRack, RackStatus
from collector.rack.settings import RackServiceSettings

_logger = logging.getLogger("rackwatt.rack")

MEMORY_KEY = "usage"
"""Under which a rack's account stands in what is remembered of the rack."""

TAKE_SECONDS = 5.0
"""How often the accounts give what they have to the ledger: as often as it is written."""

_SECOND_NS = 1_000_000_000
_MISSED = 3
"""Intervals without a reading after which power is no longer integrated (CONTRACTS §3, as for polls)."""
_SHORTEST_GAP_SECONDS = 15.0


class Shelves(Protocol):
    """What reads power shelves: a `ShelfWatch`, or a test's script."""

    async def start(self) -> None:
        """Begin to read, and return at once."""

    async def close(self) -> None:
        """Stop reading."""

    def readings(self, rack: str) -> tuple[ShelfReading, ...]:
        """Return the newest word of each shelf of a rack."""


class UsageWatch:
    """The accounts of all racks. Belongs to one event loop.

    Attributes:
        now: What is known of each rack now, by name.
    """

    def __init__(self, settings: RackServiceSettings, shelves: Shelves) -> None:
        """Prepare; there are accounts from `open` on.

        Args:
            settings: Racks and shelves.
            shelves: What reads the shelves.
        """
        self.now: dict[str, UsageNow] = {}
        self._settings = settings
        self._shelves = shelves
        self._accounts: dict[str, UsageAccount] = {}
        self._failing: set[str] = set()
        self._untaken: set[str] = set()
        self._taken_ns = 0

    def open(
        self,
        racks: Iterable[ExpectedRack],
        memories: Mapping[str, Mapping[str, object]],
        rollups: Mapping[str, tuple[StoredRollup, ...]],
    ) -> None:
        """Take up what was known before a restart.

        Args:
            racks: The racks as they are declared.
            memories: What was remembered of each rack.
            rollups: Minutes and hours of each that may still change.
        """
        slowest = max(self._settings.poll_seconds, self._settings.redfish_seconds)
        for rack in racks:
            memory = memories.get(rack.rack, {}).get(MEMORY_KEY)
            self._accounts[rack.rack] = UsageAccount(
                rack.rack,
                shelves=[target.name for target in self._settings.shelves.get(rack.rack, ())],
                modules_per_node=rack.modules_per_node,
                memory=memory if isinstance(memory, dict) else None,
                rollups=rollups.get(rack.rack, ()),
                maximum_gap_seconds=max(_SHORTEST_GAP_SECONDS, _MISSED * slowest),
            )

    async def start(self) -> None:
        """Begin to read the shelves."""
        await self._shelves.start()

    async def close(self) -> None:
        """Stop reading them."""
        await self._shelves.close()

    def observe(self, rack: ExpectedRack, status: RackStatus, now_ns: int) -> None:
        """Take in what a rack was judged by; a defect costs neither the verdict nor the other racks.

        Args:
            rack: The rack as it is declared.
            status: Its newest status.
            now_ns: The present.
        """
        try:
            account = self._accounts[rack.rack]
            account.observe(
                [node.poll for node in status.nodes],
                self._shelves.readings(rack.rack),
                now_ns=now_ns,
                gpus_expected=expected_gpus(status.nodes, rack.gpus_per_node),
            )
            self.now[rack.rack] = account.now()
        except Exception:
            if rack.rack not in self._failing:
                _logger.exception("energy and tokens of rack %s cannot be counted", rack.rack)
            self._failing.add(rack.rack)
            self.now.pop(rack.rack, None)
        else:
            self._failing.discard(rack.rack)

    def take(self, now_ns: int, *, last: bool = False) -> Mapping[str, UsageUpdate]:
        """Return what is to be written, by rack; mostly nothing, as it is written every few seconds.

        A defect costs its own rack's energy and tokens, and nothing else of what is written.

        Args:
            now_ns: The present.
            last: Whether the service ends.
        """
        if not last and now_ns - self._taken_ns < TAKE_SECONDS * _SECOND_NS:
            return {}
        self._taken_ns = now_ns
        taken = {}
        for name, account in self._accounts.items():
            try:
                taken[name] = account.take()
            except Exception:
                if name not in self._untaken:
                    _logger.exception("energy and tokens of rack %s cannot be written", name)
                self._untaken.add(name)
            else:
                self._untaken.discard(name)
        return taken

    def export(self, rack: str) -> Mapping[str, object]:
        """Return what is to be remembered of a rack over a restart."""
        account = self._accounts.get(rack)
        return {} if account is None else {MEMORY_KEY: account.export()}
