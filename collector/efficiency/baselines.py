"""Recording one-rack baselines from an answer, and refusing what would be none."""

from __future__ import annotations

from collections.abc import Callable

from collector.efficiency.answer import Efficiency, ModelFigures
from collector.efficiency.baseline import Baseline
from collector.efficiency.likeness import same_model
from collector.efficiency.scaling import unsaturated
from collector.errors import ConfigurationError
from collector.profiles.references import TokenKind

MAXIMUM_TEXT = 1024
"""Longest note or name of a maker, in characters; as of maintenance."""


def take_baselines(
    measured: Efficiency,
    model: str | None,
    *,
    recorded_ns: int,
    note: str,
    created_by: str,
    make_id: Callable[[], str],
) -> tuple[Baseline, ...]:
    """Make baselines of what a rack did.

    Args:
        measured: Its efficiency over the window.
        model: The model; None for every model that it serves.
        recorded_ns: Now, Unix nanoseconds.
        note: What its maker wants to remember.
        created_by: Who records it, as they say.
        make_id: Makes an id for each.

    Returns:
        One baseline a model.

    Raises:
        ConfigurationError: No such model was served, or what was measured is no baseline: a figure is blank,
            or the rack was not saturated.
    """
    for name, text in (("note", note), ("created_by", created_by)):
        if len(text) > MAXIMUM_TEXT:
            raise ConfigurationError(f"baseline: {name} is longer than {MAXIMUM_TEXT} characters")
    return tuple(
        _take(measured, own, recorded_ns=recorded_ns, note=note, created_by=created_by, id_=make_id())
        for own in _chosen(measured, model)
    )


def _chosen(measured: Efficiency, model: str | None) -> tuple[ModelFigures, ...]:
    rack = measured.usage.rack
    served = measured.models
    if not served:
        why = (
            next(each.count.reason for each in measured.tokens) or "no endpoint served a model in the window"
        )
        raise ConfigurationError(f"baseline of rack {rack}: {why}")
    chosen = tuple(own for own in served if model is None or own.model == model)
    # A name without its organization will do where it means one model.
    chosen = chosen or tuple(own for own in served if model is not None and same_model(own.model, model))
    if not chosen:
        names = ", ".join(own.model for own in served)
        raise ConfigurationError(f"baseline of rack {rack}: it does not serve {model!r}; it serves {names}")
    return chosen


def _take(
    measured: Efficiency, own: ModelFigures, *, recorded_ns: int, note: str, created_by: str, id_: str
) -> Baseline:
    where = f"baseline of rack {measured.usage.rack}, {own.model}"
    generation, total = own.of_kind(TokenKind.GENERATION), own.of_kind(TokenKind.TOTAL)
    per_second = generation.tokens_per_second.above_zero("no token was generated in the window")
    reason = per_second.reason or own.rack_part.reason or unsaturated(own.saturation_ratio)
    if reason:
        raise ConfigurationError(f"{where}: {reason}")
    per_joule = next(
        each.tokens_per_joule
        for each in own.domains
        if each.tokens is TokenKind.GENERATION and each.domain == "rack_input"
    )
    return Baseline(
        id=id_,
        rack=measured.usage.rack,
        platform=measured.usage.platform,
        model=own.model,
        starts_ns=measured.starts_ns,
        ends_ns=measured.ends_ns,
        recorded_ns=recorded_ns,
        racks=own.rack_part.sure,
        gpus=own.share.gpus.value,
        generation_tokens_per_second=per_second.sure,
        total_tokens_per_second=total.tokens_per_second.sure,
        saturation_ratio=own.saturation_ratio.sure,
        tokens_per_joule=per_joule.value,
        mean_prompt_tokens=own.mean_prompt_tokens.value,
        mean_generation_tokens=own.mean_generation_tokens.value,
        tokens_per_second_per_user=own.tokens_per_second_per_user.value,
        note=note,
        created_by=created_by,
    )
