"""Scaling efficiency: fleets, baselines, saturation; and recording baselines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from collector.efficiency.answer import Efficiency, Scaling
from collector.efficiency.baseline import Baseline
from collector.efficiency.baselines import take_baselines
from collector.efficiency.fleet import fleet_of
from collector.efficiency.rollup import Rollup
from collector.errors import ConfigurationError
from tests.efficiency_literals import (
    ENDS_NS,
    MODEL,
    STARTS_NS,
    USAGE,
    WINDOW,
    baseline,
    compute,
    model,
    rollup,
)

OTHER = "meta-llama/Llama-3.3-70B-Instruct"


def scaling(racks: dict[str, Rollup], *baselines: Baseline) -> Scaling:
    found = compute(next(iter(racks.values())), baselines=baselines, fleet=fleet_of(racks, WINDOW))
    return found.models[0].scaling


def half(waiting: float = 0.75) -> Rollup:
    return rollup({MODEL: model(5000.0, 40_000.0, waiting=waiting)})


def test_the_case_of_the_table() -> None:
    # facts on tokens, §6: 10,000 tok/s on 2 racks at baseline 10,100 are 0.495
    found = scaling({"r01": half(), "r02": half()}, baseline())
    assert found.ratio.value == pytest.approx(0.495, abs=5e-4)
    assert (found.racks.value, found.tokens_per_second.value) == (2, 10_000)
    assert found.baseline == baseline()
    assert found.differences == ()


def test_the_newest_baseline_of_model_and_platform_counts() -> None:
    newest = baseline(id="b-2", recorded_ns=ENDS_NS, generation_tokens_per_second=5000.0, model=MODEL.lower())
    foreign = (
        baseline(id="b-3", recorded_ns=ENDS_NS + 1, platform="gb200-nvl72"),
        baseline(id="b-4", recorded_ns=ENDS_NS + 2, model=OTHER),
    )
    found = scaling({"r01": half(), "r02": half()}, newest, baseline(), *foreign)
    assert found.baseline == newest
    assert found.ratio.value == pytest.approx(1.0)
    found = scaling({"r01": half()}, *foreign)
    # Without one nobody asks other racks, so this rack must not pass for the fleet.
    for own in (found.ratio, found.racks, found.tokens_per_second, found.saturation_ratio):
        assert own.reason.startswith(f"no baseline of {MODEL} on gb300-nvl72 is recorded")
    assert found.baseline is None


def test_racks_that_are_not_saturated_say_nothing() -> None:
    found = scaling({"r01": half(waiting=0.75), "r02": half(waiting=0.2)}, baseline())
    assert found.ratio.reason == (
        "the racks are not saturated: requests waited for 47.5 % of the endpoints' time; 50 % is enough"
    )
    assert found.saturation_ratio.value == pytest.approx(0.475)
    assert scaling({"r01": half(waiting=0.5)}, baseline()).ratio.value is not None


def test_other_conditions_are_said() -> None:
    then = baseline(mean_prompt_tokens=1024.0, tokens_per_second_per_user=100.0)
    found = scaling({"r01": half()}, then)
    assert found.differences == (
        "the mean prompt length differs: 8192 instead of 1024 tokens",
        "the interactivity differs: 33.33 instead of 100 tokens/s/user",
    )
    assert found.ratio.value is not None
    unknown = baseline(mean_prompt_tokens=None, tokens_per_second_per_user=None)
    assert scaling({"r01": half()}, unknown).differences == ()


def test_a_rack_that_is_not_fully_known_blanks_the_fleet() -> None:
    down = half()
    down.endpoints_up_seconds = 0.5 * down.endpoints_expected_seconds
    found = scaling({"r01": half(), "r02": down}, baseline())
    assert found.ratio.reason.startswith("rack r02: the serving endpoints were up and fresh for 50 %")
    silent = rollup({})
    silent.endpoints_up_seconds = 0.0
    found = scaling({"r01": half(), "r02": silent}, baseline())
    assert found.ratio.reason.startswith("rack r02: the serving endpoints were up and fresh for 0 %")


def test_racks_without_the_model_do_not_count() -> None:
    racks = {"r01": half(), "r02": rollup({OTHER: model()}), "r03": Rollup(watched_seconds=WINDOW)}
    assert scaling(racks, baseline()).racks.value == 1


def test_a_rack_of_two_models_counts_in_parts() -> None:
    shared = rollup(
        {
            MODEL: model(2500.0, gpus=18, gpu_watts=21_600.0),
            OTHER: model(2500.0, gpus=54, gpu_watts=64_800.0),
        }
    )
    found = scaling({"r01": half(), "r02": shared}, baseline())
    # 18 of 72 GPUs; 7,500 tok/s over 1.25 x 10,100
    assert found.racks.value == 1.25
    assert found.ratio.value == pytest.approx(7500 / 12_625)
    shared.models[OTHER].unplaced_seconds = shared.models[OTHER].endpoint_seconds
    found = scaling({"r01": half(), "r02": shared}, baseline())
    assert found.ratio.reason.startswith("rack r02: the rack serves 2 models, and the endpoints of")


def test_without_a_fleet_nothing_is_known() -> None:
    found = compute(baselines=[baseline()]).models[0].scaling
    assert found.ratio.reason == f"what all racks did for {MODEL} is not known"


def ids() -> Iterator[str]:
    return (f"b-{number}" for number in count(1))


def take(measured: Efficiency, model: str | None = None, note: str = "8k/1k") -> tuple[Baseline, ...]:
    numbers = ids()
    return take_baselines(
        measured, model, recorded_ns=ENDS_NS, note=note, created_by="tester", make_id=lambda: next(numbers)
    )


def test_a_baseline_is_what_was_measured() -> None:
    (found,) = take(compute())
    assert found == Baseline(
        id="b-1",
        rack="r01",
        platform="gb300-nvl72",
        model=MODEL,
        starts_ns=STARTS_NS,
        ends_ns=ENDS_NS,
        recorded_ns=ENDS_NS,
        racks=1.0,
        gpus=72.0,
        generation_tokens_per_second=10_000.0,
        total_tokens_per_second=90_000.0,
        saturation_ratio=0.75,
        tokens_per_joule=10_000 / 120_000,
        mean_prompt_tokens=8192.0,
        mean_generation_tokens=1024.0,
        tokens_per_second_per_user=100 / 3,
        note="8k/1k",
        created_by="tester",
    )


def test_every_model_unless_one_is_named() -> None:
    measured = compute(
        rollup(
            {
                MODEL: model(5000.0, gpus=36, gpu_watts=43_200.0),
                OTHER: model(5000.0, gpus=36, gpu_watts=43_200.0),
            }
        )
    )
    assert [(own.id, own.model, own.racks) for own in take(measured)] == [
        ("b-1", MODEL, 0.5),
        ("b-2", OTHER, 0.5),
    ]
    assert [own.model for own in take(measured, "llama-3.3-70b-instruct")] == [OTHER]
    with pytest.raises(ConfigurationError, match=f"does not serve 'gpt'; it serves {MODEL}, {OTHER}"):
        take(measured, "gpt")


def test_the_input_power_need_not_be_known() -> None:
    (found,) = take(compute(usage=replace(USAGE, shelves_configured=False)))
    assert found.tokens_per_joule is None


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        (Rollup(), "baseline of rack r01: nothing of the window was watched"),
        (rollup({}), "no endpoint served a model in the window"),
        (half(waiting=0.49), "the racks are not saturated: requests waited for 49 %"),
        (rollup({MODEL: model(0.0)}), "no token was generated in the window"),
        (Rollup(watched_seconds=100.0, models={MODEL: model()}), "100 s of the window's 300 s were watched"),
    ],
)
def test_what_is_no_baseline_is_refused_in_words(sums: Rollup, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        take(compute(sums))


def test_a_note_is_bounded() -> None:
    with pytest.raises(ConfigurationError, match="note is longer than 1024 characters"):
        take(compute(), note="x" * 1025)
