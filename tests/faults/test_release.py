"""Releasing a ReaderProcess: within seconds, whatever its reader does, and without a process that is left."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from collector.agent import Agent, Naming
from collector.control import ControlSocket
from collector.errors import ConfigurationError
from collector.release import ReleaseSwitch
from collector.sources.nvml.options import ReaderOptions
from collector.sources.process import ReaderProcess
from collector.state import StateStore
from tests.agent_http_client import run
from tests.faults.processes import CLOSE_SECONDS, QUICK, Watched, command, do_nothing, watched
from tests.faults.test_agent_faults import Kept
from tests.readings import HOST

pytestmark = pytest.mark.usefixtures("_short_pauses")

REASON = "released for a test"


async def released(watch: Watched) -> None:
    """Release within the bound of closing."""
    async with asyncio.timeout(CLOSE_SECONDS):
        await watch.source.release(REASON)


@pytest.mark.parametrize(
    "how",
    ["answers", "hangs_after", "says_nothing", "floods", "ignores_everything", "sends_half_a_frame"],
)
def test_a_release_is_bounded_whatever_the_reader_does_and_no_process_is_left(how: str) -> None:
    async def scenario() -> None:
        async with watched(command(how, 3 if how == "hangs_after" else "")) as watch:
            enough = 0 if how == "says_nothing" else 1
            await watch.until(lambda: len(watch.messages) >= enough and watch.source.process_id is not None)
            watch.note_process()
            await released(watch)
            for child in watch.processes.values():
                assert child.ended()
            assert (watch.source.process_id, watch.source.held_by) == (None, "")
            before = len(watch.messages)
            await watch.until(lambda: len(watch.messages) >= before + 2)
            assert set(watch.reasons[-2:]) == {REASON}
            assert len(watch.processes) == 1, "no other reader was started"
            assert watch.source.restarts == 0

    run(scenario)


def test_a_reader_that_cannot_be_ended_is_said_until_it_ends_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("collector.sources.process._KILL_SECONDS", 0.2)
    monkeypatch.setattr("collector.sources.released._SAY_SECONDS", 0.02)

    async def scenario() -> None:
        async with watched(command("ignores_everything"), kill=do_nothing) as watch:
            await watch.until(lambda: watch.readings != [])
            await released(watch)
            (left,) = watch.processes
            held = f"readers that hang in it and cannot be ended (process ids {left})"
            assert watch.source.held_by == held
            await watch.until(
                lambda: watch.reasons != [] and watch.reasons[-1] == f"{REASON}; held by {held}"
            )
            watch.processes[left].kill()
            await watch.until(lambda: watch.reasons[-1] == REASON)
            assert watch.source.held_by == ""

    run(scenario)


def test_a_release_in_the_pause_before_a_restart_starts_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.sources.process._BACKOFF_SECONDS", (0.3,))

    async def scenario() -> None:
        async with watched(command("is_killed", 11)) as watch:
            await watch.until(lambda: watch.reasons != [])
            restarts = watch.source.restarts
            await released(watch)
            await asyncio.sleep(0.6)
            assert (watch.source.restarts, watch.source.process_id) == (restarts, None)

    run(scenario)


def test_a_release_while_the_reader_is_being_started_leaves_no_process() -> None:
    async def scenario() -> None:
        for turns in range(6):
            source = ReaderProcess(command("ignores_everything"), ReaderOptions, QUICK)
            watch = Watched(source)
            await source.start(watch.take)
            for _ in range(turns):
                await asyncio.sleep(0)
            watch.note_process()
            await released(watch)
            assert source.process_id is None
            await source.resume()
            await watch.until(lambda: watch.readings != [])  # noqa: B023 -- awaited within the turn
            async with asyncio.timeout(CLOSE_SECONDS):
                await source.close()
            for child in watch.processes.values():
                assert child.ended()
                child.close()

    run(scenario)


def test_a_release_whose_caller_is_cancelled_is_carried_out() -> None:
    async def scenario() -> None:
        async with watched(command("ignores_everything")) as watch:
            await watch.until(lambda: watch.readings != [])
            task = asyncio.create_task(watch.source.release(REASON))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert watch.source.process_id is None
            await watch.until(lambda: watch.reasons == [REASON])

    run(scenario)


def test_closing_while_a_release_waits_for_a_hung_reader_is_bounded() -> None:
    async def scenario() -> None:
        async with watched(command("ignores_everything")) as watch:
            await watch.until(lambda: watch.readings != [])
            task = asyncio.create_task(watch.source.release(REASON))
            await asyncio.sleep(0.01)
            async with asyncio.timeout(CLOSE_SECONDS):
                await watch.source.close()
            await task
            count = len(watch.messages)
            await asyncio.sleep(0.05)
            assert len(watch.messages) == count
            (child,) = watch.processes.values()
            assert child.ended()

    run(scenario)


class Running:
    """An agent over a reader process, with its control."""

    def __init__(self, words: list[str], path: Path) -> None:
        self.kept = Kept()
        self.source = ReaderProcess(words, ReaderOptions, QUICK)
        self.switch = ReleaseSwitch(self.source)
        self.stop = asyncio.Event()
        self.agent = Agent(
            self.source,
            [self.kept],
            naming=Naming("r01", "n03"),
            host=HOST,
            store=StateStore(None),
            deadlines=QUICK,
            control=ControlSocket(path, self.switch),
        )
        self.task = asyncio.create_task(self.agent.run(self.stop))

    async def until_up(self, *, up: bool) -> None:
        """Wait for a Snapshot with or without data."""
        while not self.kept.snapshots or self.kept.snapshots[-1].nvml_up is not up:
            assert not self.task.done()
            await asyncio.sleep(0.005)

    async def end(self) -> None:
        """Stop as SIGTERM does."""
        self.stop.set()
        async with asyncio.timeout(8):
            await self.task


def test_an_agent_ends_while_it_is_released_and_its_successor_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    # In proportion to QUICK, as 1 s is to the agent's own limit of 2 s.
    monkeypatch.setattr("collector.sources.released._SAY_SECONDS", QUICK.stale / 2)
    path = tmp_path / "agent.sock"

    async def scenario() -> None:
        first = Running(command("answers"), path)
        await first.until_up(up=True)
        await first.switch.release(3600)
        await first.until_up(up=False)
        assert first.kept.snapshots[-1].reason.startswith("released by `rackwatt release` at ")
        count = len(first.kept.snapshots)
        while len(first.kept.snapshots) < count + 3:  # noqa: ASYNC110 -- bounded by `run`
            await asyncio.sleep(0.01)
        await first.end()
        assert not path.exists()
        second = Running(command("answers"), path)
        await second.until_up(up=True)
        await second.end()

    run(scenario)
    assert caplog.text.count("NVML cannot be read: released by") == 1, "it is said once"
    assert "silent" not in caplog.text
    assert "Traceback" not in caplog.text


def test_an_agent_that_ends_with_a_resume_on_its_way_starts_no_reader(tmp_path: Path) -> None:
    async def scenario() -> None:
        running = Running(command("ignores_everything"), tmp_path / "agent.sock")
        await running.until_up(up=True)
        orders = [asyncio.create_task(running.switch.release()), asyncio.create_task(running.switch.resume())]
        await asyncio.sleep(0.01)
        await running.end()
        await asyncio.gather(*orders)
        await asyncio.sleep(0.1)
        assert running.source.process_id is None

    run(scenario)


def test_a_second_agent_with_the_same_state_is_refused_and_starts_no_reader(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = Running(command("answers"), tmp_path / "agent.sock")
        await first.until_up(up=True)
        second = Running(command("answers"), tmp_path / "agent.sock")
        with pytest.raises(ConfigurationError, match="another agent runs with this state_dir"):
            await second.task
        assert second.source.process_id is None
        await first.end()

    run(scenario)
