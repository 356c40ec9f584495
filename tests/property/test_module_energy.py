"""Integrated energy: exact on a straight line, within its error wherever power stays between readings."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from collector.catalog import BY_NAME
from collector.model import Value
from collector.sources.nvml.answers import Answers, Key
from collector.sources.nvml.module_energy import Integral, half_difference, mean, power_fill

METRIC = BY_NAME["module_power_watts"]
KEY: Key = (185, 1)
LONGEST_SECONDS = 3.0

MILLIWATTS = st.integers(min_value=0, max_value=20_000_000)  # what the catalogue holds possible
STEP_SECONDS = st.floats(min_value=0.01, max_value=LONGEST_SECONDS)
SHARE = st.floats(min_value=0.0, max_value=1.0)
# What a sweep may bring: nothing, a power, or something impossible; after any time, or none.
ANSWER = st.none() | MILLIWATTS | st.integers(min_value=0, max_value=2**32 - 1)
SWEEPS = st.lists(st.tuples(st.floats(min_value=0.0, max_value=10.0), ANSWER), max_size=40)


def pair() -> tuple[Integral, Integral]:
    """Make an energy and its error."""
    energy, error = (
        Integral(power_fill(METRIC, KEY, 1, 1000), rule, LONGEST_SECONDS) for rule in (mean, half_difference)
    )
    return energy, error


def sweep(at: float, milliwatts: int | None) -> Answers:
    answers = Answers(Counter())
    answers.read_at = at
    if milliwatts is not None:
        answers.numbers[KEY] = milliwatts
    return answers


@given(SWEEPS)
def test_neither_runs_back_and_both_are_known_where_power_is(sweeps: list[tuple[float, int | None]]) -> None:
    energy, error = pair()
    at = 100.0
    previous: tuple[Value, Value] = (0.0, 0.0)
    for seconds, milliwatts in sweeps:
        at += seconds
        values = energy(sweep(at, milliwatts)), error(sweep(at, milliwatts))
        if milliwatts is None or milliwatts > 20_000_000:
            assert values == (None, None)
            continue
        assert values[0] is not None
        assert values[1] is not None
        assert values[0] >= previous[0]
        assert values[1] >= previous[1]
        # Power is never negative, so the error is never more than the energy itself.
        assert values[1] <= values[0] * (1 + 1e-9)
        previous = values[0], values[1]


@given(st.lists(st.tuples(STEP_SECONDS, MILLIWATTS, SHARE), min_size=1, max_size=40), MILLIWATTS)
def test_the_true_energy_lies_within_the_error(steps: list[tuple[float, int, float]], first: int) -> None:
    """In each step power jumps from one end to the other at any moment: nothing between is further off."""
    energy, error = pair()
    at, power, true_joules = 100.0, first, 0.0
    energy(sweep(at, power))
    error(sweep(at, power))
    for seconds, milliwatts, share in steps:
        later = at + seconds
        true_joules += (power * share + milliwatts * (1 - share)) / 1000 * (later - at)
        at, power = later, milliwatts
        joules, off = energy(sweep(at, power)), error(sweep(at, power))
        assert joules is not None
        assert off is not None
        assert abs(joules - true_joules) <= off + 1e-9 * (true_joules + 1)


@given(st.lists(STEP_SECONDS, min_size=1, max_size=40), MILLIWATTS, st.floats(0.0, 100_000.0))
def test_a_straight_line_is_exact(steps: list[float], first: int, slope: float) -> None:
    energy, _ = pair()
    joules: Value | None = None
    times = list(itertools.accumulate(steps, initial=100.0))
    start = first / 10  # so that the line stays within what is possible: 2 kW and 120 s of 100 W/s
    for time in times:
        answers = sweep(time, None)
        answers.numbers[KEY] = start + slope * (time - times[0])
        joules = energy(answers)
    length = times[-1] - times[0]
    exact = (start * length + slope * length**2 / 2) / 1000
    assert joules is not None
    assert abs(joules - exact) <= 1e-9 * (exact + 1)


@given(SWEEPS, st.integers(min_value=0, max_value=40))
def test_what_is_taken_over_goes_on_as_if_nothing_had_happened(
    sweeps: list[tuple[float, int | None]], position: int
) -> None:
    kept, _ = pair()
    handed, _ = pair()
    at = 100.0
    for place, (seconds, milliwatts) in enumerate(sweeps):
        at += seconds
        if place == position:
            other, _ = pair()
            other(sweep(at - seconds / 2, 5_000_000))  # what it has seen itself counts for nothing
            other.take_over(handed)
            handed = other
        assert handed(sweep(at, milliwatts)) == kept(sweep(at, milliwatts))
