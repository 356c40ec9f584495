"""What holds of every simulated engine, however and whenever it is read."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from collector import profiles
from collector.profiles import ServingProfile
from collector.simulator import Fault, FaultKind, ManualClock, SimulatedNode
from collector.simulator.serving import DIALECTS, SimulatedEngine
from collector.simulator.serving.exposition import Page, counter, write_number
from collector.simulator.serving.progress import Pace, tally
from collector.simulator.serving.spread import Spread

platforms = st.sampled_from(profiles.names())
dialects = st.sampled_from(sorted(DIALECTS))
seeds = st.integers(0, 2**32)
times = st.lists(st.integers(0, 90_000), min_size=2, max_size=6).map(
    lambda points: [point / 1000 for point in sorted(points)]
)
paces = st.builds(
    Pace,
    st.builds(
        ServingProfile,
        model=st.just("m"),
        prompt_tokens=st.integers(1, 100_000),
        generation_tokens=st.integers(1, 100_000),
        tokens_per_second_per_gpu=st.just(1.0),
        seconds_per_output_token=st.floats(0.001, 1),
        provisioned_watts_per_gpu=st.just(1.0),
    ),
    st.floats(1, 1e6),
)


def read(engine: SimulatedEngine) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read every series that counts."""
    text = engine.text()
    assert text is not None
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


def make(
    platform: str, dialect: str, seed: int, faults: tuple[Fault, ...]
) -> tuple[SimulatedEngine, ManualClock]:
    clock = ManualClock()
    node = SimulatedNode(
        profiles.load(platform),
        seed=seed,
        faults=faults,
        clock=clock,
        sleep=clock.sleep,
        wall_clock_ns=lambda: 0,
    )
    return SimulatedEngine(node, DIALECTS[dialect]), clock


@given(platforms, dialects, seeds, times, st.integers(0, 3))
def test_nothing_that_counts_falls_without_a_restart(
    platform: str, dialect: str, seed: int, points: list[float], gpu: int
) -> None:
    faults = (Fault(FaultKind.GPU_LOST, 20, 30, gpu=gpu), Fault(FaultKind.THERMAL_SLOWDOWN, 5, 40, gpu=0))
    engine, clock = make(platform, dialect, seed, faults)
    last = read(engine)
    for point in points:
        clock.set(point)
        now = read(engine)
        assert now.keys() >= last.keys()
        assert all(now[series] >= value for series, value in last.items())
        last = now


@given(dialects, seeds, times)
def test_the_truth_does_not_depend_on_who_looks_when(dialect: str, seed: int, points: list[float]) -> None:
    faults = (Fault(FaultKind.ENGINE_RESTART, 10, 15),)
    texts = []
    for look in (True, False):
        engine, clock = make("gb300-nvl72", dialect, seed, faults)
        for point in points if look else ():
            clock.set(point)
            engine.text()
        clock.set(95)
        texts.append(engine.text())
    assert texts[0] == texts[1]


@given(paces, st.lists(st.floats(0, 1e13), min_size=2, max_size=10).map(sorted))
def test_every_token_is_counted_once_and_no_count_falls(pace: Pace, points: list[float]) -> None:
    tallies = [tally(pace, tokens, working=True, began_unix_seconds=0) for tokens in points]
    for tokens, each in zip(points, tallies, strict=True):
        # Three counts are rounded down; numbers of 1e13 are exact to 0.002.
        assert (
            -0.1 - tokens * 1e-12
            <= tokens - (each.prompt_tokens + each.generation_tokens)
            <= 3.1 + tokens * 1e-12
        )
        assert 0 <= each.finished <= each.started
        assert 0 <= each.running <= pace.places
        assert 0 <= each.cached_tokens <= each.prompt_tokens
        assert 0 <= each.kv_usage <= 1
    for before, after in itertools.pairwise(tallies):
        assert before.started <= after.started
        assert before.finished <= after.finished
        assert before.prompt_tokens <= after.prompt_tokens
        assert before.decode_tokens <= after.decode_tokens


@given(st.floats(0.001, 1000), st.floats(0.05, 0.8))
def test_a_spread_has_its_mean(mean: float, sigma: float) -> None:
    bounds = [mean * 1.01**step for step in range(-700, 700)]
    shares = Spread(mean, sigma).shares(bounds)
    assert all(0 <= less <= more <= 1 for less, more in itertools.pairwise(shares))
    total = math.fsum(
        (high - low) * (upper + lower) / 2
        for (lower, low), (upper, high) in itertools.pairwise(zip(bounds, shares, strict=True))
    )
    assert abs(total / mean - 1) < 0.01


@given(st.floats(0, 1e15) | st.integers(0, 2**53))
def test_numbers_are_those_of_the_client_library(value: float) -> None:
    assert write_number(value) == floatToGoString(value)  # type: ignore[no-untyped-call]  # it has no types
    assert float(write_number(value)) == value


@given(st.text(max_size=30))
def test_any_label_comes_back(text: str) -> None:
    pace = Pace(profiles.load("gb300-nvl72").serving, 1.0)
    page = Page([(counter("things_total", "Things.", (("model_name", text),), lambda _: 7),)])
    (family,) = text_string_to_metric_families(
        page.text([tally(pace, 0, working=False, began_unix_seconds=0)])
    )
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"model_name": text}, 7.0)]
