"""Efficiency of a rack: every figure is a ratio of sums over one window, or blank with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.catalog.rack import ENERGY_DOMAINS
from collector.efficiency import guards
from collector.efficiency.answer import Efficiency, EnergyFigures, EnergySplit, ExpectedUsage, ModelFigures
from collector.efficiency.attribution import EnergyShare, share_out
from collector.efficiency.baseline import Baseline
from collector.efficiency.figure import Figure, blank, figure, or_blank
from collector.efficiency.fleet import FleetModel, rack_part, saturation
from collector.efficiency.interactivity import mean_rate, slow_rate
from collector.efficiency.matching import hold_against
from collector.efficiency.price import Price
from collector.efficiency.rollup import ModelSum, Rollup
from collector.efficiency.scaling import no_fleet, scale
from collector.efficiency.usage import Usage, count, domain_figures, token_figures
from collector.profiles.references import Reference, provisioned_watts_per_gpu

_SECOND_NS = 1_000_000_000
_LATENCY = "inter-token latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What every figure of one answer needs."""

    rollup: Rollup
    usage: ExpectedUsage
    window_seconds: float
    price: Price
    baselines: tuple[Baseline, ...]
    fleet: Mapping[str, FleetModel]
    watts_per_gpu: Figure
    uncounted: str


def compute_efficiency(
    rollup: Rollup,
    usage: ExpectedUsage,
    *,
    starts_ns: int,
    ends_ns: int,
    price: Price,
    references: Iterable[Reference] = (),
    baselines: Iterable[Baseline] = (),
    fleet: Mapping[str, FleetModel] | None = None,
) -> Efficiency:
    """Compute the efficiency of a rack.

    Args:
        rollup: Sums of the rack over the window.
        usage: The rack.
        starts_ns: Begin of the window, Unix nanoseconds.
        ends_ns: Its end, after its begin.
        price: Prices.
        references: Published figures.
        baselines: One-rack baselines.
        fleet: What all racks did for each model over the same window (`collector.efficiency.fleet.fleet_of`).

    Raises:
        ValueError: The window does not end after its begin.
    """
    window = (ends_ns - starts_ns) / _SECOND_NS
    if window <= 0:
        raise ValueError(f"the window from {starts_ns} to {ends_ns} is empty")
    published = tuple(references)
    asked = _Asked(
        rollup=rollup,
        usage=usage,
        window_seconds=window,
        price=price,
        baselines=tuple(baselines),
        fleet=fleet or {},
        watts_per_gpu=or_blank(
            provisioned_watts_per_gpu(usage.platform, published),
            f"no power that is provisioned for a GPU is published for {usage.platform}",
        ),
        uncounted=guards.tokens(rollup, window),
    )
    joules = {
        domain: guards.joules(rollup, domain, window, shelves_configured=usage.shelves_configured)
        for domain in ENERGY_DOMAINS
    }
    gpus = or_blank(usage.gpus, "nothing says how many GPUs the rack should have")
    shares, unallocated = share_out(rollup.models, joules, gpus, window)
    models = tuple(_model(asked, name, own, shares[name]) for name, own in sorted(rollup.models.items()))
    everything = Usage(
        window_seconds=window,
        tokens=count(rollup.models.values(), asked.uncounted or guards.all_finished(rollup, window)),
        joules=joules,
        gpus=gpus,
        watts_per_gpu=asked.watts_per_gpu,
    )
    return Efficiency(
        usage=usage,
        starts_ns=starts_ns,
        ends_ns=ends_ns,
        role=rollup.role,
        price=price,
        watched_ratio=figure(rollup.watched_seconds / window),
        endpoints_up_ratio=guards.endpoints_up(rollup, window),
        saturation_ratio=_saturation(asked, rollup.models.values()),
        provisioned_watts_per_gpu=asked.watts_per_gpu,
        energy=tuple(_energy(asked, domain, joules[domain]) for domain in ENERGY_DOMAINS),
        split=_split(joules),
        tokens=token_figures(everything, price),
        domains=domain_figures(everything),
        models=models,
        unallocated=unallocated,
        references=hold_against(published, usage.platform, models),
    )


def _model(asked: _Asked, name: str, own: ModelSum, share: EnergyShare) -> ModelFigures:
    idle = guards.idle(asked.rollup)
    reason = asked.uncounted or guards.finished(name, own, asked.window_seconds, idle=idle)
    usage = Usage(
        window_seconds=asked.window_seconds,
        tokens=count([own], reason),
        joules=share.joules,
        gpus=share.gpus,
        watts_per_gpu=asked.watts_per_gpu,
    )
    requests = figure(own.finished_requests).but(asked.uncounted).above_zero("no request ended in the window")
    prompt, generation = (
        figure(tokens).per(requests) for tokens in (own.prompt_tokens, own.generation_tokens)
    )
    looked_up = figure(own.prefix_query_tokens).above_zero("no prompt was looked up in the prefix cache")
    per_user = mean_rate(own.inter_token_latency, _LATENCY).but(asked.uncounted)
    return ModelFigures(
        model=name,
        engines=tuple(sorted(own.engine_seconds)),
        share=share,
        rack_part=rack_part(asked.rollup, name),
        tokens=token_figures(usage, asked.price),
        domains=domain_figures(usage),
        mean_prompt_tokens=prompt,
        mean_generation_tokens=generation,
        tokens_per_second_per_user=per_user,
        slow_tokens_per_second_per_user=slow_rate(own.inter_token_latency, _LATENCY).but(asked.uncounted),
        saturation_ratio=_saturation(asked, [own]),
        prefix_cache_hit_ratio=figure(own.prefix_hit_tokens).per(looked_up).but(asked.uncounted),
        scaling=scale(
            name,
            asked.usage.platform,
            asked.fleet.get(name) or no_fleet(name),
            asked.baselines,
            asked.window_seconds,
            lengths=(prompt, generation),
            per_user=per_user,
        ),
    )


def _saturation(asked: _Asked, models: Iterable[ModelSum]) -> Figure:
    sums = tuple(models)
    waiting, up = sum(own.waiting_seconds for own in sums), sum(own.endpoint_seconds for own in sums)
    return blank(asked.uncounted) if asked.uncounted else saturation(waiting, up)


def _energy(asked: _Asked, domain: str, joules: Figure) -> EnergyFigures:
    own = asked.rollup.energy.get(domain)
    idle_joules = joules.join(
        figure(0.0 if own is None else own.idle_joules).but(asked.uncounted), lambda _, idle: idle
    )
    return EnergyFigures(
        domain=domain,
        joules=joules,
        mean_watts=joules.map(lambda value: value / asked.window_seconds),
        coverage_ratio=guards.coverage(
            asked.rollup, domain, asked.window_seconds, shelves_configured=asked.usage.shelves_configured
        ),
        error_ratio=figure(0.0 if own is None else own.error_joules).per(joules),
        idle_joules=idle_joules,
        idle_ratio=idle_joules.per(joules),
    )


def _split(joules: Mapping[str, Figure]) -> EnergySplit:
    """Split the input energy; the rest is what GPUs and CPUs leave of it, where all three are known."""
    rack, gpu, cpu = joules["rack_input"], joules["gpu"], joules["cpu"]
    other = rack.join(gpu, lambda whole, part: whole - part).join(cpu, lambda rest, part: rest - part)
    if other.value is not None and other.value < 0:
        other = blank("GPUs and CPUs together used more than the rack's input: a power shelf is missing")
    return EnergySplit(gpu_ratio=gpu.per(rack), cpu_ratio=cpu.per(rack), other_ratio=other.per(rack))
