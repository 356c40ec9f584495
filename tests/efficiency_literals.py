"""Sums of a rack over five minutes, made of literals: the case of facts on tokens, §6, to be changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collector.efficiency.answer import (
    DomainFigures,
    Efficiency,
    EnergyFigures,
    ExpectedUsage,
    ModelFigures,
    TokenFigures,
)
from collector.efficiency.baseline import Baseline
from collector.efficiency.compute import compute_efficiency
from collector.efficiency.fleet import FleetModel
from collector.efficiency.price import Price
from collector.efficiency.rollup import EnergySum, HistogramSum, ModelSum, Rollup
from collector.profiles.references import Reference, TokenKind

SECOND_NS = 1_000_000_000
ENDS_NS = 1_796_032_800 * SECOND_NS
"""2026-11-30T10:00:00Z."""
STARTS_NS = ENDS_NS - 300 * SECOND_NS
WINDOW = 300.0

MODEL = "deepseek-ai/DeepSeek-R1-0528"
PRICE = Price(gpu_hour_usd=2.652, kwh_usd=0.08, pue=1.2)
USAGE = ExpectedUsage(rack="r01", platform="gb300-nvl72", gpus=72, shelves_configured=True)


def energy(watts: float, units: int = 1, covered: float = 1.0, idle_watts: float = 0.0) -> EnergySum:
    """Give the energy of units that together take so many watts for five minutes."""
    return EnergySum(
        joules=watts * WINDOW,
        idle_joules=idle_watts * WINDOW,
        covered_seconds=units * WINDOW * covered,
        expected_seconds=units * WINDOW,
    )


def latencies() -> HistogramSum:
    """Give 3,000,000 times between tokens: 0.03 s in the mean, nine of ten below 0.05 s."""
    return HistogramSum(bounds=(0.01, 0.025, 0.05, 0.1), counts=(0.0, 1e6, 2.7e6, 3e6, 3e6), sum=90_000.0)


def model(
    generation_per_second: float = 10_000.0,
    prompt_per_second: float = 80_000.0,
    *,
    gpus: int = 72,
    gpu_watts: float = 86_400.0,
    waiting: float = 0.75,
    engine: str = "vllm",
    at_finish: bool = False,
) -> ModelSum:
    """Give what four endpoints did on GPUs of their own: prompts of 8192 tokens, generations of 1024."""
    return ModelSum(
        prompt_tokens=prompt_per_second * WINDOW,
        generation_tokens=generation_per_second * WINDOW,
        finished_requests=generation_per_second * WINDOW / 1024,
        prefix_query_tokens=prompt_per_second * WINDOW,
        prefix_hit_tokens=0.0,
        endpoint_seconds=4 * WINDOW,
        waiting_seconds=4 * WINDOW * waiting,
        engine_seconds={engine: 4 * WINDOW},
        at_finish_seconds={engine: 4 * WINDOW} if at_finish else {},
        gpu_joules=gpu_watts * WINDOW,
        gpu_seconds=gpus * WINDOW,
        inter_token_latency=latencies(),
        request_duration=HistogramSum(
            bounds=(30.0, 60.0, 120.0), counts=(0, 2800, 2930, 2930), sum=120_000.0
        ),
    )


def rollup(models: dict[str, ModelSum] | None = None, rack_watts: float = 120_000.0) -> Rollup:
    """Give a rack's sums: 120 kW of input, of which GPUs take 72 % and CPUs 12.6 % (facts on tokens, §4)."""
    return Rollup(
        watched_seconds=WINDOW,
        energy={
            "gpu": energy(86_400.0, units=72),
            "module": energy(102_000.0, units=36),
            "rack_input": energy(rack_watts, units=8),
            "cpu": energy(15_120.0, units=36),
        },
        role="engine",
        endpoints_expected_seconds=4 * WINDOW,
        endpoints_up_seconds=4 * WINDOW,
        models={MODEL: model()} if models is None else models,
    )


def baseline(**changes: object) -> Baseline:
    """Give the baseline of the case: one rack wrote 10,100 tokens a second."""
    given: dict[str, object] = {
        "id": "b-1",
        "rack": "r01",
        "platform": "gb300-nvl72",
        "model": MODEL,
        "starts_ns": STARTS_NS - 86_400 * SECOND_NS,
        "ends_ns": ENDS_NS - 86_400 * SECOND_NS,
        "recorded_ns": ENDS_NS - 86_000 * SECOND_NS,
        "racks": 1.0,
        "gpus": 72.0,
        "generation_tokens_per_second": 10_100.0,
        "total_tokens_per_second": 90_900.0,
        "saturation_ratio": 0.9,
        "tokens_per_joule": 0.0842,
        "mean_prompt_tokens": 8192.0,
        "mean_generation_tokens": 1024.0,
        "tokens_per_second_per_user": 30.0,
        "note": "Offline, 8k/1k",
        "created_by": "dc-operations",
    }
    return Baseline(**(given | changes))  # type: ignore[arg-type]  # as in the fields


def compute(
    sums: Rollup | None = None,
    *,
    usage: ExpectedUsage = USAGE,
    price: Price = PRICE,
    references: Iterable[Reference] = (),
    baselines: Iterable[Baseline] = (),
    fleet: Mapping[str, FleetModel] | None = None,
    window_seconds: float = WINDOW,
) -> Efficiency:
    """Compute the efficiency of a rack over a window that ends at `ENDS_NS`."""
    return compute_efficiency(
        rollup() if sums is None else sums,
        usage,
        starts_ns=ENDS_NS - int(window_seconds * SECOND_NS),
        ends_ns=ENDS_NS,
        price=price,
        references=references,
        baselines=baselines,
        fleet=fleet,
    )


def domain(
    found: Efficiency | ModelFigures, name: str = "rack_input", tokens: TokenKind = TokenKind.GENERATION
) -> DomainFigures:
    return next(own for own in found.domains if own.domain == name and own.tokens is tokens)


def tokens(found: Efficiency | ModelFigures, kind: TokenKind = TokenKind.GENERATION) -> TokenFigures:
    return next(own for own in found.tokens if own.tokens is kind)


def energies(found: Efficiency, name: str) -> EnergyFigures:
    return next(own for own in found.energy if own.domain == name)
