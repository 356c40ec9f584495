"""Baselines as bodies."""

from __future__ import annotations

from collector.efficiency.baseline import Baseline
from exporters.rest.models.baselines import BaselinePart
from exporters.rest.views.common import or_none, sure_moment


def baseline(recorded: Baseline) -> BaselinePart:
    """Write a baseline."""
    return BaselinePart(
        id=recorded.id,
        rack=recorded.rack,
        platform=recorded.platform,
        model=recorded.model,
        starts_at=sure_moment(recorded.starts_ns),
        ends_at=sure_moment(recorded.ends_ns),
        recorded_at=sure_moment(recorded.recorded_ns),
        racks=recorded.racks,
        gpus=recorded.gpus,
        generation_tokens_per_second=recorded.generation_tokens_per_second,
        total_tokens_per_second=recorded.total_tokens_per_second,
        saturation_ratio=recorded.saturation_ratio,
        tokens_per_joule=recorded.tokens_per_joule,
        mean_prompt_tokens=recorded.mean_prompt_tokens,
        mean_generation_tokens=recorded.mean_generation_tokens,
        tokens_per_second_per_user=recorded.tokens_per_second_per_user,
        note=or_none(recorded.note),
        created_by=or_none(recorded.created_by),
    )
