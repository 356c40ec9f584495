"""Feeds in the assembly: what they have stands in every Snapshot, and a defect costs its own feed alone."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import msgspec
import pytest

from collector import feeds as limits
from collector.assembly import Assembly
from collector.catalog import ALL, BY_NAME
from collector.model import HistogramSample, Series, Snapshot, Value
from collector.protocols import Feed
from collector.sources.peers import document
from tests.agent_http_client import Clock
from tests.feeds import DURATION, FIRST_TOKEN, LLM_ROWS, MODEL, ScriptedFeed
from tests.readings import LAYOUT, assembly_at, down, fed, reading, shown, sourced

ALL_FED = {
    ("llm_up", ("decode-0", "vllm", "engine")): 1,
    ("llm_tokens_total", ("decode-0", "vllm", "deepseek-r1", "engine", "prompt")): 81_920.0,
    ("llm_tokens_total", ("decode-0", "vllm", "deepseek-r1", "engine", "generation")): 10_240.0,
    ("llm_requests_running", ("decode-0", "vllm", "deepseek-r1", "engine")): 3.0,
    ("llm_kv_cache_usage_ratio", ("decode-0", "vllm", "deepseek-r1", "engine")): 0.25,
}
CPU_POWER = Series(BY_NAME["cpu_power_watts"], ("0",))


def begun(*feeds: Feed, clock: Clock | None = None) -> Assembly:
    """Make an assembly with feeds that has read the GPUs at the clock's present."""
    clock = clock or Clock()
    assembly = assembly_at(clock, feeds=feeds)
    assembly.apply_layout(LAYOUT)
    assembly.apply_reading(reading(clock.seconds))
    return assembly


def names_in_order(snapshot: Snapshot) -> list[str]:
    return [series.metric.name for series in snapshot.table.series]


def out_of_range(snapshot: Snapshot) -> Value:
    return shown(snapshot)["agent_read_errors_total", ("out_of_range",)]


def test_values_and_histograms_of_a_feed_stand_in_the_snapshot() -> None:
    snapshot = begun(ScriptedFeed()).snapshot(0)
    assert fed(snapshot) == ALL_FED
    assert snapshot.histograms == (FIRST_TOKEN, DURATION)
    assert sourced(snapshot) == sourced(begun().snapshot(0))


def test_series_of_feeds_stand_in_the_order_of_the_catalogue() -> None:
    snapshot = begun(ScriptedFeed(), ScriptedFeed([(CPU_POWER, 250.0)], [])).snapshot(0)
    order = [metric.name for metric in ALL]
    assert names_in_order(snapshot) == sorted(names_in_order(snapshot), key=order.index)
    assert fed(snapshot) == ALL_FED | {("cpu_power_watts", ("0",)): 250.0}


def test_a_feed_is_there_before_anything_was_read_and_while_nothing_can_be() -> None:
    feed = ScriptedFeed()
    assembly = assembly_at(Clock(), feeds=[feed])
    assert fed(assembly.snapshot(0)) == ALL_FED
    assembly.apply_reading(down(1000.0, "the NVIDIA kernel driver is not loaded"))
    feed.set(3, 5.0)
    snapshot = assembly.snapshot(0)
    assert not snapshot.nvml_up
    assert fed(snapshot) == ALL_FED | {("llm_requests_running", MODEL): 5.0}
    assert snapshot.histograms == (FIRST_TOKEN, DURATION)


def test_a_feed_is_there_while_the_reader_hangs() -> None:
    clock = Clock(1000.0)
    assembly = begun(ScriptedFeed(), clock=clock)
    clock.seconds = 1007.0
    snapshot = assembly.snapshot(0)
    assert (snapshot.nvml_up, sourced(snapshot)) == (False, {})
    assert fed(snapshot) == ALL_FED


def test_each_snapshot_has_the_newest_values_over_the_same_table() -> None:
    feed = ScriptedFeed()
    assembly = begun(feed)
    before = assembly.snapshot(0)
    feed.set(2, 10_241.0)
    feed.set(3, None)
    after = assembly.snapshot(0)
    assert after.table is before.table
    assert after.histograms is before.histograms
    assert fed(after) == {
        key: value for key, value in ALL_FED.items() if key != ("llm_requests_running", MODEL)
    } | {("llm_tokens_total", (*MODEL, "generation")): 10_241.0}


def test_a_new_revision_makes_a_new_table_in_which_the_rest_stays() -> None:
    feed = ScriptedFeed()
    assembly = begun(feed)
    before = assembly.snapshot(0)
    other = (*MODEL[:2], "llama", "engine")
    feed.become(*LLM_ROWS[:1], (Series(BY_NAME["llm_requests_running"], other), 1.0))
    after = assembly.snapshot(0)
    assert after.table.digest != before.table.digest
    assert fed(after) == {
        ("llm_up", ("decode-0", "vllm", "engine")): 1,
        ("llm_requests_running", other): 1.0,
    }
    assert sourced(after) == sourced(before)
    feed.become()
    assert fed(assembly.snapshot(0)) == {}


def test_a_new_layout_keeps_the_series_of_feeds() -> None:
    assembly = begun(ScriptedFeed())
    assembly.snapshot(0)
    assembly.apply_layout(msgspec.structs.replace(LAYOUT, generation=2))
    assert fed(assembly.snapshot(0)) == ALL_FED


def test_a_feed_with_a_defect_costs_itself_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    feed, other = ScriptedFeed(), ScriptedFeed([(CPU_POWER, 250.0)], [])
    assembly = begun(feed, other)
    assert fed(assembly.snapshot(0)) == ALL_FED | {("cpu_power_watts", ("0",)): 250.0}
    feed.defect = ZeroDivisionError("a defect")
    for _ in range(3):
        snapshot = assembly.snapshot(0)
        assert fed(snapshot) == {("cpu_power_watts", ("0",)): 250.0}
        assert snapshot.histograms == ()
        assert sourced(snapshot) == sourced(begun().snapshot(0))
    assert caplog.text.count("ScriptedFeed cannot be read; its series are absent") == 1
    feed.defect = None
    snapshot = assembly.snapshot(0)
    assert fed(snapshot) == ALL_FED | {("cpu_power_watts", ("0",)): 250.0}
    assert snapshot.histograms == (FIRST_TOKEN, DURATION)
    feed.defect = ZeroDivisionError("again")
    assembly.snapshot(0)
    assert caplog.text.count("ScriptedFeed cannot be read") == 2


def test_a_feed_that_is_defective_from_the_beginning_comes_when_it_is_mended() -> None:
    feed = ScriptedFeed()
    feed.defect = ZeroDivisionError("a defect")
    assembly = begun(feed)
    assert fed(assembly.snapshot(0)) == {}
    feed.defect = None
    assert fed(assembly.snapshot(0)) == ALL_FED


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (((Series(BY_NAME["llm_up"], ("a", "vllm")), 1),), "llm_up with 2 labels is not as the catalogue"),
        (((Series(replace(BY_NAME["llm_up"], name="llm_invented"), MODEL[:3]), 1),), "llm_invented with"),
        (((Series(replace(BY_NAME["llm_up"], maximum=9), MODEL[:3]), 1),), "llm_up with 3 labels"),
        (((Series(FIRST_TOKEN.metric, MODEL), 1),), "llm_time_to_first_token_seconds with 4 labels"),
        (((Series(BY_NAME["cpu_power_watts"], ("x" * 257,)), 1),), "more than 256 characters"),
        (LLM_ROWS + LLM_ROWS[:1], "a series came twice"),
        (
            [(Series(BY_NAME["cpu_power_watts"], (str(number),)), 1) for number in range(20_001)],
            "20001 series came; 20000",
        ),
    ],
)
def test_a_feed_that_breaks_its_promise_is_left_out_whole(
    rows: tuple[tuple[Series, Value]], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    feed = ScriptedFeed(rows)
    assembly = begun(feed)
    snapshot = assembly.snapshot(0)
    assert fed(snapshot) == {}
    assert snapshot.histograms == ()
    assert says in caplog.text
    feed.become(*LLM_ROWS)
    assert fed(assembly.snapshot(0)) == ALL_FED


def test_other_series_under_the_same_revision_are_not_mixed_up(caplog: pytest.LogCaptureFixture) -> None:
    feed = ScriptedFeed()
    assembly = begun(feed)
    assembly.snapshot(0)
    feed.given = LLM_ROWS[1:]
    assert fed(assembly.snapshot(0)) == {}
    assert "4 rows came for 5 series of the same revision" in caplog.text


def test_a_series_that_is_there_already_is_not_taken_from_a_feed(caplog: pytest.LogCaptureFixture) -> None:
    taken = Series(BY_NAME["gpu_power_watts"], ("0", "GPU-aaaa"))
    thief, honest = ScriptedFeed([(taken, 1.0), *LLM_ROWS], []), ScriptedFeed([(CPU_POWER, 250.0)], [])
    assembly = begun(thief, honest)
    for _ in range(2):
        snapshot = assembly.snapshot(0)
        assert sourced(snapshot) == sourced(begun().snapshot(0))
        assert fed(snapshot) == {("cpu_power_watts", ("0",)): 250.0}
    assert caplog.text.count("names the series gpu_power_watts ('0', 'GPU-aaaa')") == 1


def test_of_two_feeds_with_one_series_the_first_has_it() -> None:
    first, second = ScriptedFeed(), ScriptedFeed([(LLM_ROWS[0][0], 0)], [])
    assembly = begun(first, second)
    assert fed(assembly.snapshot(0)) == ALL_FED
    first.become(*LLM_ROWS[1:])
    assert fed(assembly.snapshot(0)) == {**ALL_FED, ("llm_up", MODEL[:2] + MODEL[3:]): 0}


@pytest.mark.parametrize("value", [1.01, -0.01, math.nan, math.inf])
def test_what_is_impossible_is_absent_and_counted_when_it_begins(value: float) -> None:
    feed = ScriptedFeed()
    assembly = begun(feed)
    assert out_of_range(assembly.snapshot(0)) == 0
    feed.set(4, value)
    for _ in range(2):
        snapshot = assembly.snapshot(0)
        assert ("llm_kv_cache_usage_ratio", MODEL) not in fed(snapshot)
        assert len(fed(snapshot)) == len(ALL_FED) - 1
        assert out_of_range(snapshot) == 1
    feed.set(4, 1.0)
    assert fed(assembly.snapshot(0))["llm_kv_cache_usage_ratio", MODEL] == 1.0
    feed.set(4, value)
    assert out_of_range(assembly.snapshot(0)) == 2


@pytest.mark.parametrize(
    "unsound",
    [
        replace(FIRST_TOKEN, labels=MODEL[:3]),
        replace(FIRST_TOKEN, labels=("x" * 257, *MODEL[1:])),
        replace(FIRST_TOKEN, metric=BY_NAME["llm_tokens_total"], labels=(*MODEL, "prompt")),
        replace(FIRST_TOKEN, metric=replace(FIRST_TOKEN.metric, name="llm_invented_seconds")),
        replace(FIRST_TOKEN, counts=(2.0, 7.0, 9.0)),
        replace(FIRST_TOKEN, counts=(2.0, 7.0, 6.0, 10.0)),
        replace(FIRST_TOKEN, counts=(-1.0, 7.0, 9.0, 10.0)),
        replace(FIRST_TOKEN, counts=(2.0, 7.5, 9.0, 10.0)),  # OpenMetrics 1.0.0: counts are integers
        replace(FIRST_TOKEN, counts=(2.0, 7.0, 9.0, math.inf)),
        replace(FIRST_TOKEN, bounds=(0.25, 0.25, 1.0)),
        replace(FIRST_TOKEN, bounds=(-0.25, 0.5, 1.0)),  # a duration is not negative
        replace(FIRST_TOKEN, bounds=(0.25, 0.5, math.inf)),
        replace(FIRST_TOKEN, bounds=(0.25, math.nan, 1.0)),
        replace(FIRST_TOKEN, sum=math.nan),
        replace(FIRST_TOKEN, bounds=tuple(map(float, range(201))), counts=(0,) * 202),
    ],
)
def test_a_histogram_that_is_none_is_absent_and_counted(unsound: HistogramSample) -> None:
    feed = ScriptedFeed(histograms=[unsound, DURATION])
    assembly = begun(feed)
    for _ in range(2):
        snapshot = assembly.snapshot(0)
        assert snapshot.histograms == (DURATION,)
        assert fed(snapshot) == ALL_FED
        assert out_of_range(snapshot) == 1


def test_histograms_of_all_feeds_are_in_the_order_of_the_catalogue_each_once() -> None:
    other = ("decode-1", *MODEL[1:])
    first = ScriptedFeed(histograms=[DURATION, FIRST_TOKEN])
    second = ScriptedFeed(
        [(CPU_POWER, 1.0)], [replace(FIRST_TOKEN, labels=other), replace(DURATION, sum=99.0)]
    )
    snapshot = begun(first, second).snapshot(0)
    assert snapshot.histograms == (FIRST_TOKEN, replace(FIRST_TOKEN, labels=other), DURATION)


def test_a_new_histogram_is_taken_without_a_new_revision() -> None:
    feed = ScriptedFeed()
    assembly = begun(feed)
    before = assembly.snapshot(0)
    newer = replace(FIRST_TOKEN, counts=(3.0, 8.0, 10.0, 11.0), sum=5.0)
    feed.given_histograms = (newer, DURATION)
    after = assembly.snapshot(0)
    assert after.histograms == (newer, DURATION)
    assert after.table is before.table


@pytest.mark.parametrize(
    ("bounds", "fit"),
    [(1, 2_000), (99, 1_000), (199, 500)],  # 100,000 buckets: 100 or 200 of each, the infinite one included
)
def test_histograms_are_bounded_and_that_is_said_once(
    bounds: int, fit: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    one = replace(FIRST_TOKEN, bounds=tuple(map(float, range(bounds))), counts=(1,) * (bounds + 1))
    many = [replace(one, labels=(str(number), *MODEL[1:])) for number in range(2_001)]
    feed = ScriptedFeed(histograms=many)
    assembly = begun(feed)
    assert assembly.snapshot(0).histograms == tuple(many[:fit])
    feed.given_histograms = tuple(many[1:])
    assembly.snapshot(0)
    assert caplog.text.count("there are 2001 histograms;") == 1
    assert caplog.text.count("histograms; ") == 1


def test_a_rack_service_takes_whatever_an_agent_sends() -> None:
    # The document of a node is refused as a whole where it breaks a bound.
    assert limits.MAXIMUM_HISTOGRAMS == document.MAXIMUM_HISTOGRAMS == 2_000
    assert limits.MAXIMUM_BOUNDS == document.MAXIMUM_BOUNDS == 200
    # All of it at once, and half a MiB of the node's own.
    buckets, values = limits.MAXIMUM_BUCKETS * 2 * 9, limits.MAXIMUM_SERIES * 9
    labels = limits.MAXIMUM_SERIES_BYTES + limits.MAXIMUM_HISTOGRAM_BYTES
    assert buckets + values + labels + 512 * 1024 < document.MAXIMUM_BYTES


def test_labels_are_bounded_in_bytes(caplog: pytest.LogCaptureFixture) -> None:
    """Names of models that are as long as may be, in letters of four bytes each."""
    caplog.set_level(logging.WARNING)
    long = [(*MODEL[:2], f"{number:04d}" + "\N{CUNEIFORM SIGN A}" * 252, MODEL[3]) for number in range(1_100)]
    feed = ScriptedFeed(
        [(Series(BY_NAME["llm_requests_running"], labels), 1.0) for labels in long],
        histograms=[replace(FIRST_TOKEN, labels=labels) for labels in long],
    )
    snapshot = begun(feed).snapshot(0)
    assert fed(snapshot) == {}
    assert "are taken at most" in caplog.text
    feed.become()
    # Of 1,061 bytes each, 494 fit into half a MiB.
    assert len(begun(feed).snapshot(0).histograms) == 494
