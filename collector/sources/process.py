"""A reader in a process of its own: started, watched, ended when it hangs, and started anew.

A driver in trouble can block a call for minutes, or for ever in a state that no signal ends. The agent
must go on answering all the while, so nothing here waits without a limit, and what cannot be ended is
abandoned: two at most, since each holds on to the driver.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from collector.deadlines import Deadlines
from collector.protocols import Deliver
from collector.readings import Layout, Message, Reading
from collector.sources.frames import FrameError, encode, receive
from collector.sources.nvml.options import ReaderOptions

_logger = logging.getLogger("rackwatt.reader")

_MAXIMUM_ABANDONED = 2
_GRACE_SECONDS = 1.0
"""Time for a reader to end after its pipe was closed."""
_KILL_SECONDS = 2.0
"""Time for a process to disappear after SIGKILL; one in an uninterruptible call does not."""
_BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_HEALTHY_SECONDS = 60.0
"""A reader that worked this long starts the back-off from its beginning."""
_ABANDONED_RECHECK_SECONDS = 10.0


class ReaderProcess:
    """Keeps one reader process running."""

    def __init__(
        self,
        command: Sequence[str],
        options: Callable[[], ReaderOptions],
        deadlines: Deadlines,
        *,
        kill: Callable[[asyncio.subprocess.Process], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is started before `start`.

        Args:
            command: Program and arguments of the reader.
            options: Makes the options for each start, with what is known by then.
            deadlines: How long silence is borne.
            kill: Ends a process at once; SIGKILL where None.
            monotonic: Clock in seconds.
        """
        self._command = tuple(command)
        self._options = options
        self._deadlines = deadlines
        self._kill = kill or _kill
        self._monotonic = monotonic
        self._abandoned: list[asyncio.subprocess.Process] = []
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._restarts = 0

    @property
    def restarts(self) -> int:
        """Times that the reader was started anew."""
        return self._restarts

    @property
    def process_id(self) -> int | None:
        """Return the id of the reader that runs now."""
        return self._process.pid if self._process is not None else None

    async def start(self, deliver: Deliver) -> None:
        """Begin to run readers."""
        self._task = asyncio.create_task(self._run(deliver), name="rackwatt-reader")

    async def close(self) -> None:
        """End the reader, within a few seconds whatever it does."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None

    async def _run(self, deliver: Deliver) -> None:
        failures = 0
        while True:
            await self._wait_for_room(deliver)
            begin = self._monotonic()
            reason = await self._run_once(deliver)
            deliver(Reading(taken_at=self._monotonic(), generation=0, up=False, reason=reason))
            failures = 0 if self._monotonic() - begin > _HEALTHY_SECONDS else failures + 1
            pause = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1] if failures else 0.0
            _logger.warning("%s; starting it anew in %.0f s", reason, pause)
            await asyncio.sleep(pause)
            self._restarts += 1

    async def _wait_for_room(self, deliver: Deliver) -> None:
        """Wait while as many readers as are allowed hang in the driver."""
        while True:
            self._abandoned = [process for process in self._abandoned if process.returncode is None]
            if len(self._abandoned) < _MAXIMUM_ABANDONED:
                return
            pids = ", ".join(str(process.pid) for process in self._abandoned)
            reason = (
                f"{len(self._abandoned)} readers hang in the NVIDIA driver and cannot be ended (process ids "
                f"{pids}); no further one is started; the node needs a reboot"
            )
            deliver(Reading(taken_at=self._monotonic(), generation=0, up=False, reason=reason))
            await asyncio.sleep(_ABANDONED_RECHECK_SECONDS)

    async def _run_once(self, deliver: Deliver) -> str:
        """Run one reader to its end.

        Returns:
            Why it ended, in words.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            return f"the reader could not be started: {error}"
        self._process = process
        try:
            return await self._follow(process, deliver)
        finally:
            # Shielded, so that a cancelled agent still ends its reader.
            await asyncio.shield(self._end(process))
            self._process = None

    async def _follow(self, process: asyncio.subprocess.Process, deliver: Deliver) -> str:
        if process.stdin is None or process.stdout is None:
            raise TypeError("the reader's pipes are missing")
        process.stdin.write(encode(self._options()))
        limit = self._deadlines.startup
        while True:
            try:
                async with asyncio.timeout(limit):
                    message: Message | None = await receive(process.stdout)
            except TimeoutError:
                return f"the reader did not answer for {limit:.0f} s: a call to the NVIDIA driver hangs"
            except FrameError as error:
                return str(error)
            if message is None:
                status = await self._status(process)
                return f"the reader ended with status {status}"
            deliver(message)
            if isinstance(message, Layout) or message.up:
                limit = self._deadlines.restart

    async def _status(self, process: asyncio.subprocess.Process) -> str:
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                return str(await process.wait())
        except TimeoutError:
            return "unknown"

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """End a process: ask, then kill, then abandon."""
        if process.stdin is not None:
            process.stdin.close()
        if await _gone(process, _GRACE_SECONDS):
            return
        self._kill(process)
        if not await _gone(process, _KILL_SECONDS):
            _logger.error(
                "reader %d cannot be ended: it hangs in the NVIDIA driver and is left behind", process.pid
            )
            self._abandoned.append(process)


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait for the end of a process."""
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return False
    return True
