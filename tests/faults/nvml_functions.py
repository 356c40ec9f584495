"""Functions that a sweep calls, and a metric of each, for tests that let them fail."""

from __future__ import annotations

FUNCTIONS = {
    "nvmlDeviceGetUtilizationRates": "gpu_utilization_ratio",
    "nvmlDeviceGetMemoryInfo_v2": "gpu_memory_used_bytes",
    "nvmlDeviceGetClockInfo": "gpu_sm_clock_hertz",
    "nvmlDeviceGetTemperatureV": "gpu_temperature_celsius",
    "nvmlDeviceGetMarginTemperature": "gpu_temperature_margin_celsius",
    "nvmlDeviceGetCurrPcieLinkWidth": "gpu_pcie_width_lanes",
    "nvmlDeviceGetComputeRunningProcesses_v3": "gpu_processes",
    "nvmlGpmSampleGet": "gpu_sm_active_ratio",
    "nvmlDeviceGetFieldValues": "gpu_power_watts",
}
