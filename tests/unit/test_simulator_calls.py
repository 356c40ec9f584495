"""Calling the simulated library as a ctypes library: arguments, versions, handles, GPM."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from collector import profiles
from collector.errors import ConfigurationError
from collector.simulator import ManualClock, Return, SimulatedNode
from collector.simulator import codes as simulated_codes


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(start=1000.0)


@pytest.fixture
def node(clock: ManualClock) -> SimulatedNode:
    return SimulatedNode(profiles.load("gb300-nvl72"), clock=clock, sleep=clock.sleep)


def handle_of(node: SimulatedNode, index: int = 0) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    assert node.library.nvmlInitWithFlags(0) == 0
    assert node.library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) == 0
    assert handle.value
    return handle


def test_return_codes_are_those_of_pynvml() -> None:
    for code in Return:
        name = "NVML_SUCCESS" if code is Return.SUCCESS else f"NVML_ERROR_{code.name}"
        assert getattr(pynvml, name) == code
        assert code in simulated_codes.RETURN_TEXTS


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("MEMORY_V2", "nvmlMemory_v2"),
        ("PLATFORM_INFO_V1", "nvmlPlatformInfo_v1"),
        ("PLATFORM_INFO_V2", "nvmlPlatformInfo_v2"),
        ("FABRIC_INFO_V2", "nvmlGpuFabricInfo_v2"),
        ("FABRIC_INFO_V3", "nvmlGpuFabricInfo_v3"),
        ("TEMPERATURE_V1", "nvmlTemperature_v1"),
        ("MARGIN_TEMPERATURE_V1", "nvmlMarginTemperature_v1"),
        ("GPM_METRICS_GET_VERSION", "NVML_GPM_METRICS_GET_VERSION"),
        ("GPM_SUPPORT_VERSION", "NVML_GPM_SUPPORT_VERSION"),
        ("INIT_FLAG_NO_ATTACH", "NVML_INIT_FLAG_NO_ATTACH"),
        ("EVENT_XID", "nvmlEventTypeXidCriticalError"),
        ("EVENT_DOUBLE_BIT_ECC", "nvmlEventTypeDoubleBitEccError"),
        ("EVENT_RECOVERY_ACTION", "nvmlEventTypeGpuRecoveryAction"),
        ("REASON_GPU_IDLE", "nvmlClocksEventReasonGpuIdle"),
        ("REASON_HW_SLOWDOWN", "nvmlClocksThrottleReasonHwSlowdown"),
        ("REASON_SW_THERMAL", "nvmlClocksEventReasonSwThermalSlowdown"),
        ("REASON_HW_THERMAL", "nvmlClocksThrottleReasonHwThermalSlowdown"),
    ],
)
def test_constants_are_those_of_pynvml(ours: str, theirs: str) -> None:
    assert getattr(simulated_codes, ours) == getattr(pynvml, theirs)


def test_every_function_is_unwilling_before_initialization(node: SimulatedNode) -> None:
    functions = {
        name: function
        for name, function in vars(node.library).items()
        if isinstance(function, functools.partial) and name.startswith("nvml")
    }
    assert len(functions) > 60
    for name in set(functions) - {"nvmlErrorString", "nvmlInit_v2", "nvmlInitWithFlags"}:
        assert functions[name]() == Return.UNINITIALIZED, name


def test_every_function_of_a_device_refuses_a_null_handle(node: SimulatedNode) -> None:
    node.library.nvmlInit_v2()
    for name in vars(node.library):
        if name.startswith("nvmlDeviceGet") and not name.startswith(
            ("nvmlDeviceGetHandle", "nvmlDeviceGetCount")
        ):
            assert getattr(node.library, name)(None) == Return.INVALID_ARGUMENT, name
            assert getattr(node.library, name)(ctypes.c_void_p(0xDEAD)) == Return.INVALID_ARGUMENT, name


def test_every_function_of_a_device_refuses_null_out_parameters(node: SimulatedNode) -> None:
    handle = handle_of(node)
    for name in vars(node.library):
        if name.startswith("nvmlDeviceGet") and not name.startswith(
            ("nvmlDeviceGetHandle", "nvmlDeviceGetCount")
        ):
            assert getattr(node.library, name)(handle) == Return.INVALID_ARGUMENT, name


def test_functions_take_a_restype_as_ctypes_functions_do(node: SimulatedNode) -> None:
    for name, function in vars(node.library).items():
        if name.startswith("nvml"):
            function.restype = ctypes.c_char_p


@pytest.mark.parametrize(
    ("function", "structure"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", pynvml.c_nvmlMemory_v2_t),
        ("nvmlDeviceGetPlatformInfo", pynvml.c_nvmlPlatformInfo_v2_t),
        ("nvmlDeviceGetGpuFabricInfoV", pynvml.c_nvmlGpuFabricInfo_v3_t),
        ("nvmlDeviceGetTemperatureV", pynvml.c_nvmlTemperature_v1_t),
        ("nvmlDeviceGetMarginTemperature", pynvml.c_nvmlMarginTemperature_v1_t),
        ("nvmlGpmQueryDeviceSupport", pynvml.c_nvmlGpmSupport_t),
    ],
)
@pytest.mark.parametrize("version", [0, 0x9000010, 0x2000024 + 1])
def test_a_wrong_struct_version_is_a_mismatch(
    node: SimulatedNode, function: str, structure: Callable[[], Any], version: int
) -> None:
    handle = handle_of(node)
    info = structure()
    info.version = version
    assert getattr(node.library, function)(handle, ctypes.byref(info)) == 25


def test_handles_may_be_pointers_or_addresses(node: SimulatedNode) -> None:
    handle = handle_of(node)
    value = ctypes.c_uint()
    pointer = ctypes.cast(handle, pynvml.c_nvmlDevice_t)
    for each in (handle, pointer, handle.value):
        assert node.library.nvmlDeviceGetModuleId(each, ctypes.byref(value)) == 0
        assert value.value == 2  # by GPU index 2, 1, 4, 3: the capture
        value.value = 0


def test_a_short_text_buffer_is_not_overrun(node: SimulatedNode) -> None:
    handle = handle_of(node)
    buffer = ctypes.create_string_buffer(b"untouched", 32)
    assert node.library.nvmlDeviceGetName(handle, buffer, 12) == Return.INSUFFICIENT_SIZE
    assert buffer.value == b"untouched"
    # 12 characters and the NUL.
    assert node.library.nvmlDeviceGetName(handle, buffer, 13) == 0
    assert buffer.value == b"NVIDIA GB300"


def test_handles_by_index_and_uuid(node: SimulatedNode) -> None:
    handle_of(node)
    handle = ctypes.c_void_p()
    library = node.library
    assert library.nvmlDeviceGetHandleByIndex_v2(4, ctypes.byref(handle)) == Return.INVALID_ARGUMENT
    assert library.nvmlDeviceGetHandleByUUID(b"GPU-nothing", ctypes.byref(handle)) == Return.NOT_FOUND
    assert library.nvmlDeviceGetHandleByUUID(None, ctypes.byref(handle)) == Return.NOT_FOUND
    uuid = ctypes.c_char_p(node.gpus[3].uuid.encode())
    assert library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)) == 0
    index = ctypes.c_uint()
    assert library.nvmlDeviceGetIndex(handle, ctypes.byref(index)) == 0
    assert index.value == 3


@pytest.mark.parametrize(("driver", "count"), [("580.105.08", 0), ("615.10.01", 4)])
def test_no_attach_hides_the_gpus_of_older_drivers(driver: str, count: int) -> None:
    node = SimulatedNode(profiles.load("gb300-nvl72"), driver_version=driver)
    assert node.library.nvmlInitWithFlags(2) == 0
    value = ctypes.c_uint(9)
    assert node.library.nvmlDeviceGetCount_v2(ctypes.byref(value)) == 0
    assert value.value == count


def test_processes_by_the_two_step_protocol(node: SimulatedNode) -> None:
    handle = handle_of(node)
    call = node.library.nvmlDeviceGetComputeRunningProcesses_v3
    count = ctypes.c_uint(0)
    assert call(handle, ctypes.byref(count), None) == Return.INSUFFICIENT_SIZE
    assert count.value == 1
    processes = (pynvml.c_nvmlProcessInfo_t * 3)()
    count.value = 3
    assert call(handle, ctypes.byref(count), processes) == 0
    assert count.value == 1
    assert processes[0].pid > 0
    assert processes[1].pid == 0


def test_pinned_returns(node: SimulatedNode) -> None:
    handle = handle_of(node)
    value = ctypes.c_uint(7)
    node.gpus[0].pin_return("nvmlDeviceGetPowerUsage", 999)
    assert node.library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(value)) == 999
    assert value.value == 7
    node.gpus[0].unpin_return("nvmlDeviceGetPowerUsage")
    assert node.library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(value)) == 0
    node.pin_return("nvmlDeviceGetCount_v2", Return.NO_PERMISSION)
    assert node.library.nvmlDeviceGetCount_v2(ctypes.byref(value)) == 4
    node.pin_return("nvmlDeviceGetCount_v2", 0)
    assert node.library.nvmlDeviceGetCount_v2(ctypes.byref(value)) == 0


def sample(
    node: SimulatedNode, handle: ctypes.c_void_p, buffer: ctypes.c_void_p | None = None
) -> ctypes.c_void_p:
    if buffer is None:
        buffer = ctypes.c_void_p()
        assert node.library.nvmlGpmSampleAlloc(ctypes.byref(buffer)) == 0
    assert node.library.nvmlGpmSampleGet(handle, buffer) == 0
    return buffer


def metrics(
    node: SimulatedNode, first: ctypes.c_void_p, last: ctypes.c_void_p, *ids: int, version: int = 1
) -> tuple[int, dict[int, tuple[int, float]]]:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = version, len(ids)
    request.sample1 = ctypes.cast(first, pynvml.c_nvmlGpmSample_t)
    request.sample2 = ctypes.cast(last, pynvml.c_nvmlGpmSample_t)
    for position, metric in enumerate(ids):
        request.metrics[position].metricId = metric
    code = node.library.nvmlGpmMetricsGet(ctypes.byref(request))
    answers = request.metrics[: len(ids)]
    return code, {each.metricId: (each.nvmlReturn, each.value) for each in answers}


def test_gpm_averages_are_the_counters_over_the_interval(node: SimulatedNode, clock: ManualClock) -> None:
    handle = handle_of(node, 1)
    gpu = node.gpus[1]
    first = sample(node, handle)
    sent, received = gpu.nvlink_transmitted_bytes(clock()), gpu.nvlink_received_bytes(clock())
    sent_by_link_3 = gpu.nvlink_transmitted_bytes(clock(), 3)
    clock.advance(2)
    last = sample(node, handle)
    code, answers = metrics(node, first, last, 1, 2, 3, 5, 10, 20, 21, 60, 61, 69)
    assert code == 0
    assert {status for status, _ in answers.values()} == {0}
    # MiB/s over 2 s; 60 is receive and 61 transmit, 69 is link 3's transmit (nvml.h).
    assert answers[60][1] == pytest.approx((gpu.nvlink_received_bytes(clock()) - received) / 2 / 2**20)
    assert answers[61][1] == pytest.approx((gpu.nvlink_transmitted_bytes(clock()) - sent) / 2 / 2**20)
    link_3 = gpu.nvlink_transmitted_bytes(clock(), 3) - sent_by_link_3
    assert answers[69][1] == pytest.approx(link_3 / 2 / 2**20)
    # Decode moves 40 MB/s from and 90 MB/s to the GPU at full load: the workload table.
    assert answers[21][1] / answers[20][1] == pytest.approx(90 / 40)
    assert all(0 <= answers[metric][1] <= 100 for metric in (1, 2, 3, 5, 10))
    assert answers[10][1] / answers[2][1] == pytest.approx(0.70 / 0.60)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.0999])
def test_gpm_samples_too_close_have_no_data(node: SimulatedNode, clock: ManualClock, seconds: float) -> None:
    handle = handle_of(node)
    first = sample(node, handle)
    clock.advance(seconds)
    code, answers = metrics(node, first, sample(node, handle), 2, 500)
    assert code == 0
    assert answers[2][0] == Return.NO_DATA
    assert answers[500][0] == Return.NOT_SUPPORTED


def test_gpm_samples_in_the_wrong_order_have_no_data(node: SimulatedNode, clock: ManualClock) -> None:
    handle = handle_of(node)
    first = sample(node, handle)
    clock.advance(1)
    last = sample(node, handle)
    assert metrics(node, last, first, 2)[1][2][0] == Return.NO_DATA


def test_gpm_refuses_what_makes_no_interval(node: SimulatedNode, clock: ManualClock) -> None:
    handle, other = handle_of(node, 0), handle_of(node, 1)
    first = sample(node, handle)
    empty = ctypes.c_void_p()
    node.library.nvmlGpmSampleAlloc(ctypes.byref(empty))
    clock.advance(1)
    assert metrics(node, first, empty, 2)[0] == Return.INVALID_ARGUMENT
    assert metrics(node, first, sample(node, other), 2)[0] == Return.INVALID_ARGUMENT
    last = sample(node, handle, empty)
    assert metrics(node, first, last, 2, version=2)[0] == Return.ARGUMENT_VERSION_MISMATCH
    assert metrics(node, first, last, 2)[0] == 0
    assert node.library.nvmlGpmSampleFree(last) == 0
    assert metrics(node, first, last, 2)[0] == Return.INVALID_ARGUMENT
    assert node.library.nvmlGpmSampleGet(handle, last) == Return.INVALID_ARGUMENT


def test_gpm_is_not_a_number_nowhere(node: SimulatedNode, clock: ManualClock) -> None:
    handle = handle_of(node)
    first = sample(node, handle)
    clock.advance(1)
    ids = (*range(1, 14), 20, 21, *range(60, 98))
    _, answers = metrics(node, first, sample(node, handle), *ids)
    assert all(status == 0 and math.isfinite(value) for status, value in answers.values())


def test_identities_are_distinct_and_shared_as_they_should_be() -> None:
    profile = profiles.load("gb300-nvl72")
    trays = [SimulatedNode(profile, tray=tray) for tray in range(18)]
    gpus = [gpu for tray in trays for gpu in tray.gpus]
    assert len({gpu.uuid for gpu in gpus}) == 72
    assert len({gpu.identity.serial for gpu in gpus}) == 36  # one a superchip
    assert [gpu.identity.module_id for gpu in trays[5].gpus] == [2, 1, 4, 3]
    serials = [gpu.identity.serial for gpu in trays[5].gpus]
    assert serials[0] == serials[1] != serials[2] == serials[3]
    assert all(len(serial) == 13 for serial in serials)
    assert {tray.identity.cluster_uuid for tray in trays} == {trays[0].identity.cluster_uuid}
    assert len(trays[0].identity.chassis_serial) == 13
    assert [tray.identity.slot for tray in trays] == [*range(1, 9), *range(18, 28)]
    again = SimulatedNode(profile, tray=5)
    assert again.identity == trays[5].identity
    assert SimulatedNode(profile, tray=5, seed=1).identity != again.identity
    other_rack = SimulatedNode(profile, tray=5, rack="r02").identity
    assert other_rack.cluster_uuid != again.identity.cluster_uuid
    assert other_rack.gpus[0].uuid != again.identity.gpus[0].uuid


def test_guids_are_never_text() -> None:
    profile = profiles.load("gb300-nvl72")
    for number in range(12):
        identity = SimulatedNode(profile, rack=f"r{number}").identity
        assert identity.cluster_uuid[0] >= 0x80
        assert all(gpu.fabric_guid[0] >= 0x80 for gpu in identity.gpus)


def test_an_hgx_gpu_is_a_board_of_its_own() -> None:
    node = SimulatedNode(profiles.load("hgx-h100"))
    assert len({gpu.identity.serial for gpu in node.gpus}) == 8
    assert [gpu.identity.module_id for gpu in node.gpus] == [7, 5, 6, 8, 1, 3, 4, 2]  # the capture
    assert node.gpus[1].identity.pci_bus_id == "00000000:64:00.0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tray": 18}, "0 to 17"),
        ({"tray": -1}, "count from 0"),
        ({"workload": "decod"}, "did you mean 'decode'"),
        ({"workload": "mining"}, "known: idle, prefill, decode, training"),
        ({"driver_version": "latest"}, "driver version 'latest'"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        SimulatedNode(profiles.load("gb300-nvl72"), **arguments)


def test_a_node_works_on_the_real_clock() -> None:
    node = SimulatedNode(profiles.load("hgx-h100"))
    handle = handle_of(node)
    value = ctypes.c_ulonglong()
    assert node.library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(value)) == 0
    assert value.value > 0
