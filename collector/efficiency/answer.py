"""What efficiency answers: figures of a rack and of its models over one window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from collector.efficiency.attribution import SHARED_DOMAINS, EnergyShare
from collector.efficiency.baseline import Baseline
from collector.efficiency.figure import Figure
from collector.efficiency.price import Price
from collector.profiles.references import Reference, TokenKind

FIGURE_DOMAINS = SHARED_DOMAINS
"""Power domains in which tokens for each joule are computed."""


PublishedUnit = Literal["tokens_per_second_per_megawatt", "tokens_per_second_per_gpu", "ratio"]
"""What a published figure is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedUsage:
    """A rack as far as efficiency needs to know it.

    Attributes:
        rack: Its name.
        platform: Profile of its hardware.
        gpus: GPUs that it should have; None while nothing says how many.
        shelves_configured: Whether power shelves are configured for it.
    """

    rack: str
    platform: str
    gpus: int | None
    shelves_configured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFigures:
    """Tokens of one kind against the energy of one domain.

    Attributes:
        tokens: Which tokens.
        domain: Where the energy is measured, of `FIGURE_DOMAINS`.
        tokens_per_joule: Increase of tokens over increase of joules.
        tokens_per_second_per_megawatt: The same times 10⁶.
        kwh_per_million_tokens: Energy of a million tokens.
    """

    tokens: TokenKind
    domain: str
    tokens_per_joule: Figure
    tokens_per_second_per_megawatt: Figure
    kwh_per_million_tokens: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFigures:
    """Tokens of one kind: how many, how fast, at which cost.

    Attributes:
        tokens: Which tokens.
        count: Their number in the window.
        tokens_per_second: That over the window.
        tokens_per_second_per_gpu: That over the GPUs.
        tokens_per_second_per_provisioned_megawatt: Against the power that is published as built for these
            GPUs, the basis of published rows; not measured.
        energy_usd_per_million_tokens: Cost of the rack's input energy, with PUE.
        all_in_usd_per_million_tokens: Cost of the GPU-hours, with the energy where they do not include it.
    """

    tokens: TokenKind
    count: Figure
    tokens_per_second: Figure
    tokens_per_second_per_gpu: Figure
    tokens_per_second_per_provisioned_megawatt: Figure
    energy_usd_per_million_tokens: Figure
    all_in_usd_per_million_tokens: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyFigures:
    """Energy of one domain.

    Attributes:
        domain: Where it is measured (`collector.catalog.rack.ENERGY_DOMAINS`).
        joules: Energy in the window.
        mean_watts: That over the window.
        coverage_ratio: Share of the window for which it is known.
        error_ratio: How far it may be off where power was integrated, to the energy.
        idle_joules: The part spent while no serving endpoint had a request.
        idle_ratio: That to the energy.
    """

    domain: str
    joules: Figure
    mean_watts: Figure
    coverage_ratio: Figure
    error_ratio: Figure
    idle_joules: Figure
    idle_ratio: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySplit:
    """Where a rack's input energy goes, as shares of it.

    Attributes:
        gpu_ratio: Its GPUs.
        cpu_ratio: Its CPUs.
        other_ratio: The rest: switches, network, storage, fans, conversion.
    """

    gpu_ratio: Figure
    cpu_ratio: Figure
    other_ratio: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Throughput of all racks of a platform that serve a model, to as many racks of its baseline.

    Attributes:
        ratio: Generated tokens a second of the fleet over racks times baseline.
        racks: Racks that serve the model.
        tokens_per_second: Generated tokens a second of all of them.
        saturation_ratio: Share of their endpoints' time in which requests waited.
        baseline: What it is held against; None if there is none.
        differences: In which of its conditions the baseline differs, in words.
    """

    ratio: Figure
    racks: Figure
    tokens_per_second: Figure
    saturation_ratio: Figure
    baseline: Baseline | None
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """What one model did, and what it took.

    Attributes:
        model: Its name, as the engine has it.
        engines: The engines that serve it.
        share: Its share of the rack's energy.
        rack_part: Part of the rack that serves it: 1 where it serves no other.
        tokens: Its tokens by kind.
        domains: The same against energy.
        mean_prompt_tokens: Mean length of a prompt.
        mean_generation_tokens: Mean length of a generation.
        tokens_per_second_per_user: Interactivity: observations of inter-token latency over their sum.
        slow_tokens_per_second_per_user: Its slow tail: 1 / the 0.9 quantile of inter-token latency.
        saturation_ratio: Share of its endpoints' time in which requests waited.
        prefix_cache_hit_ratio: Share of looked up prompt tokens that the prefix cache had.
        scaling: Against its one-rack baseline.
    """

    model: str
    engines: tuple[str, ...]
    share: EnergyShare
    rack_part: Figure
    tokens: tuple[TokenFigures, ...]
    domains: tuple[DomainFigures, ...]
    mean_prompt_tokens: Figure
    mean_generation_tokens: Figure
    tokens_per_second_per_user: Figure
    slow_tokens_per_second_per_user: Figure
    saturation_ratio: Figure
    prefix_cache_hit_ratio: Figure
    scaling: Scaling

    def of_kind(self, kind: TokenKind) -> TokenFigures:
        """Return its tokens of a kind."""
        return next(each for each in self.tokens if each.tokens is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLine:
    """A published figure beside the measured one.

    Attributes:
        reference: What was published.
        unit: What both figures are in.
        published: The published figure.
        model: The model whose figure is held against it; empty if no model is served.
        measured: Its figure, on the reference's token kind and power basis.
        measured_tokens_per_second_per_user: Its interactivity.
        ratio: Measured to published; blank unless everything matches.
        differences: What does not match, in words; empty if everything does.
    """

    reference: Reference
    unit: PublishedUnit
    published: float
    model: str
    measured: Figure
    measured_tokens_per_second_per_user: Figure
    ratio: Figure
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Efficiency of a rack over a window.

    Attributes:
        usage: The rack.
        starts_ns: Begin of the window, Unix nanoseconds, a whole minute.
        ends_ns: Its end.
        role: Role whose tokens are counted; empty where there are no endpoints.
        price: Prices that costs were computed with.
        watched_ratio: Share of the window that was watched.
        endpoints_up_ratio: Share of it in which the expected serving endpoints were up.
        saturation_ratio: Share of the endpoints' time in which requests waited.
        provisioned_watts_per_gpu: Published power that is built for each GPU.
        energy: Energy by domain.
        split: Where the input energy goes.
        tokens: The rack's tokens by kind.
        domains: The same against energy.
        models: The same by model.
        unallocated: Share of the energy of GPUs that no endpoint names.
        references: Published figures beside the measured ones.
    """

    usage: ExpectedUsage
    starts_ns: int
    ends_ns: int
    role: str
    price: Price
    watched_ratio: Figure
    endpoints_up_ratio: Figure
    saturation_ratio: Figure
    provisioned_watts_per_gpu: Figure
    energy: tuple[EnergyFigures, ...]
    split: EnergySplit
    tokens: tuple[TokenFigures, ...]
    domains: tuple[DomainFigures, ...]
    models: tuple[ModelFigures, ...]
    unallocated: EnergyShare
    references: tuple[ReferenceLine, ...]
