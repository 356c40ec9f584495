"""NVML event sets: what a caller has registered for, and what waits for it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from collector.simulator.codes import (
    EVENT_CLOCK,
    EVENT_DOUBLE_BIT_ECC,
    EVENT_RECOVERY_ACTION,
    EVENT_SINGLE_BIT_ECC,
    EVENT_XID,
    INSTANCE_NONE,
    Return,
)
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.memory import UINT64, address_of, memory, number, put
from collector.simulator.timeline import ScheduledEvent, Timeline

# nvmlEventData_t: device, eventType, eventData, gpuInstanceId, computeInstanceId.
_EVENT_DATA: Final = struct.Struct("<QQQII")
_FIRST_SET_HANDLE: Final = 0x6500_0000_1000


@dataclass(frozen=True, slots=True)
class _Registration:
    """What an event set wants of one GPU, under which handle, from when on."""

    event_types: int
    device: int
    since_tick: int


@dataclass(slots=True)
class EventSet:
    """One event set.

    Attributes:
        registrations: By GPU index.
        position: How many of the node's events have been passed.
    """

    registrations: dict[int, _Registration] = field(default_factory=dict)
    position: int = 0


@dataclass(slots=True)
class EventSets:
    """The event sets that a library has given out.

    Attributes:
        sets: By handle.
        given: How many were ever given out.
    """

    sets: dict[int, EventSet] = field(default_factory=dict)
    given: int = 0


def supported_event_types(gpu: SimulatedGpu) -> int:
    """Return the event types of a GPU: chosen, those of the bindings of its driver that fit the board."""
    types = EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC | EVENT_XID | EVENT_CLOCK
    return types | EVENT_RECOVERY_ACTION if gpu.driver.at_least(570) else types


def create_set(event_sets: EventSets, handle: object = None) -> Return:
    """`nvmlEventSetCreate`."""
    value = _FIRST_SET_HANDLE + event_sets.given * 0x10
    code = put(handle, UINT64, value)
    if code == Return.SUCCESS:
        event_sets.given += 1
        event_sets.sets[value] = EventSet()
    return code


def free_set(event_sets: EventSets, handle: object = None) -> Return:
    """`nvmlEventSetFree`."""
    if event_sets.sets.pop(address_of(handle), None) is None:
        return Return.INVALID_ARGUMENT
    return Return.SUCCESS


def register(
    event_sets: EventSets, gpu: SimulatedGpu, device: int, event_types: object = 0, handle: object = None
) -> Return:
    """`nvmlDeviceRegisterEvents`: from now on, and besides what was registered before."""
    event_set = event_sets.sets.get(address_of(handle))
    wanted = number(event_types)
    if event_set is None:
        return Return.INVALID_ARGUMENT
    if wanted & ~supported_event_types(gpu):
        return Return.NOT_SUPPORTED
    before = event_set.registrations.get(gpu.index)
    event_set.registrations[gpu.index] = _Registration(
        event_types=wanted | (before.event_types if before else 0),
        device=device,
        since_tick=before.since_tick if before else gpu.timekeeper.tick,
    )
    return Return.SUCCESS


def take_event(event_set: EventSet, timeline: Timeline, tick: int) -> tuple[ScheduledEvent, int] | None:
    """Take the next event that has happened and is wanted.

    Args:
        event_set: The set; its position moves past what is taken or not wanted.
        timeline: The node's events.
        tick: Now.

    Returns:
        The event and the handle of its GPU, or None.
    """
    while event_set.position < len(timeline.events):
        event = timeline.events[event_set.position]
        if event.tick > tick:
            return None
        event_set.position += 1
        wanted = event_set.registrations.get(event.gpu)
        if wanted and wanted.event_types & event.event_type and event.tick >= wanted.since_tick:
            return event, wanted.device
    return None


def write_event(data: object, event: ScheduledEvent, device: int) -> Return:
    """Write an event to a caller's `nvmlEventData_t`."""
    target = memory(data, _EVENT_DATA.size)
    if target is None:
        return Return.INVALID_ARGUMENT
    _EVENT_DATA.pack_into(target, 0, device, event.event_type, event.data, INSTANCE_NONE, INSTANCE_NONE)
    return Return.SUCCESS
