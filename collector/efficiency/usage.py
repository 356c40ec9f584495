"""Figures from tokens, joules and GPUs of one window: of a rack or of one of its models.

Identities (facts on tokens, §4): 1 token/J = 1 (token/s)/W; times 10⁶ it is tokens/s for each megawatt; the
kWh of a million tokens are (J/token) / 3.6. PUE multiplies once, at the rack's input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.efficiency.answer import FIGURE_DOMAINS, DomainFigures, TokenFigures
from collector.efficiency.figure import Figure, blank, figure, or_blank
from collector.efficiency.guards import NO_TOKENS
from collector.efficiency.price import Price
from collector.efficiency.rollup import HOUR_SECONDS, ModelSum
from collector.profiles.references import TokenKind

_MEGA = 1e6
_JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What tokens of a rack or of a model took.

    Attributes:
        window_seconds: Length of the window.
        tokens: Tokens by kind.
        joules: Energy by domain.
        gpus: GPUs.
        watts_per_gpu: Published power that is built for each of them.
    """

    window_seconds: float
    tokens: Mapping[TokenKind, Figure]
    joules: Mapping[str, Figure]
    gpus: Figure
    watts_per_gpu: Figure


def count(models: Iterable[ModelSum], reason: str) -> dict[TokenKind, Figure]:
    """Add up the tokens of models by kind; blank where there is a reason."""
    sums = tuple(models)
    generation = sum(own.generation_tokens for own in sums)
    total = generation + sum(own.prompt_tokens for own in sums)
    found = {TokenKind.GENERATION: generation, TokenKind.TOTAL: total}
    return {kind: blank(reason) if reason else figure(tokens) for kind, tokens in found.items()}


def domain_figures(usage: Usage) -> tuple[DomainFigures, ...]:
    """Hold tokens of each kind against the energy of each domain."""
    return tuple(
        _domain_figures(kind, domain, tokens, usage.joules[domain])
        for kind, tokens in usage.tokens.items()
        for domain in FIGURE_DOMAINS
    )


def token_figures(usage: Usage, price: Price) -> tuple[TokenFigures, ...]:
    """Say of tokens of each kind how many, how fast and at which cost."""
    return tuple(_token_figures(kind, tokens, usage, price) for kind, tokens in usage.tokens.items())


def _domain_figures(kind: TokenKind, domain: str, tokens: Figure, joules: Figure) -> DomainFigures:
    per_joule = tokens.per(joules.above_zero(f"the energy of `{domain}` is 0 J"))
    return DomainFigures(
        tokens=kind,
        domain=domain,
        tokens_per_joule=per_joule,
        tokens_per_second_per_megawatt=per_joule.map(lambda value: value * _MEGA),
        kwh_per_million_tokens=_kwh_per_million(tokens, joules),
    )


def _kwh_per_million(tokens: Figure, joules: Figure) -> Figure:
    return joules.per(tokens.above_zero(NO_TOKENS)).map(lambda each: each * _MEGA / _JOULES_PER_KWH)


def _token_figures(kind: TokenKind, tokens: Figure, usage: Usage, price: Price) -> TokenFigures:
    per_second = tokens.map(lambda value: value / usage.window_seconds)
    per_gpu = per_second.per(usage.gpus.above_zero("it has no GPU"))
    energy_cost = _energy_cost(tokens, usage, price)
    return TokenFigures(
        tokens=kind,
        count=tokens,
        tokens_per_second=per_second,
        tokens_per_second_per_gpu=per_gpu,
        tokens_per_second_per_provisioned_megawatt=per_gpu.join(
            usage.watts_per_gpu, lambda value, watts: value / watts * _MEGA
        ),
        energy_usd_per_million_tokens=energy_cost,
        all_in_usd_per_million_tokens=_all_in(tokens, energy_cost, usage, price),
    )


def _energy_cost(tokens: Figure, usage: Usage, price: Price) -> Figure:
    kwh_usd = or_blank(price.kwh_usd, "no price of electricity is configured: set `price.kwh_usd`")
    pue = 1.0 if price.pue is None else price.pue
    kwh = _kwh_per_million(tokens, usage.joules["rack_input"])
    return kwh.times(kwh_usd).map(lambda value: value * pue)


def _all_in(tokens: Figure, energy_cost: Figure, usage: Usage, price: Price) -> Figure:
    gpu_hour_usd = or_blank(
        price.gpu_hour_usd, "no price of a GPU-hour is configured: set `price.gpu_hour_usd`"
    )
    gpu_hours = usage.gpus.map(lambda gpus: gpus * usage.window_seconds / HOUR_SECONDS)
    cost = tokens.above_zero(NO_TOKENS).join(
        gpu_hours.times(gpu_hour_usd), lambda count_, usd: usd / count_ * _MEGA
    )
    return (
        cost if price.gpu_hour_includes_energy else cost.join(energy_cost, lambda gpus, energy: gpus + energy)
    )
