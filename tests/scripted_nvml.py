"""An NVML library made of a few Python functions, for tests of single functions' answers."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from collector.sources.nvml.library import NvmlLibrary

NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED, nvml.h

Function = Callable[..., int]


class ScriptedNvml:
    """The functions given, and every other one missing, as a symbol that a driver lacks."""

    def __init__(self, **functions: Function) -> None:
        self.__dict__.update(functions)


def scripted(**functions: Function) -> NvmlLibrary:
    """Make a library of functions by name."""
    return NvmlLibrary(ScriptedNvml(**functions))


def target(reference: object) -> Any:  # what `byref` refers to has any of pynvml's types
    """Return what an out-parameter refers to."""
    foreign: Any = reference
    return foreign._obj


def answer(code: int) -> Function:
    """Make a function that returns a code and writes nothing."""
    return lambda *_arguments: code


def fills(code: int = 0, **members: int | float) -> Function:
    """Make a function that fills the structure of its last argument."""

    def call(*arguments: object) -> int:
        for name, value in members.items():
            setattr(target(arguments[-1]), name, value)
        return code

    return call


def number(value: int, code: int = 0) -> Function:
    """Make a function that writes a number to its last argument."""

    def call(*arguments: object) -> int:
        target(arguments[-1]).value = value
        return code

    return call


def text(value: bytes, code: int = 0) -> Function:
    """Make a function `(handle, buffer, length)` that fills a text buffer, without a zero byte at its end."""

    def call(_handle: object, buffer: ctypes.Array[ctypes.c_char], length: int) -> int:
        buffer.raw = value[:length].ljust(length, b"\0")
        return code

    return call


_FIELD = struct.Struct("<IIqqII")  # nvmlFieldValue_t up to its value: 40 bytes with it (nvml.h)

FieldAnswer = tuple[int, bytes] | None
"""Return code and the bytes that are written to the value; None leaves the entry as it was."""


class FieldTable:
    """Answers `nvmlDeviceGetFieldValues` from a table that a test fills.

    Attributes:
        answers: By field and scope; what is missing is not supported.
        value_type: The `valueType` that every entry gets, right or wrong.
        arrays: The arrays that it was called with.
        requests: The fields and scopes of each call.
    """

    def __init__(self, answers: dict[tuple[int, int], FieldAnswer], *, value_type: int = 3) -> None:
        self.answers = answers
        self.value_type = value_type
        self.arrays: list[object] = []
        self.requests: list[list[tuple[int, int]]] = []

    def __call__(self, _handle: object, count: int, array: ctypes.Array[ctypes.Structure]) -> int:
        self.arrays.append(array)
        self.requests.append([])
        memory = memoryview(array).cast("B")
        for offset in range(0, 40 * count, 40):
            field, scope, *_ = _FIELD.unpack_from(memory, offset)
            self.requests[-1].append((field, scope))
            found = self.answers.get((field, scope), (NOT_SUPPORTED, b""))
            if found is None:
                continue
            code, value = found
            _FIELD.pack_into(memory, offset, field, scope, 1_764_505_200_000_000, 35, self.value_type, code)
            memory[offset + 32 : offset + 32 + len(value)] = value
        return 0


def u32(value: int) -> FieldAnswer:
    """Make a success that writes four bytes, as a driver does for `uiVal`."""
    return 0, struct.pack("<I", value)


def u64(value: int) -> FieldAnswer:
    """Make a success that writes eight bytes, as a driver does for `ullVal`."""
    return 0, struct.pack("<Q", value)


def failed(code: int) -> FieldAnswer:
    """Make a field's own return code."""
    return code, b""
