"""NVIDIA's own pynvml works over the simulated library, function by function."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml
import pytest

from collector import profiles
from collector.simulator import Fault, FaultKind, ManualClock, SimulatedNode


@pytest.fixture(autouse=True)
def restore_pynvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    pynvml._nvmlGetFunctionPointer_cache.clear()
    yield
    pynvml._nvmlGetFunctionPointer_cache.clear()


def attach(node: SimulatedNode) -> None:
    pynvml.nvmlLib = node.library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    pynvml.nvmlInit()


def simulate(
    name: str = "gb300-nvl72",
    *,
    clock: ManualClock | None = None,
    tray: int = 15,
    workload: str = "decode",
    driver_version: str | None = None,
    faults: tuple[Fault, ...] = (),
) -> SimulatedNode:
    clock = clock or ManualClock()
    node = SimulatedNode(
        profiles.load(name),
        tray=tray,
        workload=workload,
        faults=faults,
        clock=clock,
        sleep=clock.sleep,
        driver_version=driver_version,
        wall_clock_ns=lambda: 1_800_000_000_000_000_000,
    )
    attach(node)
    return node


@pytest.mark.parametrize(("name", "count"), [("gb300-nvl72", 4), ("hgx-h100", 8)])
def test_enumeration(name: str, count: int) -> None:
    node = simulate(name)
    assert pynvml.nvmlDeviceGetCount() == count
    for index in range(count):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        assert uuid == node.gpus[index].uuid
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())) == index
        assert pynvml.nvmlDeviceGetMinorNumber(handle) == index


def test_the_system_as_captured() -> None:
    simulate()
    assert pynvml.nvmlSystemGetDriverVersion() == "580.173.02"
    assert pynvml.nvmlSystemGetNVMLVersion() == "13.580.173.02"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 13000  # "13.0" of the capture
    assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == 13000


def test_a_gb300_as_captured() -> None:
    # Literals: nvidia-smi -q -x of a GB300 tray in slot 25, NVIDIA/k8s-test-infra.
    simulate()
    handle = pynvml.nvmlDeviceGetHandleByIndex(2)
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA GB300"
    assert pynvml.nvmlDeviceGetBoardPartNumber(handle) == "900-2G548-0081-000"
    assert pynvml.nvmlDeviceGetVbiosVersion(handle) == "97.10.4A.00.1A"
    assert pynvml.nvmlDeviceGetInforomImageVersion(handle) == "G548.0301.00.03"
    assert pynvml.nvmlDeviceGetGspFirmwareVersion(handle) == b"580.173.02"
    assert pynvml.nvmlDeviceGetArchitecture(handle) == pynvml.NVML_DEVICE_ARCH_BLACKWELL
    assert pynvml.nvmlDeviceGetCudaComputeCapability(handle) == (10, 3)
    assert pynvml.nvmlDeviceGetModuleId(handle, pynvml.c_uint()) == 4
    assert pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle) == 6
    assert pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle) == 6
    assert pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle) == 16
    assert pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle) == 16
    assert pynvml.nvmlDeviceGetPersistenceMode(handle) == 1
    assert pynvml.nvmlDeviceGetEccMode(handle) == [1, 1]
    assert pynvml.nvmlDeviceGetMigMode(handle) == [0, 0]
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 0
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 1_400_000
    pci = pynvml.nvmlDeviceGetPciInfo(handle)
    assert pci.busId == "00000018:06:00.0"
    assert pci.busIdLegacy == "0018:06:00.0"
    assert (pci.domain, pci.bus, pci.device) == (0x18, 0x06, 0)
    assert pci.pciDeviceId == 0x31C210DE
    assert pci.pciSubSystemId == 0x21F110DE


def test_an_idle_gb300_as_captured() -> None:
    simulate(workload="idle")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    assert memory.total == 284208 * 1024 * 1024
    assert memory.reserved == 947 * 1024 * 1024
    assert memory.used == 0
    assert memory.total == memory.reserved + memory.free + memory.used
    # Version 1 counts the reserved memory as used.
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).used == 947 * 1024 * 1024
    assert pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) == 120
    assert pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM) == 3996
    assert pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM) == 2070
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == 0x1  # idle
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle) == []
    # 38 and 39 degrees with a margin of 49 and 48.
    celsius = pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU)
    assert celsius in (38, 39)
    assert pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU) == celsius
    assert celsius + pynvml.nvmlDeviceGetMarginTemperature(handle) == 87
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == pytest.approx(178_000, rel=0.01)


def test_a_working_gpu_has_a_process() -> None:
    clock = ManualClock()
    node = simulate(clock=clock)
    clock.advance(60)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert process.usedGpuMemory == pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used
    assert process.gpuInstanceId == 0xFFFFFFFF
    assert pynvml.nvmlSystemGetProcessName(process.pid) == "simulated-engine"
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu > 30
    energy = node.gpus[0].energy_joules(clock())
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == pytest.approx(energy * 1000, abs=1)


def test_platform_info_of_an_nvl72_tray() -> None:
    simulate()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    info = pynvml.c_nvmlPlatformInfo_v2_t()
    pynvml.nvmlDeviceGetPlatformInfo(handle, pynvml.byref(info))
    raw = bytes(info)
    assert raw[4] >= 0x80  # the GUID is not text
    assert raw[12:20] == bytes(8)  # for Blackwell it is 8 bytes (nvml.h)
    assert raw[20:23] == b"182"
    assert raw[33:36] == bytes(3)  # the serial is 13 bytes (nvml.h)
    # Slot 25, tray 15, host 1, switch connected, module 2: the capture.
    assert list(raw[36:41]) == [25, 15, 1, 1, 2]


def test_platform_info_version_1_has_the_same_bytes() -> None:
    simulate(driver_version="570.133.20")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    info = pynvml.c_nvmlPlatformInfo_v1_t()
    pynvml.nvmlDeviceGetPlatformInfo(handle, pynvml.byref(info))
    assert list(bytes(info)[36:41]) == [25, 15, 1, 1, 2]
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlDeviceGetPlatformInfo(handle, pynvml.byref(pynvml.c_nvmlPlatformInfo_v2_t()))


def test_platform_info_of_an_hgx_b200_is_partial() -> None:
    simulate("hgx-b200", tray=0)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    info = pynvml.c_nvmlPlatformInfo_v2_t()
    pynvml.nvmlDeviceGetPlatformInfo(handle, pynvml.byref(info))
    raw = bytes(info)
    assert raw[20:36] == bytes(16)
    assert list(raw[36:40]) == [0xFF, 0xFF, 1, 1]


@pytest.mark.parametrize("name", ["hgx-h100", "hgx-h200"])
def test_hopper_has_no_platform_info(name: str) -> None:
    simulate(name)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetPlatformInfo(
            pynvml.nvmlDeviceGetHandleByIndex(0), pynvml.byref(pynvml.c_nvmlPlatformInfo_v2_t())
        )


@pytest.mark.parametrize(
    ("name", "clique", "mask", "summary"),
    # Captures of all five platforms; masks packed as nvml.h has them.
    [
        ("gb300-nvl72", 32766, 0x1AA, 1),
        ("gb200-nvl72", 2, 0x0AA, 1),
        ("hgx-b200", 0, 0x080, 1),
        ("hgx-h200", 0, 0, 0),
        ("hgx-h100", 0, 0, 0),
    ],
)
def test_fabric_info(name: str, clique: int, mask: int, summary: int) -> None:
    node = simulate(name)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for info in (pynvml.c_nvmlGpuFabricInfo_v2_t(), pynvml.c_nvmlGpuFabricInfo_v3_t()):
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, pynvml.byref(info))
        assert info.state & 0xFF == 3  # completed
        assert info.state != 3  # one byte in C: what stands behind it is not the driver's
        assert info.status == 0
        assert info.cliqueId == clique
        assert info.healthMask == mask
        uuid = bytes(info.clusterUuid)
        assert uuid == node.identity.cluster_uuid
        assert (max(uuid) >= 0x80) if clique else (uuid == bytes(16))
    assert info.healthSummary == summary


def test_fabric_version_3_came_with_580() -> None:
    simulate(driver_version="575.51.03")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, pynvml.byref(pynvml.c_nvmlGpuFabricInfo_v2_t()))
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, pynvml.byref(pynvml.c_nvmlGpuFabricInfo_v3_t()))


def test_a_symbol_that_the_driver_lacks_is_missing() -> None:
    node = simulate(driver_version="565.57.01")
    assert not hasattr(node.library, "nvmlDeviceGetMarginTemperature")
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetMarginTemperature(pynvml.nvmlDeviceGetHandleByIndex(0))


def test_field_values_carry_their_own_return_codes() -> None:
    simulate("hgx-h100")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    power, module, unknown, link = pynvml.nvmlDeviceGetFieldValues(
        handle, [(185, 0), (185, 1), (9999, 0), (138, 18)]
    )
    assert power.nvmlReturn == pynvml.NVML_SUCCESS
    assert power.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    assert power.timestamp == 1_800_000_000_000_000
    assert module.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert unknown.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert link.nvmlReturn == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_nvlink_state_function() -> None:
    simulate(faults=(Fault(FaultKind.LINK_DOWN, gpu=0, link=5),))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert [pynvml.nvmlDeviceGetNvLinkState(handle, link) for link in (4, 5, 17)] == [1, 0, 1]
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetNvLinkState(handle, 18)


def test_violation_status_serves_on_r570() -> None:
    clock = ManualClock()
    fault = Fault(FaultKind.THERMAL_SLOWDOWN, start_seconds=1, duration_seconds=2.5, gpu=0)
    simulate(clock=clock, driver_version="570.133.20", faults=(fault,))
    clock.advance(10)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    thermal = pynvml.nvmlDeviceGetViolationStatus(handle, pynvml.NVML_PERF_POLICY_THERMAL)
    assert thermal.violationTime == 2_500_000_000  # ns (nvml.h)
    assert thermal.referenceTime == 1_800_000_010_000_000  # µs (nvml.h)
    assert pynvml.nvmlDeviceGetViolationStatus(handle, pynvml.NVML_PERF_POLICY_POWER).violationTime == 0


def test_events() -> None:
    clock = ManualClock()
    node = simulate(clock=clock, faults=(Fault(FaultKind.XID, start_seconds=2, gpu=1, code=63),))
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    event_set = pynvml.nvmlEventSetCreate()
    assert pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError
    pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, event_set)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(event_set, 0)
    assert clock() == 0  # a timeout of 0 does not wait
    event = pynvml.nvmlEventSetWait_v2(event_set, 5000)
    assert 2 <= clock() < 2.1  # it came while the call waited
    assert (event.eventType, event.eventData) == (pynvml.nvmlEventTypeXidCriticalError, 63)
    assert event.gpuInstanceId == 0xFFFFFFFF
    assert pynvml.nvmlDeviceGetUUID(event.device) == node.gpus[1].uuid
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(event_set, 500)
    pynvml.nvmlEventSetFree(event_set)


def test_gpm() -> None:
    clock = ManualClock()
    simulate(clock=clock)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 1
    first, last = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(handle, first)
    clock.advance(1)
    pynvml.nvmlGpmSampleGet(handle, last)
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = 2
    request.sample1, request.sample2 = first, last
    request.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
    request.metrics[1].metricId = pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC
    pynvml.nvmlGpmMetricsGet(request)
    assert [request.metrics[position].nvmlReturn for position in range(2)] == [0, 0]
    assert 20 < request.metrics[0].value < 80  # percent, not a ratio
    pynvml.nvmlGpmSampleFree(first)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpmSampleFree(first)


def test_error_strings_come_from_the_library() -> None:
    simulate()
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"
    assert pynvml.nvmlErrorString(12345) == "Unknown error"


def test_shutdown_closes_as_often_as_it_was_opened() -> None:
    simulate()
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 4
    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlShutdown()
