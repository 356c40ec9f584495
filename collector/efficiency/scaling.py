"""Scaling efficiency: what several racks do together, to what as many single racks would do.

throughput(N racks) / (N x throughput(1 rack)), as NVIDIA uses it on MLPerf Offline; the policies of MLPerf
define none (facts on tokens, §3). It says something of saturated racks alone (§6, Limits).
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.efficiency.answer import Scaling
from collector.efficiency.baseline import Baseline
from collector.efficiency.figure import Figure, blank, percent
from collector.efficiency.fleet import FleetModel
from collector.efficiency.likeness import difference, same_model

SATURATED_RATIO = 0.5
"""Share of the window in which requests must wait for racks to count as saturated; chosen."""


def scale(
    model: str,
    platform: str,
    fleet: FleetModel,
    baselines: Iterable[Baseline],
    window_seconds: float,
    *,
    lengths: tuple[Figure, Figure],
    per_user: Figure,
) -> Scaling:
    """Hold a fleet against the newest baseline of its model on its platform.

    Args:
        model: The model.
        platform: Profile of the racks' hardware.
        fleet: What all racks did for it.
        baselines: Known baselines.
        window_seconds: Length of the window.
        lengths: Mean lengths of prompts and generations now.
        per_user: Interactivity now.
    """
    baseline = choose(model, platform, baselines)
    if baseline is None:
        # Nobody need ask what other racks did, so what is known of a fleet may be this rack alone.
        missing = blank(
            f"no baseline of {model} on {platform} is recorded: `rackwatt baseline record` makes one under "
            "full load"
        )
        return Scaling(
            ratio=missing,
            racks=missing,
            tokens_per_second=missing,
            saturation_ratio=missing,
            baseline=None,
            differences=(),
        )
    one_rack = baseline.generation_tokens_per_second / baseline.racks
    throughput = fleet.generation_tokens.map(lambda tokens: tokens / window_seconds)
    racks = fleet.racks.above_zero(f"no rack serves {model}")
    ratio = throughput.but(unsaturated(fleet.saturation_ratio)).per(racks)
    return Scaling(
        ratio=ratio.map(lambda each_rack: each_rack / one_rack),
        racks=fleet.racks,
        tokens_per_second=throughput,
        saturation_ratio=fleet.saturation_ratio,
        baseline=baseline,
        differences=_differences(baseline, lengths, per_user),
    )


def choose(model: str, platform: str, baselines: Iterable[Baseline]) -> Baseline | None:
    """Return the newest baseline of a model on a platform; None if there is none."""
    fitting = [each for each in baselines if each.platform == platform and same_model(each.model, model)]
    return max(fitting, key=lambda each: (each.recorded_ns, each.id), default=None)


def unsaturated(saturation_ratio: Figure) -> str:
    """Say why racks are not saturated; empty if they are."""
    if saturation_ratio.value is None:
        return saturation_ratio.reason
    if saturation_ratio.value < SATURATED_RATIO:
        return (
            f"the racks are not saturated: requests waited for {percent(saturation_ratio.value)} of the "
            f"endpoints' time; {percent(SATURATED_RATIO)} is enough"
        )
    return ""


def _differences(baseline: Baseline, lengths: tuple[Figure, Figure], per_user: Figure) -> tuple[str, ...]:
    held = (
        ("mean prompt length", lengths[0], baseline.mean_prompt_tokens, "tokens"),
        ("mean generation length", lengths[1], baseline.mean_generation_tokens, "tokens"),
        ("interactivity", per_user, baseline.tokens_per_second_per_user, "tokens/s/user"),
    )
    said = (difference(what, now, then, unit) for what, now, then, unit in held if then is not None)
    return tuple(filter(None, said))


def no_fleet(model: str) -> FleetModel:
    """Return what is known of a fleet of which nobody told."""
    missing = blank(f"what all racks did for {model} is not known")
    return FleetModel(generation_tokens=missing, racks=missing, saturation_ratio=missing)
