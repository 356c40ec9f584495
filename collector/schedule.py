"""What is not sampling, run on time: each job by itself, whatever the wall clock does (DESIGN §3).

APScheduler reckons in wall-clock time. A clock that is set back an hour would stop its jobs for an hour; one
that is set forward has it list every run in between. So the moments at which jobs are due are kept here,
on the monotonic clock. APScheduler is told the next one in wall-clock time, and anew when the clocks parted.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

# APScheduler 3 brings no types (no py.typed).
from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.base import BaseTrigger  # type: ignore[import-untyped]

_logger = logging.getLogger("rackwatt.schedule")

_WATCH_SECONDS = 1.0
"""How often the two clocks are compared (chosen)."""
_STEP_SECONDS = 1.0
"""Clocks that part by more than this were stepped, not slewed; jobs come late or early by less (chosen)."""
_CLOSE_SECONDS = 2.0
"""Longest that jobs have for their end when they are cancelled (chosen; the agent allows a part 5 s)."""

Job = Callable[[], Awaitable[None]]
"""Does something once; bounds its own time."""


class _Rhythm(BaseTrigger):  # type: ignore[misc] # its base is untyped
    """Says when a job is due: at `first` and each period after, on the monotonic clock.

    Attributes:
        due: When it is due next.
    """

    def __init__(self, monotonic: Callable[[], float], first: float, seconds: float) -> None:
        self.due = first
        self._monotonic = monotonic
        self._first = first
        self._seconds = seconds

    @property
    def wait(self) -> timedelta:
        """Time until the job is due."""
        return timedelta(seconds=max(0.0, self.due - self._monotonic()))

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return when the job is due after now; what was missed in between is not made up for.

        APScheduler asks when a job fires, maybe twice. A job may fire early by what clocks may part.
        """
        present = self._monotonic() + min(_STEP_SECONDS, self._seconds / 2)
        passed = math.floor((present - self._first) / self._seconds) + 1
        self.due = self._first + self._seconds * max(0, passed)
        return now + self.wait


class _Entry:
    """A job, and the run of it that is under way."""

    def __init__(self, name: str, seconds: float, first_after_seconds: float, job: Job) -> None:
        self.name = name
        self.seconds = seconds
        self.first_after_seconds = first_after_seconds
        self.rhythm: _Rhythm | None = None
        self.ended = False
        self.task: asyncio.Task[None] | None = None
        self._job = job
        self._failing = False
        self._late = False

    async def begin(self) -> None:
        """Begin a run, unless one is under way; a coroutine, as APScheduler runs functions in threads."""
        if self.ended:
            return
        if self.task is None:
            self.task = asyncio.create_task(self._run(), name=f"job {self.name}")
        elif not self._late:
            self._late = True
            _logger.warning("%s is not over after %g s; it is not begun anew before", self.name, self.seconds)

    async def _run(self) -> None:
        try:
            await self._job()
        except Exception:
            if not self._failing:
                self._failing = True
                _logger.exception("%s failed; it is tried again every %g s", self.name, self.seconds)
        else:
            if self._failing:
                self._failing = False
                _logger.info("%s works again", self.name)
        finally:
            self.task = None
            self._late = False


class Schedule:
    """Runs jobs by name, each once a period, and one that hangs or fails costs the others nothing.

    A job is never under way twice, and what it missed is not made up for.
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
        """
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._entries: dict[str, _Entry] = {}
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._watching: asyncio.TimerHandle | None = None
        self._offset_seconds = 0.0

    def every(self, name: str, seconds: float, job: Job, *, first_after_seconds: float = 0.0) -> None:
        """Run a job again and again.

        Args:
            name: What the log calls it; no other job has it.
            seconds: Period.
            job: What to run on the event loop.
            first_after_seconds: Time from now, or from `start` where that comes later, to the first run.

        Raises:
            ValueError: There is a job of this name, or a time that is none.
        """
        if name in self._entries:
            raise ValueError(f"there is a job {name!r} already; each needs a name of its own")
        if not (0 < seconds < math.inf and 0 <= first_after_seconds < math.inf):
            raise ValueError(
                f"job {name!r}: every {seconds} s, first after {first_after_seconds} s is no time"
            )
        entry = self._entries[name] = _Entry(name, seconds, first_after_seconds, job)
        if self._scheduler.running:
            self._add(entry)

    def start(self) -> None:
        """Begin to run the jobs, on the running event loop."""
        self._offset_seconds = self._offset()
        self._scheduler.start()
        for entry in self._entries.values():
            self._add(entry)
        self._watch()

    async def end(self, *names: str) -> None:
        """End jobs, within a bounded time, whatever hangs; one that is not known is passed over."""
        tasks: set[asyncio.Task[None]] = set()
        for name in names:
            entry = self._entries.pop(name, None)
            if entry is None:
                continue
            entry.ended = True
            if entry.rhythm is not None:
                self._scheduler.remove_job(name)
            if entry.task is not None and entry.task is not asyncio.current_task():
                entry.task.cancel()
                tasks.add(entry.task)
        if not tasks:
            return
        _, left = await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        for task in left:
            _logger.warning("%s did not end within %g s and is left behind", task.get_name(), _CLOSE_SECONDS)

    async def close(self) -> None:
        """End every job, within a bounded time, whatever hangs."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self._scheduler.running:
            self._scheduler.pause()
        await self.end(*self._entries)
        if self._scheduler.running:
            # APScheduler logs what it has begun and must cancel as an error, and ends in a later callback.
            await asyncio.sleep(0)
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)

    def _add(self, entry: _Entry) -> None:
        first = self._monotonic() + entry.first_after_seconds
        entry.rhythm = _Rhythm(self._monotonic, first, entry.seconds)
        self._scheduler.add_job(
            entry.begin,
            entry.rhythm,
            id=entry.name,
            name=entry.name,
            next_run_time=self._wall_time() + entry.rhythm.wait,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )

    def _offset(self) -> float:
        return self._wall_ns() / 1e9 - self._monotonic()

    def _wall_time(self) -> datetime:
        return datetime.fromtimestamp(self._wall_ns() / 1e9, UTC)

    def _watch(self) -> None:
        """See whether the clocks have parted, once a second of the event loop's own clock."""
        parted_seconds = self._offset() - self._offset_seconds
        if abs(parted_seconds) > _STEP_SECONDS:
            self._offset_seconds += parted_seconds
            _logger.info("the wall clock was stepped by %+.1f s; every job is armed anew", parted_seconds)
            self._arm_anew()
        self._watching = asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._watch)

    def _arm_anew(self) -> None:
        for entry in self._entries.values():
            if entry.rhythm is not None:
                self._scheduler.modify_job(entry.name, next_run_time=self._wall_time() + entry.rhythm.wait)
