"""Figures of tokens, joules and dollars: literals are the case table of facts on tokens, §6, unless said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.efficiency.compute import compute_efficiency
from collector.efficiency.figure import Figure, blank, figure
from collector.efficiency.price import Price
from collector.efficiency.rollup import merge
from collector.profiles import references
from collector.profiles.references import TokenKind
from tests.efficiency_literals import (
    ENDS_NS,
    MODEL,
    PRICE,
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

LLAMA = "meta-llama/Llama-3.3-70B-Instruct"


def value(found: Figure) -> float:
    assert found.value is not None, found.reason
    return found.value


def test_the_case_of_the_table() -> None:
    # 10,000 tok/s, 120 kW, PUE 1.2, $0.08, 72 x $2.652
    found = compute()
    own = domain(found)
    assert value(own.tokens_per_joule) == pytest.approx(0.0833, abs=5e-5)
    assert value(own.tokens_per_second_per_megawatt) == pytest.approx(83_333, abs=0.5)
    assert value(own.kwh_per_million_tokens) == pytest.approx(3.333, abs=5e-4)
    assert value(tokens(found).energy_usd_per_million_tokens) == pytest.approx(0.32)
    assert value(tokens(found).all_in_usd_per_million_tokens) == pytest.approx(5.304)


def test_it_is_a_ratio_of_sums() -> None:
    # 10,000 tok/s at 120 kW, then 100 tok/s at 30 kW: 0.0673 tok/J; the mean of ratios would be 0.0433.
    two = merge([rollup({MODEL: model(10_000.0)}, 120_000.0), rollup({MODEL: model(100.0)}, 30_000.0)])
    own = domain(compute(two, window_seconds=2 * WINDOW))
    assert value(own.tokens_per_joule) == pytest.approx(0.0673, abs=5e-5)
    # J/tok 14.85, over 3.6
    assert value(own.kwh_per_million_tokens) == pytest.approx(14.85 / 3.6, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "kind", "per_joule"),
    [
        # 10,000 or 90,000 tok/s over 86.4, 102 and 120 kW
        ("gpu", TokenKind.GENERATION, 0.115741),
        ("module", TokenKind.GENERATION, 0.098039),
        ("rack_input", TokenKind.GENERATION, 0.083333),
        ("gpu", TokenKind.TOTAL, 1.041667),
        ("module", TokenKind.TOTAL, 0.882353),
        ("rack_input", TokenKind.TOTAL, 0.75),
    ],
)
def test_kinds_and_domains_apart(name: str, kind: TokenKind, per_joule: float) -> None:
    found = compute()
    assert len(found.domains) == 6
    assert value(domain(found, name, kind).tokens_per_joule) == pytest.approx(per_joule, abs=1e-6)
    # The model has all GPUs, so its figures are the rack's.
    assert value(domain(found.models[0], name, kind).tokens_per_joule) == pytest.approx(per_joule, abs=1e-6)


def test_rates() -> None:
    own = tokens(compute(references=references.load()), TokenKind.TOTAL)
    assert value(own.count) == 27_000_000
    assert value(own.tokens_per_second) == 90_000
    assert value(own.tokens_per_second_per_gpu) == 1250
    # 90,000 tok/s over 72 GPUs of 2.10 kW, which are 0.1512 MW (facts on tokens, §2)
    assert value(own.tokens_per_second_per_provisioned_megawatt) == pytest.approx(595_238.1, abs=0.1)


def test_pue_is_left_out_where_none_is_configured() -> None:
    found = compute(price=Price(kwh_usd=0.08))
    assert value(tokens(found).energy_usd_per_million_tokens) == pytest.approx(3.3333333 * 0.08)
    assert "price.gpu_hour_usd" in tokens(found).all_in_usd_per_million_tokens.reason
    assert "price.kwh_usd" in tokens(compute(price=Price())).energy_usd_per_million_tokens.reason


def test_energy_is_added_where_the_gpu_hour_does_not_include_it() -> None:
    own_hall = replace(PRICE, gpu_hour_includes_energy=False)
    assert value(tokens(compute(price=own_hall)).all_in_usd_per_million_tokens) == pytest.approx(5.624)
    unpriced = replace(own_hall, kwh_usd=None)
    assert "price.kwh_usd" in tokens(compute(price=unpriced)).all_in_usd_per_million_tokens.reason


def test_no_traffic_is_zero_tokens_for_each_joule_and_costs_are_blank() -> None:
    # No traffic, 25 kW: tok/J 0; kWh and $ per Mtok absent
    quiet = rollup({MODEL: model(0.0, 0.0)}, 25_000.0)
    quiet.energy["rack_input"] = energy(25_000.0, units=8, idle_watts=25_000.0)
    found = compute(quiet)
    assert value(domain(found).tokens_per_joule) == 0
    assert value(domain(found).tokens_per_second_per_megawatt) == 0
    for own in (
        domain(found).kwh_per_million_tokens,
        tokens(found).energy_usd_per_million_tokens,
        tokens(found).all_in_usd_per_million_tokens,
    ):
        assert own.reason.startswith("no tokens were counted")
    assert value(energies(found, "rack_input").idle_joules) == 7_500_000
    assert value(energies(found, "rack_input").idle_ratio) == 1


def test_energy_and_its_split() -> None:
    sums = rollup()
    sums.energy["module"].error_joules = 306_000
    found = compute(sums)
    assert value(energies(found, "rack_input").joules) == 36_000_000
    assert value(energies(found, "rack_input").mean_watts) == 120_000
    # 306 kJ of 102 kW for 300 s
    assert value(energies(found, "module").error_ratio) == pytest.approx(0.01)
    assert value(energies(found, "gpu").error_ratio) == 0
    # facts on tokens, §4: GPUs 72 %, Grace 12.6 %, rest 15.4 %
    split = found.split
    assert [value(own) for own in (split.gpu_ratio, split.cpu_ratio, split.other_ratio)] == pytest.approx(
        [0.72, 0.126, 0.154]
    )


def test_a_split_that_cannot_be_is_blank() -> None:
    found = compute(rollup(rack_watts=100_000.0))
    assert "a power shelf is missing" in found.split.other_ratio.reason
    sums = rollup()
    del sums.energy["cpu"]
    found = compute(sums)
    assert value(found.split.gpu_ratio) == pytest.approx(0.72)
    assert "no CPU's power is known" in found.split.cpu_ratio.reason
    assert "no CPU's power is known" in found.split.other_ratio.reason


def test_what_models_do_is_shared_out_and_adds_up() -> None:
    sums = rollup(
        {
            MODEL: model(8000.0, gpus=48, gpu_watts=64_800.0),
            LLAMA: model(2000.0, gpus=16, gpu_watts=17_280.0),
        }
    )
    found = compute(sums)
    first, second = found.models
    # 64.8, 17.28 and the rest of 86.4 kW
    assert [first.model, second.model] == [MODEL, LLAMA]
    assert value(first.share.ratio) == pytest.approx(0.75)
    assert value(second.share.ratio) == pytest.approx(0.2)
    assert value(found.unallocated.ratio) == pytest.approx(0.05)
    for name in ("gpu", "module", "rack_input"):
        parts = [value(own.joules[name]) for own in (first.share, second.share, found.unallocated)]
        assert sum(parts) == pytest.approx(value(energies(found, name).joules))
    # 8,000 tok/s on 75 % of 120 kW, and on 64.8 kW of GPUs
    assert value(domain(first).tokens_per_joule) == pytest.approx(8000 / 90_000)
    assert value(domain(first, "gpu").tokens_per_joule) == pytest.approx(8000 / 64_800)
    # 48 GPUs x $2.652 an hour over 28.8 Mtok an hour
    assert value(tokens(first).all_in_usd_per_million_tokens) == pytest.approx(4.42)
    assert (value(first.share.gpus), value(second.share.gpus), value(found.unallocated.gpus)) == (48, 16, 8)
    assert value(first.rack_part) == 0.75
    assert value(domain(found).tokens_per_joule) == pytest.approx(10_000 / 120_000)


def test_endpoints_that_do_not_say_their_gpus_leave_their_model_blank() -> None:
    unplaced = model(2000.0, gpus=0, gpu_watts=0.0)
    unplaced.unplaced_seconds = unplaced.endpoint_seconds
    found = compute(rollup({MODEL: model(8000.0, gpus=48, gpu_watts=64_800.0), LLAMA: unplaced}))
    first, second = found.models
    assert value(first.share.ratio) == pytest.approx(0.75)
    assert f"the endpoints of {LLAMA} had GPUs to themselves for 0 %" in second.share.ratio.reason
    assert second.share.attribution.value == "none"
    assert value(tokens(second).tokens_per_second) == 2000
    for name in ("gpu", "module", "rack_input"):
        assert "had GPUs to themselves" in domain(second, name).tokens_per_joule.reason
    assert "had GPUs to themselves" in tokens(second).all_in_usd_per_million_tokens.reason
    assert "the rack serves 2 models" in first.rack_part.reason
    assert value(domain(found).tokens_per_joule) == pytest.approx(10_000 / 120_000)


def test_the_only_model_of_a_rack_takes_all_of_it() -> None:
    unplaced = model(gpus=0, gpu_watts=0.0)
    unplaced.unplaced_seconds = unplaced.endpoint_seconds
    found = compute(rollup({MODEL: unplaced}))
    (own,) = found.models
    assert own.share.attribution.value == "whole"
    assert value(domain(own).tokens_per_joule) == pytest.approx(10_000 / 120_000)
    assert value(tokens(own).all_in_usd_per_million_tokens) == pytest.approx(5.304)
    assert value(found.unallocated.ratio) == 0


def test_models_cannot_use_more_than_the_rack_has() -> None:
    found = compute(rollup({MODEL: model(gpu_watts=100_000.0)}))
    assert "more than the 25920000 J of all GPUs" in found.models[0].share.ratio.reason
    assert "more than the 25920000 J of all GPUs" in found.unallocated.ratio.reason
    assert value(domain(found).tokens_per_joule) == pytest.approx(10_000 / 120_000)


def test_lengths_saturation_and_cache() -> None:
    own = model(waiting=0.75)
    own.prefix_hit_tokens = own.prefix_query_tokens / 4
    (found,) = compute(rollup({MODEL: own})).models
    assert value(found.mean_prompt_tokens) == pytest.approx(8192)
    assert value(found.mean_generation_tokens) == pytest.approx(1024)
    assert value(found.saturation_ratio) == 0.75
    assert value(found.prefix_cache_hit_ratio) == 0.25
    assert found.engines == ("vllm",)
    own.finished_requests = own.prefix_query_tokens = 0
    (found,) = compute(rollup({MODEL: own})).models
    assert found.mean_prompt_tokens.reason == "no request ended in the window"
    assert found.prefix_cache_hit_ratio.reason == "no prompt was looked up in the prefix cache"


def test_an_empty_window_is_a_defect() -> None:
    with pytest.raises(ValueError, match="is empty"):
        compute_efficiency(rollup(), USAGE, starts_ns=ENDS_NS, ends_ns=ENDS_NS, price=PRICE)


def test_a_figure_is_a_value_or_a_reason() -> None:
    for wrong in ((None, ""), (1.0, "both"), (float("nan"), ""), (float("inf"), "")):
        with pytest.raises(ValueError, match="a figure is"):
            Figure(*wrong)
    assert figure(1e300).map(lambda number: number * 1e300).reason == "it is larger than a number can be"
    assert blank("a").per(blank("b")).reason == "a"
    assert figure(1.0).per(blank("b")).reason == "b"
    with pytest.raises(ValueError, match="there is no figure: a"):
        _ = blank("a").sure
