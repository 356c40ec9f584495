"""Bytes and numbers of NVML into values: pure functions, no NVML call."""

from __future__ import annotations

import math
import re
import uuid

from collector.catalog.spec import Decode, Metric, ValueType
from collector.model import Value

_MAXIMUM_TEXT_LENGTH = 128
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LINK_UP_STATES = frozenset({1, 2})
"""NVML_NVLINK_STATE_ACTIVE and _SLEEP; 3 is active without traffic, 0 inactive (nvml.h)."""
_LINK_STATES = frozenset({0, 1, 2, 3})
_BER_EXPONENT_MASK = 0xFF
_BER_MANTISSA_SHIFT = 8
_BER_MANTISSA_MASK = 0xF
_BER_ZERO = (15, 255)
"""Mantissa and exponent that stand for no error seen (facts, NVLink5 BER)."""


def field_value(raw: int, decode: Decode) -> Value | None:
    """Read the eight bytes of a field value as the type that the catalogue expects.

    Args:
        raw: The bytes as an unsigned little-endian number; bytes that the driver did not write are zero.
        decode: The expected type.

    Returns:
        The number, or None where the bytes have no meaning.
    """
    if decode is Decode.UNSIGNED_64:
        return raw
    if decode is Decode.UNSIGNED_32:
        return raw & 0xFFFFFFFF
    if decode is Decode.SIGNED_32:
        low = raw & 0xFFFFFFFF
        return low - (1 << 32) if low & 0x80000000 else low
    if decode is Decode.BIT_ERROR_RATIO:
        return bit_error_ratio(raw)
    state = raw & 0xFFFFFFFF
    return int(state in _LINK_UP_STATES) if state in _LINK_STATES else None


def bit_error_ratio(packed: int) -> float:
    """Unpack NVLink 5's bit error ratio: mantissa x 10^-exponent.

    Bits 0 to 7 are the exponent, bits 8 to 11 the mantissa (nvml.h, `NVML_FI_DEV_NVLINK_COUNT_*_BER`).
    """
    exponent = packed & _BER_EXPONENT_MASK
    mantissa = packed >> _BER_MANTISSA_SHIFT & _BER_MANTISSA_MASK
    if (mantissa, exponent) == _BER_ZERO or mantissa == 0:
        return 0.0
    return float(f"{mantissa}e-{exponent}")


def to_unit(number: Value, metric: Metric, multiply: int, divide: int) -> Value | None:
    """Convert a number read into the metric's unit and type: the only conversion it ever meets.

    Returns:
        The value, or None if it lies outside the metric's physical range.
    """
    scaled = number * multiply
    if isinstance(scaled, float) and not math.isfinite(scaled):  # GPM reports a NaN for a blank
        return None
    value: Value
    if metric.value_type is ValueType.INT:
        value = int(scaled) if divide == 1 else int(scaled) // divide
    else:
        value = scaled / divide
    return value if metric.minimum <= value <= metric.maximum else None


def text(raw: bytes) -> str:
    """Decode text of hardware or driver: bounded, and nothing in it can break a line or a record."""
    decoded = raw.split(b"\x00", 1)[0][:_MAXIMUM_TEXT_LENGTH].decode("utf-8", errors="replace").strip()
    return _CONTROL_CHARACTERS.sub("\ufffd", decoded)


def driver_version(version: str) -> tuple[int, ...]:
    """Split a driver version such as `580.173.02` into numbers; text that is none gives an empty tuple."""
    numbers = []
    for piece in version.split("."):
        if not piece.isascii() or not piece.isdigit():
            break
        numbers.append(int(piece))
    return tuple(numbers)


def cuda_version(number: int) -> str:
    """Name a CUDA version that NVML gives as 1000 x major + 10 x minor (nvml.h)."""
    return f"{number // 1000}.{number % 1000 // 10}"


def cluster_uuid(raw: bytes) -> str:
    """Format a fabric's 16-byte cluster UUID; all zero means that the GPU is in no cluster: empty."""
    return "" if not any(raw) else str(uuid.UUID(bytes=bytes(raw)))


_GROUP_TRUE = 1
_GROUP_FALSE = 2
_CONFIGURATION_CORRECT = 1
_CONFIGURATION_FAULTS = frozenset(range(2, 9))

_HEALTH_GROUPS = {
    "degraded_bandwidth": 0,
    "route_recovery": 2,
    "route_unhealthy": 4,
    "access_timeout": 6,
}
"""Shift of each two-bit group of `healthMask` (nvml.h, `NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_*`)."""
_CONFIGURATION_SHIFT = 8


def fabric_conditions(mask: int) -> dict[str, int | None]:
    """Split a fabric health mask.

    Returns:
        For each condition 1 if the fabric reports it, 0 if it reports that there is none; None for a code
        without a meaning. A condition that the hardware does not support is left out.
    """
    conditions: dict[str, int | None] = {}
    for name, shift in _HEALTH_GROUPS.items():
        group = mask >> shift & 0b11
        if group:
            conditions[name] = {_GROUP_TRUE: 1, _GROUP_FALSE: 0}.get(group)
    configuration = mask >> _CONFIGURATION_SHIFT & 0b1111
    if configuration == _CONFIGURATION_CORRECT:
        conditions["incorrect_configuration"] = 0
    elif configuration:
        conditions["incorrect_configuration"] = 1 if configuration in _CONFIGURATION_FAULTS else None
    return conditions
