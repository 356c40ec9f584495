"""Increases, whole counters, and how roll-ups are added, written and spread."""

from __future__ import annotations

import pytest

from collector.efficiency.counting import Increase, WholeCounters, increase
from collector.efficiency.rollup import EnergySum, HistogramSum, ModelSum, Rollup, add, decode, encode, merge
from collector.efficiency.spreading import BRIDGE_NS, KEEP_NS, RollupBook
from collector.health.ledger_usage import StoredRollup
from tests.rack_builders import HOUR, MINUTE, SECOND, T0


@pytest.mark.parametrize(
    ("before", "after", "maximum", "expected"),
    [
        (100, 150, 60, Increase(50, whole=True)),
        (100, 100, 60, Increase(0, whole=True)),
        (100, 161, 60, None),
        (100, 40, 60, Increase(40, whole=False)),
        (100, 0, 60, Increase(0, whole=False)),
        (100, 61, 60, None),
        (100, -1, 60, None),
    ],
)
def test_an_increase(before: float, after: float, maximum: float, expected: Increase | None) -> None:
    assert increase(before, after, maximum) == expected


def test_whole_counters_carry_fractions() -> None:
    counters = WholeCounters()
    counters.add("new", 0)
    counters.add("a", 0.6)
    assert counters.take() == {"new": 0, "a": 0}
    counters.add("a", 0.6)
    assert counters.take() == {"a": 1}
    assert counters.take() == {}
    counters.add("a", 0.9)
    assert counters.take() == {"a": 1}


def histogram(bounds: tuple[float, ...], *counts: float) -> HistogramSum:
    return HistogramSum(bounds=bounds, counts=counts, sum=10.0)


def test_a_share_is_added_to_everything() -> None:
    total = Rollup(role="router")
    other = Rollup(
        watched_seconds=60.0,
        energy={"gpu": EnergySum(joules=8.0, error_joules=4.0, idle_joules=2.0, covered_seconds=60.0)},
        role="engine",
        endpoints_expected_seconds=120.0,
        endpoints_up_seconds=60.0,
        models={
            "r1": ModelSum(
                prompt_tokens=100.0,
                engine_seconds={"vllm": 60.0},
                time_to_first_token=histogram((1.0,), 2.0, 4.0),
            )
        },
    )
    before = encode(other)
    add(total, other, 0.25)
    add(total, other, 0.5)
    assert encode(other) == before
    assert total == Rollup(
        watched_seconds=45.0,
        energy={"gpu": EnergySum(joules=6.0, error_joules=3.0, idle_joules=1.5, covered_seconds=45.0)},
        role="engine",
        endpoints_expected_seconds=90.0,
        endpoints_up_seconds=45.0,
        models={
            "r1": ModelSum(
                prompt_tokens=75.0,
                engine_seconds={"vllm": 45.0},
                time_to_first_token=HistogramSum(bounds=(1.0,), counts=(1.5, 3.0), sum=7.5),
            )
        },
    )


def test_histograms_of_two_engines_keep_the_bounds_that_both_have() -> None:
    parts = [
        Rollup(models={"r1": ModelSum(inter_token_latency=histogram((0.1, 0.5, 1.0), 1, 2, 3, 4))}),
        Rollup(models={"r1": ModelSum(inter_token_latency=histogram((0.2, 0.5), 10, 20, 30))}),
    ]
    assert merge(parts).models["r1"].inter_token_latency == HistogramSum(
        bounds=(0.5,), counts=(22.0, 34.0), sum=20.0
    )


def test_a_rollup_is_written_short() -> None:
    own = Rollup(
        watched_seconds=1 / 3,
        models={
            "é": ModelSum(time_to_first_token=HistogramSum(bounds=(1 / 3,), counts=(2 / 3, 1), sum=0.1 + 0.2))
        },
    )
    assert encode(own) == (
        '{"watched_seconds":0.333333,"models":{"é":{"time_to_first_token":'
        '{"bounds":[0.3333333333333333],"counts":[0.666667,1],"sum":0.3}}}}'
    )
    assert decode(encode(own)).models["é"].time_to_first_token == HistogramSum(
        bounds=(1 / 3,), counts=(0.666667, 1.0), sum=0.3
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"watched_seconds": "x"}',
        '{"models": {"r1": {"time_to_first_token": {"bounds": [1], "counts": [1], "sum": 1}}}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_rollup_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it is no roll-up"):
        decode(text)


# --- spreading ------------------------------------------------------------------------------------------

TEN = Rollup(watched_seconds=10.0)


def seconds(rows: tuple[StoredRollup, ...], length: int) -> dict[int, float]:
    return {
        (own.starts_ns - T0) // SECOND: decode(own.data).watched_seconds
        for own in rows
        if own.length_seconds == length
    }


def test_an_increase_is_spread_by_time() -> None:
    book = RollupBook()
    book.add(TEN, T0 + 3540 * SECOND, T0 + 3640 * SECOND)
    book.accrue(Rollup(watched_seconds=1.0), T0 + 3590 * SECOND, T0 + 3605 * SECOND)
    rows = book.take(T0 + HOUR)
    assert seconds(rows, 60) == {3540: 6.0 + 10, 3600: 4.0 + 5}
    assert seconds(rows, 3600) == {0: 6.0 + 10, 3600: 4.0 + 5}
    assert book.take(T0 + HOUR) == ()


@pytest.mark.parametrize(("at", "minute"), [(0, 0), (59, 0), (60, 60), (61, 60)])
def test_an_increase_at_an_instant_belongs_to_its_minute(at: int, minute: int) -> None:
    book = RollupBook()
    book.add(TEN, T0 + at * SECOND, T0 + at * SECOND)
    assert seconds(book.take(T0), 60) == {minute: 10.0}


def test_what_was_written_before_is_taken_up_and_what_is_none_begins_anew() -> None:
    book = RollupBook(
        [
            StoredRollup(60, T0, encode(Rollup(watched_seconds=5.0))),
            StoredRollup(3600, T0, "damaged"),
            StoredRollup(60, T0 + 1, encode(Rollup(watched_seconds=5.0))),
            StoredRollup(61, T0, encode(Rollup(watched_seconds=5.0))),
        ]
    )
    book.add(TEN, T0, T0 + 10 * SECOND)
    rows = book.take(T0)
    assert (seconds(rows, 60), seconds(rows, 3600)) == ({0: 15.0}, {0: 10.0})


def test_a_minute_may_change_for_as_long_as_a_gap_is_bridged() -> None:
    assert KEEP_NS > BRIDGE_NS + MINUTE
    book = RollupBook()
    book.add(TEN, T0, T0 + 10 * SECOND)
    book.take(T0 + MINUTE + KEEP_NS - 1)
    book.add(TEN, T0, T0 + 10 * SECOND)
    assert seconds(book.take(T0 + MINUTE + KEEP_NS), 60) == {0: 20.0}
    # It is written and forgotten: a new one would take its place.
    book.add(TEN, T0, T0 + 10 * SECOND)
    assert seconds(book.take(T0 + MINUTE + KEEP_NS), 60) == {}
