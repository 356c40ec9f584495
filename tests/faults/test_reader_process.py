"""ReaderProcess over real processes that hang, die, flood, lie and do not listen."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from pathlib import Path

import pytest

from collector.errors import RackwattError
from collector.readings import Layout, Reading
from collector.sources import process
from collector.sources.nvml.options import ReaderOptions
from collector.sources.process import ReaderProcess
from tests.agent_http_client import Clock, run
from tests.faults.processes import CLOSE_SECONDS, QUICK, Watched, command, do_nothing, watched

pytestmark = pytest.mark.usefixtures("_short_pauses")

BACKOFF = process._BACKOFF_SECONDS
"""As it is without the fixture."""


def test_a_reader_that_answers_is_left_alone_and_ends_when_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("collector.sources.process._GRACE_SECONDS", 20.0)

    async def scenario() -> None:
        async with watched(command("answers"), kill=do_nothing) as watch:
            await watch.until(lambda: len(watch.readings) >= 20)
            await watch.source.close()
            (process,) = watch.processes.values()
            assert process.ended()
            assert isinstance(watch.messages[0], Layout)
            assert watch.reasons == []
            assert watch.source.restarts == 0
            assert watch.source.process_id is None
            delivered = len(watch.messages)
            await asyncio.sleep(0.05)
            assert len(watch.messages) == delivered

    run(scenario)


def test_a_reader_that_hangs_is_ended_and_started_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watched(command("hangs_once", tmp_path / "marker")) as watch:
            await watch.until(lambda: len(watch.reasons) == 1)
            silent_for = time.monotonic() - watch.readings[-1].taken_at
            assert silent_for >= QUICK.restart
            assert watch.reasons == ["the reader did not answer for 1 s: a call to the NVIDIA driver hangs"]
            await watch.until(lambda: len(watch.readings) >= 20)
            assert (watch.source.restarts, watch.layouts) == (1, 2)
            hung, well = watch.processes.values()
            assert hung.ended()
            assert not well.ended()

    run(scenario)


def test_the_start_may_take_longer_than_a_reading() -> None:
    async def scenario() -> None:
        async with watched(command("begins_late", QUICK.restart + 0.3)) as watch:
            await watch.until(lambda: len(watch.readings) >= 5)
            assert watch.source.restarts == 0

    run(scenario)


def test_a_start_that_never_ends_is_ended() -> None:
    async def scenario() -> None:
        deadlines = type(QUICK)(restart=30.0, startup=0.5)
        async with watched(command("says_nothing"), deadlines=deadlines) as watch:
            await watch.until(lambda: watch.source.restarts >= 1)
            assert watch.reasons[0].startswith("the reader did not answer for 0 s")

    run(scenario)


def test_a_reader_that_needs_a_new_process_gets_one_and_its_reason_stands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with watched(command("says_why_and_exits", 75)) as watch:
            await watch.until(lambda: watch.source.restarts >= 3)
            assert set(watch.reasons) == {
                "the NVML library and the loaded kernel driver have different versions"
            }

    run(scenario)
    said = [record.levelno for record in caplog.records if "started anew" in record.getMessage()]
    assert said[0] == logging.WARNING
    assert set(said[1:]) == {logging.DEBUG}, "what lasts is said once"


@pytest.mark.parametrize(
    ("how", "argument", "reason"),
    [
        ("says_why_and_exits", 1, "the reader ended with status 1"),
        ("says_why_and_exits", 0, "the reader ended with status 0"),
        ("is_killed", 11, "the reader was ended by signal 11 (Segmentation fault)"),
        ("is_killed", 35, "the reader was ended by signal 35 (Real-time signal 1)"),
        ("sends_garbage", "ffffffff00", "a frame of 4294967295 bytes is longer than 16777216"),
        ("sends_garbage", "00000001c1", "the reader sent what is no message"),
        ("sends_garbage", "00000003810180", "the reader sent what is no message"),
        ("sends_half_a_frame", "", "the reader did not answer for 1 s"),
        ("closes_its_pipe", "", "the reader closed its pipe"),
    ],
)
def test_whatever_ends_a_reader_is_said_and_it_is_started_anew(
    how: str, argument: object, reason: str
) -> None:
    async def scenario() -> None:
        async with watched(command(how, argument)) as watch:
            await watch.until(lambda: watch.source.restarts >= 1 and len(watch.processes) >= 2)
            assert any(said.startswith(reason) for said in watch.reasons), watch.reasons
            first, *_ = watch.processes.values()
            assert first.ended(5)

    run(scenario)


def test_a_child_of_the_reader_that_holds_its_pipe_is_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.sources.process._BACKOFF_SECONDS", (3600.0,))

    async def scenario() -> None:
        async with watched(command("leaves_a_child")) as watch:
            await watch.until(lambda: watch.reasons != [])
            assert watch.reasons[0].startswith("the reader did not answer for 1 s")
            assert watch.source.process_id is None
            await watch.source.close()
            (reading,) = watch.readings
            (batch,) = reading.batches
            os.kill(int(batch.values[0] or 0), signal.SIGKILL)
            await asyncio.sleep(0.1)  # asyncio sees the ends of the pipes

    run(scenario)


def test_a_program_that_is_not_there_is_said_and_tried_again() -> None:
    async def scenario() -> None:
        async with watched(["/nonexistent/rackwatt-reader"]) as watch:
            await watch.until(lambda: watch.source.restarts >= 2)
            assert "the reader could not be started" in watch.reasons[0]
            assert "/nonexistent/rackwatt-reader" in watch.reasons[0]

    run(scenario)


def test_what_the_agent_cannot_use_ends_the_reader_and_not_the_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        source = ReaderProcess(command("answers"), ReaderOptions, QUICK)
        watch = Watched(source)

        def take(message: Layout | Reading) -> None:
            watch.take(message)
            if isinstance(message, Layout):
                raise RackwattError("no such metric")

        await source.start(take)
        await watch.until(lambda: source.restarts >= 2)
        await source.close()
        assert watch.reasons[0] == "what the reader sent cannot be used: no such metric"
        assert watch.readings == []
        for child in watch.processes.values():
            assert child.ended(5)
            child.close()

    run(scenario)
    assert "what the reader sent cannot be used" in caplog.text


def test_a_reader_that_floods_keeps_the_agent_from_nothing() -> None:
    async def scenario() -> None:
        async with watched(command("floods")) as watch:
            watch.messages = _Counted()
            await watch.until(lambda: len(watch.messages) >= 5000)
            turns = 0
            before = len(watch.messages)
            while len(watch.messages) < before + 5000:
                await asyncio.sleep(0)
                turns += 1
            assert turns >= 1000, "others get their turn between messages"
            assert watch.source.restarts == 0
            async with asyncio.timeout(CLOSE_SECONDS):
                await watch.source.close()
            (process,) = watch.processes.values()
            assert process.ended()

    run(scenario)


class _Counted(list[Layout | Reading]):
    """Counts messages without keeping them."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def append(self, _message: Layout | Reading) -> None:
        self._count += 1

    def __len__(self) -> int:
        return self._count


def test_flooding_readers_that_are_ended_leave_no_descriptors_behind() -> None:
    async def scenario() -> None:
        def refuse(_message: Layout | Reading) -> None:
            raise ValueError("too much")

        source = ReaderProcess(command("floods"), ReaderOptions, QUICK)
        watch = Watched(source)
        await source.start(lambda message: refuse(message) if isinstance(message, Layout) else None)
        await watch.until(lambda: source.restarts >= 1)
        before = len(os.listdir("/proc/self/fd")) - len(watch.processes)
        await watch.until(lambda: source.restarts >= 5)
        after = len(os.listdir("/proc/self/fd")) - len(watch.processes)
        assert after <= before + 3, "the pipes of the one that runs now, and nothing else"
        await source.close()
        for child in watch.processes.values():
            assert child.ended(5)
            child.close()

    run(scenario)


def test_readers_that_cannot_be_ended_are_left_behind_and_two_are_enough(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("collector.sources.process._KILL_SECONDS", 0.2)
    monkeypatch.setattr("collector.sources.process._ABANDONED_RECHECK_SECONDS", 0.05)

    async def scenario() -> None:
        async with watched(command("hangs_after", 1), kill=do_nothing) as watch:
            await watch.until(lambda: any("no further one is started" in each for each in watch.reasons))
            first, second = watch.processes
            assert watch.reasons[-1] == (
                f"2 readers hang in the NVIDIA driver and cannot be ended (process ids {first}, {second}); "
                "no further one is started; the node needs a reboot"
            )
            said = len(watch.reasons)
            await watch.until(lambda: len(watch.reasons) >= said + 3)
            assert set(watch.reasons[said:]) == {watch.reasons[-1]}, "it goes on saying so, and starts none"
            assert len(watch.processes) == 2
            assert watch.source.restarts == 2
            # A call that comes back after all lets its process die, and there is room again.
            watch.processes[first].kill()
            await watch.until(lambda: len(watch.processes) == 3)
            async with asyncio.timeout(CLOSE_SECONDS):
                await watch.source.close()

    run(scenario)
    assert "cannot be ended: it hangs in the NVIDIA driver and is left behind" in caplog.text


def test_the_pauses_grow_and_begin_again_after_a_minute_of_health(monkeypatch: pytest.MonkeyPatch) -> None:
    # A driver that is being reloaded is back within seconds, a broken one never.
    monkeypatch.setattr("collector.sources.process._BACKOFF_SECONDS", BACKOFF)
    pauses: list[float] = []
    clock = Clock()
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    def options() -> ReaderOptions:
        clock.seconds += 61 if len(pauses) == 7 else 1  # the eighth reader works for a minute
        return ReaderOptions()

    async def scenario() -> None:
        source = ReaderProcess(["/bin/true"], options, QUICK, monotonic=clock)
        await source.start(lambda _message: None)
        while len(pauses) < 10:
            await sleep(0.005)
        await source.close()

    monkeypatch.setattr("collector.sources.process.asyncio.sleep", noted)
    run(scenario)
    assert pauses[:10] == [1.0, 2.0, 5.0, 10.0, 30.0, 30.0, 30.0, 0.0, 1.0, 2.0]


def test_an_agent_that_was_held_up_does_not_blame_its_reader() -> None:
    async def scenario() -> None:
        async with watched(command("answers")) as watch:
            await watch.until(lambda: len(watch.readings) >= 5)
            before = len(watch.readings)
            time.sleep(QUICK.restart + 0.5)  # noqa: ASYNC251 -- as on a machine under memory pressure
            await watch.until(lambda: len(watch.readings) >= before + 5)
            assert watch.reasons == []
            assert watch.source.restarts == 0

    run(scenario)
