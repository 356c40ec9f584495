"""What every Feed promises (collector.protocols.Feed). Another feed joins by one row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from collector import catalog, feeds
from collector.assembly import Assembly
from collector.catalog import BY_NAME
from collector.catalog.spec import Entity, Kind, Level, ValueType
from collector.model import HistogramSample, Series, Value
from collector.protocols import Feed
from collector.readings import SeriesKey
from collector.schedule import Schedule
from collector.sources.serving.feed import ServingFeed
from collector.sources.serving.fetch import Fetcher
from collector.sources.serving.normalize import Normalizer
from tests.agent_http_client import Clock, run
from tests.feeds import LLM_ROWS, ScriptedFeed
from tests.peer_agents import until
from tests.readings import LAYOUT, assembly_at, fed, reading
from tests.serving_endpoints import FakeEngine, answered, errors_of, listening, value_of

FIXTURES = Path(__file__).parent.parent / "serving_fixtures"

CLOSE_SECONDS = 5.0
"""Bound of `close` for any feed; it is the agent's, too."""

NOT_OF_FEEDS = frozenset({Entity.AGENT, Entity.GPU, Entity.NVLINK, Entity.RACK})
"""What the agent, its source and the rack service speak of."""

ORDER = [metric.name for metric in catalog.ALL]


@dataclass(frozen=True)
class Made:
    """A feed that was not started yet.

    Attributes:
        feed: The feed.
        settled: Tells whether it has come to have all that it will have.
        change: Makes what it reads have other series; None where it always has the same.
    """

    feed: Feed
    settled: Callable[[], bool]
    change: Callable[[], None] | None = None


Make = Callable[[Level], AbstractAsyncContextManager[Made]]


@dataclass(frozen=True)
class Case:
    """One feed under the contract.

    Attributes:
        name: Its name in the test's id.
        make: Makes one that reads, at a level of detail, with what it reads.
        make_unable: Makes one whose objects cannot be read; settled when it knows that.
        has_histograms: Whether it brings some at level `full`.
    """

    name: str
    make: Make
    make_unable: Make
    has_histograms: bool = False


@asynccontextmanager
async def scripted(level: Level) -> AsyncIterator[Made]:
    own = ScriptedFeed()
    own.given = tuple(row for row in own.given if row[0].metric.level <= level)
    own.given_histograms = tuple(each for each in own.given_histograms if each.metric.level <= level)
    yield Made(own, lambda: own.calls[:1] == ["start"], lambda: own.become(*own.given[1:]))


@asynccontextmanager
async def scripted_unable(_: Level) -> AsyncIterator[Made]:
    own = ScriptedFeed([(LLM_ROWS[0][0], 0), *((series, None) for series, _ in LLM_ROWS[1:])], [])
    yield Made(own, lambda: own.calls[:1] == ["start"])


@asynccontextmanager
async def serving(level: Level) -> AsyncIterator[Made]:
    engine = FakeEngine(answered(exposition("vllm-0.16")))
    async with listening(engine), serving_feed(engine, level) as own:
        yield Made(
            own,
            lambda: value_of(own, "llm_up") == 1,
            lambda: setattr(engine, "answer", answered(exposition("sglang-0.5.7"))),
        )


@asynccontextmanager
async def serving_unable(level: Level) -> AsyncIterator[Made]:
    engine = FakeEngine(answered(b"[]", Content_Type="application/json"))
    async with listening(engine), serving_feed(engine, level) as own:
        yield Made(own, lambda: errors_of(own, "decode-0") != {})


@asynccontextmanager
async def serving_feed(engine: FakeEngine, level: Level) -> AsyncIterator[ServingFeed]:
    schedule = Schedule()
    schedule.start()
    try:
        yield ServingFeed(
            [engine.endpoint(gpus=(0, 1))],
            fetcher=Fetcher(),
            make_reader=Normalizer,
            schedule=schedule,
            period_seconds=0.1,
            level=level,
        )
    finally:
        await schedule.close()


def exposition(name: str) -> bytes:
    return (FIXTURES / f"{name}.prom").read_bytes()


FEEDS = (
    Case(name="scripted", make=scripted, make_unable=scripted_unable, has_histograms=True),
    Case(name="serving", make=serving, make_unable=serving_unable, has_histograms=True),
)

every_feed = pytest.mark.parametrize("case", FEEDS, ids=lambda case: case.name)
every_level = pytest.mark.parametrize("level", Level, ids=lambda level: level.name.lower())


@asynccontextmanager
async def started(make: Make, level: Level = Level.FULL) -> AsyncIterator[Made]:
    """Start a feed, wait until it has what it will have, and close it at the end."""
    async with make(level) as made:
        await made.feed.start()
        try:
            await until(made.settled)
            yield made
        finally:
            await made.feed.close()


async def change(made: Made) -> None:
    """Let a feed come to have other series, if it can."""
    if made.change is not None:
        before = names(made.feed)
        made.change()
        await until(lambda: names(made.feed) != before)


def assert_well_formed(feed: Feed, level: Level) -> None:
    rows, histograms = list(feed.rows()), list(feed.histograms())
    for series, value in rows:
        assert_known(series.metric.name, series, level)
        assert series.metric.kind is not Kind.HISTOGRAM
        if value is not None:
            assert series.metric.minimum <= value <= series.metric.maximum, series
            assert series.metric.value_type is ValueType.FLOAT or isinstance(value, int), series
    for sample in histograms:
        assert_known(sample.metric.name, sample, level)
        assert len(sample.counts) == len(sample.bounds) + 1
    assert len({name_of(series) for series, _ in rows}) == len(rows)
    assert len({name_of(sample) for sample in histograms}) == len(histograms)
    places = [ORDER.index(sample.metric.name) for sample in histograms]
    assert places == sorted(places), "histograms are grouped by metric in the order of the catalogue"


def assert_known(name: str, own: Series | HistogramSample, level: Level) -> None:
    metric = BY_NAME[name]
    assert own.metric is metric
    assert metric.entity not in NOT_OF_FEEDS
    assert metric.level <= level, f"{name} is above {level.name}"
    assert len(own.labels) == len(metric.label_names)
    assert all(len(label) <= feeds.MAXIMUM_LABEL for label in own.labels)


def name_of(own: Series | HistogramSample) -> SeriesKey:
    return own.metric.name, own.labels


def names(feed: Feed) -> list[SeriesKey]:
    return [name_of(series) for series, _ in feed.rows()]


def assembled(feed: Feed) -> Assembly:
    assembly = assembly_at(Clock(), feeds=[feed])
    assembly.apply_layout(LAYOUT)
    assembly.apply_reading(reading(1000.0))
    return assembly


@every_feed
@every_level
def test_rows_are_of_the_catalogue_and_of_the_level(case: Case, level: Level) -> None:
    async def scenario() -> None:
        async with started(case.make, level) as made:
            assert_well_formed(made.feed, level)
            if level is Level.FULL:
                assert any(value is not None for _, value in made.feed.rows())
                assert bool(list(made.feed.histograms())) is case.has_histograms

    run(scenario)


@every_feed
def test_the_same_revision_is_the_same_series_in_the_same_order(case: Case) -> None:
    async def scenario() -> None:
        async with started(case.make) as made:
            feed = made.feed
            seen: dict[int, list[SeriesKey]] = {}
            for step in range(4):
                own = names(feed)
                assert seen.setdefault(feed.revision, own) == own
                await asyncio.sleep(0.01)
                if step == 1:
                    await change(made)

    run(scenario)


@every_feed
def test_what_it_has_stands_in_the_snapshot_and_in_the_one_after_a_change(case: Case) -> None:
    async def scenario() -> None:
        async with started(case.make) as made:
            assembly = assembled(made.feed)
            for again in (False, True):
                if again:
                    await change(made)
                expected = present(made.feed)
                snapshot = assembly.snapshot(0)
                assert fed(snapshot) == expected
                assert snapshot.histograms == tuple(made.feed.histograms())
                names_shown = [series.metric.name for series in snapshot.table.series]
                assert names_shown == sorted(names_shown, key=ORDER.index)

    run(scenario)


def present(feed: Feed) -> dict[SeriesKey, Value]:
    return {name_of(series): value for series, value in feed.rows() if value is not None}


@every_feed
def test_what_cannot_be_read_is_absent_and_no_error(case: Case) -> None:
    async def scenario() -> None:
        async with started(case.make_unable) as made:
            assert_well_formed(made.feed, Level.FULL)
            assert list(made.feed.histograms()) == []
            # What remains says that nothing is read, and how often that went wrong.
            assert all(
                value is None or series.metric.entity in (Entity.LLM_ENDPOINT, Entity.NODE)
                for series, value in made.feed.rows()
            )

    run(scenario)


@every_feed
def test_before_the_start_and_after_the_end_it_can_be_asked(case: Case) -> None:
    async def scenario() -> None:
        async with case.make(Level.FULL) as made:
            assert_well_formed(made.feed, Level.FULL)
            await made.feed.start()
            await until(made.settled)
            await made.feed.close()
            assert_well_formed(made.feed, Level.FULL)

    run(scenario)


@every_feed
def test_close_is_bounded_idempotent_and_needs_no_start(case: Case) -> None:
    async def scenario() -> None:
        for starts in (False, True):
            async with case.make(Level.FULL) as made, asyncio.timeout(CLOSE_SECONDS):
                if starts:
                    await made.feed.start()
                await made.feed.close()
                await made.feed.close()

    run(scenario)
