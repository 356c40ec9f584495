"""Reads the NVML double through pynvml and prints what it saw as JSON, in a process of its own.

Usage: ``LD_LIBRARY_PATH=FOLDER python -m tests.abi.read_double``. NVML, once loaded, stays in a process:
that is why no test loads the double into pytest's.
"""

from __future__ import annotations

import json
import sys
import time
from ctypes import byref, c_char

import pynvml

# Field, scope: one of each kind that a reader meets.
FIELDS = (
    [(field, 0) for field in (1, 3, 5, 74, 77, 82, 83, 91, 94, 142, 193, 195, 230, 251, 269, 271, 308)]
    + [(power, scope) for power in (185, 186, 190, 191) for scope in (0, 1, 2, 4)]
    + [(field, link) for field in (138, 139, 164, 165, 166) for link in (0, 17, 18)]
    + [(field, 3) for field in (161, 163, 202, 204, 215, 220, 222, 235)]
    + [(138, 0xFFFFFFFF), (139, 0xFFFFFFFF), (165, 0xFFFFFFFF), (0, 0), (310, 0)]
)
METRICS = (1, 2, 3, 5, 10, 20, 21, 60, 61, 62, 63, 97, 100, 170)


def read_fields(handle: object) -> dict[str, list[int]]:
    """Return status, value type and value by ``field:scope``."""
    read = {}
    for value in pynvml.nvmlDeviceGetFieldValues(handle, FIELDS):
        union = value.value
        by_type = {
            pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: union.ullVal,
            pynvml.NVML_VALUE_TYPE_SIGNED_INT: union.siVal,
        }
        number = by_type.get(value.valueType, union.uiVal)
        read[f"{value.fieldId}:{value.scopeId}"] = [value.nvmlReturn, value.valueType, number]
    return read


def read_gpm(handle: object) -> dict[str, list[float]]:
    """Return status and value by metric, over two samples 150 ms apart."""
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(handle, first)
    time.sleep(0.15)
    pynvml.nvmlGpmSampleGet(handle, second)
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
    request.sample1, request.sample2 = first, second
    for place, metric in enumerate(METRICS):
        request.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(request)
    read = {}
    for place in range(len(METRICS)):
        metric = request.metrics[place]
        read[str(metric.metricId)] = [metric.nvmlReturn] if metric.nvmlReturn else [0, metric.value]
    pynvml.nvmlGpmSampleFree(first)
    pynvml.nvmlGpmSampleFree(second)
    return read


def outcome(call: object, *arguments: object) -> object:
    """Return what a pynvml function returns, or the code of its NVMLError."""
    assert callable(call)
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        return {"nvml_error": error.value}


def read_fabric(handle: object) -> dict[str, object]:
    """Return the fabric structure, its state masked to the one byte that C has."""
    fabric = pynvml.c_nvmlGpuFabricInfo_v3_t()
    fabric.version = pynvml.nvmlGpuFabricInfo_v3
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(fabric))
    return {
        "cluster_uuid": bytes(fabric.clusterUuid).hex(),
        "clique": fabric.cliqueId,
        "raw_state": fabric.state,
        "health_mask": fabric.healthMask,
        "health_summary": fabric.healthSummary,
    }


def read_platform(handle: object) -> object:
    """Return the platform structure's bytes in hexadecimal, or the error's code."""
    platform = pynvml.c_nvmlPlatformInfo_v2_t()
    platform.version = pynvml.nvmlPlatformInfo_v2
    refused = outcome(pynvml.nvmlDeviceGetPlatformInfo, handle, byref(platform))
    return refused if isinstance(refused, dict) else bytes(platform).hex()


def read_event(events: object) -> list[int]:
    """Return GPU index, event type, event data and GPU instance of the next event, without waiting for it."""
    event = pynvml.nvmlEventSetWait_v2(events, 0)
    return [pynvml.nvmlDeviceGetIndex(event.device), event.eventType, event.eventData, event.gpuInstanceId]


def read_events(handles: list[object]) -> list[object]:
    """Return the outcome of two waits of no time after registering for Xids on every GPU."""
    events = pynvml.nvmlEventSetCreate()
    for handle in handles:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    seen = [outcome(read_event, events) for _ in range(2)]
    pynvml.nvmlEventSetFree(events)
    return seen


def main() -> None:
    """Print the JSON."""
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    last = handles[-1]
    before = time.monotonic_ns()
    fields = read_fields(last)
    after = time.monotonic_ns()
    memory = pynvml.nvmlDeviceGetMemoryInfo(last, version=pynvml.nvmlMemory_v2)
    buffer = (c_char * 4)()
    json.dump(
        {
            "clock_ns": [before, after],
            "fields": fields,
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "names": sorted({pynvml.nvmlDeviceGetName(handle) for handle in handles}),
            "uuids": [pynvml.nvmlDeviceGetUUID(handle) for handle in handles],
            "serials": [pynvml.nvmlDeviceGetSerial(handle) for handle in handles],
            "bus_ids": [pynvml.nvmlDeviceGetPciInfo(handle).busId for handle in handles],
            "by_uuid": pynvml.nvmlDeviceGetIndex(
                pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(last))
            ),
            "memory": [memory.total, memory.reserved, memory.free, memory.used],
            "temperature": pynvml.nvmlDeviceGetTemperatureV(last, pynvml.NVML_TEMPERATURE_GPU),
            "margin": pynvml.nvmlDeviceGetMarginTemperature(last),
            "clocks": [pynvml.nvmlDeviceGetClockInfo(last, kind) for kind in (1, 2)],
            "utilization": pynvml.nvmlDeviceGetUtilizationRates(last).gpu,
            "processes": len(pynvml.nvmlDeviceGetComputeRunningProcesses(last)),
            "short_buffer": pynvml._nvmlGetFunctionPointer("nvmlDeviceGetName")(last, buffer, 4),
            "fan": outcome(pynvml.nvmlDeviceGetFanSpeed, last),
            "fabric": read_fabric(last),
            "platform": read_platform(last),
            "gpm": read_gpm(last),
            "events": read_events(handles),
            "after_shutdown": [pynvml.nvmlShutdown(), outcome(pynvml.nvmlDeviceGetCount)][1],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
