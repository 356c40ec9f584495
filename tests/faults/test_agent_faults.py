"""The agent over a reader that hangs, and readers whose agent is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.agent import Agent, Naming
from collector.model import Snapshot
from collector.sources.nvml.options import ReaderOptions
from collector.sources.process import ReaderProcess
from collector.state import StateStore
from tests.agent_http_client import run
from tests.faults.processes import QUICK, Pidfd, command
from tests.readings import HOST, shown

REPOSITORY = Path(__file__).resolve().parents[2]


class Kept:
    """An exporter that keeps every Snapshot."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def publish(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    async def start(self) -> None:
        """Nothing is needed."""

    async def close(self) -> None:
        """Nothing is held."""


def story_of(words: list[str], enough: Callable[[list[Snapshot]], bool]) -> list[Snapshot]:
    """Run an agent with short limits until its Snapshots tell enough."""
    kept = Kept()

    async def scenario() -> None:
        agent = Agent(
            ReaderProcess(words, ReaderOptions, QUICK),
            [kept],
            naming=Naming("r01", "n03"),
            host=HOST,
            store=StateStore(None),
            deadlines=QUICK,
        )
        stop = asyncio.Event()
        task = asyncio.create_task(agent.run(stop))
        while not enough(kept.snapshots):  # noqa: ASYNC110 -- nothing tells of it, and the test is bounded
            await asyncio.sleep(0.005)
        stop.set()
        await task

    run(scenario)
    return kept.snapshots


PRESENT = ("node_gpus_present", ())
AGE = ("agent_sample_age_seconds", ("fast",))


def test_data_grow_stale_are_withheld_and_come_back_with_a_new_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("collector.agent._SLOW_TICK_SECONDS", 0.02)
    monkeypatch.setattr("collector.sources.process._BACKOFF_SECONDS", (0.01,))
    monkeypatch.setattr("collector.sources.process._GRACE_SECONDS", 0.1)

    def recovered(snapshots: list[Snapshot]) -> bool:
        return bool(snapshots) and snapshots[-1].nvml_up and shown(snapshots[-1])[RESTARTS] == 1

    snapshots = story_of(command("hangs_once", tmp_path / "marker"), recovered)
    for snapshot in snapshots:
        values, age = shown(snapshot), snapshot.ages_seconds["fast"]
        assert values["agent_nvml_up", ()] == int(snapshot.nvml_up)
        assert values.get(AGE) == age
        # Values are served exactly as long as they are young enough.
        assert (values.get(PRESENT) == 4) == (age is not None and age <= QUICK.withhold) == snapshot.nvml_up
    stale = [each for each in snapshots if (each.ages_seconds["fast"] or 0) > QUICK.stale and each.nvml_up]
    assert stale, "between stale and withheld the age is exported beside the values"
    hung = [each for each in snapshots if each.reason.startswith("the reader has brought nothing for")]
    assert hung, "then the age alone"
    assert max(each.ages_seconds["fast"] or 0 for each in hung) >= QUICK.withhold
    gone = [each for each in snapshots if each.reason.startswith("the reader did not answer for")]
    assert gone, "then it was ended"
    assert all(each.ages_seconds["fast"] is None for each in gone)
    told = caplog.text
    assert told.count("its data are stale") == 1
    assert (
        told.count("the reader did not answer for 1 s: a call to the NVIDIA driver hangs; the reader is") == 1
    )


RESTARTS = ("agent_reader_restarts_total", ())

PARENT = """
import asyncio, sys
from collector.deadlines import Deadlines
from collector.sources.nvml.options import ReaderOptions
from collector.sources.process import ReaderProcess

async def main():
    source = ReaderProcess([sys.executable, "-c", sys.argv[1]], ReaderOptions, Deadlines())
    def take(message):
        print(source.process_id, flush=True)
    await source.start(take)
    while source.process_id is None:
        await asyncio.sleep(0.01)
    print(source.process_id, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""
"""An agent in miniature, which prints the id of its reader when that is started, and with each message."""

READS = """
from collector.errors import NvmlUnavailableError
from collector.sources.nvml import child

def missing():
    raise NvmlUnavailableError("library_not_found", "no library")

raise SystemExit(child.main(missing))
"""
HANGS = """
import sys, time
from collector.sources.nvml import child

def hang():
    sys.stderr.write("hanging\\n")
    sys.stderr.flush()
    time.sleep(3600)

raise SystemExit(child.main(hang))
"""


@contextmanager
def parent_of(reader: str) -> Iterator[subprocess.Popen[str]]:
    """Start an agent in miniature; end it by pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, reader],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def next_line(stream: object) -> str:
    """Read a line; what is started here writes one soon or ends."""
    return str(stream.readline()).strip()  # type: ignore[attr-defined]  # a text pipe


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_reader_dies_with_its_agent(number: signal.Signals) -> None:
    with parent_of(READS) as parent:
        next_line(parent.stdout)
        reader = Pidfd(int(next_line(parent.stdout)))  # its first message: it is well under way
        assert not reader.ended()
        parent.send_signal(number)
        assert reader.ended(10)
        reader.close()


def test_a_reader_that_hangs_in_a_call_dies_with_its_agent() -> None:
    with parent_of(HANGS) as parent:
        reader = Pidfd(int(next_line(parent.stdout)))
        assert next_line(parent.stderr) == "hanging"
        parent.kill()
        assert reader.ended(10)
        reader.close()


def test_a_reader_outlives_a_ctrl_c_that_reaches_the_terminal() -> None:
    with parent_of(READS) as parent:
        next_line(parent.stdout)
        reader = Pidfd(int(next_line(parent.stdout)))
        signal.pidfd_send_signal(reader.descriptor, signal.SIGINT)
        # The agent decides when it ends: another message comes.
        assert int(next_line(parent.stdout)) == reader.pid
        assert not reader.ended()
        reader.close()


def test_a_reader_without_an_agent_says_so_and_ends() -> None:
    result = subprocess.run(
        [sys.executable, "-c", READS],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr == (
        "rackwatt reader: the agent closed the pipe before it sent the reader's options\n"
    )
    assert result.stdout == ""
