"""Functions of one GPU that say how it is: `nvmlDeviceGet…` with the handle resolved.

Each takes the GPU, at the moment to read, and the C function's further arguments; each returns an
`nvmlReturn_t`. Struct layouts and versions are those of nvml.h 13.5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from collector.simulator.codes import (
    INSTANCE_NONE,
    MARGIN_TEMPERATURE_V1,
    MEMORY_V2,
    REASON_GPU_IDLE,
    REASON_HW_SLOWDOWN,
    REASON_HW_THERMAL,
    REASON_SW_THERMAL,
    TEMPERATURE_V1,
    Return,
)
from collector.simulator.events import supported_event_types
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.memory import INT32, UINT32, UINT64, memory, number, put, read_uint32
from collector.simulator.physics import OVERHEAT_CLOCK_RATIO

_TWO_UINT32: Final = struct.Struct("<II")
_THREE_UINT64: Final = struct.Struct("<QQQ")
_VIOLATION_TIME: Final = struct.Struct("<QQ")


def utilization_rates(gpu: SimulatedGpu, rates: object = None) -> int:
    """`nvmlDeviceGetUtilizationRates`: whole percent of the last second, gpu and memory."""
    work = gpu.workload
    load = gpu.mean_load
    return put(
        rates, _TWO_UINT32, round(100 * work.utilization * load), round(100 * work.memory_bandwidth * load)
    )


def memory_info_v2(gpu: SimulatedGpu, info: object = None) -> int:
    """`nvmlDeviceGetMemoryInfo_v2`: version, total, reserved, free, used."""
    target = memory(info, 40)
    if target is None:
        return Return.INVALID_ARGUMENT
    if read_uint32(target) != MEMORY_V2:
        return Return.ARGUMENT_VERSION_MISMATCH
    total, reserved = gpu.profile.gpu.memory_total_bytes, gpu.profile.gpu.memory_reserved_bytes
    used = gpu.memory_used_bytes
    struct.pack_into("<4Q", target, 8, total, reserved, total - reserved - used, used)
    return Return.SUCCESS


def memory_info(gpu: SimulatedGpu, info: object = None) -> int:
    """`nvmlDeviceGetMemoryInfo`: total, free, used; `used` has the reserved memory in it."""
    total = gpu.profile.gpu.memory_total_bytes
    used = gpu.memory_used_bytes + gpu.profile.gpu.memory_reserved_bytes
    return put(info, _THREE_UINT64, total, total - used, used)


def clock_info(gpu: SimulatedGpu, clock: object = 0, value: object = None) -> int:
    """`nvmlDeviceGetClockInfo`: 0 graphics, 1 SM, 2 memory; the video clock is not simulated."""
    figures = gpu.profile.gpu
    kind = number(clock)
    if kind == 2:
        return put(value, UINT32, figures.max_memory_clock_mhz)
    if kind not in (0, 1):
        return Return.NOT_SUPPORTED if kind == 3 else Return.INVALID_ARGUMENT
    if gpu.workload.is_idle or gpu.physics.halted:
        return put(value, UINT32, figures.idle_sm_clock_mhz)
    ratio = OVERHEAT_CLOCK_RATIO if gpu.physics.overheated else 1.0
    return put(value, UINT32, int(figures.max_sm_clock_mhz * ratio))


def max_clock_info(gpu: SimulatedGpu, clock: object = 0, value: object = None) -> int:
    """`nvmlDeviceGetMaxClockInfo`."""
    figures = gpu.profile.gpu
    clocks = {0: figures.max_sm_clock_mhz, 1: figures.max_sm_clock_mhz, 2: figures.max_memory_clock_mhz}
    megahertz = clocks.get(number(clock))
    return Return.NOT_SUPPORTED if megahertz is None else put(value, UINT32, megahertz)


def clocks_event_reasons(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetCurrentClocksEventReasons`."""
    if gpu.physics.overheated:
        return put(value, UINT64, REASON_HW_SLOWDOWN | REASON_SW_THERMAL | REASON_HW_THERMAL)
    return put(value, UINT64, REASON_GPU_IDLE if gpu.workload.is_idle else 0)


def performance_state(_gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetPerformanceState`: P0, as in every capture, idle too."""
    return put(value, UINT32, 0)


def temperature_versioned(gpu: SimulatedGpu, reading: object = None) -> int:
    """`nvmlDeviceGetTemperatureV`: version, sensor, temperature."""
    target = memory(reading, 12)
    if target is None:
        return Return.INVALID_ARGUMENT
    if read_uint32(target) != TEMPERATURE_V1:
        return Return.ARGUMENT_VERSION_MISMATCH
    if read_uint32(target, 4) != 0:
        return Return.INVALID_ARGUMENT
    INT32.pack_into(target, 8, gpu.celsius)
    return Return.SUCCESS


def temperature(gpu: SimulatedGpu, sensor: object = 0, value: object = None) -> int:
    """`nvmlDeviceGetTemperature`: sensor 0 is the GPU."""
    return put(value, UINT32, gpu.celsius) if number(sensor) == 0 else Return.INVALID_ARGUMENT


def margin_temperature(gpu: SimulatedGpu, reading: object = None) -> int:
    """`nvmlDeviceGetMarginTemperature`: version, signed margin."""
    target = memory(reading, 8)
    if target is None:
        return Return.INVALID_ARGUMENT
    if read_uint32(target) != MARGIN_TEMPERATURE_V1:
        return Return.ARGUMENT_VERSION_MISMATCH
    INT32.pack_into(target, 4, gpu.margin_celsius)
    return Return.SUCCESS


def pcie_generation(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetCurrPcieLinkGeneration` and the maximum: it does not drop at idle."""
    return put(value, UINT32, gpu.profile.gpu.pcie_generation)


def pcie_width(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetCurrPcieLinkWidth` and the maximum."""
    return put(value, UINT32, gpu.profile.gpu.pcie_width_lanes)


def ecc_mode(_gpu: SimulatedGpu, current: object = None, pending: object = None) -> int:
    """`nvmlDeviceGetEccMode`: enabled, as in every capture."""
    return put(current, UINT32, 1) or put(pending, UINT32, 1)


def persistence_mode(_gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetPersistenceMode`: enabled, as in every capture."""
    return put(value, UINT32, 1)


def mig_mode(_gpu: SimulatedGpu, current: object = None, pending: object = None) -> int:
    """`nvmlDeviceGetMigMode`: disabled, as in every capture."""
    return put(current, UINT32, 0) or put(pending, UINT32, 0)


def compute_running_processes(gpu: SimulatedGpu, count: object = None, infos: object = None) -> int:
    """`nvmlDeviceGetComputeRunningProcesses_v3`: the count, or INSUFFICIENT_SIZE and the count, or all.

    nvmlProcessInfo_t is pid, usedGpuMemory, two instance ids: 24 bytes.
    """
    counter = memory(count, 4)
    if counter is None:
        return Return.INVALID_ARGUMENT
    processes = 0 if gpu.workload.is_idle else 1
    room = read_uint32(counter)
    UINT32.pack_into(counter, 0, processes)
    if processes == 0:
        return Return.SUCCESS
    target = memory(infos, 24 * processes)
    if room < processes:
        return Return.INSUFFICIENT_SIZE
    if target is None:
        return Return.INVALID_ARGUMENT
    pid = 4_000 + gpu.index
    struct.pack_into("<I4xQII", target, 0, pid, gpu.memory_used_bytes, INSTANCE_NONE, INSTANCE_NONE)
    return Return.SUCCESS


def violation_status(gpu: SimulatedGpu, policy: object = 0, status: object = None) -> int:
    """`nvmlDeviceGetViolationStatus`: referenceTime in µs, violationTime in ns.

    Policies: 0 power, 1 thermal, 2 sync boost, 3 board limit, 4 low utilization, 5 reliability.
    """
    kind = number(policy)
    if not 0 <= kind <= 5:
        return Return.NOT_SUPPORTED if kind in (10, 11) else Return.INVALID_ARGUMENT
    violation_ns = gpu.thermal_slowdown_ns if kind == 1 else 0
    return put(status, _VIOLATION_TIME, gpu.timekeeper.timestamp_us, violation_ns)


def event_types(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetSupportedEventTypes`."""
    return put(value, UINT64, supported_event_types(gpu))


def power_usage(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetPowerUsage`: mW, the one-second average on Ampere and newer."""
    return put(value, UINT32, round(gpu.mean_watts * 1000))


def power_limit(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetEnforcedPowerLimit` and `nvmlDeviceGetPowerManagementLimit`, mW."""
    return put(value, UINT32, round(gpu.profile.gpu.power_default_watts * 1000))


def total_energy(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetTotalEnergyConsumption`: mJ since the counters began."""
    return put(value, UINT64, int(gpu.energy * 1000))


def nvlink_state(gpu: SimulatedGpu, link: object = 0, active: object = None) -> int:
    """`nvmlDeviceGetNvLinkState`: 1 active, 0 not."""
    index = number(link)
    if not 0 <= index < gpu.profile.nvlink.links_per_gpu:
        return Return.INVALID_ARGUMENT
    return put(active, UINT32, int(index not in gpu.physics.down_links))


READING_CALLS: Final[Mapping[str, Callable[..., int]]] = {
    "nvmlDeviceGetUtilizationRates": utilization_rates,
    "nvmlDeviceGetMemoryInfo": memory_info,
    "nvmlDeviceGetMemoryInfo_v2": memory_info_v2,
    "nvmlDeviceGetClockInfo": clock_info,
    "nvmlDeviceGetMaxClockInfo": max_clock_info,
    "nvmlDeviceGetCurrentClocksEventReasons": clocks_event_reasons,
    "nvmlDeviceGetPerformanceState": performance_state,
    "nvmlDeviceGetTemperatureV": temperature_versioned,
    "nvmlDeviceGetTemperature": temperature,
    "nvmlDeviceGetMarginTemperature": margin_temperature,
    "nvmlDeviceGetCurrPcieLinkGeneration": pcie_generation,
    "nvmlDeviceGetCurrPcieLinkWidth": pcie_width,
    "nvmlDeviceGetMaxPcieLinkGeneration": pcie_generation,
    "nvmlDeviceGetMaxPcieLinkWidth": pcie_width,
    "nvmlDeviceGetEccMode": ecc_mode,
    "nvmlDeviceGetPersistenceMode": persistence_mode,
    "nvmlDeviceGetMigMode": mig_mode,
    "nvmlDeviceGetComputeRunningProcesses_v3": compute_running_processes,
    "nvmlDeviceGetViolationStatus": violation_status,
    "nvmlDeviceGetSupportedEventTypes": event_types,
    "nvmlDeviceGetPowerUsage": power_usage,
    "nvmlDeviceGetEnforcedPowerLimit": power_limit,
    "nvmlDeviceGetPowerManagementLimit": power_limit,
    "nvmlDeviceGetTotalEnergyConsumption": total_energy,
    "nvmlDeviceGetNvLinkState": nvlink_state,
}
