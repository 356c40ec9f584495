"""A reader in a process of its own: started, watched, ended when it hangs, and started anew.

A driver in trouble can block a call for minutes, or for ever in a state that no signal ends. The agent
must go on answering all the while, so nothing here waits without a limit, and what cannot be ended is
abandoned: two at most, since each holds on to the driver.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Sequence

from collector.deadlines import Deadlines
from collector.protocols import Deliver
from collector.readings import Layout, Message, Reading
from collector.sources.frames import EXIT_NEEDS_NEW_PROCESS, FrameError, encode, receive
from collector.sources.nvml.options import ReaderOptions
from collector.sources.released import say_released

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
_LAST_SECONDS = 0.5
"""Part of every wait that comes after a pause of the agent itself."""
_DRAIN_BYTES = 65536


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
        self._deliver: Deliver | None = None
        self._released_for = ""
        # One at a time: to close, to release and to resume each end what runs.
        self._changing = asyncio.Lock()

    @property
    def restarts(self) -> int:
        """Times that the reader was started anew."""
        return self._restarts

    @property
    def held_by(self) -> str:
        """Say which readers could not be ended."""
        left = [process for process in self._abandoned if process.returncode is None]
        return f"readers that hang in it and cannot be ended (process ids {_ids(left)})" if left else ""

    @property
    def process_id(self) -> int | None:
        """Return the id of the reader that runs now."""
        return self._process.pid if self._process is not None else None

    async def start(self, deliver: Deliver) -> None:
        """Begin to run readers."""
        self._deliver = deliver
        self._begin()

    async def release(self, reason: str) -> None:
        """End the reader, within a few seconds whatever it does, and start none."""
        await _uninterrupted(self._change(reason))

    async def resume(self) -> None:
        """Run readers again."""
        await _uninterrupted(self._change(""))

    async def close(self) -> None:
        """End the reader, within a few seconds whatever it does."""
        async with self._changing:
            self._deliver = None
            await self._stop()

    async def _change(self, released_for: str) -> None:
        async with self._changing:
            changes = bool(released_for) != bool(self._released_for)
            self._released_for = released_for
            if changes:
                await self._stop()
                self._begin()

    def _begin(self) -> None:
        """Read, or say why not; nothing before the start and after the end."""
        deliver = self._deliver
        if deliver is None:
            return
        if self._released_for:
            work = say_released(deliver, self._why_released, self._monotonic)
        else:
            work = self._run(deliver)
        self._task = asyncio.create_task(work, name="rackwatt-reader")

    def _why_released(self) -> str:
        return f"{self._released_for}; held by {self.held_by}" if self.held_by else self._released_for

    async def _stop(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None

    async def _run(self, deliver: Deliver) -> None:
        failures = 0
        said = ""
        while True:
            await self._wait_for_room(deliver)
            begin = self._monotonic()
            reason = await self._run_once(deliver)
            deliver(Reading(taken_at=self._monotonic(), generation=0, up=False, reason=reason))
            failures = 0 if self._monotonic() - begin > _HEALTHY_SECONDS else failures + 1
            pause = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1] if failures else 0.0
            # A lasting failure is said once; `agent_reader_restarts_total` counts on.
            level = logging.DEBUG if failures > 1 and reason == said else logging.WARNING
            _logger.log(level, "%s; the reader is started anew in %.0f s", reason, pause)
            said = reason
            await asyncio.sleep(pause)
            self._restarts += 1

    async def _wait_for_room(self, deliver: Deliver) -> None:
        """Wait while as many readers as are allowed hang in the driver."""
        while True:
            self._abandoned = [process for process in self._abandoned if process.returncode is None]
            if len(self._abandoned) < _MAXIMUM_ABANDONED:
                return
            reason = (
                f"{len(self._abandoned)} readers hang in the NVIDIA driver and cannot be ended (process ids "
                f"{_ids(self._abandoned)}); no further one is started; the node needs a reboot"
            )
            deliver(Reading(taken_at=self._monotonic(), generation=0, up=False, reason=reason))
            await asyncio.sleep(_ABANDONED_RECHECK_SECONDS)

    async def _run_once(self, deliver: Deliver) -> str:
        """Run one reader to its end.

        Returns:
            Why it ended, in words.
        """
        try:
            process = await self._start()
        except OSError as error:
            return f"the reader could not be started: {error}"
        self._process = process
        try:
            return await self._follow(process, deliver)
        finally:
            # Also when the agent is closed meanwhile: it still ends its reader.
            await _uninterrupted(self._end(process))
            self._process = None

    async def _start(self) -> asyncio.subprocess.Process:
        """Start a process, which a cancellation does not interrupt.

        Interrupted at the wrong moment, Python would wait for ever (CPython issue 103847).
        """
        pipe = asyncio.subprocess.PIPE
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await self._end(await starting)
            raise

    async def _follow(self, process: asyncio.subprocess.Process, deliver: Deliver) -> str:
        if process.stdin is None or process.stdout is None:
            raise TypeError("the reader's pipes are missing")
        process.stdin.write(encode(self._options()))
        limit = self._deadlines.startup
        reason = ""
        while True:
            try:
                message = await _receive_within(limit, process.stdout)
            except TimeoutError:
                return f"the reader did not answer for {limit:.0f} s: a call to the NVIDIA driver hangs"
            except (FrameError, OSError) as error:
                return str(error)
            if message is None:
                await _gone(process, _GRACE_SECONDS)
                return _why_ended(process.returncode, reason)
            try:
                deliver(message)
            except Exception as error:  # a reader that does not fit must not end the agent
                _logger.exception("what the reader sent cannot be used")
                return f"what the reader sent cannot be used: {error}"
            if isinstance(message, Layout) or message.up:
                reason, limit = "", self._deadlines.restart
            else:
                reason = message.reason

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


def _ids(processes: Sequence[asyncio.subprocess.Process]) -> str:
    return ", ".join(str(process.pid) for process in processes)


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _receive_within(seconds: float, stream: asyncio.StreamReader) -> Message | None:
    """Wait for a message.

    In two parts: had the agent itself been held up during the first, it sees in the second what came
    meanwhile, and does not take its own silence for the reader's. Every message gives others their turn.

    Raises:
        FrameError: If the stream is broken.
        TimeoutError: If there is no message in that time.
    """
    last_seconds = min(_LAST_SECONDS, seconds / 2)
    receiving = asyncio.ensure_future(receive(stream))
    try:
        for part_seconds in (seconds - last_seconds, last_seconds):
            done, _ = await asyncio.wait({receiving}, timeout=part_seconds)
            if done:
                return receiving.result()
        raise TimeoutError
    finally:
        if receiving.cancel():
            await asyncio.wait({receiving})


def _why_ended(status: int | None, reason: str) -> str:
    """Put the end of a reader into words.

    Args:
        status: Exit status, negative for a signal; None if it closed its pipe and lives.
        reason: Why it could not read, as it said last.
    """
    if status == EXIT_NEEDS_NEW_PROCESS and reason:
        return reason
    if status is None:
        return "the reader closed its pipe"
    if status < 0:
        return f"the reader was ended by signal {-status} ({signal.strsignal(-status)})"
    return f"the reader ended with status {status}"


async def _gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait for the end of a process, and take what it still writes: asyncio waits for the pipe's end, too."""
    try:
        async with asyncio.timeout(seconds):
            while process.stdout is not None and await process.stdout.read(_DRAIN_BYTES):
                pass
            await process.wait()
    except TimeoutError:
        return process.returncode is not None
    return True


async def _uninterrupted(work: Coroutine[None, None, None]) -> None:
    """Await work to its end; a cancellation takes effect after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
