"""Efficiency as a body: every figure under its name, and why it is null where it is."""

from __future__ import annotations

from typing import Any

from collector.efficiency.answer import (
    DomainFigures,
    Efficiency,
    EnergyFigures,
    EnergySplit,
    ModelFigures,
    ReferenceLine,
    Scaling,
    TokenFigures,
)
from collector.efficiency.attribution import EnergyShare
from collector.efficiency.figure import Figure
from collector.efficiency.price import Price
from exporters.rest.models import efficiency as bodies
from exporters.rest.models.common import Envelope
from exporters.rest.views.baselines import baseline
from exporters.rest.views.common import or_none, sure_moment


def efficiency(envelope: Envelope, found: Efficiency, window: str) -> bodies.EfficiencyBody:
    """Write the efficiency of a rack over a window."""
    return bodies.EfficiencyBody(
        **dict(envelope),
        rack=found.usage.rack,
        platform=found.usage.platform,
        window=window,
        starts_at=sure_moment(found.starts_ns),
        ends_at=sure_moment(found.ends_ns),
        role=or_none(found.role),
        gpus_expected=found.usage.gpus,
        price=_price(found.price),
        energy=[_energy(own) for own in found.energy],
        split=_split(found.split),
        tokens=[_tokens(own) for own in found.tokens],
        domains=[_domain(own) for own in found.domains],
        models=[_model(own) for own in found.models],
        unallocated=_share(found.unallocated),
        references=[_reference(own) for own in found.references],
        **_figures(
            watched_ratio=found.watched_ratio,
            endpoints_up_ratio=found.endpoints_up_ratio,
            saturation_ratio=found.saturation_ratio,
            provisioned_watts_per_gpu=found.provisioned_watts_per_gpu,
        ),
    )


def _figures(**figures: Figure) -> dict[str, Any]:
    """Give each figure its value, and those without one their reason."""
    values = {name: own.value for name, own in figures.items()}
    return {**values, "blank": {name: own.reason for name, own in figures.items() if own.reason}}


def _price(own: Price) -> bodies.PricePart:
    return bodies.PricePart(
        gpu_hour_usd=own.gpu_hour_usd,
        kwh_usd=own.kwh_usd,
        pue=own.pue,
        gpu_hour_includes_energy=own.gpu_hour_includes_energy,
    )


def _energy(own: EnergyFigures) -> bodies.EnergyPart:
    return bodies.EnergyPart(
        domain=own.domain,
        **_figures(
            joules=own.joules,
            mean_watts=own.mean_watts,
            coverage_ratio=own.coverage_ratio,
            error_ratio=own.error_ratio,
            idle_joules=own.idle_joules,
            idle_ratio=own.idle_ratio,
        ),
    )


def _split(own: EnergySplit) -> bodies.SplitPart:
    return bodies.SplitPart(
        **_figures(gpu_ratio=own.gpu_ratio, cpu_ratio=own.cpu_ratio, other_ratio=own.other_ratio)
    )


def _tokens(own: TokenFigures) -> bodies.TokensPart:
    return bodies.TokensPart(
        tokens=own.tokens.value,
        **_figures(
            count=own.count,
            tokens_per_second=own.tokens_per_second,
            tokens_per_second_per_gpu=own.tokens_per_second_per_gpu,
            tokens_per_second_per_provisioned_megawatt=own.tokens_per_second_per_provisioned_megawatt,
            energy_usd_per_million_tokens=own.energy_usd_per_million_tokens,
            all_in_usd_per_million_tokens=own.all_in_usd_per_million_tokens,
        ),
    )


def _domain(own: DomainFigures) -> bodies.DomainPart:
    return bodies.DomainPart(
        tokens=own.tokens.value,
        domain=own.domain,
        **_figures(
            tokens_per_joule=own.tokens_per_joule,
            tokens_per_second_per_megawatt=own.tokens_per_second_per_megawatt,
            kwh_per_million_tokens=own.kwh_per_million_tokens,
        ),
    )


def _share(own: EnergyShare) -> bodies.SharePart:
    return bodies.SharePart(
        attribution=own.attribution.value,
        **_figures(
            gpus=own.gpus,
            ratio=own.ratio,
            gpu_joules=own.joules["gpu"],
            module_joules=own.joules["module"],
            rack_input_joules=own.joules["rack_input"],
        ),
    )


def _scaling(own: Scaling) -> bodies.ScalingPart:
    return bodies.ScalingPart(
        baseline=None if own.baseline is None else baseline(own.baseline),
        differences=list(own.differences),
        **_figures(
            ratio=own.ratio,
            racks=own.racks,
            tokens_per_second=own.tokens_per_second,
            saturation_ratio=own.saturation_ratio,
        ),
    )


def _model(own: ModelFigures) -> bodies.ModelPart:
    return bodies.ModelPart(
        model=own.model,
        engines=list(own.engines),
        share=_share(own.share),
        tokens=[_tokens(each) for each in own.tokens],
        domains=[_domain(each) for each in own.domains],
        scaling=_scaling(own.scaling),
        **_figures(
            rack_part=own.rack_part,
            mean_prompt_tokens=own.mean_prompt_tokens,
            mean_generation_tokens=own.mean_generation_tokens,
            tokens_per_second_per_user=own.tokens_per_second_per_user,
            slow_tokens_per_second_per_user=own.slow_tokens_per_second_per_user,
            saturation_ratio=own.saturation_ratio,
            prefix_cache_hit_ratio=own.prefix_cache_hit_ratio,
        ),
    )


def _reference(own: ReferenceLine) -> bodies.ReferencePart:
    published = own.reference
    return bodies.ReferencePart(
        id=published.id,
        kind=published.kind.value,
        title=published.title,
        source=published.source,
        conditions=published.conditions,
        hardware=published.hardware,
        published_model=or_none(published.model),
        precision=or_none(published.precision),
        prompt_tokens=published.prompt_tokens,
        generation_tokens=published.generation_tokens,
        tokens=published.token_kind.value,
        power_basis=published.power_basis.value,
        unit=own.unit,
        published=own.published,
        published_tokens_per_second_per_user=published.tokens_per_second_per_user,
        published_usd_per_million_tokens=published.usd_per_million_tokens,
        model=or_none(own.model),
        matches=not own.differences,
        differences=list(own.differences),
        **_figures(
            measured=own.measured,
            measured_tokens_per_second_per_user=own.measured_tokens_per_second_per_user,
            ratio=own.ratio,
        ),
    )
