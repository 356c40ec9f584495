"""The faults of a node laid out on the tick grid: pure questions with pure answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from collector.simulator.codes import EVENT_DOUBLE_BIT_ECC, EVENT_XID
from collector.simulator.faults import Fault, FaultKind
from collector.simulator.timekeeper import TICK_SECONDS, TICKS_PER_SECOND

# Xid numbers: NVIDIA's Xid catalogue.
_XID_OFF_THE_BUS: Final = 79
_XID_LINK_DOWN_NVLINK5: Final = 149
_XID_NVLINK_ERROR: Final = 74
_XID_CONTAINED_ECC: Final = 94
_XID_ROW_REMAP_RECORDED: Final = 63

# No process keeps its GPUs when the driver goes.
_ENGINE_ENDS: Final = (FaultKind.ENGINE_RESTART, FaultKind.DRIVER_UNLOADED)


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """A fault on the grid: it lasts from `start` until before `end`."""

    fault: Fault
    start: int
    end: int | None

    def active(self, tick: int) -> bool:
        """Tell whether the fault lasts at a tick."""
        return self.start <= tick and (self.end is None or tick < self.end)


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """An NVML event of a GPU.

    Attributes:
        tick: When it happens.
        gpu: Index of the GPU.
        event_type: One bit of `nvmlEventType*`.
        data: The Xid, or 0.
        link: The NVLink concerned, or None.
    """

    tick: int
    gpu: int
    event_type: int
    data: int
    link: int | None = None


class Timeline:
    """All faults of a node.

    Args:
        faults: The faults.
        nvlink_generation: Decides the Xid of a link that fails.

    Attributes:
        events: All events, in the order in which they happen.
    """

    __slots__ = ("_by_kind", "events")

    def __init__(self, faults: Iterable[Fault], nvlink_generation: int) -> None:
        scheduled = sorted(map(_schedule, faults), key=lambda each: each.start)
        self._by_kind = {
            kind: tuple(each for each in scheduled if each.fault.kind is kind) for kind in FaultKind
        }
        events = (event for each in scheduled for event in _events(each, nvlink_generation))
        self.events = tuple(sorted(events, key=lambda event: event.tick))

    def _of(self, kind: FaultKind, gpu: int | None) -> tuple[ScheduledFault, ...]:
        return tuple(each for each in self._by_kind[kind] if each.fault.gpu == gpu)

    def lost(self, gpu: int, tick: int) -> bool:
        """Tell whether a GPU is off the bus."""
        return any(each.active(tick) for each in self._of(FaultKind.GPU_LOST, gpu))

    def losses(self, gpu: int, tick: int) -> int:
        """Count how often a GPU has fallen off the bus."""
        return sum(each.start <= tick for each in self._of(FaultKind.GPU_LOST, gpu))

    def driver_unloaded(self, tick: int) -> bool:
        """Tell whether the driver is away."""
        return any(each.active(tick) for each in self._by_kind[FaultKind.DRIVER_UNLOADED])

    def driver_loads(self, tick: int) -> int:
        """Count how often the driver has gone away: the number of the present load."""
        return sum(each.start <= tick for each in self._by_kind[FaultKind.DRIVER_UNLOADED])

    def engine_away(self, tick: int) -> bool:
        """Tell whether the serving engine is away: it restarts, or has no driver."""
        return any(each.active(tick) for kind in _ENGINE_ENDS for each in self._by_kind[kind])

    def engine_began(self, tick: int) -> int | None:
        """Return the tick at which the serving engine came back last; while it is away, the present one.

        None if it has not been away since the node's start.
        """
        gone = [each for kind in _ENGINE_ENDS for each in self._by_kind[kind] if each.start <= tick]
        return max((tick if each.active(tick) else each.end or tick for each in gone), default=None)

    def engine_reset_ticks(self) -> frozenset[int]:
        """Return the ticks at which the serving engine goes away: what it counted is lost then."""
        return frozenset(each.start for kind in _ENGINE_ENDS for each in self._by_kind[kind])

    def can_hang(self) -> bool:
        """Tell whether any call ever hangs."""
        return bool(self._by_kind[FaultKind.CALL_HANGS])

    def hung(self, gpu: int | None, tick: int) -> bool:
        """Tell whether calls hang: all of the node, or those of one GPU."""
        hangs = self._by_kind[FaultKind.CALL_HANGS]
        return any(each.active(tick) and each.fault.gpu in (None, gpu) for each in hangs)

    def overheated(self, gpu: int, tick: int) -> bool:
        """Tell whether a GPU is in thermal slowdown."""
        return any(each.active(tick) for each in self._of(FaultKind.THERMAL_SLOWDOWN, gpu))

    def overheated_seconds(self, gpu: int, since_tick: int, elapsed_seconds: float) -> float:
        """Return the time that a GPU was in thermal slowdown.

        Args:
            gpu: Index of the GPU.
            since_tick: Tick from which on to count.
            elapsed_seconds: Time since the node's start.
        """
        total = 0.0
        for each in self._of(FaultKind.THERMAL_SLOWDOWN, gpu):
            begin = max(each.start, since_tick) * TICK_SECONDS
            end = elapsed_seconds if each.end is None else min(elapsed_seconds, each.end * TICK_SECONDS)
            total += max(0.0, end - begin)
        return total

    def down_links(self, gpu: int, tick: int) -> frozenset[int]:
        """Return the links of a GPU that are down."""
        return frozenset(
            each.fault.link
            for each in self._of(FaultKind.LINK_DOWN, gpu)
            if each.active(tick) and each.fault.link is not None
        )

    def link_failures(self, gpu: int, link: int, since_tick: int, tick: int) -> int:
        """Count how often a link has gone down since a tick."""
        faults = self._by_kind[FaultKind.LINK_DOWN]
        return sum(
            each.fault.gpu == gpu and each.fault.link == link and since_tick <= each.start <= tick
            for each in faults
        )

    def memory_errors(self, gpu: int, since_tick: int, tick: int) -> int:
        """Count the uncorrectable memory errors of a GPU since a tick."""
        faults = self._of(FaultKind.ECC_UNCORRECTABLE, gpu)
        return sum(since_tick <= each.start <= tick for each in faults)

    def driver_reset_ticks(self) -> frozenset[int]:
        """Return the ticks at which the driver comes back with all counters at zero."""
        return frozenset(
            each.end for each in self._by_kind[FaultKind.DRIVER_UNLOADED] if each.end is not None
        )

    def reset_ticks(self, gpu: int) -> frozenset[int]:
        """Return the ticks at which a GPU's counters begin anew: the driver or the GPU comes back."""
        returns = (each.end for each in self._of(FaultKind.GPU_LOST, gpu))
        return self.driver_reset_ticks() | {end for end in returns if end is not None}

    def change_ticks(self, gpu: int) -> list[int]:
        """Return the ticks, in order, at which anything begins or ends for a GPU."""
        kinds = (FaultKind.GPU_LOST, FaultKind.LINK_DOWN, FaultKind.THERMAL_SLOWDOWN)
        touching = [each for kind in kinds for each in self._of(kind, gpu)]
        touching += self._by_kind[FaultKind.DRIVER_UNLOADED] + self._by_kind[FaultKind.ENGINE_RESTART]
        ticks = {each.start for each in touching} | {each.end for each in touching if each.end is not None}
        return sorted(ticks)


def _schedule(fault: Fault) -> ScheduledFault:
    start = round(fault.start_seconds * TICKS_PER_SECOND)
    if fault.duration_seconds is None:
        return ScheduledFault(fault, start, None)
    end = round((fault.start_seconds + fault.duration_seconds) * TICKS_PER_SECOND)
    return ScheduledFault(fault, start, max(start + 1, end))


def _events(scheduled: ScheduledFault, nvlink_generation: int) -> list[ScheduledEvent]:
    """Return the events of one fault."""
    fault = scheduled.fault
    if fault.gpu is None:
        return []
    link_xid = _XID_LINK_DOWN_NVLINK5 if nvlink_generation >= 5 else _XID_NVLINK_ERROR
    signals = {
        FaultKind.GPU_LOST: ((EVENT_XID, _XID_OFF_THE_BUS),),
        FaultKind.LINK_DOWN: ((EVENT_XID, link_xid),),
        FaultKind.XID: ((EVENT_XID, fault.code or 0),),
        FaultKind.ECC_UNCORRECTABLE: (
            (EVENT_DOUBLE_BIT_ECC, 0),
            (EVENT_XID, _XID_CONTAINED_ECC),
            (EVENT_XID, _XID_ROW_REMAP_RECORDED),
        ),
    }.get(fault.kind, ())
    return [
        ScheduledEvent(scheduled.start, fault.gpu, event_type, data, fault.link)
        for event_type, data in signals
    ]
