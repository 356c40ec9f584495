"""The schedule: jobs on time, by themselves, through steps of the wall clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from collector import schedule as subject
from collector.schedule import Schedule
from tests.virtual_time import VirtualClock, run_virtually

HOUR = 3600.0


class Beats:
    """A job that notes when it ran."""

    def __init__(self, clock: VirtualClock) -> None:
        self.at: list[float] = []
        self._clock = clock

    async def __call__(self) -> None:
        self.at.append(round(self._clock.seconds - 1000.0, 2))


@asynccontextmanager
async def started(clock: VirtualClock) -> AsyncIterator[Schedule]:
    """Run a schedule."""
    schedule = Schedule(clock.monotonic, clock.wall_ns)
    schedule.start()
    try:
        yield schedule
    finally:
        await schedule.close()


def test_a_job_runs_at_once_and_each_period() -> None:
    async def scenario(clock: VirtualClock) -> None:
        beats, later = Beats(clock), Beats(clock)
        async with started(clock) as schedule:
            schedule.every("beats", 5.0, beats)
            schedule.every("later", 5.0, later, first_after_seconds=2.5)
            await asyncio.sleep(16)
        assert beats.at == [0, 5, 10, 15]
        assert later.at == [2.5, 7.5, 12.5]

    run_virtually(scenario)


def test_a_job_that_is_given_before_the_start_counts_from_there() -> None:
    async def scenario(clock: VirtualClock) -> None:
        beats = Beats(clock)
        schedule = Schedule(clock.monotonic, clock.wall_ns)
        schedule.every("beats", 5.0, beats, first_after_seconds=60.0)
        await asyncio.sleep(100)
        schedule.start()
        assert beats.at == []
        await schedule.close()
        assert beats.at == []

    run_virtually(scenario)


@pytest.mark.parametrize("step_seconds", [-HOUR, HOUR, -1.5, 1.5, 50 * 365 * 24 * HOUR])
@pytest.mark.parametrize("after_seconds", [10.0, 12.2, 14.999])
def test_a_step_of_the_wall_clock_neither_stops_nor_multiplies_runs(
    step_seconds: float, after_seconds: float
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        beats, hourly, staggered = Beats(clock), Beats(clock), Beats(clock)
        async with started(clock) as schedule:
            schedule.every("beats", 5.0, beats)
            schedule.every("hourly", HOUR, hourly)
            schedule.every("staggered", 5.0, staggered, first_after_seconds=2.5)
            await asyncio.sleep(after_seconds)
            clock.step_seconds += step_seconds
            await asyncio.sleep(103 - after_seconds)
        # 21 runs were due of each; a step forward may bring one more before its time.
        assert len(beats.at) in {21, 22}
        assert len(staggered.at) in {21, 22}
        assert len(hourly.at) in {1, 2}
        for at in (beats.at, staggered.at):
            assert max(later - earlier for earlier, later in pairwise(at)) <= 6.01
        # Afterwards each has its own moment as before.
        assert [beat for beat in beats.at if beat > 30] == [*range(35, 101, 5)]
        assert [beat for beat in staggered.at if beat > 30] == [32.5 + 5 * turn for turn in range(15)]

    run_virtually(scenario)


def test_many_steps_are_followed_one_after_the_other() -> None:
    async def scenario(clock: VirtualClock) -> None:
        beats = Beats(clock)
        async with started(clock) as schedule:
            schedule.every("beats", 5.0, beats)
            for step in (-HOUR, HOUR, -7.0, -HOUR, 3 * HOUR, -0.5):
                await asyncio.sleep(20)
                clock.step_seconds += step
        assert len(beats.at) >= 20
        assert max(later - earlier for earlier, later in pairwise(beats.at)) <= 6.01

    run_virtually(scenario)


def test_a_job_that_hangs_is_never_under_way_twice_and_costs_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = 0

    async def hang() -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(52)

    async def scenario(clock: VirtualClock) -> None:
        beats = Beats(clock)
        async with started(clock) as schedule:
            schedule.every("hangs", 5.0, hang)
            schedule.every("beats", 5.0, beats)
            await asyncio.sleep(50.5)
            assert begun == 1
            assert len(beats.at) == 11
            await asyncio.sleep(5)
            assert begun == 2

    with caplog.at_level(logging.WARNING):
        run_virtually(scenario)
    # APScheduler itself would say so each period.
    assert [record.getMessage() for record in caplog.records] == [
        "hangs is not over after 5 s; it is not begun anew before"
    ]


def test_a_failing_job_is_told_once_until_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = [OSError("first"), OSError("second"), None, None, OSError("third"), OSError("fourth")]

    async def job() -> None:
        outcome = outcomes.pop(0) if outcomes else None
        if outcome is not None:
            raise outcome

    async def scenario(clock: VirtualClock) -> None:
        async with started(clock) as schedule:
            schedule.every("job", 5.0, job)
            await asyncio.sleep(60)

    with caplog.at_level(logging.INFO, logger="rackwatt"):
        run_virtually(scenario)
    told = [record.getMessage() for record in caplog.records if record.name == "rackwatt.schedule"]
    assert told == ["job failed; it is tried again every 5 s", "job works again"] * 2
    assert "first" in caplog.text
    assert "second" not in caplog.text


def test_a_schedule_is_closed_while_jobs_run_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    ended = False

    async def long() -> None:
        nonlocal ended
        try:
            await asyncio.sleep(HOUR)
        finally:
            ended = True

    async def scenario(clock: VirtualClock) -> None:
        async with started(clock) as schedule:
            schedule.every("long", 5.0, long)
            await asyncio.sleep(0.1)
        assert ended
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    with caplog.at_level(logging.WARNING):
        run_virtually(scenario)
    assert caplog.records == []


def test_a_job_that_will_not_end_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn() -> None:
        for _ in range(100):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue

    async def scenario(clock: VirtualClock) -> None:
        async with started(clock) as schedule:
            schedule.every("stubborn", 5.0, stubborn)
            await asyncio.sleep(0.1)
            begun = clock.seconds
        assert clock.seconds - begun == pytest.approx(2.0, abs=0.01)
        await asyncio.sleep(200)

    run_virtually(scenario)
    assert "job stubborn did not end within 2 s and is left behind" in caplog.text


def test_a_job_may_end_itself_and_another_may_take_its_name() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with started(clock) as schedule:
            runs = 0

            async def once() -> None:
                nonlocal runs
                runs += 1
                await schedule.end("job")

            schedule.every("job", 5.0, once)
            await asyncio.sleep(20)
            assert runs == 1
            beats = Beats(clock)
            schedule.every("job", 5.0, beats)
            await schedule.end("no such job")
            await asyncio.sleep(6)
            assert len(beats.at) == 2

    run_virtually(scenario)


def test_closing_twice_or_before_the_start_is_nothing() -> None:
    async def scenario(clock: VirtualClock) -> None:
        schedule = Schedule(clock.monotonic, clock.wall_ns)
        await schedule.close()
        schedule.start()
        await schedule.close()
        await schedule.close()

    run_virtually(scenario)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda schedule, job: schedule.every("job", 5.0, job), "there is a job 'job' already"),
        (
            lambda schedule, job: schedule.every("other", 0.0, job),
            "every 0.0 s, first after 0.0 s is no time",
        ),
        (
            lambda schedule, job: schedule.every("other", 1.0, job, first_after_seconds=-1.0),
            "every 1.0 s, first after -1.0 s is no time",
        ),
    ],
)
def test_what_cannot_be_scheduled_is_refused(
    add: Callable[[Schedule, subject.Job], None], message: str
) -> None:
    async def job() -> None:
        raise AssertionError

    schedule = Schedule()
    schedule.every("job", 5.0, job)
    with pytest.raises(ValueError, match=message):
        add(schedule, job)


def test_on_real_clocks_jobs_run_too() -> None:
    async def scenario() -> None:
        done = asyncio.Event()
        runs = 0

        async def job() -> None:
            nonlocal runs
            runs += 1
            if runs == 3:
                done.set()

        schedule = Schedule()
        schedule.every("job", 0.05, job)
        schedule.start()
        try:
            async with asyncio.timeout(15):
                await done.wait()
        finally:
            await schedule.close()

    asyncio.run(scenario())
