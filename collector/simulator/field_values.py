"""`nvmlDeviceGetFieldValues`: the table of fields, and the loop that fills the caller's array.

The loop follows nvml.h: the call succeeds, every field carries its own return code, and of the value
union only the width of the value's type is written.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from collector.simulator.codes import Return, ValueType
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.memory import VALUE_WRITERS, memory, number

# nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value.
FIELD_VALUE_BYTES: Final = 40
_REQUEST: Final = struct.Struct("<II")
_ANSWER: Final = struct.Struct("<qqII")
_ANSWER_OFFSET: Final = 8
_VALUE_OFFSET: Final = 32
# How long a field takes within NVML: chosen.
_LATENCY_US: Final = 35
# More than any caller asks for at once; a count above it is a wild one.
_MAX_FIELDS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field's answer that is not a value.

    Attributes:
        code: The field's return code.
    """

    code: int


NOT_SUPPORTED: Final = Refusal(Return.NOT_SUPPORTED)
INVALID_ARGUMENT: Final = Refusal(Return.INVALID_ARGUMENT)
NO_PERMISSION: Final = Refusal(Return.NO_PERMISSION)

Answer = int | float | Refusal
Reader = Callable[[SimulatedGpu, int], Answer]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the table.

    Attributes:
        value_type: How its value is stored.
        read: Reads it off a GPU, given the scope id.
    """

    value_type: ValueType
    read: Reader


def get_field_values(
    fields: Mapping[int, Field], gpu: SimulatedGpu, count: object = 0, values: object = None
) -> Return:
    """Fill an array of `nvmlFieldValue_t`.

    Args:
        fields: What this platform and driver have.
        gpu: The GPU, at the moment to read.
        count: Number of elements.
        values: The array.

    Returns:
        SUCCESS, or INVALID_ARGUMENT for a null array or an impossible count.
    """
    total = number(count)
    if not 0 < total <= _MAX_FIELDS:
        return Return.INVALID_ARGUMENT
    target = memory(values, total * FIELD_VALUE_BYTES)
    if target is None:
        return Return.INVALID_ARGUMENT
    if ctypes.sizeof(target) < total * FIELD_VALUE_BYTES:
        # A real driver would write past the end; here the test that does so must fail.
        raise ValueError(f"{total} field values do not fit the array of {ctypes.sizeof(target)} bytes")
    pins = gpu.field_pins
    timestamp_us = gpu.timekeeper.timestamp_us
    read_request, write_answer = _REQUEST.unpack_from, _ANSWER.pack_into
    for offset in range(0, total * FIELD_VALUE_BYTES, FIELD_VALUE_BYTES):
        field_id, scope_id = read_request(target, offset)
        field = fields.get(field_id)
        if pins and (field_id, scope_id) in pins:
            value_type, answer = _pinned(gpu, field_id, scope_id, field)
        elif field is None:
            value_type, answer = ValueType.DOUBLE, NOT_SUPPORTED
        else:
            value_type, answer = field.value_type, field.read(gpu, scope_id)
        if type(answer) is Refusal:
            code = answer.code
        else:
            code = 0
            VALUE_WRITERS[value_type](target, offset + _VALUE_OFFSET, answer)
        write_answer(target, offset + _ANSWER_OFFSET, timestamp_us, _LATENCY_US, value_type, code)
    return Return.SUCCESS


def _pinned(gpu: SimulatedGpu, field_id: int, scope_id: int, field: Field | None) -> tuple[ValueType, Answer]:
    """Answer a field that a test has pinned."""
    pin = gpu.field_pins[field_id, scope_id]
    value_type = pin.value_type
    if value_type is None:
        value_type = field.value_type if field else ValueType.UNSIGNED_LONG_LONG
    if pin.code != Return.SUCCESS or pin.raw is None:
        return value_type, Refusal(pin.code)
    return value_type, pin.raw
