"""Sums of counters: true where nothing is lost, never running back whatever is."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from collector.catalog import BY_NAME
from collector.model import Value
from collector.sources.nvml.answers import Answers, Key
from collector.sources.nvml.fills import MonotoneSum, Sum

METRIC = BY_NAME["gpu_nvlink_errors_total"]
KEYS: tuple[Key, ...] = tuple((208, link) for link in range(4))

# What a part answers in a sweep: nothing, or its counter; garbage is a counter, too.
ANSWER = st.none() | st.integers(min_value=0, max_value=1000) | st.integers(min_value=0, max_value=2**64 - 1)
SWEEPS = st.lists(st.tuples(*[ANSWER] * len(KEYS)), max_size=30)
STEP = st.integers(min_value=0, max_value=50)
# A part's growth, whether it restarts before it, and whether it answers.
PART = st.tuples(STEP, st.booleans(), st.booleans())


def sweep(counts: tuple[int | None, ...]) -> Answers:
    answers = Answers(Counter())
    answers.numbers = {key: count for key, count in zip(KEYS, counts, strict=True) if count is not None}
    return answers


@given(SWEEPS)
def test_a_sum_never_runs_back(sweeps: list[tuple[int | None, ...]]) -> None:
    total = MonotoneSum(METRIC, KEYS, 1)
    previous: Value = 0
    for counts in sweeps:
        value = total(sweep(counts))
        if value is not None:
            assert value >= previous
            previous = value


@given(SWEEPS, st.integers(min_value=0, max_value=30))
def test_a_sum_that_is_taken_over_never_runs_back(
    sweeps: list[tuple[int | None, ...]], position: int
) -> None:
    total = MonotoneSum(METRIC, KEYS, 1)
    previous: Value = 0
    for place, counts in enumerate(sweeps):
        if place == position:
            later = MonotoneSum(METRIC, KEYS[1:], 1)
            later.take_over(total)
            total = later
        value = total(sweep(counts))
        if value is not None:
            assert value >= previous
            previous = value


@given(st.lists(st.tuples(*[STEP] * len(KEYS)), min_size=1, max_size=30))
def test_a_sum_is_the_true_total_where_nothing_is_lost(growths: list[tuple[int, ...]]) -> None:
    total = MonotoneSum(METRIC, KEYS, 1)
    counts = [0] * len(KEYS)
    for growth in growths:
        counts = [count + step for count, step in zip(counts, growth, strict=True)]
        assert total(sweep(tuple(counts))) == sum(counts)


@given(st.lists(st.tuples(*[PART] * len(KEYS)), min_size=1, max_size=30))
def test_a_sum_misses_what_no_sweep_saw_and_nothing_else(
    steps: list[tuple[tuple[int, bool, bool], ...]],
) -> None:
    """Parts restart at zero and fall silent; what a sweep saw of them is counted exactly once."""
    total = MonotoneSum(METRIC, KEYS, 1)
    counters = [0] * len(KEYS)
    seen = [0] * len(KEYS)  # counted of the present life of each counter
    expected = 0
    answered = False
    for parts in steps:
        counts: list[int | None] = []
        for link, (growth, restarts, answers) in enumerate(parts):
            # A restart shows only where the counter stands lower than it was seen.
            if restarts and growth < seen[link]:
                counters[link] = growth
                restarted = True
            else:
                counters[link] += growth
                restarted = counters[link] < seen[link]
            if answers:
                expected += counters[link] if restarted else counters[link] - seen[link]
                seen[link] = counters[link]
            counts.append(counters[link] if answers else None)
        answered = answered or any(count is not None for count in counts)
        assert total(sweep(tuple(counts))) == (expected if answered else None)


@given(SWEEPS, st.sets(st.sampled_from(KEYS)))
def test_a_links_own_sum_is_exact_or_absent(sweeps: list[tuple[int | None, ...]], failed: set[Key]) -> None:
    fill = Sum(METRIC, KEYS, 1)
    answered: set[int] = set()
    for counts in sweeps:
        answers = sweep(counts)
        answers.failed = failed
        value = fill(answers)
        present = {link: count for link, count in enumerate(counts) if count is not None}
        answered |= present.keys()
        if failed or not present or answered != present.keys() or sum(present.values()) > 2**63:
            assert value is None
        else:
            assert value == sum(present.values())
