"""Body about efficiency. A figure that cannot be said is null, and `blank` beside it says why."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from collector.catalog.rack import ENERGY_DOMAINS
from collector.efficiency.answer import PublishedUnit
from exporters.rest.models.baselines import BaselinePart
from exporters.rest.models.common import Envelope, Moment, Part, Text

TokenKindWord = Literal["generation", "total"]
DomainWord = Annotated[str, Field(json_schema_extra={"enum": list(ENERGY_DOMAINS)})]
AttributionWord = Literal["whole", "gpus", "none"]
PowerBasisWord = Literal["provisioned", "none"]
ReferenceKindWord = Literal["throughput", "scaling", "claim"]

Blank = Annotated[dict[str, Text], Field(description="Why a figure is null, by its name; empty if none is.")]


class PricePart(Part):
    """Prices that costs were computed with; null where none is configured."""

    gpu_hour_usd: Annotated[float | None, Field(description="A GPU for an hour.")]
    kwh_usd: Annotated[float | None, Field(description="A kilowatt-hour of electricity.")]
    pue: Annotated[
        float | None, Field(description="Facility's to racks' power; multiplies energy at the rack's input.")
    ]
    gpu_hour_includes_energy: Annotated[
        bool, Field(description="Whether the price of a GPU-hour pays for the energy, too.")
    ]


class EnergyPart(Part):
    """Energy of one power domain; one domain is part of another: never sum them."""

    domain: DomainWord
    joules: float | None
    mean_watts: Annotated[float | None, Field(description="`joules` over the window.")]
    coverage_ratio: Annotated[
        float | None, Field(description="Share of the window for which it is known; 0.95 is enough.")
    ]
    error_ratio: Annotated[
        float | None, Field(description="How far integrated power may be off; 0 where hardware counts.")
    ]
    idle_joules: Annotated[float | None, Field(description="Spent while no endpoint had a request.")]
    idle_ratio: Annotated[float | None, Field(description="`idle_joules` to `joules`.")]
    blank: Blank


class SplitPart(Part):
    """Where the energy of the rack's input goes, as shares of it."""

    gpu_ratio: float | None
    cpu_ratio: float | None
    other_ratio: Annotated[
        float | None,
        Field(description="Switches, network, storage, fans, conversion: what the others leave."),
    ]
    blank: Blank


class TokensPart(Part):
    """Tokens of one kind: how many, how fast, at which cost."""

    tokens: Annotated[TokenKindWord, Field(description="`total` counts prompts, too.")]
    count: Annotated[float | None, Field(description="Tokens in the window.")]
    tokens_per_second: float | None
    tokens_per_second_per_gpu: float | None
    tokens_per_second_per_provisioned_megawatt: Annotated[
        float | None,
        Field(description="Against the power published as built for these GPUs; that is not measured."),
    ]
    energy_usd_per_million_tokens: Annotated[
        float | None, Field(description="Energy of the rack's input, times PUE where one is configured.")
    ]
    all_in_usd_per_million_tokens: Annotated[
        float | None, Field(description="GPU-hours, and the energy where their price does not include it.")
    ]
    blank: Blank


class DomainPart(Part):
    """Tokens of one kind against the energy of one domain: ratios of sums over the window."""

    tokens: TokenKindWord
    domain: DomainWord
    tokens_per_joule: float | None
    tokens_per_second_per_megawatt: float | None
    kwh_per_million_tokens: float | None
    blank: Blank


class SharePart(Part):
    """A share of the rack's energy."""

    attribution: Annotated[
        AttributionWord,
        Field(
            description="`gpus`: by the GPUs that its endpoints have to themselves; `whole`: the rack serves"
            " this model alone; `none`: it cannot be told."
        ),
    ]
    gpus: Annotated[float | None, Field(description="GPUs that it stands for, over the window.")]
    ratio: Annotated[float | None, Field(description="Share of the GPUs' energy.")]
    gpu_joules: float | None
    module_joules: Annotated[float | None, Field(description="In proportion to the GPUs' energy.")]
    rack_input_joules: Annotated[float | None, Field(description="In proportion to the GPUs' energy.")]
    blank: Blank


class ScalingPart(Part):
    """All racks of a platform that serve a model, against as many racks of its baseline."""

    ratio: Annotated[
        float | None,
        Field(description="tokens_per_second / (racks * one rack's); null unless saturated."),
    ]
    racks: Annotated[float | None, Field(description="Racks that serve the model; parts of shared ones.")]
    tokens_per_second: Annotated[float | None, Field(description="Generated tokens of all these racks.")]
    saturation_ratio: Annotated[
        float | None, Field(description="Share of their time in which requests waited.")
    ]
    baseline: Annotated[BaselinePart | None, Field(description="The baseline and its conditions.")]
    differences: Annotated[list[Text], Field(description="Conditions that differ from the baseline's.")]
    blank: Blank


class ModelPart(Part):
    """One model: what it did, and what it took."""

    model: Text
    engines: list[Text]
    rack_part: Annotated[float | None, Field(description="Part of the rack that serves it.")]
    mean_prompt_tokens: float | None
    mean_generation_tokens: float | None
    tokens_per_second_per_user: Annotated[
        float | None, Field(description="Interactivity: inter-token latencies over their sum.")
    ]
    slow_tokens_per_second_per_user: Annotated[
        float | None, Field(description="1 / their 0.9 quantile: nine of ten tokens come faster.")
    ]
    saturation_ratio: Annotated[
        float | None, Field(description="Share of the endpoints' time in which requests waited.")
    ]
    prefix_cache_hit_ratio: Annotated[
        float | None, Field(description="Share of looked up prompt tokens that the cache had.")
    ]
    share: SharePart
    tokens: list[TokensPart]
    domains: list[DomainPart]
    scaling: ScalingPart
    blank: Blank


class ReferencePart(Part):
    """A published figure beside the measured one."""

    id: Text
    kind: ReferenceKindWord
    title: Text
    source: Annotated[Text, Field(description="Document and place where it stands.")]
    conditions: Annotated[Text, Field(description="What it holds for, and what it leaves open.")]
    hardware: Text
    published_model: Text | None
    precision: Text | None
    prompt_tokens: Annotated[int | None, Field(description="Length of a prompt; null if not stated.")]
    generation_tokens: Annotated[int | None, Field(description="Length of a generation; null if not stated.")]
    tokens: TokenKindWord
    power_basis: PowerBasisWord
    unit: Annotated[PublishedUnit, Field(description="Unit of `published` and `measured`.")]
    published: float
    published_tokens_per_second_per_user: Annotated[
        float | None, Field(description="Interactivity of it; null if not stated.")
    ]
    published_usd_per_million_tokens: float | None
    model: Annotated[Text | None, Field(description="Model of this rack that is held against it.")]
    measured: Annotated[
        float | None, Field(description="Its figure, on the same token kind and power basis.")
    ]
    measured_tokens_per_second_per_user: float | None
    matches: Annotated[bool, Field(description="Whether both are of the same thing.")]
    ratio: Annotated[float | None, Field(description="`measured` to `published`; null unless `matches`.")]
    differences: Annotated[list[Text], Field(description="What is not the same.")]
    blank: Blank


class EfficiencyBody(Envelope):
    """Tokens for each joule over a window, by tokens, power domain and model; blank rather than wrong."""

    rack: Text
    platform: Text
    window: Annotated[Text, Field(description="The window that was asked for.")]
    starts_at: Annotated[Moment, Field(description="Its begin, a whole minute.")]
    ends_at: Annotated[Moment, Field(description="Its end, a whole minute.")]
    role: Annotated[
        Text | None,
        Field(description="Role whose tokens count: a router and its engines count the same ones."),
    ]
    gpus_expected: Annotated[int | None, Field(description="GPUs that the rack should have.", ge=0)]
    watched_ratio: Annotated[float | None, Field(description="Share of the window that was watched.")]
    endpoints_up_ratio: Annotated[
        float | None, Field(description="Share of it in which the expected endpoints counted tokens.")
    ]
    saturation_ratio: Annotated[
        float | None, Field(description="Share of the endpoints' time in which requests waited.")
    ]
    provisioned_watts_per_gpu: Annotated[
        float | None,
        Field(description="Published power built for each GPU: CPU, network, facility included."),
    ]
    price: PricePart
    energy: Annotated[list[EnergyPart], Field(description="Energy by domain.")]
    split: SplitPart
    tokens: Annotated[list[TokensPart], Field(description="The rack's tokens by kind.")]
    domains: Annotated[list[DomainPart], Field(description="The same against energy.")]
    models: Annotated[list[ModelPart], Field(description="The same by model.")]
    unallocated: Annotated[
        SharePart, Field(description="GPUs that no endpoint names: with the models' shares the whole rack.")
    ]
    references: Annotated[
        list[ReferencePart],
        Field(description="Published figures about this platform or one of these models."),
    ]
    blank: Blank
