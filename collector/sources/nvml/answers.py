"""What one sweep of a GPU brought: raw numbers by where they come from, and what went wrong."""

from __future__ import annotations

from collections import Counter

import pynvml

from collector.model import Value
from collector.sources.nvml.library import UNSUPPORTED, error_name, raise_if_gone

Key = tuple[int | str, int | str]
"""Field id and scope id, function and attribute, or `gpm` and metric id."""

UNDECODABLE = "undecodable"
OUT_OF_RANGE = "out_of_range"


class Answers:
    """Raw numbers of one sweep.

    Attributes:
        numbers: What was read, in NVML's own units.
        errors: What could not be read although the hardware has it, counted by error.
        failed: Sources whose number is unknown now although they may have one: they failed in a way that says
            nothing about support, such as a time-out, or answered what has no meaning.
        read_at: When the field values were read, seconds of the monotonic clock.
    """

    __slots__ = ("errors", "failed", "numbers", "read_at")

    def __init__(self, errors: Counter[str]) -> None:
        """Begin a sweep that counts its errors in `errors`."""
        self.numbers: dict[Key, Value] = {}
        self.errors = errors
        self.failed: set[Key] = set()
        self.read_at = 0.0

    def put(self, key: Key, value: Value | None) -> None:
        """Keep a number; None, which stands for an answer without meaning, is counted."""
        if value is None:
            self.errors[UNDECODABLE] += 1
            self.failed.add(key)
        else:
            self.numbers[key] = value

    def fail(self, key: Key, code: int) -> None:
        """Note a return code other than success.

        Raises:
            GpuLostError: The code means that the GPU is lost.
            NvmlUnavailableError: The code means that NVML as a whole is.
        """
        raise_if_gone(code, f"{key[0]}")
        if code not in UNSUPPORTED:
            self.errors[error_name(code)] += 1
            if code != pynvml.NVML_ERROR_NO_PERMISSION:
                self.failed.add(key)
