"""Makes one event of what NVML and the kernel log tell of the same Xid.

The kernel log has every Xid with its own time, NVML only those since its event set was made, and late when a
call hangs. So each NVML event is one line of the log: the oldest of its GPU and number that has no NVML event
yet. Whatever finds no partner counts by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from collector.health.xid_memory import SeenXid

_NANOSECONDS = 1_000_000_000
_EARLY_NS = 5 * _NANOSECONDS
"""NVML may tell of an Xid this long before the line is read, or by this much differ in its clock."""
_LATE_NS = 60 * _NANOSECONDS
"""NVML may tell of it this long after: under Xid 119 a call blocks for 45 s (open-gpu-kernel-modules#446)."""
_MAXIMUM_WAITING = 64

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Told:
    """An Xid of which one side has told.

    Attributes:
        cursor: Of its event.
        seen: What is known of it.
    """

    cursor: int
    seen: SeenXid


class XidJoin:
    """What waits for the other side."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._by_kernel: dict[_Key, deque[Told]] = {}
        self._by_nvml: dict[_Key, deque[Told]] = {}

    def match_nvml(self, gpu_uuid: str, code: int, time_ns: int) -> Told | None:
        """Find the line of the kernel log that an NVML event is about, and take it."""
        return _take(self._by_kernel, (gpu_uuid, code), time_ns - _LATE_NS, time_ns + _EARLY_NS)

    def match_kernel(self, gpu_uuid: str, code: int, time_ns: int) -> Told | None:
        """Find the NVML event that a line of the kernel log is about, and take it."""
        return _take(self._by_nvml, (gpu_uuid, code), time_ns - _EARLY_NS, time_ns + _LATE_NS)

    def wait_for_nvml(self, gpu_uuid: str, told: Told) -> None:
        """Let a line of the kernel log wait."""
        _wait(self._by_kernel, (gpu_uuid, told.seen.code), told)

    def wait_for_kernel(self, gpu_uuid: str, told: Told) -> None:
        """Let an NVML event wait."""
        _wait(self._by_nvml, (gpu_uuid, told.seen.code), told)


def _wait(waiting: dict[_Key, deque[Told]], key: _Key, told: Told) -> None:
    waiting.setdefault(key, deque(maxlen=_MAXIMUM_WAITING)).append(told)


def _take(waiting: dict[_Key, deque[Told]], key: _Key, since_ns: int, until_ns: int) -> Told | None:
    """Take the oldest within the times; what is older will never match."""
    queue = waiting.get(key)
    if queue is None:
        return None
    kept = [told for told in queue if told.seen.time_ns >= since_ns]
    found = next((told for told in kept if told.seen.time_ns <= until_ns), None)
    queue.clear()
    queue.extend(_without(kept, found))
    if not queue:
        del waiting[key]
    return found


def _without(queue: list[Told], found: Told | None) -> Iterator[Told]:
    return (told for told in queue if told is not found)
