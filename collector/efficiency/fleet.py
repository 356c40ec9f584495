"""What all racks together did for each model, for scaling efficiency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.efficiency import guards
from collector.efficiency.attribution import unplaced
from collector.efficiency.figure import Figure, blank, figure
from collector.efficiency.rollup import Rollup


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetModel:
    """What all racks that serve a model did in a window.

    Attributes:
        generation_tokens: Tokens written.
        racks: Racks that serve it; of one that serves several models, the part that is this one's.
        saturation_ratio: Share of its endpoints' time in which requests waited.
    """

    generation_tokens: Figure
    racks: Figure
    saturation_ratio: Figure


def fleet_of(racks: Mapping[str, Rollup], window_seconds: float) -> dict[str, FleetModel]:
    """Add up what racks did for each model.

    Args:
        racks: Sums of each rack over the same window.
        window_seconds: Length of the window.

    Returns:
        What they did, by model. It is blank where a rack is not fully known: a rack that is silent might
        serve any model.
    """
    silent = next(
        (
            f"rack {name}: {reason}"
            for name, rollup in racks.items()
            if rollup.endpoints_expected_seconds > 0
            and not rollup.models
            and (reason := guards.tokens(rollup, window_seconds))
        ),
        "",
    )
    names = dict.fromkeys(model for rollup in racks.values() for model in rollup.models)
    return {model: _model(model, racks, window_seconds, silent) for model in names}


def rack_part(rollup: Rollup, model: str) -> Figure:
    """Return the part of a rack that serves a model: 1, or of several models its part of the GPUs' time."""
    if len(rollup.models) == 1:
        return figure(1.0)
    for name, own in rollup.models.items():
        reason = unplaced(name, own)
        if reason:
            return blank(f"the rack serves {len(rollup.models)} models, and {reason}")
    return figure(rollup.models[model].gpu_seconds / sum(own.gpu_seconds for own in rollup.models.values()))


def _model(model: str, racks: Mapping[str, Rollup], window_seconds: float, silent: str) -> FleetModel:
    serving = {name: rollup for name, rollup in racks.items() if model in rollup.models}
    reason = silent or next(
        (
            f"rack {name}: {short}"
            for name, rollup in serving.items()
            if (short := guards.tokens(rollup, window_seconds) or guards.all_finished(rollup, window_seconds))
        ),
        "",
    )
    sums = [rollup.models[model] for rollup in serving.values()]
    racks_of_it = figure(0.0)
    for name, rollup in serving.items():
        part = rack_part(rollup, model)
        racks_of_it = racks_of_it.join(
            blank(f"rack {name}: {part.reason}") if part.reason else part, lambda all_, own: all_ + own
        )
    time = sum(own.endpoint_seconds for own in sums)
    return FleetModel(
        generation_tokens=figure(sum(own.generation_tokens for own in sums)).but(reason),
        racks=racks_of_it.but(reason),
        saturation_ratio=saturation(sum(own.waiting_seconds for own in sums), time).but(reason),
    )


def saturation(waiting_seconds: float, endpoint_seconds: float) -> Figure:
    """Return the share of endpoints' time in which requests waited."""
    if endpoint_seconds <= 0:
        return blank("no serving endpoint was up in the window")
    return figure(waiting_seconds / endpoint_seconds)
