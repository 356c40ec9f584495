"""Real reader processes for tests: started by a ReaderProcess, watched by pidfd, ended by pid."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from collector.deadlines import Deadlines
from collector.readings import Layout, Message, Reading
from collector.sources.nvml.options import ReaderOptions
from collector.sources.process import ReaderProcess

SCRIPT = Path(__file__).with_name("misbehaving_reader.py")

QUICK = Deadlines(stale=0.2, withhold=0.5, restart=1.0, startup=30.0)
"""Short limits for what hangs; the start of Python gets the time that a loaded machine needs."""
CLOSE_SECONDS = 4.0
"""Bound of closing: a grace of 1 s, 2 s for SIGKILL to work, and a margin; the agent itself waits 5 s."""


class Pidfd:
    """A process that stays this one, whoever gets its number later."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)

    def ended(self, seconds: float = 0) -> bool:
        """Tell whether it has ended, or ends within some seconds."""
        readable, _, _ = select.select([self.descriptor], [], [], seconds)
        return bool(readable)

    def kill(self) -> None:
        """End it, if it has not ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Let go."""
        os.close(self.descriptor)


class Watched:
    """A ReaderProcess, what it delivers, and the processes that it starts."""

    def __init__(self, source: ReaderProcess) -> None:
        self.source = source
        self.messages: list[Message] = []
        self.processes: dict[int, Pidfd] = {}

    def take(self, message: Message) -> None:
        """Take a message."""
        self.messages.append(message)
        self.note_process()

    def note_process(self) -> None:
        """Hold on to the process that runs now."""
        pid = self.source.process_id
        if pid is not None and pid not in self.processes:
            with suppress(ProcessLookupError):
                self.processes[pid] = Pidfd(pid)

    @property
    def readings(self) -> list[Reading]:
        """What was read."""
        return [message for message in self.messages if isinstance(message, Reading) and message.up]

    @property
    def reasons(self) -> list[str]:
        """Why nothing was read."""
        return [each.reason for each in self.messages if isinstance(each, Reading) and not each.up]

    @property
    def layouts(self) -> int:
        """Number of layouts, which is that of the readers that began."""
        return sum(isinstance(message, Layout) for message in self.messages)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; the test is bounded."""
        while not condition():
            self.note_process()
            await asyncio.sleep(0.005)


def do_nothing(_process: asyncio.subprocess.Process) -> None:
    """Kill as SIGKILL does in an uninterruptible call."""


def command(how: str, argument: object = "") -> list[str]:
    """Say how to start a reader that misbehaves."""
    return [sys.executable, str(SCRIPT), how, str(argument)]


@asynccontextmanager
async def watched(
    words: Sequence[str],
    *,
    deadlines: Deadlines = QUICK,
    kill: Callable[[asyncio.subprocess.Process], None] | None = None,
) -> AsyncIterator[Watched]:
    """Run a ReaderProcess; afterwards close it, and end every process that it has started."""
    source = ReaderProcess(words, ReaderOptions, deadlines, kill=kill)
    watch = Watched(source)
    await source.start(watch.take)
    try:
        yield watch
    finally:
        await source.close()
        for process in watch.processes.values():
            process.kill()
            process.close()
        await watch.until(lambda: all(left.returncode is not None for left in source._abandoned))
        await asyncio.sleep(0.05)  # asyncio sees the ends of their pipes, and closes its own
