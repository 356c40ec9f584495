"""Whatever polls, gaps, resets and restarts come: no counter falls, and roll-ups say what counters say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.efficiency.counting import WholeCounters, increase
from collector.efficiency.memory import remember
from collector.efficiency.rollup import EnergySum, HistogramSum, ModelSum, Rollup, add, decode, encode, merge
from collector.efficiency.spreading import RollupBook
from tests.rack_builders import SECOND, T0
from tests.usage_builders import FakeEndpoint, FakeNode, UsageRack

numbers = st.floats(0, 1e9)


def near(one: float, other: float, tolerance: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=tolerance)


# --- parts ----------------------------------------------------------------------------------------------


@given(numbers, numbers, numbers)
def test_an_increase_is_possible_and_not_negative(before: float, after: float, maximum: float) -> None:
    risen = increase(before, after, maximum)
    if risen is not None:
        assert 0 <= risen.amount <= maximum
        assert risen.whole is (after >= before)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 1e6), st.booleans()), max_size=40))
def test_whole_counters_lose_nothing(story: list[tuple[str, float, bool]]) -> None:
    counters = WholeCounters()
    exact = {"a": 0.0, "b": 0.0}
    told = {"a": 0, "b": 0}
    for name, amount, take in story:
        counters.add(name, amount)
        exact[name] += amount
        if take:
            for key, whole in counters.take().items():
                assert whole >= 0
                told[key] += whole
    for key, whole in counters.take().items():
        told[key] += whole
    for key in told:
        assert -1e-3 <= exact[key] - told[key] < 1 + 1e-3


bounds = st.lists(st.integers(1, 6), unique=True, max_size=6).map(lambda own: tuple(sorted(map(float, own))))


@st.composite
def histograms(draw: st.DrawFn) -> HistogramSum:
    own = draw(bounds)
    steps = draw(st.lists(st.integers(0, 100), min_size=len(own) + 1, max_size=len(own) + 1))
    counts = tuple(float(sum(steps[: place + 1])) for place in range(len(steps)))
    return HistogramSum(bounds=own, counts=counts, sum=draw(st.floats(0, 1e6)))


models = st.builds(
    ModelSum,
    prompt_tokens=numbers,
    generation_tokens=numbers,
    engine_seconds=st.dictionaries(st.sampled_from(["vllm", "sglang"]), numbers),
    at_finish_seconds=st.dictionaries(st.sampled_from(["vllm", "sglang"]), numbers),
    request_duration=st.none() | histograms(),
)
rollups = st.builds(
    Rollup,
    watched_seconds=numbers,
    energy=st.dictionaries(st.sampled_from(["gpu", "cpu"]), st.builds(EnergySum, joules=numbers)),
    role=st.sampled_from(["", "engine", "router"]),
    models=st.dictionaries(st.text(max_size=3), models, max_size=3),
)


@given(rollups)
def test_a_rollup_is_read_as_it_was_written(own: Rollup) -> None:
    read = decode(encode(own))
    assert encode(read) == encode(own)
    assert near(read.watched_seconds, own.watched_seconds, 1e-6)
    for model, sums in own.models.items():
        assert near(read.models[model].prompt_tokens, sums.prompt_tokens, 1e-6)
        if sums.request_duration is not None:
            found = read.models[model].request_duration
            assert found is not None
            assert found.bounds == sums.request_duration.bounds


@given(st.lists(rollups, max_size=4))
def test_a_merged_rollup_is_the_sum(parts: list[Rollup]) -> None:
    total = merge(parts)
    assert near(total.watched_seconds, sum(own.watched_seconds for own in parts), 1e-3)
    for domain, energy in total.energy.items():
        assert near(energy.joules, sum(own.energy.get(domain, EnergySum()).joules for own in parts), 1e-3)
    for model, sums in total.models.items():
        own = [part.models[model] for part in parts if model in part.models]
        assert near(sums.generation_tokens, sum(each.generation_tokens for each in own), 1e-3)
        observed = [each.request_duration for each in own if each.request_duration is not None]
        if observed:
            merged = sums.request_duration
            assert merged is not None
            assert set(merged.bounds) == set.intersection(*(set(each.bounds) for each in observed))
            assert merged.counts[-1] == sum(each.counts[-1] for each in observed)
            for bound, count in zip(merged.bounds, merged.counts, strict=False):
                assert count == sum(each.counts[each.bounds.index(bound)] for each in observed)


@given(rollups, st.integers(0, 4000 * SECOND), st.integers(0, 600 * SECOND))
def test_what_is_spread_adds_up(own: Rollup, offset: int, length: int) -> None:
    book = RollupBook()
    book.add(own, T0 + offset, T0 + offset + length)
    rows = book.take(T0)
    for seconds in (60, 3600):
        total = merge(decode(row.data) for row in rows if row.length_seconds == seconds)
        tolerance = 1e-6 * (len(rows) + 1)
        assert near(total.watched_seconds, own.watched_seconds, tolerance)
        for model, sums in own.models.items():
            assert near(total.models[model].prompt_tokens, sums.prompt_tokens, tolerance)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda own: st.lists(own, max_size=3) | st.dictionaries(st.text(max_size=5), own, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["endpoints", "sockets", "models"]), json_values))
def test_any_memory_can_be_remembered(memory: dict[str, object]) -> None:
    once = remember(memory).export()
    assert remember(once).export() == once


# --- whole stories --------------------------------------------------------------------------------------

ACTIONS = (
    "look",
    "silence n01",
    "silence n02",
    "answer",
    "reset energy",
    "reset tokens",
    "busy",
    "rest",
    "engine down",
    "engine up",
    "new pod",
    "shelf silent",
    "shelf speaks",
    "no counter",
    "counter",
    "restart",
    "away",
    "clock back",
    "look again",
)


def make_rack() -> UsageRack:
    nodes = [
        FakeNode(
            name,
            gpu_watts=700.0 + 100.5 * number,
            module_watts=2000.25,
            cpu_watts=250.0,
            endpoints=[
                FakeEndpoint(gpus=("0",), generation_rate=123.4, prompt_rate=1000.7, request_counts=(0, 0, 0))
            ],
        )
        for number, name in enumerate(("n01", "n02"))
    ]
    return UsageRack(nodes, {"shelf-1": 9000.0}, modules_per_node=1, gpus_expected=4)


class Story:
    """What happens to a rack, with what is true of it meanwhile."""

    def __init__(self) -> None:
        self.rack = make_rack()
        self.restarts = 0
        self.disturbed = False
        self.rack.look()

    def happen(self, seconds: float, action: str) -> None:
        rack = self.rack
        first, second = rack.nodes
        rack.go_on(seconds)
        match action:
            case "silence n01":
                first.answers = False
            case "silence n02":
                second.answers = False
            case "answer":
                first.answers = second.answers = True
            case "reset energy":
                first.joules[0] = 10.0
                self.disturbed = True
            case "reset tokens":
                second.endpoints[0].restart()
                self.disturbed = True
            case "busy" | "rest":
                for node in rack.nodes:
                    node.endpoints[0].generation_rate = 123.4 if action == "busy" else 0.0
                    node.endpoints[0].prompt_rate = 1000.7 if action == "busy" else 0.0
            case "engine down" | "engine up":
                first.endpoints[0].up = action == "engine up"
            case "new pod":
                first.endpoints.append(FakeEndpoint(f"p{len(first.endpoints)}", prompt=1e6, prompt_rate=10.0))
            case "shelf silent":
                rack.silent_shelves.add("shelf-1")
            case "shelf speaks":
                rack.silent_shelves.clear()
            case "no counter" | "counter":
                second.counted = action == "counter"
                self.disturbed = True
            case "restart" | "away":
                rack.restart(300.0 if action == "away" else 0.0)
                self.restarts += 1
                self.disturbed = True
            case "clock back":
                rack.now_ns -= 20 * SECOND
                self.disturbed = True
            case _:
                pass
        rack.look()
        if action == "look again":
            rack.look()


def steps(longest: int) -> st.SearchStrategy[list[tuple[float, str]]]:
    seconds = st.floats(0.1, longest) | st.integers(1, longest).map(float)
    return st.lists(st.tuples(seconds, st.sampled_from(ACTIONS)), max_size=25)


def check(story: Story, *, bridged: bool) -> None:
    rack = story.rack
    minutes, hours = rack.rollup(60), rack.rollup(3600)
    rows = len(rack.rows)
    tolerance = (1 + story.restarts) * 2e-3 + rows * 1e-5
    for total in (minutes, hours):
        assert total.endpoints_up_seconds <= total.endpoints_expected_seconds + tolerance
        for domain, energy in total.energy.items():
            assert energy.covered_seconds <= energy.expected_seconds + tolerance
            assert energy.idle_joules <= energy.joules + tolerance
            for name, value in (
                ("energy_mj", energy.joules),
                ("energy_error_mj", energy.error_joules),
                ("idle_energy_mj", energy.idle_joules),
            ):
                counted = rack.counters[f"{name}:{domain}"] / 1000
                assert value <= counted * (1 + 1e-9) + tolerance
                if bridged:
                    assert near(counted, value, tolerance)
        for model, sums in total.models.items():
            for phase, value in (("prompt", sums.prompt_tokens), ("generation", sums.generation_tokens)):
                counted = rack.counters[f"tokens:{phase}:{model}"]
                assert value <= counted * (1 + 1e-9) + (1 + story.restarts) + tolerance
                if bridged:
                    assert near(counted, value, 1 + story.restarts + tolerance)
    assert near(minutes.watched_seconds, hours.watched_seconds, tolerance)
    for domain, energy in minutes.energy.items():
        assert near(energy.joules, hours.energy[domain].joules, tolerance)
        assert near(energy.covered_seconds, hours.energy[domain].covered_seconds, tolerance)


@settings(max_examples=60, deadline=None)
@given(steps(20))
def test_rollups_say_what_counters_say(moments: list[tuple[float, str]]) -> None:
    """Counters only rise (`UsageRack.take` sees to that); where no gap is too long, both say the same."""
    story = Story()
    passed = 0.0
    for seconds, action in moments:
        passed += seconds + (300 if action == "away" else 0)
        story.happen(seconds, action)
    check(story, bridged=passed < 600)


@settings(max_examples=60, deadline=None)
@given(steps(900))
def test_after_long_gaps_rollups_say_no_more_than_counters(moments: list[tuple[float, str]]) -> None:
    story = Story()
    for seconds, action in moments:
        story.happen(seconds, action)
    check(story, bridged=False)


@settings(max_examples=40, deadline=None)
@given(steps(30))
def test_the_energy_of_a_counter_is_all_there_whatever_gaps(moments: list[tuple[float, str]]) -> None:
    story = Story()
    begun = {(node.name, gpu): node.joules.get(gpu, 1e6) for node in story.rack.nodes for gpu in range(2)}
    for seconds, action in moments:
        story.happen(seconds, action)
    story.happen(1.0, "answer")
    if not story.disturbed:
        true = sum(
            node.joules[gpu] - begun[node.name, gpu] for node in story.rack.nodes for gpu in range(node.gpus)
        )
        assert story.rack.joules() == pytest.approx(true, abs=2e-3)


@given(st.floats(0.01, 0.99))
def test_a_share_of_a_rollup_and_the_rest_are_the_whole(share: float) -> None:
    whole = Rollup(watched_seconds=60.0, models={"m": ModelSum(prompt_tokens=1000.0)})
    total = Rollup()
    add(total, whole, share)
    add(total, whole, 1 - share)
    assert near(total.models["m"].prompt_tokens, 1000.0, 1e-9)
