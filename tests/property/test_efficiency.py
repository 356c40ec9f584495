"""Efficiency of any sums: never a number that is none, shares that add up, quantiles within their bucket."""

from __future__ import annotations

import json
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.efficiency.interactivity import quantile
from collector.efficiency.rollup import EnergySum, HistogramSum, ModelSum, Rollup
from collector.profiles import references
from exporters.rest.models.common import Envelope
from exporters.rest.views.efficiency import efficiency
from tests.efficiency_literals import WINDOW, compute
from tests.rest_figures import nulls

amounts = st.floats(0, 1e15) | st.sampled_from([0.0, 5e-324, 1e-300, WINDOW, 1e300])
ENVELOPE = Envelope(observed_at="2026-11-30T10:00:00.000Z", stale_after_s=15.0, generation=0)


@st.composite
def histograms(draw: st.DrawFn) -> HistogramSum:
    bounds = sorted(draw(st.sets(st.floats(1e-6, 1e6), max_size=6)))
    steps = draw(st.lists(st.floats(0, 1e9), min_size=len(bounds) + 1, max_size=len(bounds) + 1))
    return HistogramSum(bounds=tuple(bounds), counts=tuple(accumulate(steps)), sum=draw(amounts))


energies = st.builds(
    EnergySum,
    joules=amounts,
    error_joules=amounts,
    idle_joules=amounts,
    covered_seconds=amounts,
    expected_seconds=amounts,
)
models = st.builds(
    ModelSum,
    prompt_tokens=amounts,
    generation_tokens=amounts,
    finished_requests=amounts,
    prefix_query_tokens=amounts,
    prefix_hit_tokens=amounts,
    endpoint_seconds=amounts,
    waiting_seconds=amounts,
    engine_seconds=st.dictionaries(st.sampled_from(["vllm", "sglang"]), amounts),
    at_finish_seconds=st.dictionaries(st.sampled_from(["vllm", "sglang"]), amounts),
    gpu_joules=amounts,
    gpu_seconds=amounts,
    unplaced_seconds=amounts,
    inter_token_latency=st.none() | histograms(),
    request_duration=st.none() | histograms(),
)
rollups = st.builds(
    Rollup,
    watched_seconds=st.just(WINDOW) | amounts,
    energy=st.dictionaries(st.sampled_from(["gpu", "module", "rack_input", "cpu"]), energies),
    role=st.sampled_from(["", "engine"]),
    endpoints_expected_seconds=st.just(WINDOW) | amounts,
    endpoints_up_seconds=st.just(WINDOW) | amounts,
    models=st.dictionaries(st.text(max_size=8), models, max_size=3),
)


@given(rollups)
def test_any_sums_have_an_answer(sums: Rollup) -> None:
    # A figure that is no finite number would raise (`Figure`).
    found = compute(sums, references=references.load())
    body = json.loads(efficiency(ENVELOPE, found, "5m").model_dump_json())
    assert len(body["models"]) == len(sums.models)
    assert nulls(body) == []


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=5), st.floats(0, 1e9), st.floats(1, 1e12))
def test_shares_add_up_to_the_rack(joules: list[float], unnamed: float, rack_joules: float) -> None:
    whole = sum(joules) + unnamed
    own = {"covered_seconds": WINDOW, "expected_seconds": WINDOW}
    sums = Rollup(
        watched_seconds=WINDOW,
        energy={"gpu": EnergySum(joules=whole, **own), "rack_input": EnergySum(joules=rack_joules, **own)},
        models={
            f"m{number}": ModelSum(gpu_joules=each, gpu_seconds=WINDOW, endpoint_seconds=WINDOW)
            for number, each in enumerate(joules)
        },
    )
    found = compute(sums)
    shares = [*(model.share for model in found.models), found.unallocated]
    assert sum(share.ratio.sure for share in shares) == pytest.approx(1, abs=1e-5)
    assert sum(share.joules["rack_input"].sure for share in shares) == pytest.approx(rack_joules, rel=1e-5)


@given(histograms(), st.floats(0.01, 1))
def test_a_quantile_lies_in_the_bucket_that_holds_its_rank(histogram: HistogramSum, share: float) -> None:
    found = quantile(histogram, share, "latency")
    rank = share * histogram.counts[-1]
    holding = [place for place, upto in enumerate(histogram.counts[:-1]) if upto >= rank]
    if not holding or histogram.counts[-1] <= 0:
        assert found.value is None
        return
    lower = histogram.bounds[holding[0] - 1] if holding[0] else 0.0
    assert found.value is not None
    assert lower <= found.value <= histogram.bounds[holding[0]] * (1 + 1e-12)
