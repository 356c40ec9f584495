"""What every Source promises (collector.protocols.Source). Another source joins by one row."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collector import profiles
from collector.catalog import BY_NAME
from collector.cli import reader as reader_command
from collector.cli.simulation import begin
from collector.deadlines import Deadlines
from collector.errors import NvmlUnavailableError
from collector.protocols import Source
from collector.readings import Layout, Message, Reading
from collector.simulator import SimulatedNode
from collector.sources.inline import InlineSource
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from collector.sources.process import ReaderProcess
from tests.agent_http_client import run
from tests.faults.processes import QUICK, command

CLOSE_SECONDS = 5.0
"""Bound of `close` for any source; it is the agent's, too."""
PATIENT = Deadlines()
"""The agent's own limits: no machine is so loaded that a reader which is well meets them."""
CADENCES = {"fast", "links", "slow"}


class HangingReader:
    """A reader whose step hangs until a test lets it go."""

    def __init__(self) -> None:
        self.stepping = threading.Event()
        self.released = threading.Event()

    def step(self, now: float) -> Sequence[Message]:
        self.stepping.set()
        self.released.wait()
        return [Reading(taken_at=now, generation=0, up=False, reason="released")]

    def close(self) -> None:
        """Nothing is held."""


class FailingReader:
    """A reader with a defect."""

    def step(self, now: float) -> Sequence[Message]:
        raise ZeroDivisionError(now)

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Made:
    """A source, and what lets go what it may leave hanging.

    Attributes:
        source: The source.
        hangs: Tells whether it has come to where it hangs.
        release: Lets a hanging thread end after the test.
    """

    source: Source
    hangs: Callable[[], bool] = lambda: True
    release: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Case:
    """One source under the contract.

    Attributes:
        name: Its name in the test's id.
        make: Makes one that reads; at least one series a Layout.
        make_unable: Makes one whose hardware cannot be read.
        make_hung: Makes one that hangs as it reads.
        make_restarting: Makes one that is started anew once, given a folder; None where nothing can be.
    """

    name: str
    make: Callable[[], Source]
    make_unable: Callable[[], Source]
    make_hung: Callable[[], Made]
    make_restarting: Callable[[Path], Source] | None = None


def inline() -> Source:
    node = SimulatedNode(profiles.load("gb300-nvl72"))
    return InlineSource(NvmlReader(lambda: NvmlLibrary(node.library), ReaderOptions()), 0.01)


def no_library() -> NvmlLibrary:
    raise NvmlUnavailableError("library_not_found", "the NVML library libnvidia-ml.so.1 cannot be loaded")


def hung_inline() -> Made:
    hanging = HangingReader()
    return Made(InlineSource(hanging, 0.01), hanging.stepping.is_set, hanging.released.set)


def process(*words: str, deadlines: Deadlines = PATIENT) -> ReaderProcess:
    return ReaderProcess(words, ReaderOptions, deadlines)


def hung_process() -> Made:
    source = process(*command("says_nothing"))
    return Made(source, lambda: source.process_id is not None)


def simulated_reader() -> Source:
    """Make the reader that the agent ships, in a process of its own, over a simulated node."""
    words = reader_command.command(begin("hgx-h100", "r01", 0, "decode", ()))
    return ReaderProcess(words, lambda: ReaderOptions(fast_seconds=0.05), PATIENT)


SOURCES = (
    Case(
        name="inline",
        make=inline,
        make_unable=lambda: InlineSource(NvmlReader(no_library, ReaderOptions()), 0.01),
        make_hung=hung_inline,
    ),
    Case(
        name="inline_with_a_defect",
        make=inline,
        make_unable=lambda: InlineSource(FailingReader(), 0.01),
        make_hung=hung_inline,
    ),
    Case(
        name="process",
        make=lambda: process(*command("answers")),
        make_unable=lambda: process(*command("says_why_and_exits", 75)),
        make_hung=hung_process,
        make_restarting=lambda folder: process(*command("hangs_once", folder / "started"), deadlines=QUICK),
    ),
    Case(
        name="process_over_a_simulated_node",
        make=simulated_reader,
        make_unable=lambda: process("/nowhere/rackwatt"),
        make_hung=hung_process,
    ),
)

every_source = pytest.mark.parametrize("case", SOURCES, ids=lambda case: case.name)


@dataclass
class Delivered:
    """What came, and on which thread."""

    messages: list[Message] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def __call__(self, message: Message) -> None:
        self.messages.append(message)
        self.threads.add(threading.get_ident())

    @property
    def readings(self) -> list[Reading]:
        return [message for message in self.messages if isinstance(message, Reading)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait; the scenario as a whole is bounded."""
        while not condition():  # noqa: ASYNC110  # a condition of any kind has no event
            await asyncio.sleep(0.005)

    async def readings_of(self, count: int) -> None:
        """Wait for so many readings."""
        await self.until(lambda: len(self.readings) >= count)


async def closed(source: Source) -> None:
    """Close within the bound."""
    async with asyncio.timeout(CLOSE_SECONDS):
        await source.close()


@every_source
def test_it_delivers_after_its_start_and_not_within(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        assert delivered.messages == []
        await delivered.readings_of(1)
        await closed(source)

    run(scenario)


@every_source
def test_a_layout_comes_first_and_every_reading_fits_the_last_one(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await delivered.readings_of(4)
        await closed(source)
        assert isinstance(delivered.messages[0], Layout)
        layout: Layout | None = None
        for message in delivered.messages:
            if isinstance(message, Layout):
                assert layout is None or message.generation > layout.generation
                layout = message
                continue
            assert layout is not None
            assert (message.up, message.reason) == (True, "")
            assert message.generation == layout.generation > 0
            assert len({batch.block for batch in message.batches}) == len(message.batches)
            for batch in message.batches:
                assert len(batch.values) == len(layout.blocks[batch.block].series)

    run(scenario)


@every_source
def test_series_are_of_the_catalogue_and_each_stands_once(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await delivered.readings_of(1)
        await closed(source)
        layout = delivered.messages[0]
        assert isinstance(layout, Layout)
        assert {block.cadence for block in layout.blocks} <= CADENCES
        series = [key for block in layout.blocks for key in block.series]
        assert len(series) == len(set(series)) > 0
        for name, labels in series:
            assert len(labels) == len(BY_NAME[name].label_names)

    run(scenario)


@every_source
def test_it_delivers_on_the_loops_thread_with_times_that_do_not_run_back(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        begin_seconds = time.monotonic()
        await source.start(delivered)
        await delivered.readings_of(4)
        await closed(source)
        assert delivered.threads == {threading.get_ident()}
        times = [reading.taken_at for reading in delivered.readings]
        assert times == sorted(times)
        assert begin_seconds <= times[0]
        assert times[-1] <= time.monotonic()

    run(scenario)


@every_source
def test_closing_ends_the_deliveries_and_may_be_repeated(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await delivered.readings_of(2)
        await closed(source)
        await asyncio.sleep(0.05)  # what was on its way has come
        count = len(delivered.messages)
        await closed(source)
        await asyncio.sleep(0.15)
        assert len(delivered.messages) == count

    run(scenario)


@every_source
def test_closing_what_was_not_started_does_nothing(case: Case) -> None:
    async def scenario() -> None:
        source = case.make()
        await closed(source)
        await closed(source)

    run(scenario)


@every_source
def test_closing_at_once_is_bounded(case: Case) -> None:
    async def scenario() -> None:
        source = case.make()
        await source.start(Delivered())
        await closed(source)

    run(scenario)


@every_source
def test_closing_is_bounded_while_a_reading_hangs(case: Case) -> None:
    async def scenario() -> None:
        made, delivered = case.make_hung(), Delivered()
        await made.source.start(delivered)
        await delivered.until(made.hangs)
        try:
            await closed(made.source)
            assert delivered.readings == []
        finally:
            made.release()
        await asyncio.sleep(0.05)
        assert delivered.readings == []

    run(scenario)


@every_source
def test_what_cannot_be_read_is_a_reading_with_its_reason(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make_unable(), Delivered()
        await source.start(delivered)
        await delivered.readings_of(1)
        await closed(source)
        for reading in delivered.readings:
            assert (reading.up, reading.generation, reading.batches) == (False, 0, ())
            assert len(reading.reason) > 10
            assert "\n" not in reading.reason

    run(scenario)


@every_source
def test_restarts_are_none_while_all_is_well(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        assert source.restarts == 0
        await source.start(delivered)
        await delivered.readings_of(3)
        assert source.restarts == 0
        await closed(source)
        assert source.restarts == 0

    run(scenario)


@pytest.mark.parametrize(
    "case", [case for case in SOURCES if case.make_restarting is not None], ids=lambda case: case.name
)
def test_a_restart_is_counted_and_begins_with_a_layout(case: Case, tmp_path: Path) -> None:
    make = case.make_restarting
    assert make is not None

    async def scenario() -> None:
        source, delivered = make(tmp_path), Delivered()
        await source.start(delivered)
        await delivered.until(lambda: source.restarts == 1)
        before = len(delivered.messages)
        last = delivered.messages[-1]
        assert isinstance(last, Reading)
        assert not last.up
        await delivered.until(lambda: len(delivered.messages) > before + 3)
        await closed(source)
        assert isinstance(delivered.messages[before], Layout)
        assert all(reading.up for reading in delivered.readings[-3:])
        assert source.restarts == 1

    run(scenario)
