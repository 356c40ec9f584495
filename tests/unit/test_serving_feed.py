"""The feed of serving engines: which series there are, which values they have, and until when."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.catalog.engines import Role
from collector.catalog.llm import LLM
from collector.catalog.spec import Level
from collector.protocols import Feed
from collector.schedule import Schedule
from collector.sources.serving.endpoint import (
    EndpointReading,
    HistogramReading,
    ModelReading,
    ScrapeError,
    ServingEndpoint,
)
from collector.sources.serving.feed import ServingFeed
from collector.sources.serving.rows import histograms_of, labels_of, values_of
from collector.sources.serving.watched import Reader
from tests.agent_http_client import run
from tests.peer_agents import until
from tests.serving_endpoints import errors_of, reading, value_of
from tests.virtual_time import VirtualClock, run_virtually

HISTOGRAM = HistogramReading(bounds=(0.5, 1.0), counts=(1.0, 2.0, 4.0), sum=3.5)

Outcome = EndpointReading | Exception | float
"""What a scrape brings; a number is a scrape that hangs for so many seconds, and then brings `reading()`."""


def endpoint(name: str = "decode-0", **changes: object) -> ServingEndpoint:
    return ServingEndpoint(name=name, url="http://127.0.0.1:8000/metrics", **changes)  # type: ignore[arg-type] # fields by name


@dataclass
class Engines:
    """Plays the network and the readers of all endpoints.

    Attributes:
        brings: What scrapes of each endpoint bring, in order; the last one again and again.
        begun: When scrapes of each endpoint began.
    """

    clock: VirtualClock
    brings: dict[str, list[Outcome]]
    begun: dict[str, list[float]] = field(default_factory=dict)
    closed: bool = False

    async def fetch(self, endpoint: ServingEndpoint) -> bytes:
        self.begun.setdefault(endpoint.name, []).append(round(self.clock.seconds - 1000.0, 2))
        ahead = self.brings[endpoint.name]
        if isinstance(ahead[0], float):
            await asyncio.sleep(ahead[0])
        return b"body"

    async def close(self) -> None:
        self.closed = True

    def reader(self, endpoint: ServingEndpoint) -> Reader:
        engines = self

        class ScriptedReader:
            def read(self, body: bytes) -> EndpointReading:
                assert body == b"body"
                ahead = engines.brings[endpoint.name]
                outcome = ahead.pop(0) if len(ahead) > 1 else ahead[0]
                if isinstance(outcome, Exception):
                    raise outcome
                return reading() if isinstance(outcome, float) else outcome

        return ScriptedReader()


@asynccontextmanager
async def feeding(
    clock: VirtualClock, *endpoints: ServingEndpoint, level: Level = Level.STANDARD, **brings: list[Outcome]
) -> AsyncIterator[tuple[ServingFeed, Engines]]:
    """Scrape endpoints each 5 s; underscores in their names stand for hyphens."""
    engines = Engines(clock, {name.replace("_", "-"): outcomes for name, outcomes in brings.items()})
    schedule = Schedule(clock.monotonic, clock.wall_ns)
    feed = ServingFeed(
        endpoints,
        fetcher=engines,
        make_reader=engines.reader,
        schedule=schedule,
        level=level,
        monotonic=clock.monotonic,
    )
    schedule.start()
    await feed.start()
    try:
        yield feed, engines
    finally:
        await feed.close()
        await schedule.close()


def series_of(feed: Feed) -> list[tuple[str, ...]]:
    return [(series.metric.name, *series.labels) for series, _ in feed.rows()]


def refused(error: str = "connection") -> ScrapeError:
    return ScrapeError(error, f"the scrape failed with {error}")


# What there is.


def test_before_the_first_scrape_an_endpoint_is_down_and_every_error_is_zero() -> None:
    feed: Feed = ServingFeed(
        [endpoint(gpus=(0, 3))],
        fetcher=Engines(VirtualClock(), {}),
        make_reader=Engines(VirtualClock(), {}).reader,
        schedule=Schedule(),
    )
    rows = [((series.metric.name, *series.labels), value) for series, value in feed.rows()]
    # CONTRACTS §1 and §2; the closed set of errors stands in the catalogue.
    assert rows == [
        (("llm_up", "decode-0", "unknown", "engine"), 0),
        (("llm_gpu_info", "decode-0", "unknown", "engine", "0"), 1),
        (("llm_gpu_info", "decode-0", "unknown", "engine", "3"), 1),
        (("llm_scrape_seconds", "decode-0", "unknown", "engine"), None),
        (("llm_scrape_errors_total", "decode-0", "unknown", "engine", "connection"), 0),
        (("llm_scrape_errors_total", "decode-0", "unknown", "engine", "drained_json"), 0),
        (("llm_scrape_errors_total", "decode-0", "unknown", "engine", "malformed"), 0),
        (("llm_scrape_errors_total", "decode-0", "unknown", "engine", "status"), 0),
        (("llm_scrape_errors_total", "decode-0", "unknown", "engine", "timeout"), 0),
        (("llm_scrape_errors_total", "decode-0", "unknown", "engine", "too_large"), 0),
        (("llm_scrape_errors_total", "decode-0", "unknown", "engine", "unrecognized"), 0),
    ]
    assert list(feed.histograms()) == []


def test_a_good_scrape_brings_its_values_under_the_catalogues_labels() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(), decode_0=[reading(7.0, histogram=HISTOGRAM)]) as (feed, _):
            await asyncio.sleep(1)
            assert series_of(feed)[-2:] == [
                ("llm_tokens_total", "decode-0", "vllm", "llama", "engine", "generation"),
                ("llm_requests_running", "decode-0", "vllm", "llama", "engine"),
            ]
            assert value_of(feed, "llm_up") == 1
            assert value_of(feed, "llm_tokens_total") == 7
            (sample,) = feed.histograms()
            assert sample.metric.name == "llm_time_to_first_token_seconds"
            assert sample.labels == ("decode-0", "vllm", "llama", "engine")
            assert (sample.bounds, sample.counts, sample.sum) == ((0.5, 1.0), (1.0, 2.0, 4.0), 3.5)

    run_virtually(scenario)


def test_several_endpoints_stand_grouped_by_metric_in_the_order_of_the_catalogue() -> None:
    async def scenario(clock: VirtualClock) -> None:
        good: list[Outcome] = [reading(histogram=HISTOGRAM)]
        async with feeding(clock, endpoint("a"), endpoint("b"), a=good, b=good) as (feed, _):
            await asyncio.sleep(4)
            names = [series.metric.name for series, _ in feed.rows()]
            order = [metric.name for metric in LLM]
            assert names == sorted(names, key=order.index)
            assert [sample.labels[0] for sample in feed.histograms()] == ["a", "b"]

    run_virtually(scenario)


@pytest.mark.parametrize(
    ("configured", "recognized", "labels"),
    [
        (endpoint(), None, ("unknown", "engine")),
        (endpoint(engine="dynamo"), None, ("dynamo", "router")),
        (endpoint(role=Role.ROUTER), None, ("unknown", "router")),
        (endpoint(), reading(engine="dynamo", role=Role.ROUTER), ("dynamo", "router")),
        (endpoint(role=Role.ENGINE), reading(engine="dynamo", role=Role.ROUTER), ("dynamo", "engine")),
        (endpoint(engine="sglang"), reading(engine="sglang"), ("sglang", "engine")),
    ],
)
def test_engine_and_role_are_as_configured_else_as_recognized_else_as_usual(
    configured: ServingEndpoint, recognized: EndpointReading | None, labels: tuple[str, str]
) -> None:
    found = labels_of(configured, recognized)
    assert (found.engine, found.role) == labels


def test_histograms_are_of_the_standard_level() -> None:
    async def scenario(clock: VirtualClock) -> None:
        outcomes: list[Outcome] = [reading(histogram=HISTOGRAM)]
        async with feeding(clock, endpoint(), level=Level.CORE, decode_0=outcomes) as (feed, _):
            await asyncio.sleep(1)
            assert list(feed.histograms()) == []
            assert value_of(feed, "llm_tokens_total") == 7

    run_virtually(scenario)


# Until when it holds.


def test_a_failed_scrape_makes_values_absent_at_once_and_keeps_their_series() -> None:
    async def scenario(clock: VirtualClock) -> None:
        outcomes: list[Outcome] = [reading(histogram=HISTOGRAM), refused(), refused("timeout"), reading(9.0)]
        async with feeding(clock, endpoint(), decode_0=outcomes) as (feed, _):
            await asyncio.sleep(4)
            before, revision = series_of(feed), feed.revision
            await asyncio.sleep(2)
            assert value_of(feed, "llm_up") == 0
            assert value_of(feed, "llm_tokens_total") is None
            assert list(feed.histograms()) == []
            assert errors_of(feed, "decode-0") == {"connection": 1}
            await asyncio.sleep(5)
            assert errors_of(feed, "decode-0") == {"connection": 1, "timeout": 1}
            assert (series_of(feed), feed.revision) == (before, revision)
            await asyncio.sleep(5)
            assert value_of(feed, "llm_up") == 1
            assert value_of(feed, "llm_tokens_total") == 9
            assert (series_of(feed), feed.revision) == (before, revision)

    run_virtually(scenario)


def test_a_scrape_that_hangs_lets_values_grow_old_for_three_periods_only() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(), decode_0=[reading(), 60.0]) as (feed, engines):
            await asyncio.sleep(14.9)
            assert value_of(feed, "llm_up") == 1
            await asyncio.sleep(0.2)
            assert value_of(feed, "llm_up") == 0
            assert value_of(feed, "llm_tokens_total") is None
            assert engines.begun["decode-0"] == [0, 5]
            await asyncio.sleep(51)
            assert value_of(feed, "llm_up") == 1
            assert value_of(feed, "llm_scrape_seconds") == pytest.approx(60.0)

    run_virtually(scenario)


def test_endpoints_are_scraped_at_moments_of_their_own_and_one_that_hangs_costs_itself() -> None:
    async def scenario(clock: VirtualClock) -> None:
        endpoints = [endpoint("a"), endpoint("b"), endpoint("c"), endpoint("d")]
        async with feeding(clock, *endpoints, a=[reading()], b=[3600.0], c=[ValueError()], d=[reading()]) as (
            feed,
            engines,
        ):
            await asyncio.sleep(14)
            assert engines.begun == {
                "a": [0, 5, 10],
                "b": [1.25],
                "c": [2.5, 7.5, 12.5],
                "d": [3.75, 8.75, 13.75],
            }
            assert [value_of(feed, "llm_up", name) for name in "abcd"] == [1, 0, 0, 1]

    run_virtually(scenario)


def test_an_answer_that_reading_empties_is_read_once() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(), decode_0=[refused("drained_json")]) as (feed, engines):
            await asyncio.sleep(60)
            assert engines.begun == {"decode-0": [0]}
            assert errors_of(feed, "decode-0") == {"drained_json": 1}

    run_virtually(scenario)


def test_what_a_defect_interrupts_is_not_served_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(clock: VirtualClock) -> None:
        outcomes: list[Outcome] = [reading(), KeyError("llm_nonsense"), KeyError("llm_nonsense")]
        async with feeding(clock, endpoint(), decode_0=outcomes) as (feed, _):
            await asyncio.sleep(17)
            assert value_of(feed, "llm_up") == 0
            assert errors_of(feed, "decode-0") == {}

    run_virtually(scenario)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == [
        "scrape of decode-0 failed; it is tried again every 5 s"
    ]


# The series.


@pytest.mark.parametrize(
    ("later", "changes"),
    [
        (reading(8.0), False),
        (reading(histogram=HISTOGRAM), False),
        (reading(math.nan), False),
        (reading(model="mistral"), True),
        (reading(engine="sglang"), True),
        (EndpointReading("vllm", Role.ENGINE, ()), True),
        (EndpointReading("vllm", Role.ROUTER, reading().models), True),
    ],
)
def test_the_revision_rises_with_the_set_of_series_and_only_then(
    later: EndpointReading, changes: bool
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(), decode_0=[reading(), later]) as (feed, _):
            assert feed.revision == 0
            await asyncio.sleep(1)
            first, series = feed.revision, series_of(feed)
            assert first > 0
            await asyncio.sleep(5)
            assert (feed.revision > first) is changes
            assert (series_of(feed) != series) is changes

    run_virtually(scenario)


def test_counted_errors_go_on_under_the_recognized_engine() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(), decode_0=[refused(), reading()]) as (feed, _):
            await asyncio.sleep(6)
            assert value_of(feed, "llm_scrape_errors_total", "vllm", "connection") == 1

    run_virtually(scenario)


@pytest.mark.parametrize(("at_finish", "told"), [(True, 1), (False, 0)])
def test_when_tokens_count_is_told_by_endpoint(at_finish: bool, told: int) -> None:
    answer = replace(reading(), tokens_at_finish=at_finish)
    found = values_of(answer, labels_of(endpoint(), answer), Level.CORE)
    assert found["llm_tokens_at_finish", ("decode-0", "vllm", "engine")] == told
    silent = replace(answer, tokens_at_finish=None)
    assert "llm_tokens_at_finish" not in {
        name for name, _ in values_of(silent, labels_of(endpoint(), silent), Level.CORE)
    }


@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_models_in_an_answer_changes_nothing(order: list[str]) -> None:
    models = tuple(reading(model=model, histogram=HISTOGRAM).models[0] for model in order)
    answer = EndpointReading("vllm", Role.ENGINE, models)
    labels = labels_of(endpoint(), answer)
    assert [key[1][2] for key in values_of(answer, labels, Level.FULL)] == ["a", "b", "c"] * 2
    assert [each.labels[2] for each in histograms_of(answer, labels, Level.FULL)] == ["a", "b", "c"]


# Doubtful values.


@given(st.floats())
def test_a_value_out_of_the_catalogues_range_is_absent(value: float) -> None:
    model = ModelReading("llama", {("llm_kv_cache_usage_ratio", ""): value}, {})
    answer = EndpointReading("vllm", Role.ENGINE, (model,))
    (found,) = values_of(answer, labels_of(endpoint(), answer), Level.CORE).values()
    # A ratio, CONTRACTS §2.
    assert found == (value if 0 <= value <= 1 else None)


def test_values_have_the_type_of_the_catalogue() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(gpus=(0,)), decode_0=[reading(7.0)]) as (feed, _):
            await asyncio.sleep(1)
            for series, value in feed.rows():
                assert type(value).__name__ == series.metric.value_type.value

    run_virtually(scenario)
    answer = EndpointReading("vllm", Role.ENGINE, (ModelReading("", {("llm_up", ""): 1.0}, {}),))
    (found,) = values_of(answer, labels_of(endpoint(), answer), Level.CORE).values()
    assert isinstance(found, int)


# What the log says.


def logged(
    scenario: Callable[[VirtualClock], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> list[str]:
    with caplog.at_level(logging.INFO, logger="rackwatt"):
        run_virtually(scenario)
    return [record.getMessage() for record in caplog.records if record.name == "rackwatt.serving"]


def test_failing_is_said_once_for_each_reason_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(clock: VirtualClock) -> None:
        stretch: list[Outcome] = [refused(), refused(), refused("status"), refused(), reading(), reading()]
        async with feeding(clock, endpoint(), decode_0=[*stretch, *stretch]):
            await asyncio.sleep(59)

    said = [
        "decode-0: the scrape failed with connection",
        "decode-0: the scrape failed with status",
        "decode-0: metrics are read again",
    ]
    assert logged(scenario, caplog) == said * 2


def test_a_doubtful_value_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(), decode_0=[reading(-1.0)]) as (feed, _):
            await asyncio.sleep(30)
            assert value_of(feed, "llm_tokens_total") is None
            assert value_of(feed, "llm_requests_running") == 2

    assert logged(scenario, caplog) == [
        "decode-0: metrics are read",
        "decode-0: a value of llm_tokens_total is out of its range and left out",
    ]


# Beginning and end.


def test_closing_ends_the_scrapes_and_the_connections() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with feeding(clock, endpoint(), decode_0=[3600.0]) as (_, engines):
            await asyncio.sleep(1)
        assert engines.closed
        assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("job ")] == []

    run_virtually(scenario)


def test_large_answers_are_read_in_a_thread_and_small_ones_are_not() -> None:
    threads: dict[int, str] = {}

    class NotingReader:
        def read(self, body: bytes) -> EndpointReading:
            threads[len(body)] = threading.current_thread().name
            return reading()

    class Sized:
        async def fetch(self, endpoint: ServingEndpoint) -> bytes:
            return bytes(int(endpoint.name))

        async def close(self) -> None:
            pass

    async def scenario() -> None:
        schedule = Schedule()
        feed = ServingFeed(
            [endpoint("100"), endpoint("100000")],
            fetcher=Sized(),
            make_reader=lambda _: NotingReader(),
            schedule=schedule,
            period_seconds=0.05,
        )
        schedule.start()
        await feed.start()
        await until(lambda: len(threads) == 2)
        await feed.close()
        await schedule.close()

    run(scenario)
    assert threads[100] == threading.main_thread().name
    assert threads[100000].startswith("serving")
