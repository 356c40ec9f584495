"""Reads the NVML double through the shipped source and prints what it delivered as JSON.

Usage: ``LD_LIBRARY_PATH=FOLDER python -m tests.abi.read_source``. NVML, once loaded, stays in a process:
that is why no test loads the double into pytest's.
"""

from __future__ import annotations

import sys
import time

import msgspec

from collector.sources.nvml.library import open_library
from collector.sources.nvml.options import ReaderOptions
from collector.sources.nvml.reader import NvmlReader

_BETWEEN_STEPS_SECONDS = 0.2
"""More than the 100 ms that performance monitoring needs between two samples."""


def main() -> None:
    """Print the clock before and after the second step, and the messages of both."""
    reader = NvmlReader(open_library, ReaderOptions())
    messages = reader.step(time.monotonic())
    time.sleep(_BETWEEN_STEPS_SECONDS)
    before = time.monotonic_ns()
    messages += reader.step(time.monotonic())
    after = time.monotonic_ns()
    reader.close()
    sys.stdout.buffer.write(msgspec.json.encode([before, after, messages]))


if __name__ == "__main__":
    main()
