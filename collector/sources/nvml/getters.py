"""NVML functions with an answer of their own: how each is called, as a table.

A maker prepares the buffers of one function for one GPU, once, and returns the call. The call puts what
it read into the sweep's answers under `(function, attribute)`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import cast

import pynvml

from collector.sources.nvml.answers import Answers
from collector.sources.nvml.decode import fabric_conditions
from collector.sources.nvml.fabric import FabricInfo
from collector.sources.nvml.library import Handle, NvmlLibrary

Call = Callable[[Answers], None]
Maker = Callable[[NvmlLibrary, Handle, str, tuple[str, ...]], Call]
"""Takes library, GPU, function name and the attributes wanted."""

Prepared = tuple[tuple[object, ...], Callable[[], int]]
"""Arguments behind the handle, and what reads the result out of them after the call."""

_SUCCESS = pynvml.NVML_SUCCESS
_STATE_MASK = 0xFF
"""The fabric state is one byte in C but four in pynvml's structure; the other three are padding."""


def _single(make: Callable[[], Prepared]) -> Maker:
    """Make a maker for functions with one attribute.

    Args:
        make: Returns the arguments behind the handle, and what reads the result.
    """

    def maker(library: NvmlLibrary, handle: Handle, function: str, attributes: tuple[str, ...]) -> Call:
        (attribute,) = attributes
        key = (function, attribute)
        arguments, result = make()

        def call(answers: Answers) -> None:
            code = library.call(function, handle, *arguments)
            if code == _SUCCESS:
                answers.put(key, result())
            else:
                answers.fail(key, code)

        return call

    return maker


def _structure(make: Callable[[], ctypes.Structure]) -> Maker:
    """Make a maker for functions that fill one structure, whose members are the attributes."""

    def maker(library: NvmlLibrary, handle: Handle, function: str, attributes: tuple[str, ...]) -> Call:
        out = make()
        reference = ctypes.byref(out)

        def call(answers: Answers) -> None:
            code = library.call(function, handle, reference)
            for attribute in attributes:
                if code == _SUCCESS:
                    answers.put((function, attribute), getattr(out, attribute))
                else:
                    answers.fail((function, attribute), code)

        return call

    return maker


def _per_constant(make: Callable[[int], Prepared]) -> Maker:
    """Make a maker for functions that are called once for each attribute, a constant of pynvml.

    Args:
        make: Takes the constant; returns the arguments behind the handle, and what reads the result.
    """

    def maker(library: NvmlLibrary, handle: Handle, function: str, attributes: tuple[str, ...]) -> Call:
        calls = [(attribute, *make(getattr(pynvml, attribute))) for attribute in attributes]

        def call(answers: Answers) -> None:
            for attribute, arguments, result in calls:
                code = library.call(function, handle, *arguments)
                if code == _SUCCESS:
                    answers.put((function, attribute), result())
                else:
                    answers.fail((function, attribute), code)

        return call

    return maker


def _number_for(constant: int) -> Prepared:
    out = ctypes.c_uint()
    return (constant, ctypes.byref(out)), lambda: out.value


def _temperature_for(sensor: int) -> Prepared:
    out = pynvml.c_nvmlTemperature_v1_t()
    out.version = pynvml.nvmlTemperature_v1
    out.sensorType = sensor
    return (ctypes.byref(out),), lambda: int(out.temperature)


def _violation_for(policy: int) -> Prepared:
    out = pynvml.c_nvmlViolationTime_t()
    return (policy, ctypes.byref(out)), lambda: int(out.violationTime)


def _memory() -> ctypes.Structure:
    out = pynvml.c_nvmlMemory_v2_t()
    out.version = pynvml.nvmlMemory_v2
    return cast(ctypes.Structure, out)


def _number() -> Prepared:
    out = ctypes.c_uint()
    return (ctypes.byref(out),), lambda: out.value


def _mask() -> Prepared:
    out = ctypes.c_ulonglong()
    return (ctypes.byref(out),), lambda: out.value


def _margin() -> Prepared:
    out = pynvml.c_nvmlMarginTemperature_v1_t()
    out.version = pynvml.nvmlMarginTemperature_v1
    return (ctypes.byref(out),), lambda: int(out.marginTemperature)


def _process_count(library: NvmlLibrary, handle: Handle, function: str, attributes: tuple[str, ...]) -> Call:
    """Ask for processes with no room for any: the driver answers with their number."""
    (attribute,) = attributes
    key = (function, attribute)
    out = ctypes.c_uint()
    reference = ctypes.byref(out)

    def call(answers: Answers) -> None:
        # The number is also an input: the room that there is.
        out.value = 0
        code = library.call(function, handle, reference, None)
        if code in (_SUCCESS, pynvml.NVML_ERROR_INSUFFICIENT_SIZE):
            answers.put(key, out.value)
        else:
            answers.fail(key, code)

    return call


def _fabric(library: NvmlLibrary, handle: Handle, function: str, attributes: tuple[str, ...]) -> Call:
    info = FabricInfo(library, handle)

    def call(answers: Answers) -> None:
        code = info.read()
        if code != _SUCCESS:
            for attribute in attributes:
                answers.fail((function, attribute), code)
            return
        out = info.out
        if "state" in attributes:
            answers.put((function, "state"), out.state & _STATE_MASK)
        for condition, value in fabric_conditions(out.healthMask).items():
            if condition in attributes:
                answers.put((function, condition), value)

    return call


MAKERS: dict[str, Maker] = {
    "nvmlDeviceGetUtilizationRates": _structure(pynvml.c_nvmlUtilization_t),
    "nvmlDeviceGetMemoryInfo_v2": _structure(_memory),
    "nvmlDeviceGetClockInfo": _per_constant(_number_for),
    "nvmlDeviceGetCurrentClocksEventReasons": _single(_mask),
    "nvmlDeviceGetViolationStatus": _per_constant(_violation_for),
    "nvmlDeviceGetTemperatureV": _per_constant(_temperature_for),
    "nvmlDeviceGetTemperature": _per_constant(_number_for),
    "nvmlDeviceGetMarginTemperature": _single(_margin),
    "nvmlDeviceGetCurrPcieLinkGeneration": _single(_number),
    "nvmlDeviceGetCurrPcieLinkWidth": _single(_number),
    "nvmlDeviceGetComputeRunningProcesses_v3": _process_count,
    "nvmlDeviceGetGpuFabricInfoV": _fabric,
}
"""Every function that a catalogue row may bind with a GetterBinding."""
