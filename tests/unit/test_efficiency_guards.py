"""What makes figures blank, and that the reason says what, which value and what would be right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.efficiency.figure import Figure
from collector.efficiency.interactivity import mean_rate, quantile, slow_rate
from collector.efficiency.rollup import EnergySum, HistogramSum, Rollup
from tests.efficiency_literals import (
    MODEL,
    USAGE,
    WINDOW,
    compute,
    domain,
    energies,
    energy,
    model,
    rollup,
    tokens,
)


def reasons(sums: Rollup, *, window_seconds: float = WINDOW) -> tuple[str, str]:
    """Give why the rack's and the model's tokens for each joule are blank."""
    found = compute(sums, window_seconds=window_seconds)
    return domain(found).tokens_per_joule.reason, domain(found.models[0]).tokens_per_joule.reason


def test_nothing_watched() -> None:
    found = compute(Rollup())
    for own in (
        tokens(found).count,
        tokens(found).all_in_usd_per_million_tokens,
        domain(found).tokens_per_joule,
        domain(found).kwh_per_million_tokens,
        energies(found, "gpu").joules,
        energies(found, "gpu").coverage_ratio,
        found.endpoints_up_ratio,
        found.saturation_ratio,
        found.split.other_ratio,
        found.unallocated.ratio,
    ):
        assert own.reason.startswith("nothing of the window was watched")
    assert found.models == ()
    assert found.watched_ratio == Figure(0.0)


def test_too_little_watched() -> None:
    sums = rollup()
    sums.watched_seconds = 0.94 * WINDOW
    said = "282 s of the window's 300 s were watched; 95 % is enough"
    assert reasons(sums) == (said, said)
    sums.watched_seconds = 0.96 * WINDOW
    assert reasons(sums) == ("", "")


def test_no_endpoints() -> None:
    found = compute(replace_role(rollup({}), ""))
    assert tokens(found).count.reason.startswith("no serving endpoint is known: list them under `serving`")
    assert energies(found, "rack_input").joules.value == 36_000_000
    assert energies(found, "rack_input").idle_joules.reason.startswith("no serving endpoint is known")


def replace_role(sums: Rollup, role: str) -> Rollup:
    sums.role = role
    return sums


def test_one_of_two_endpoints_down() -> None:
    # 1 of 2 engines unscraped: -50 % without a guard, absent with it (facts on tokens, §6)
    sums = rollup({MODEL: model(5000.0)})
    sums.endpoints_up_seconds = sums.endpoints_expected_seconds / 2
    said = (
        "the serving endpoints were up and fresh for 50 % of the window, with tokens counted; 95 % is enough"
    )
    assert reasons(sums) == (said, said)
    found = compute(sums)
    assert found.endpoints_up_ratio.value == 0.5
    assert found.models[0].tokens_per_second_per_user.reason == said
    assert found.models[0].saturation_ratio.reason == said
    assert energies(found, "gpu").joules.value == 25_920_000


@pytest.mark.parametrize(("up", "blank"), [(0.9499, True), (0.95, False), (1.0, False)])
def test_one_failed_scrape_is_tolerated(up: float, *, blank: bool) -> None:
    sums = rollup()
    sums.endpoints_up_seconds = sums.endpoints_expected_seconds * up
    assert bool(reasons(sums)[0]) is blank


def test_a_missing_shelf_blanks_the_input_alone() -> None:
    # One of eight shelves is silent: its power would flatter tokens for each joule (facts on tokens, §6).
    sums = rollup()
    sums.energy["rack_input"] = energy(105_000.0, units=8, covered=7 / 8)
    found = compute(sums)
    said = "the energy of `rack_input` is known for 87.5 % of the window; 95 % is enough"
    assert domain(found).tokens_per_joule.reason == said
    assert tokens(found).energy_usd_per_million_tokens.reason == said
    assert energies(found, "rack_input").coverage_ratio.value == 0.875
    assert domain(found, "gpu").tokens_per_joule.value is not None
    assert tokens(found).all_in_usd_per_million_tokens.value == pytest.approx(5.304)
    assert found.models[0].share.joules["rack_input"].reason == said
    assert found.models[0].share.joules["gpu"].value == 25_920_000


def test_coverage_is_of_the_window_and_not_of_what_was_watched() -> None:
    sums = rollup()
    sums.watched_seconds = 0.96 * WINDOW
    sums.energy["gpu"] = energy(86_400.0, units=72, covered=0.97)
    # 0.96 x 0.97
    assert "for 93.1 % of the window" in domain(compute(sums), "gpu").tokens_per_joule.reason


def test_no_shelf_is_configured() -> None:
    found = compute(usage=replace(USAGE, shelves_configured=False))
    assert domain(found).tokens_per_joule.reason == (
        "no power shelf is configured: list them under `redfish` of the rack"
    )
    assert energies(found, "rack_input").coverage_ratio.reason == domain(found).tokens_per_joule.reason
    assert found.split.gpu_ratio.reason == domain(found).tokens_per_joule.reason


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpu", "the energy of no GPU is known"),
        ("module", "no module's power is known"),
        ("rack_input", "no power shelf was read"),
    ],
)
def test_a_domain_of_which_nothing_is_known(name: str, said: str) -> None:
    sums = rollup()
    sums.energy[name] = EnergySum()
    assert said in domain(compute(sums), name).tokens_per_joule.reason
    del sums.energy[name]
    assert said in domain(compute(sums), name).tokens_per_joule.reason


def test_no_joules_cannot_be_right() -> None:
    assert reasons(rollup(rack_watts=0.0))[0] == (
        "the energy of `rack_input` is 0 J, which cannot be right of what is powered"
    )


@pytest.mark.parametrize("engine", ["sglang", "tensorrt_llm"])
def test_a_window_shorter_than_requests_of_an_engine_that_counts_at_their_end(engine: str) -> None:
    own = model(engine=engine, at_finish=True)
    own.request_duration = HistogramSum(bounds=(200.0, 400.0, 800.0), counts=(0, 90, 100, 100), sum=30_000.0)
    # 0.95 x 100 lies halfway from 400 to 800 s.
    assert reasons(rollup({MODEL: own}))[0] == (
        f"{engine} counts the tokens of {MODEL} when a request ends, and one in twenty lasts longer than "
        "600 s: take a window as long"
    )
    assert reasons(rollup({MODEL: own}), window_seconds=300.0)[1]
    long = rollup({MODEL: own})
    long.watched_seconds = 600.0
    for each in long.energy.values():
        each.covered_seconds *= 2
        each.expected_seconds *= 2
    assert reasons(long, window_seconds=600.0) == ("", "")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_engine_that_counts_as_it_writes_may_be_slow(engine: str) -> None:
    own = model(engine=engine)
    own.request_duration = HistogramSum(bounds=(800.0,), counts=(100, 100), sum=60_000.0)
    assert reasons(rollup({MODEL: own})) == ("", "")


def test_requests_that_go_on_are_not_no_tokens() -> None:
    own = model(0.0, 0.0, engine="sglang", at_finish=True)
    own.request_duration = HistogramSum(bounds=(30.0,), counts=(0, 0), sum=0.0)
    said = (
        f"sglang counts the tokens of {MODEL} when a request ends, and no request duration was observed in "
        "the window"
    )
    assert reasons(rollup({MODEL: own})) == (said, said)
    idle = rollup({MODEL: own})
    for each in idle.energy.values():
        each.idle_joules = each.joules
    assert domain(compute(idle)).tokens_per_joule.value == 0


def test_a_window_of_less_than_four_scrapes() -> None:
    sums = rollup()
    assert "the window of 45 s is too short; 60 s is enough" in reasons(sums, window_seconds=45.0)[0]


def test_gpus_that_nobody_counts() -> None:
    found = compute(usage=replace(USAGE, gpus=None))
    said = "nothing says how many GPUs the rack should have"
    assert tokens(found).tokens_per_second_per_gpu.reason == said
    assert tokens(found).all_in_usd_per_million_tokens.reason == said
    assert domain(found).tokens_per_joule.value is not None


def test_a_platform_without_a_published_power() -> None:
    found = compute(usage=replace(USAGE, platform="hgx-h100"))
    assert "is published for hgx-h100" in tokens(found).tokens_per_second_per_provisioned_megawatt.reason


# Prometheus' own cases of histogram_quantile: rank within a bucket, linear from its lower bound.
QUANTILES = [
    (0.5, (1.0, 2.0, 4.0), (10, 20, 20, 20), 1.0),
    (0.75, (1.0, 2.0, 4.0), (10, 20, 20, 20), 1.5),
    (0.9, (0.1, 0.2), (0, 100, 100), 0.19),
    (0.25, (1.0, 2.0), (100, 100, 100), 0.25),
    (1.0, (1.0, 2.0), (1, 2, 2), 2.0),
]


@pytest.mark.parametrize(("share", "bounds", "counts", "seconds"), QUANTILES)
def test_quantiles_are_those_of_prometheus(
    share: float, bounds: tuple[float, ...], counts: tuple[float, ...], seconds: float
) -> None:
    found = quantile(HistogramSum(bounds=bounds, counts=counts, sum=1.0), share, "latency")
    assert found.value == pytest.approx(seconds)


def test_what_lies_above_the_buckets_is_blank() -> None:
    above = HistogramSum(bounds=(0.1, 0.5), counts=(0, 10, 100), sum=60.0)
    assert quantile(above, 0.9, "latency").reason == (
        "the latency of the 0.9 quantile lies above the engine's buckets: the highest bound is 0.5 s"
    )
    assert slow_rate(above, "latency").value is None
    assert mean_rate(above, "latency").value == pytest.approx(100 / 60)
    assert "there are no bounds" in quantile(HistogramSum(bounds=(), counts=(5,), sum=1.0), 0.9, "x").reason


def test_interactivity_needs_observations() -> None:
    assert mean_rate(None, "latency").reason == "the engine does not tell its latency"
    empty = HistogramSum(bounds=(1.0,), counts=(0, 0), sum=0.0)
    assert mean_rate(empty, "latency").reason == "no latency was observed in the window"
    assert slow_rate(empty, "latency").reason == "no latency was observed in the window"
    zero = HistogramSum(bounds=(1.0,), counts=(5, 5), sum=0.0)
    assert "cannot be right" in mean_rate(zero, "latency").reason
