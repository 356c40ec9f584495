"""Takes the kernel log's Xids to the assembly: each counts once within a boot, over restarts of the agent."""

from __future__ import annotations

import logging
from collections import deque

import msgspec

from collector.assembly import Assembly
from collector.health.kernel_log import XidLine, parse_xid, show_address
from collector.readings import KernelRecord
from collector.state import KernelMark, StateStore

_logger = logging.getLogger("rackwatt.kernel")

_MAXIMUM_WAITING = 1000


class KernelWatch:
    """Xids of the kernel log, from the record to the assembly."""

    def __init__(self, boot_id: str, store: StateStore) -> None:
        """Go on from where the last agent of this boot was; from the beginning after a boot.

        Args:
            boot_id: The kernel's boot id.
            store: Remembers how far the log was taken in.
        """
        self._boot_id = boot_id
        self._store = store
        mark = store.state.kernel
        self._counted = mark.sequence if mark is not None and mark.boot_id == boot_id else -1
        self._newest = self._saved = self._counted
        self._waiting: deque[tuple[XidLine, KernelRecord]] = deque(maxlen=_MAXIMUM_WAITING)

    def take(self, record: KernelRecord) -> None:
        """Take a record; it waits until the GPUs of the node are known."""
        line = parse_xid(record.text)
        if line is not None:
            self._waiting.append((line, record))

    def hand_over(self, assembly: Assembly) -> None:
        """Give what waits to the assembly, which knows the GPUs by now."""
        while self._waiting:
            line, record = self._waiting.popleft()
            counted = record.sequence <= self._counted
            assembly.apply_kernel_xid(line, record, counted=counted)
            if not counted:
                self._newest = max(self._newest, record.sequence)
                _logger.warning(
                    "Xid %d on PCI %s: %s",
                    line.code,
                    show_address(line.address),
                    line.detail or "no more is said",
                )

    def save(self) -> None:
        """Remember how far the log was taken in, if that changed."""
        if self._newest > self._saved:
            self._saved = self._newest
            mark = KernelMark(self._boot_id, self._newest)
            self._store.save(msgspec.structs.replace(self._store.state, kernel=mark))
