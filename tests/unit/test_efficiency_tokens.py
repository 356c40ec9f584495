"""What the endpoints of a node did between two Snapshots."""

from __future__ import annotations

import pytest

from collector.efficiency import tokens
from collector.efficiency.rollup import HistogramSum, ModelSum
from collector.efficiency.tokens import Done, NodeServing
from collector.model import Value
from tests.rack_builders import SECOND, T0
from tests.usage_builders import Series, histogram, samples

OWN = ("e", "vllm", "engine")
MODEL = ("e", "vllm", "r1", "engine")
DURATION = "llm_request_duration_seconds"


def at(seconds: float) -> int:
    return T0 + round(seconds * SECOND)


def values(prompt: float | None, **changes: Value | None) -> dict[Series, Value | None]:
    return {
        ("llm_up", OWN): changes.get("up", 1),
        ("llm_tokens_total", (*MODEL, "prompt")): prompt,
        ("llm_requests_running", MODEL): changes.get("running", 0),
        ("llm_requests_waiting", MODEL): changes.get("waiting", 0),
        ("llm_prefix_cache_query_tokens_total", MODEL): changes.get("queries"),
        ("llm_prefix_cache_hit_tokens_total", MODEL): changes.get("hits"),
    }


def test_differences_are_what_was_done() -> None:
    serving = NodeServing()
    assert serving.take(samples(values(1e6, queries=10, hits=1)), (), at(0)) == []
    done = serving.take(samples(values(1e6 + 50, queries=30, hits=6)), (), at(5))
    sums = ModelSum(prompt_tokens=50.0, prefix_query_tokens=20.0, prefix_hit_tokens=5.0)
    assert done == [Done(at(0), "engine", "r1", sums)]


def test_a_counter_that_was_absent_bridges_the_time() -> None:
    serving = NodeServing()
    serving.take(samples(values(100)), (), at(0))
    assert serving.take(samples(values(None, up=0)), (), at(5)) == []
    (done,) = serving.take(samples(values(180)), (), at(10))
    assert (done.starts_ns, done.sums.prompt_tokens) == (at(0), 80)


def test_an_impossible_step_counts_nothing_and_its_endpoint_as_down() -> None:
    serving = NodeServing()
    serving.take(samples(values(0)), (), at(0))
    # 1e7 tokens/s for 5 s, and for the 10 s that a value may be older.
    assert serving.take(samples(values(1.5e8 + 1)), (), at(5)) == []
    assert not serving.endpoints["e"].up
    (done,) = serving.take(samples(values(1.5e8 + 11)), (), at(10))
    assert done.sums.prompt_tokens == 10
    assert serving.endpoints["e"].up


@pytest.mark.parametrize(
    ("bounds", "counts", "total", "expected"),
    [
        pytest.param((1.0, 2.0), (2, 4, 7), 20.0, ((1, 2, 4), 12.0), id="rises"),
        pytest.param((1.0, 2.0), (1, 2, 3), 8.0, None, id="stays"),
        pytest.param((1.0, 2.0), (0, 1, 1), 1.5, ((0, 1, 1), 1.5), id="begins anew"),
        pytest.param((1.0, 3.0), (2, 4, 7), 20.0, None, id="has other bounds"),
        pytest.param((1.0, 2.0), (5, 5, 5), 20.0, None, id="rises in the lower bound alone"),
        pytest.param((1.0, 2.0), (2, 4, 7), 7.0, None, id="has a sum that falls"),
        pytest.param((1.0, 2.0), (1, 2, 10**9), 20.0, None, id="rises impossibly"),
    ],
)
def test_histograms(
    bounds: tuple[float, ...],
    counts: tuple[float, ...],
    total: float,
    expected: tuple[tuple[float, ...], float] | None,
) -> None:
    serving = NodeServing()
    serving.take(samples(values(0)), (histogram(DURATION, MODEL, (1.0, 2.0), (1, 2, 3), 8.0),), at(0))
    done = serving.take(samples(values(0)), (histogram(DURATION, MODEL, bounds, counts, total),), at(5))
    if expected is None:
        assert done == []
    else:
        (own,) = done
        assert own.sums.request_duration == HistogramSum(bounds=bounds, counts=expected[0], sum=expected[1])
        assert own.sums.finished_requests == expected[0][-1]


def test_an_endpoint_rests_when_it_has_no_request_and_made_no_token() -> None:
    serving = NodeServing()
    stories: list[tuple[dict[Series, Value | None], bool]] = [
        (values(100), False),  # nothing is known of the time before
        (values(100), True),
        (values(107), False),
        (values(107), True),
        (values(107, running=1), False),
        (values(107), False),  # it had one when the time began
        (values(107), True),
        (values(107, waiting=1), False),
        (values(107), False),
        (values(107, running=None), False),  # not said is not zero
        (values(107), False),
        (values(None, up=0), False),
        (values(107), False),
        (values(107), True),
    ]
    for number, (own, rested) in enumerate(stories):
        serving.take(samples(own), (), at(5 * number))
        assert serving.rested("engine") is rested, number
        assert not serving.rested("router")


def test_a_model_that_appears_with_tokens_was_at_work() -> None:
    serving = NodeServing()
    for number in range(2):
        serving.take(samples(values(0)), (), at(5 * number))
    assert serving.rested("engine")
    other = ("e", "vllm", "v3", "engine")
    more = {
        ("llm_tokens_total", (*other, "prompt")): 9,
        ("llm_requests_running", other): 0,
        ("llm_requests_waiting", other): 0,
    }
    serving.take(samples({**values(0), **more}), (), at(10))
    assert not serving.rested("engine")


def test_gpus_are_placed_where_they_work_for_one_model_alone() -> None:
    serving = NodeServing()
    own: dict[Series, Value | None] = dict(values(0))
    own |= {("llm_gpu_info", (*OWN, gpu)): 1 for gpu in ("0", "1")}
    serving.take(samples(own), (), at(0))
    assert serving.placements("engine") == {"0": "r1", "1": "r1"}
    assert serving.placements("router") == {}
    # While it is down its GPUs are still its own.
    down: dict[Series, Value | None] = {("llm_up", OWN): 0}
    down |= {("llm_gpu_info", (*OWN, gpu)): 1 for gpu in ("0", "1")}
    serving.take(samples(down), (), at(5))
    assert serving.placements("engine") == {"0": "r1", "1": "r1"}
    router = ("f", "dynamo", "router")
    serving.take(samples({**own, ("llm_up", router): 1, ("llm_gpu_info", (*router, "1")): 1}), (), at(10))
    assert serving.placements("engine") == {}
    assert serving.placed == frozenset()


def test_counters_that_are_gone_are_forgotten_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "MAXIMUM_SERIES", 3)
    serving = NodeServing()
    for number in range(10):
        labels = ("e", "vllm", f"m{number}", "engine")
        row: dict[Series, Value | None] = {("llm_up", OWN): 1, ("llm_tokens_total", (*labels, "prompt")): 5}
        serving.take(samples(row), (histogram(DURATION, labels, (1.0,), (1, 2), 3.0),), at(number))
    assert len(serving._bases) <= 4
    assert len(serving._histograms) <= 4


@pytest.mark.parametrize(("said", "at_finish"), [(0, False), (1, True), (None, True)])
def test_tokens_may_count_at_their_requests_end_unless_it_is_said_that_they_do_not(
    said: int | None, at_finish: bool
) -> None:
    serving = NodeServing()
    serving.take(samples({**values(100), ("llm_tokens_at_finish", OWN): said}), (), at(0))
    assert serving.endpoints["e"].at_finish is at_finish
    # Where none are counted yet there is nothing to say.
    serving.take(samples(values(None)), (), at(5))
    assert not serving.endpoints["e"].at_finish


def test_an_endpoint_that_counts_no_tokens_counts_as_down() -> None:
    """TensorRT-LLM 1.2 has no counter of tokens (facts on tokens, §1): nothing counted is not zero."""
    serving = NodeServing()
    mute: dict[Series, Value | None] = {("llm_up", OWN): 1, ("llm_kv_cache_usage_ratio", MODEL): 0.5}
    serving.take(samples(mute), (), at(0))
    assert not serving.endpoints["e"].up
    # At level `core` there are no histograms, and in some answers nothing else.
    answered = histogram(DURATION, MODEL, (1.0, 2.0), (1, 2, 3), 8.0)
    serving.take(samples({("llm_up", OWN): 1}), (answered,), at(5))
    assert not serving.endpoints["e"].up
    # One phase alone is half of it.
    serving.take(samples(values(5, running=1)), (), at(10))
    assert not serving.endpoints["e"].up


def test_an_endpoint_that_has_had_no_request_yet_has_counted_zero() -> None:
    """SGLang: counters are born with the first request, gauges are there before (facts on tokens, §1)."""
    serving = NodeServing()
    serving.take(samples(values(None)), (), at(0))
    assert serving.endpoints["e"].up
    # A frontend of Dynamo names no model before.
    serving.take(samples({("llm_up", OWN): 1}), (), at(5))
    assert serving.endpoints["e"].up


def test_what_an_agent_lost_when_it_was_restarted_is_no_increase() -> None:
    """What it carried for ranks that had restarted is gone: the rest was counted before."""
    serving = NodeServing()
    before = histogram(DURATION, MODEL, (1.0, 2.0), (1, 2, 3), 8.0)
    serving.take(samples(values(5e6)), (before,), at(0), agent_id="one")
    after = histogram(DURATION, MODEL, (1.0, 2.0), (0, 1, 1), 1.5)
    assert serving.take(samples(values(4e6)), (after,), at(5), agent_id="two") == []
    assert not serving.endpoints["e"].up
    (done,) = serving.take(samples(values(4e6 + 7)), (after,), at(10), agent_id="two")
    assert done.sums == ModelSum(prompt_tokens=7.0)
    # The same agent tells of an engine that began anew.
    (done,) = serving.take(samples(values(3)), (after,), at(15), agent_id="two")
    assert done.sums == ModelSum(prompt_tokens=3.0)


def test_an_endpoint_that_is_not_recognized_yet_is_what_it_was() -> None:
    """Until an agent that was restarted has read a frontend, it takes it for an engine."""
    serving = NodeServing()
    serving.take(samples({("llm_up", ("front", "dynamo", "router")): 1}), (), at(0))
    serving.take(samples({("llm_up", ("front", "unknown", "engine")): 0}), (), at(5))
    assert serving.has("router")
    assert not serving.has("engine")
    assert serving.endpoints["front"].engine == "dynamo"
    assert not serving.endpoints["front"].up


def test_a_sum_of_observations_that_no_time_can_have_is_none() -> None:
    """Two of them would make an infinity, which no roll-up can hold."""
    serving = NodeServing()
    serving.take(samples(values(0)), (histogram(DURATION, MODEL, (1.0,), (1, 2), 3.0),), at(0))
    monstrous = histogram(DURATION, MODEL, (1.0,), (2, 3), 1e308)
    assert serving.take(samples(values(0)), (monstrous,), at(5)) == []
