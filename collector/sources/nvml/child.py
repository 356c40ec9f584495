"""The reader as a process: it steps, writes frames, and ends with the agent that started it."""

from __future__ import annotations

import ctypes
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import BinaryIO

from collector.sources.frames import EXIT_NEEDS_NEW_PROCESS, FrameError, encode, read_options
from collector.sources.nvml.library import NvmlLibrary, open_library
from collector.sources.nvml.reader import NvmlReader

_PR_SET_PDEATHSIG = 1
"""prctl option: the signal that this process gets when its parent dies (prctl(2))."""


def main(library_opener: Callable[[], NvmlLibrary] = open_library) -> int:
    """Run the reader over standard input and output until the agent closes the pipe.

    Args:
        library_opener: Loads NVML.

    Returns:
        Exit status.
    """
    # The agent decides when the reader ends; a Ctrl-C in a terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A reader that hangs in a driver call cannot see that its pipe was closed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        options = read_options(sys.stdin.buffer)
    except FrameError as error:
        sys.stderr.write(f"rackwatt reader: {error}\n")
        return 2
    reader = NvmlReader(library_opener, options)
    return run(reader, sys.stdin.buffer, sys.stdout.buffer)


def run(
    reader: NvmlReader,
    commands: BinaryIO,
    output: BinaryIO,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Step at the fast cadence until `commands` ends.

    Args:
        reader: The reader.
        commands: Its end is the order to stop.
        output: Where frames go.
        monotonic: Clock in seconds.

    Returns:
        Exit status: 0, or `EXIT_NEEDS_NEW_PROCESS`.
    """
    period = reader.options.fast_seconds
    due = monotonic()
    try:
        while True:
            output.write(b"".join(encode(message) for message in reader.step(monotonic())))
            output.flush()
            if reader.needs_new_process:
                return EXIT_NEEDS_NEW_PROCESS
            due = next_due(due, period, monotonic())
            readable, _, _ = select.select([commands], [], [], max(0.0, due - monotonic()))
            if readable:
                return 0
    except BrokenPipeError:
        return 0
    finally:
        reader.close()


def next_due(due: float, period: float, now: float) -> float:
    """Return the next tick after `now` on the grid of `due`: ticks that were missed are left out."""
    following = due + period
    if following > now:
        return following
    return following + ((now - following) // period + 1) * period
