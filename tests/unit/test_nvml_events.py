"""Xids, as NVML's events bring them: without waiting, to the right GPU, whatever happens to another."""

from __future__ import annotations

from collections import Counter, deque

from collector.sources.nvml.events import XidEvents
from collector.sources.nvml.library import Handle, NvmlLibrary
from tests.scripted_nvml import ScriptedNvml, target

XID = 0x8  # nvml.h: nvmlEventTypeXidCriticalError
TIMEOUT, GPU_IS_LOST, UNKNOWN = 10, 15, 999
FIRST, SECOND = Handle(0x6401), Handle(0x6402)


class EventDriver:
    """A driver with event sets, and events as a test says."""

    def __init__(self) -> None:
        self.supported = {0x6401: 0x801F, 0x6402: 0x801F}
        self.sets: dict[int, set[int]] = {}
        self.made = 0
        self.pending: deque[tuple[int, int, int]] = deque()
        self.lost: set[int] = set()
        self.waits: list[int] = []
        self.wait_code = TIMEOUT
        self.create_code = 0

    def events(self) -> XidEvents:
        return XidEvents(
            NvmlLibrary(
                ScriptedNvml(
                    nvmlEventSetCreate=self.create,
                    nvmlEventSetFree=self.free,
                    nvmlEventSetWait_v2=self.wait,
                    nvmlDeviceGetSupportedEventTypes=self.types,
                    nvmlDeviceRegisterEvents=self.register,
                )
            )
        )

    def create(self, reference: object) -> int:
        if self.create_code == 0:
            self.made += 1
            target(reference).value = 0x6500 + self.made
            self.sets[target(reference).value] = set()
        return self.create_code

    def free(self, event_set: Handle) -> int:
        del self.sets[event_set.value or 0]
        return 0

    def types(self, device: Handle, reference: object) -> int:
        target(reference).value = self.supported[device.value or 0]
        return 0

    def register(self, device: Handle, types: int, event_set: Handle) -> int:
        assert types == XID
        if device.value in self.lost:
            return GPU_IS_LOST
        self.sets[event_set.value or 0].add(device.value or 0)
        return 0

    def wait(self, event_set: Handle, reference: object, milliseconds: int) -> int:
        self.waits.append(milliseconds)
        registered = self.sets[event_set.value or 0]
        if registered & self.lost:
            return (
                GPU_IS_LOST  # as a real driver answers after Xid 79 (NVIDIA/k8s-test-infra pull request 746)
            )
        if not self.pending:
            return self.wait_code
        device, kind, data = self.pending.popleft()
        event = target(reference)
        event.eventType, event.eventData = kind, data
        # The structure's own pointer type, to an address that is never followed.
        Handle.from_buffer(event).value = device
        return 0


def watched() -> tuple[EventDriver, XidEvents]:
    driver = EventDriver()
    events = driver.events()
    events.register(FIRST, "GPU-first")
    events.register(SECOND, "GPU-second")
    return driver, events


def test_nothing_happened() -> None:
    driver, events = watched()
    errors: Counter[str] = Counter()
    assert list(events.poll(errors)) == []
    assert driver.waits == [0]  # never waits
    assert errors == {}


def test_each_xid_comes_once_in_order_with_its_gpu() -> None:
    driver, events = watched()
    driver.pending += [(0x6402, XID, 63), (0x6401, XID, 79), (0x6402, XID, 63)]
    assert list(events.poll(Counter())) == [("GPU-second", 63), ("GPU-first", 79), ("GPU-second", 63)]
    assert list(events.poll(Counter())) == []
    assert set(driver.waits) == {0}


def test_an_unknown_gpu_has_no_uuid_and_other_events_are_no_xids() -> None:
    driver, events = watched()
    driver.pending += [(0x9999, XID, 13), (0x6401, 0x2, 0)]
    assert list(events.poll(Counter())) == [("", 13)]


def test_a_storm_is_left_for_the_next_poll() -> None:
    driver, events = watched()
    driver.pending += [(0x6401, XID, 31)] * 100 + [(0x6401, 0x1, 0)] * 100
    polls = [len(list(events.poll(Counter()))) for _ in range(4)]
    assert polls == [64, 36, 0, 0]  # the events of another kind count as events


def test_a_failed_wait_is_counted() -> None:
    driver, events = watched()
    driver.wait_code = UNKNOWN
    errors: Counter[str] = Counter()
    assert list(events.poll(errors)) == []
    assert errors == {"unknown": 1}


def test_a_lost_gpu_does_not_keep_the_others_silent() -> None:
    driver, events = watched()
    driver.lost = {0x6401}
    driver.pending += [(0x6402, XID, 94)]
    errors: Counter[str] = Counter()
    assert list(events.poll(errors)) == []
    assert errors == {"gpu_is_lost": 1}
    assert list(events.poll(errors)) == [("GPU-second", 94)]
    assert errors == {"gpu_is_lost": 1}
    assert list(driver.sets.values()) == [{0x6402}]  # the old set was given back


def test_a_gpu_that_is_back_is_heard_again_under_its_new_handle() -> None:
    driver, events = watched()
    driver.lost = {0x6401}
    list(events.poll(Counter()))
    driver.supported[0x6411] = 0x801F
    events.register(Handle(0x6411), "GPU-first")
    driver.pending += [(0x6411, XID, 45)]
    assert list(events.poll(Counter())) == [("GPU-first", 45)]


def test_a_gpu_that_cannot_report_xids_is_left_out() -> None:
    driver = EventDriver()
    driver.supported[0x6401] = 0x1F & ~XID
    events = driver.events()
    events.register(FIRST, "GPU-first")
    assert list(driver.sets.values()) == [set()]


def test_a_driver_without_event_sets_brings_nothing() -> None:
    driver = EventDriver()
    driver.create_code = 3
    events = driver.events()
    events.register(FIRST, "GPU-first")
    assert list(events.poll(Counter())) == []
    events.close()
    assert driver.waits == []


def test_closing_gives_the_set_back_once() -> None:
    driver, events = watched()
    events.close()
    events.close()
    assert driver.sets == {}
    assert list(events.poll(Counter())) == []
