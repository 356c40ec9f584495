"""Published figures beside measured ones: held against each other only where both are of the same thing.

What must match: the model, the mean lengths, the kind of tokens and the power basis; and, where one is
published, the interactivity, without which efficiency has no meaning (facts on tokens, §2). Whatever does not
match is said in words, and then there is no ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.efficiency.answer import ModelFigures, PublishedUnit, ReferenceLine
from collector.efficiency.figure import Figure, blank
from collector.efficiency.likeness import difference, same_model
from collector.profiles.references import PowerBasis, Reference, ReferenceKind

_NOT_THE_SAME = "what is measured here is not the same: `differences` says in what"
_GENERATIONS = "it compares two generations of hardware or software, and a rack is one of them at most"
_NO_MODEL = "no model is served in the window"


def hold_against(
    references: Iterable[Reference], platform: str, models: Sequence[ModelFigures]
) -> tuple[ReferenceLine, ...]:
    """Hold the models of a rack against every published figure about its platform or one of them.

    Args:
        references: Published figures.
        platform: Profile of the rack's hardware.
        models: Its models.

    Returns:
        One line a figure, of the model that it is about, else of the model with most tokens.
    """
    return tuple(
        _line(reference, _counterpart(reference, models))
        for reference in references
        if _concerns(reference, platform, models)
    )


def _concerns(reference: Reference, platform: str, models: Iterable[ModelFigures]) -> bool:
    """Tell whether a figure is about a platform, or about a model, or about neither in particular."""
    if not reference.platform and not reference.model:
        return True
    return reference.platform == platform or any(same_model(reference.model, own.model) for own in models)


def _counterpart(reference: Reference, models: Sequence[ModelFigures]) -> ModelFigures | None:
    named = [own for own in models if same_model(reference.model, own.model)]
    # Of several names for one model, too, the one that did most.
    return max(
        named or models, key=lambda own: own.of_kind(reference.token_kind).count.value or 0.0, default=None
    )


def _line(reference: Reference, model: ModelFigures | None) -> ReferenceLine:
    unit, published = _published(reference)
    measured = blank(_NO_MODEL) if model is None else _measured(reference, model)
    per_user = blank(_NO_MODEL) if model is None else model.tokens_per_second_per_user
    differences = tuple(filter(None, _differences(reference, model, measured, per_user)))
    ratio = blank(_NOT_THE_SAME) if differences else measured.map(lambda value: value / published)
    return ReferenceLine(
        reference=reference,
        unit=unit,
        published=published,
        model="" if model is None else model.model,
        measured=measured,
        measured_tokens_per_second_per_user=per_user,
        ratio=ratio,
        differences=differences,
    )


def _published(reference: Reference) -> tuple[PublishedUnit, float]:
    """Return what a figure is in, and the figure."""
    if reference.tokens_per_second_per_megawatt is not None:
        return "tokens_per_second_per_megawatt", reference.tokens_per_second_per_megawatt
    if reference.tokens_per_second_per_gpu is not None:
        return "tokens_per_second_per_gpu", reference.tokens_per_second_per_gpu
    return "ratio", reference.ratio or 0.0


def _measured(reference: Reference, model: ModelFigures) -> Figure:
    """Return what was measured, on the basis of a published figure."""
    if reference.kind is ReferenceKind.CLAIM:
        return blank(_GENERATIONS)
    if reference.kind is ReferenceKind.SCALING:
        return model.scaling.ratio
    tokens = model.of_kind(reference.token_kind)
    if reference.power_basis is PowerBasis.PROVISIONED:
        return tokens.tokens_per_second_per_provisioned_megawatt
    return tokens.tokens_per_second_per_gpu


def _differences(
    reference: Reference, model: ModelFigures | None, measured: Figure, per_user: Figure
) -> Iterable[str]:
    """Yield what does not match; some are empty."""
    if reference.kind is ReferenceKind.CLAIM:
        yield _GENERATIONS
        return
    if model is None:
        yield _NO_MODEL
        return
    if not reference.model:
        yield f"the model is not stated, and {model.model} is served here"
    elif not same_model(reference.model, model.model):
        yield f"the model differs: {model.model} instead of {reference.model}"
    if reference.prompt_tokens is None or reference.generation_tokens is None:
        yield "the lengths of prompts and generations are not stated, so that they cannot be compared"
    else:
        yield difference("mean prompt length", model.mean_prompt_tokens, reference.prompt_tokens, "tokens")
        yield difference(
            "mean generation length", model.mean_generation_tokens, reference.generation_tokens, "tokens"
        )
    if reference.tokens_per_second_per_user is not None:
        yield difference("interactivity", per_user, reference.tokens_per_second_per_user, "tokens/s/user")
    if reference.racks is not None and model.scaling.racks.value != reference.racks:
        racks = model.scaling.racks.value
        here = "an unknown number" if racks is None else f"{racks:g}"
        yield f"the number of racks differs: {here} instead of {reference.racks}"
    if measured.value is None:
        basis = f"{reference.token_kind.value} tokens, power basis {reference.power_basis.value}"
        yield f"nothing is measured on its basis ({basis}): {measured.reason}"
