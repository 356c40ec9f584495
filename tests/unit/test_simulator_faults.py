"""Scripted faults: how they are written, and what each does to the library's answers."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from collector import profiles
from collector.errors import ConfigurationError
from collector.simulator import Fault, FaultKind, ManualClock, Return, SimulatedNode, parse_fault

XID = 8  # nvmlEventTypeXidCriticalError, nvml.h


class Session:
    """A caller of one simulated node."""

    def __init__(self, *faults: str, name: str = "gb300-nvl72", workload: str = "decode") -> None:
        self.clock = ManualClock(limit=10_000)
        self.node = SimulatedNode(
            profiles.load(name),
            workload=workload,
            faults=map(parse_fault, faults),
            clock=self.clock,
            sleep=self.clock.sleep,
        )
        self.library = self.node.library
        assert self.library.nvmlInit_v2() == 0

    def handle(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        assert self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
        return handle

    def handle_by_uuid(self, index: int) -> tuple[int, ctypes.c_void_p]:
        handle = ctypes.c_void_p()
        uuid = self.node.gpus[index].uuid.encode()
        return self.library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)), handle

    def read(self, handle: ctypes.c_void_p, *requests: tuple[int, int]) -> list[tuple[int, int]]:
        values = (pynvml.c_nvmlFieldValue_t * len(requests))()
        for value, (field_id, scope_id) in zip(values, requests, strict=True):
            value.fieldId, value.scopeId = field_id, scope_id
        assert self.library.nvmlDeviceGetFieldValues(handle, len(requests), values) == 0
        return [(value.nvmlReturn, value.value.ullVal) for value in values]

    def power_code(self, handle: ctypes.c_void_p) -> int:
        return self.library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(ctypes.c_uint()))

    def count(self) -> int:
        value = ctypes.c_uint()
        assert self.library.nvmlDeviceGetCount_v2(ctypes.byref(value)) == 0
        return value.value

    def event_set(self, *handles: ctypes.c_void_p, types: int = XID) -> ctypes.c_void_p:
        event_set = ctypes.c_void_p()
        assert self.library.nvmlEventSetCreate(ctypes.byref(event_set)) == 0
        for handle in handles:
            assert self.library.nvmlDeviceRegisterEvents(handle, ctypes.c_ulonglong(types), event_set) == 0
        return event_set

    def event(self, event_set: ctypes.c_void_p) -> tuple[int, int] | int:
        data = pynvml.c_nvmlEventData_t()
        code = self.library.nvmlEventSetWait_v2(event_set, ctypes.byref(data), 0)
        return (data.eventType, data.eventData) if code == 0 else code


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "gpu_lost:gpu=2,start=30,duration=20",
            Fault(FaultKind.GPU_LOST, start_seconds=30, duration_seconds=20, gpu=2),
        ),
        (" link_down:link=17, gpu=0 ,start=1.5s", Fault(FaultKind.LINK_DOWN, 1.5, gpu=0, link=17)),
        ("call_hangs", Fault(FaultKind.CALL_HANGS)),
        ("call_hangs:duration=0.5", Fault(FaultKind.CALL_HANGS, duration_seconds=0.5)),
        ("xid:gpu=3,code=119", Fault(FaultKind.XID, gpu=3, code=119)),
        ("ecc_uncorrectable:gpu=1,start=5", Fault(FaultKind.ECC_UNCORRECTABLE, 5, gpu=1)),
        ("thermal_slowdown:gpu=0,duration=60", Fault(FaultKind.THERMAL_SLOWDOWN, 0, 60, gpu=0)),
        ("driver_unloaded:start=9,duration=3", Fault(FaultKind.DRIVER_UNLOADED, 9, 3)),
    ],
)
def test_a_fault_is_read(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown kind ''"),
        ("gpu_los:gpu=1", "did you mean 'gpu_lost'"),
        ("meltdown", "known: gpu_lost, link_down"),
        ("gpu_lost", "gpu missing"),
        ("link_down:start=3", "gpu, link missing"),
        ("gpu_lost:gpu=1,link=3", "takes no link"),
        ("xid:gpu=1,code=79,duration=3", "takes no duration"),
        ("gpu_lost:gpu=one", "gpu 'one' must be a whole number"),
        ("gpu_lost:gpu=-1", "gpu '-1' must be a whole number"),
        ("gpu_lost:gpu=1,gpu=2", "gpu is given twice"),
        ("gpu_lost:gpu=1,when=2", "'when=2' must be name=value with one of gpu, link, code, start, duration"),
        ("gpu_lost:gpu", "'gpu' must be name=value"),
        ("gpu_lost:gpu=1,start=soon", "start 'soon' must be seconds"),
        ("gpu_lost:gpu=1,start=-1", "start -1.0 must be 0 or more"),
        ("gpu_lost:gpu=1,start=nan", "start nan"),
        ("gpu_lost:gpu=1,start=inf", "start inf"),
        ("gpu_lost:gpu=1,duration=0", "duration 0.0 must be more than 0"),
    ],
)
def test_what_is_no_fault_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_fault(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu_lost:gpu=4", "gpu 4 does not exist: gb300-nvl72 has 0 to 3"),
        ("link_down:gpu=0,link=18", "0 to 17"),
    ],
)
def test_a_fault_of_what_is_not_there_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Session(text)


def test_a_gpu_falls_off_the_bus_and_comes_back() -> None:
    session = Session("gpu_lost:gpu=2,start=30,duration=20")
    handles = [session.handle(index) for index in range(4)]
    events = session.event_set(*handles)
    session.clock.set(29.9)
    assert session.event(events) == Return.TIMEOUT
    assert session.power_code(handles[2]) == 0
    energy = session.read(handles[2], (83, 0))[0][1]

    session.clock.set(30.0)
    assert session.event(events) == (XID, 79)
    assert session.event(events) == Return.TIMEOUT
    assert session.power_code(handles[2]) == Return.GPU_IS_LOST
    values = (pynvml.c_nvmlFieldValue_t * 1)()
    assert session.library.nvmlDeviceGetFieldValues(handles[2], 1, values) == Return.GPU_IS_LOST
    assert session.handle_by_uuid(2)[0] == Return.GPU_IS_LOST
    assert session.power_code(handles[3]) == 0
    assert session.count() == 4  # the index of the others does not move under a running process

    session.clock.set(50.0)
    assert session.power_code(handles[2]) == Return.GPU_IS_LOST  # the old handle stays dead
    code, fresh = session.handle_by_uuid(2)
    assert code == 0
    assert fresh.value != handles[2].value
    assert session.power_code(fresh) == 0
    assert session.read(fresh, (83, 0))[0][1] < energy  # it begins anew


def test_a_lost_gpu_is_not_enumerated_by_a_new_process() -> None:
    session = Session("gpu_lost:gpu=1,start=1,duration=20")
    session.clock.set(5)
    assert session.library.nvmlShutdown() == 0
    assert session.library.nvmlInit_v2() == 0
    assert session.count() == 3
    index = ctypes.c_uint()
    _, handle = session.handle_by_uuid(3)
    assert session.library.nvmlDeviceGetIndex(handle, ctypes.byref(index)) == 0
    assert index.value == 2  # it has moved
    assert session.handle_by_uuid(1)[0] == Return.NOT_FOUND
    session.clock.set(21)
    assert session.handle_by_uuid(1)[0] == 0
    assert session.count() == 4


@pytest.mark.parametrize(
    ("name", "xid", "failures"),
    # Xid 149 is NVLink 5, 74 what came before; failed recoveries are field 214 there, 162 before (nvml.h).
    [("gb300-nvl72", 149, 214), ("hgx-b200", 149, 214), ("hgx-h100", 74, 162)],
)
def test_a_link_goes_down_and_comes_back(name: str, xid: int, failures: int) -> None:
    session = Session("link_down:gpu=0,link=5,start=10,duration=5", name=name)
    handle = session.handle(0)
    events = session.event_set(handle)
    session.clock.set(9.95)
    before = session.read(handle, (165, 5), (138, 5), (138, 0xFFFFFFFF), (failures, 5))
    assert before[0] == (0, 1)
    assert before[3] == (0, 0)

    session.clock.set(12)
    down = session.read(handle, (165, 5), (138, 5), (138, 0xFFFFFFFF), (failures, 5), (164, 5), (138, 4))
    assert down[0] == (0, 0)
    assert [code for code, _ in down] == [0, 3, 0, 3, 3, 0]
    assert down[2][1] > before[2][1]  # the sum goes on without it
    assert session.event(events) == (XID, xid)
    frozen = session.node.gpus[0].nvlink_transmitted_bytes(14.9, 5)
    assert frozen == session.node.gpus[0].nvlink_transmitted_bytes(10.0, 5)
    assert session.node.gpus[0].nvlink_transmitted_bytes(15.0, 5) == frozen  # and goes on from there

    session.clock.set(15.5)
    back = session.read(handle, (165, 5), (138, 5), (138, 0xFFFFFFFF), (failures, 5))
    assert back[0] == (0, 1)
    assert back[1][1] > before[1][1]
    assert back[2][1] > down[2][1]
    assert back[3] == (0, 1)
    assert session.read(handle, (failures, 4)) == [(0, 0)]


def test_a_link_that_is_down_degrades_the_fabric() -> None:
    session = Session("link_down:gpu=0,link=5,start=10,duration=5")
    handle = session.handle(0)

    def fabric() -> tuple[int, int]:
        info = pynvml.c_nvmlGpuFabricInfo_v3_t()
        assert session.library.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info)) == 0
        return info.healthMask, info.healthSummary

    assert fabric() == (0x1AA, 1)
    session.clock.set(11)
    assert fabric() == (0x1A9, 3)  # bits 0 and 1 from "false" to "true"; limited capacity (nvml.h)
    assert session.read(handle, (230, 0)) == [(0, 1)]  # GPU reset
    session.clock.set(15)
    assert fabric() == (0x1AA, 1)


def test_calls_hang_until_the_fault_ends() -> None:
    session = Session("call_hangs:start=5,duration=7")
    handle = session.handle(0)
    session.clock.set(6)
    assert session.power_code(handle) == 0
    assert 12 <= session.clock() < 12.1


def test_calls_hang_for_ever() -> None:
    session = Session("call_hangs:start=5")
    handle = session.handle(0)
    session.clock.set(5)
    with pytest.raises(TimeoutError):
        session.power_code(handle)
    assert session.clock() == pytest.approx(10_000)
    with pytest.raises(TimeoutError):
        session.library.nvmlInit_v2()


def test_one_gpu_hangs_alone() -> None:
    session = Session("call_hangs:gpu=1,start=5,duration=100")
    handles = [session.handle(index) for index in range(2)]
    session.clock.set(6)
    assert session.power_code(handles[0]) == 0
    assert session.count() == 4
    assert session.clock() == 6
    assert session.power_code(handles[1]) == 0
    assert session.clock() == pytest.approx(105, abs=0.06)


def test_an_uncorrectable_memory_error() -> None:
    session = Session("ecc_uncorrectable:gpu=1,start=3", "driver_unloaded:start=20,duration=5")
    handle = session.handle(1)
    events = session.event_set(handle, types=XID | 2)
    counters = ((3, 0), (4, 0), (6, 0), (143, 0), (144, 0), (145, 0), (230, 0))
    assert [value for _, value in session.read(handle, *counters)] == [0, 0, 0, 0, 0, 0, 0]
    session.clock.set(3)
    # Uncorrected, now and for ever; a row remapped, pending; drain and reset.
    assert [value for _, value in session.read(handle, *counters)] == [0, 1, 1, 1, 1, 0, 4]
    assert [session.event(events) for _ in range(4)] == [(2, 0), (XID, 94), (XID, 63), Return.TIMEOUT]
    assert session.read(session.handle(0), (4, 0)) == [(0, 0)]
    session.clock.set(26)
    assert session.library.nvmlInit_v2() == 0
    # The reset has done the remap; the lifetime count stays.
    assert [value for _, value in session.read(session.handle(1), *counters)] == [0, 0, 1, 1, 0, 0, 0]


def test_thermal_slowdown() -> None:
    session = Session("thermal_slowdown:gpu=0,start=60,duration=60")
    handle = session.handle(0)

    def look() -> dict[str, Any]:
        reasons, clock, margin = ctypes.c_ulonglong(), ctypes.c_uint(), pynvml.c_nvmlMarginTemperature_v1_t()
        margin.version = pynvml.nvmlMarginTemperature_v1
        library = session.library
        assert library.nvmlDeviceGetCurrentClocksEventReasons(handle, ctypes.byref(reasons)) == 0
        assert library.nvmlDeviceGetClockInfo(handle, 1, ctypes.byref(clock)) == 0
        assert library.nvmlDeviceGetMarginTemperature(handle, ctypes.byref(margin)) == 0
        (power, slowed) = (value for _, value in session.read(handle, (185, 0), (270, 0)))
        return {
            "reasons": reasons.value,
            "clock": clock.value,
            "margin": margin.marginTemperature,
            "power": power,
            "slowed": slowed,
        }

    session.clock.set(59)
    before = look()
    session.clock.set(119)
    during = look()
    session.clock.set(300)
    after = look()
    assert (before["reasons"], during["reasons"], after["reasons"]) == (0, 0x68, 0)
    assert (before["clock"], during["clock"], after["clock"]) == (2070, 1035, 2070)
    assert before["margin"] > 20
    assert -5 < during["margin"] <= -2  # past the slowdown margin, before the shutdown margin
    assert after["margin"] > 20
    assert during["power"] < 0.8 * before["power"]
    assert (before["slowed"], during["slowed"], after["slowed"]) == (0, 59_000_000_000, 60_000_000_000)


def test_the_driver_goes_away_and_counts_from_zero() -> None:
    session = Session("driver_unloaded:start=10,duration=5")
    handle = session.handle(0)
    events = session.event_set(handle)
    energy_before, sent_before, module_before = (
        value for _, value in session.read(handle, (83, 0), (138, 0), (191, 1))
    )
    session.clock.set(10)
    assert session.power_code(handle) == Return.UNINITIALIZED
    assert session.library.nvmlInit_v2() == Return.DRIVER_NOT_LOADED
    session.clock.set(15)
    assert session.power_code(handle) == Return.UNINITIALIZED
    assert session.library.nvmlInitWithFlags(0) == 0
    assert session.power_code(handle) == Return.INVALID_ARGUMENT  # a handle of the driver before
    assert session.event(events) == Return.INVALID_ARGUMENT
    fresh = session.handle(0)
    assert session.read(fresh, (83, 0), (138, 0), (191, 1)) == [(0, 0)] * 3
    session.clock.set(20)
    (_, energy), (_, sent), (_, module) = session.read(fresh, (83, 0), (138, 0), (191, 1))
    assert 0 < energy < energy_before
    assert 0 < sent < sent_before
    assert energy < module < module_before


def test_a_new_process_of_another_driver_load_has_one_reference() -> None:
    session = Session("driver_unloaded:start=10,duration=5")
    session.clock.set(16)
    assert session.library.nvmlInit_v2() == 0
    assert session.library.nvmlShutdown() == 0
    assert session.library.nvmlShutdown() == Return.UNINITIALIZED


def test_events_go_to_whoever_registered_for_them() -> None:
    session = Session("xid:gpu=0,code=31,start=1", "xid:gpu=1,code=43,start=2", "xid:gpu=0,code=45,start=3")
    handles = [session.handle(index) for index in range(2)]
    both, second = session.event_set(*handles), session.event_set(handles[1])
    session.clock.set(2.5)
    late = session.event_set(handles[0])
    deaf = session.event_set()
    session.clock.set(4)
    assert [session.event(both) for _ in range(4)] == [(XID, 31), (XID, 43), (XID, 45), Return.TIMEOUT]
    assert [session.event(second) for _ in range(2)] == [(XID, 43), Return.TIMEOUT]
    assert [session.event(late) for _ in range(2)] == [(XID, 45), Return.TIMEOUT]
    assert session.event(deaf) == Return.TIMEOUT


def test_event_types_that_are_not_supported_are_refused() -> None:
    session = Session()
    events = session.event_set()
    call = session.library.nvmlDeviceRegisterEvents
    assert call(session.handle(0), ctypes.c_ulonglong(XID | 1 << 40), events) == Return.NOT_SUPPORTED
    assert call(session.handle(0), XID, ctypes.c_void_p(0xDEAD)) == Return.INVALID_ARGUMENT
    assert session.library.nvmlEventSetFree(events) == 0
    assert session.library.nvmlEventSetFree(events) == Return.INVALID_ARGUMENT


def test_a_loss_between_two_gpm_samples_gives_no_data() -> None:
    session = Session("gpu_lost:gpu=0,start=5,duration=1")
    buffers = [ctypes.c_void_p(), ctypes.c_void_p()]
    for buffer, moment in zip(buffers, (4.0, 8.0), strict=True):
        session.clock.set(moment)
        assert session.library.nvmlGpmSampleAlloc(ctypes.byref(buffer)) == 0
        _, handle = session.handle_by_uuid(0)
        assert session.library.nvmlGpmSampleGet(handle, buffer) == 0
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = 1, 1
    request.sample1, request.sample2 = (ctypes.cast(buffer, pynvml.c_nvmlGpmSample_t) for buffer in buffers)
    request.metrics[0].metricId = 2
    assert session.library.nvmlGpmMetricsGet(ctypes.byref(request)) == 0
    assert request.metrics[0].nvmlReturn == Return.NO_DATA


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(start=5, limit=7)
    assert clock() == clock() == 5
    clock.advance(1)
    clock.sleep(1)
    assert clock() == 7
    with pytest.raises(TimeoutError, match="limit of 7"):
        clock.sleep(0.1)
