"""The table of checks."""

from __future__ import annotations

from collector.cli import gpu_checks, host_checks
from collector.cli.findings import Check

CHECKS = (
    Check("installation", host_checks.installation),
    Check("configuration", host_checks.configuration),
    Check("GPUs on the bus", host_checks.gpus_on_bus),
    Check("kernel driver", host_checks.kernel_driver),
    Check("NVML library", host_checks.nvml_library),
    Check("NVML", gpu_checks.nvml),
    Check("GPUs", gpu_checks.gpus),
    Check("NVLink", gpu_checks.nvlink),
    Check("fabric", gpu_checks.fabric),
    Check("activity", gpu_checks.activity),
    Check("permissions", gpu_checks.permissions),
    Check("kernel log", host_checks.kernel_log),
    Check("state", host_checks.state),
    Check("address", host_checks.address),
)
"""Every check, in the order in which things must work."""
