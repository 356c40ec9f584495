"""Closing a ReaderProcess: within seconds, whatever its reader does, and with no process left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collector.sources.nvml.options import ReaderOptions
from collector.sources.process import ReaderProcess
from tests.agent_http_client import run
from tests.faults.processes import CLOSE_SECONDS, QUICK, Watched, command, do_nothing, watched

pytestmark = pytest.mark.usefixtures("_short_pauses")


@pytest.mark.parametrize(
    "how",
    ["answers", "hangs_after", "says_nothing", "floods", "ignores_everything", "sends_half_a_frame"],
)
def test_closing_is_bounded_whatever_the_reader_does_and_nothing_is_left(how: str) -> None:
    async def scenario() -> None:
        async with watched(command(how, 3 if how == "hangs_after" else "")) as watch:
            enough = 0 if how == "says_nothing" else 1
            await watch.until(lambda: len(watch.messages) >= enough and watch.source.process_id is not None)
            async with asyncio.timeout(CLOSE_SECONDS):
                await watch.source.close()
            for child in watch.processes.values():
                assert child.ended()
            assert watch.source.process_id is None

    run(scenario)


def test_closing_at_once_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = asyncio.create_subprocess_exec

    async def noted(*words: str, **options: int) -> asyncio.subprocess.Process:
        process = await start(*words, **options)  # type: ignore[arg-type]  # passed on as they come
        started.append(process.pid)
        return process

    monkeypatch.setattr("collector.sources.process.asyncio.create_subprocess_exec", noted)

    async def scenario() -> None:
        for turns in range(6):
            source = ReaderProcess(command("ignores_everything"), ReaderOptions, QUICK)
            await source.start(lambda _message: None)
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(CLOSE_SECONDS):
                await source.close()

    run(scenario)
    for pid in started:
        assert not Path(f"/proc/{pid}").exists()


def test_closing_before_starting_and_twice_does_nothing() -> None:
    async def scenario() -> None:
        source = ReaderProcess(command("answers"), ReaderOptions, QUICK)
        await source.close()
        await source.start(lambda _message: None)
        await source.close()
        await source.close()

    run(scenario)


def test_closing_while_a_hung_reader_is_being_ended_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.sources.process._GRACE_SECONDS", 1.0)

    async def scenario() -> None:
        source = ReaderProcess(command("hangs_after", 1), ReaderOptions, QUICK)
        watch = Watched(source)
        await source.start(watch.take)
        await watch.until(lambda: len(watch.readings) == 1)
        await asyncio.sleep(QUICK.restart + 0.5)  # by now it is within its grace
        assert watch.reasons == []
        (process,) = watch.processes.values()
        assert not process.ended()
        async with asyncio.timeout(CLOSE_SECONDS):
            await source.close()
        assert process.ended()
        process.close()

    run(scenario)


def test_closing_is_bounded_also_where_nothing_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.sources.process._ABANDONED_RECHECK_SECONDS", 3600.0)
    monkeypatch.setattr("collector.sources.process._KILL_SECONDS", 0.2)

    async def scenario() -> None:
        async with watched(command("hangs_after", 1), kill=do_nothing) as watch:
            await watch.until(lambda: "no further one is started" in "".join(watch.reasons))
            async with asyncio.timeout(1):
                await watch.source.close()

    run(scenario)


def test_closing_while_a_reader_is_being_started_does_not_interrupt_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def fragile(*words: str, **options: int) -> asyncio.subprocess.Process:
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            await asyncio.Event().wait()  # as Python does: CPython issue 103847
        processes.append(await start(*words, **options))  # type: ignore[arg-type]  # passed on as they come
        return processes[-1]

    monkeypatch.setattr("collector.sources.process.asyncio.create_subprocess_exec", fragile)

    async def scenario() -> None:
        source = ReaderProcess(command("ignores_everything"), ReaderOptions, QUICK)
        await source.start(lambda _message: None)
        await asyncio.sleep(0.05)
        async with asyncio.timeout(CLOSE_SECONDS):
            await source.close()
        (process,) = processes
        assert process.returncode is not None

    run(scenario)
