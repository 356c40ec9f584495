"""Published figures beside measured ones: a ratio only where all matches, else what differs, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.efficiency.answer import Efficiency, ReferenceLine
from collector.efficiency.figure import figure
from collector.efficiency.fleet import FleetModel
from collector.efficiency.likeness import model_key, same_model
from collector.efficiency.rollup import HistogramSum, ModelSum
from collector.profiles import references
from tests.efficiency_literals import MODEL, USAGE, baseline, compute, model, rollup

GB300 = "inferencex-dsr1-8k1k-gb300-fp4"


def line(found: Efficiency, reference_id: str = GB300) -> ReferenceLine:
    return next(own for own in found.references if own.reference.id == reference_id)


def held(name: str = MODEL, /, **changes: object) -> Efficiency:
    own = model()
    for key, value in changes.items():
        setattr(own, key, value)
    return compute(rollup({name: own}), references=references.load())


def test_all_matches() -> None:
    # 90,000 total tok/s over 72 x 2.10 kW, to 18,131.6 tok/s/GPU over 2.10 kW (facts on tokens, §2)
    own = line(held())
    assert own.unit == "tokens_per_second_per_megawatt"
    assert own.published == pytest.approx(8_634_095, abs=1)
    assert own.measured.value == pytest.approx(595_238.1, abs=0.1)
    assert own.ratio.value == pytest.approx(1250 / 18_131.6)
    assert own.differences == ()
    # 33.3 and 29.8 tokens/s/user are within a quarter.
    assert own.measured_tokens_per_second_per_user.value == pytest.approx(33.33, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"prompt_tokens": 80_000.0 * 300 * 1.26},
            "the mean prompt length differs: 10322 instead of 8192 tokens",
        ),
        (
            {"generation_tokens": 10_000.0 * 300 * 0.74},
            "the mean generation length differs: 757.8 instead of 1024 ",
        ),
        (
            {"finished_requests": 0.0},
            "the mean prompt length is not known here (no request ended in the window)",
        ),
        (
            {"inter_token_latency": HistogramSum(bounds=(1.0,), counts=(100, 100), sum=10.0)},
            "the interactivity differs: 10 instead of 29.76 tokens/s/user",
        ),
        ({"inter_token_latency": None}, "the interactivity is not known here (the engine does not tell its"),
    ],
)
def test_what_differs_is_said_and_there_is_no_ratio(changes: dict[str, object], said: str) -> None:
    own = line(held(MODEL, **changes))
    assert own.differences[0].startswith(said)
    assert own.ratio.value is None
    assert own.ratio.reason.startswith("what is measured here is not the same")


@pytest.mark.parametrize("scale", [0.76, 1.0, 1.24])
def test_lengths_within_a_quarter_match(scale: float) -> None:
    assert line(held(prompt_tokens=80_000.0 * 300 * scale)).differences == ()


def test_another_model_is_held_against_its_platform_and_differs() -> None:
    own = line(held("Qwen/Qwen3-235B"))
    assert own.differences == ("the model differs: Qwen/Qwen3-235B instead of DeepSeek-R1-0528",)
    assert own.measured.value is not None
    shown = {each.reference.id for each in held("Qwen/Qwen3-235B").references}
    assert "inferencex-dsr1-8k1k-h100-fp8" not in shown
    assert {"claim-agentx", "mlperf-v61-scaling-4-racks", GB300} <= shown


def test_a_platform_without_a_published_power_has_nothing_on_that_basis() -> None:
    found = compute(usage=replace(USAGE, platform="some-rack"), references=references.load())
    own = line(found)
    assert own.measured.reason == "no power that is provisioned for a GPU is published for some-rack"
    assert own.differences == (
        "nothing is measured on its basis (total tokens, power basis provisioned): " + own.measured.reason,
    )


def test_unstated_conditions_are_no_match() -> None:
    own = line(held(), "mlperf-v60-dsr1-gb300-offline")
    assert own.unit == "tokens_per_second_per_gpu"
    # 10,000 generated tok/s over 72 GPUs
    assert own.measured.value == pytest.approx(138.9, abs=0.05)
    assert own.differences == (
        f"the model differs: {MODEL} instead of DeepSeek-R1",
        "the lengths of prompts and generations are not stated, so that they cannot be compared",
    )


def test_claims_are_shown_and_never_held_against() -> None:
    own = line(held(), "claim-inferencex-per-megawatt")
    assert (own.unit, own.published, own.measured.value, own.ratio.value) == ("ratio", 50, None, None)
    assert own.differences == (
        "it compares two generations of hardware or software, and a rack is one of them at most",
    )


def test_scaling_needs_as_many_racks() -> None:
    two = FleetModel(generation_tokens=figure(3e6), racks=figure(2.0), saturation_ratio=figure(0.9))
    found = compute(references=references.load(), baselines=[baseline()], fleet={MODEL: two})
    own = line(found, "mlperf-v60-dsr1-gb300-offline-4-racks")
    assert own.measured.value == pytest.approx(0.495, abs=5e-4)
    assert "the number of racks differs: 2 instead of 4" in own.differences
    assert (
        "the number of racks differs: an unknown number instead of 4"
        in line(held(), "mlperf-v60-dsr1-gb300-offline-4-racks").differences
    )


def test_of_several_models_the_named_one_is_held_against() -> None:
    models: dict[str, ModelSum] = {
        "Qwen/Qwen3-235B": model(9000.0, gpus=36, gpu_watts=43_200.0),
        MODEL: model(1000.0, gpus=36, gpu_watts=43_200.0),
    }
    found = compute(rollup(models), references=references.load())
    assert line(found).model == MODEL
    assert line(found, "mlperf-v60-dsr1-gb300-server").model == "Qwen/Qwen3-235B"


def test_without_a_model_there_is_nothing_to_hold() -> None:
    own = line(compute(rollup({}), references=references.load()))
    assert (own.model, own.differences) == ("", ("no model is served in the window",))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1-0528", True),
        ("/models/DeepSeek-R1-0528/", "DeepSeek-R1-0528", True),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-R1-0528", False),
        ("nvidia/DeepSeek-R1-0528-FP4", "DeepSeek-R1-0528", False),
        ("", "", False),
    ],
)
def test_names_of_models(one: str, other: str, *, same: bool) -> None:
    assert same_model(one, other) is same
    assert same_model(other, one) is same
    assert model_key("A/B/C") == "c"
