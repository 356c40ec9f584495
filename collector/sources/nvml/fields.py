"""Batches of field values: the array is made once, filled by one call, and decoded in bulk."""

from __future__ import annotations

import ctypes
import struct

import pynvml

from collector.catalog.spec import Decode
from collector.sources.nvml.answers import Answers
from collector.sources.nvml.decode import field_value
from collector.sources.nvml.library import Handle, NvmlLibrary

Request = tuple[int, int, Decode]
"""Field id, scope id, and the type that is expected."""

_LAYOUT = struct.Struct("=IIqqiIQ")
"""`nvmlFieldValue_t`: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value (nvml.h)."""

_NEVER_ANSWERED = 0xFFFFFFFF
"""Preset return code, so that an entry which the driver skips is not taken for a success."""


class FieldBatch:
    """Some fields of one GPU, read together."""

    def __init__(self, library: NvmlLibrary, handle: Handle, requests: tuple[Request, ...]) -> None:
        """Prepare the array; nothing is called yet."""
        self._library = library
        self._handle = handle
        self._requests = requests
        self._array = (pynvml.c_nvmlFieldValue_t * len(requests))()
        # The whole array is reset before each call: the driver may write fewer bytes of a value than
        # are decoded, and what it leaves must read as zero.
        self._template = b"".join(
            _LAYOUT.pack(field, scope, 0, 0, 0, _NEVER_ANSWERED, 0) for field, scope, _ in requests
        )
        self._keys = tuple((field, scope) for field, scope, _ in requests)

    def read(self, answers: Answers) -> None:
        """Read all fields with one call.

        Raises:
            GpuLostError: The GPU does not answer any more.
            NvmlUnavailableError: NVML does not.
        """
        if not self._requests:
            return
        ctypes.memmove(self._array, self._template, len(self._template))
        code = self._library.call("nvmlDeviceGetFieldValues", self._handle, len(self._requests), self._array)
        if code != pynvml.NVML_SUCCESS:
            for key in self._keys:
                answers.fail(key, code)
            return
        entries = _LAYOUT.iter_unpack(memoryview(self._array).cast("B"))
        for (field, scope, decode), (_, _, _, _, _, outcome, raw) in zip(
            self._requests, entries, strict=True
        ):
            key = (field, scope)
            if outcome == pynvml.NVML_SUCCESS:
                answers.put(key, field_value(raw, decode))
            elif outcome != pynvml.NVML_ERROR_NOT_SUPPORTED:
                answers.fail(key, outcome)
