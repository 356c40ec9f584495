"""Numbers of the NVML interface that the simulator speaks, each from NVIDIA's nvml.h (13.5).

They are written out here rather than taken from pynvml, so that the simulator and the code above it
have separate sources and cannot share a mistake; tests compare the two.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Return(IntEnum):
    """Return codes, `nvmlReturn_t`."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    NO_DATA = 21
    ARGUMENT_VERSION_MISMATCH = 25
    UNKNOWN = 999


# What nvmlErrorString answers: the meanings that nvml.h gives, in this project's words.
RETURN_TEXTS: Final = {
    Return.SUCCESS: b"Success",
    Return.UNINITIALIZED: b"Uninitialized",
    Return.INVALID_ARGUMENT: b"Invalid argument",
    Return.NOT_SUPPORTED: b"Not supported",
    Return.NO_PERMISSION: b"Insufficient permissions",
    Return.NOT_FOUND: b"Not found",
    Return.INSUFFICIENT_SIZE: b"Insufficient size",
    Return.DRIVER_NOT_LOADED: b"Driver not loaded",
    Return.TIMEOUT: b"Timeout",
    Return.FUNCTION_NOT_FOUND: b"Function not found",
    Return.GPU_IS_LOST: b"GPU is lost",
    Return.NO_DATA: b"No data",
    Return.ARGUMENT_VERSION_MISMATCH: b"Argument version mismatch",
    Return.UNKNOWN: b"Unknown error",
}


class ValueType(IntEnum):
    """How a field value is stored, `nvmlValueType_t`."""

    DOUBLE = 0
    UNSIGNED_INT = 1
    UNSIGNED_LONG = 2
    UNSIGNED_LONG_LONG = 3
    SIGNED_LONG_LONG = 4
    SIGNED_INT = 5
    UNSIGNED_SHORT = 6


ALL_LINKS: Final = 0xFFFFFFFF
"""`scopeId` that sums the throughput fields 138 to 141 over all links (UINT_MAX)."""

SCOPE_GPU: Final = 0
SCOPE_MODULE: Final = 1
SCOPE_MEMORY: Final = 2
"""Scopes of the power fields: `NVML_POWER_SCOPE_*`. The comment of field 185 says that 2 is the GPU
base, but the constants, and real boards, say memory."""

INSTANCE_NONE: Final = 0xFFFFFFFF
"""GPU or compute instance id where MIG is off."""

EVENT_SINGLE_BIT_ECC: Final = 0x1
EVENT_DOUBLE_BIT_ECC: Final = 0x2
EVENT_XID: Final = 0x8
EVENT_CLOCK: Final = 0x10
EVENT_RECOVERY_ACTION: Final = 0x8000
"""Event types, `nvmlEventType*`."""

REASON_GPU_IDLE: Final = 0x1
REASON_HW_SLOWDOWN: Final = 0x8
REASON_SW_THERMAL: Final = 0x20
REASON_HW_THERMAL: Final = 0x40
"""Clock event reasons, `nvmlClocksEventReason*`."""

INIT_FLAG_NO_ATTACH: Final = 2
"""`NVML_INIT_FLAG_NO_ATTACH`."""

# Struct versions: size | version << 24 (NVML_STRUCT_VERSION).
MEMORY_V2: Final = 0x02000028
PLATFORM_INFO_V1: Final = 0x0100002C
PLATFORM_INFO_V2: Final = 0x0200002C
FABRIC_INFO_V2: Final = 0x02000024
FABRIC_INFO_V3: Final = 0x03000028
TEMPERATURE_V1: Final = 0x0100000C
MARGIN_TEMPERATURE_V1: Final = 0x01000008
GPM_METRICS_GET_VERSION: Final = 1
GPM_SUPPORT_VERSION: Final = 1

FABRIC_STATE_COMPLETED: Final = 3
HEALTH_SUMMARY_LIMITED_CAPACITY: Final = 3
HEALTH_DEGRADED_BANDWIDTH_MASK: Final = 0x3
HEALTH_TRUE: Final = 1

BER_ZERO: Final = 0xFFF
"""A bit error ratio of zero: mantissa 15 in bits 8 to 11, exponent 255 in bits 0 to 7."""
