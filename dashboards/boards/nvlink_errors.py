"""What goes wrong on links: recoveries, error counters, bit error ratios."""

from __future__ import annotations

from collector.catalog.checks import CHECK_BY_ID
from dashboards import links, units
from dashboards.boards.recordings import GPU_LEGEND, RACK_LEGEND, Recordings, describe, unit
from dashboards.panels import (
    ByQuery,
    ByRegexp,
    Draw,
    FieldOptions,
    Legend,
    Override,
    Scale,
    Shades,
    Stacking,
    Step,
    ThresholdLines,
    Thresholds,
    Timeseries,
    palette,
)
from dashboards.panels.targets import Target
from dashboards.rules.record_fabric import BER_KINDS, ERROR_WINDOW

RECOVERIES = f"rack_outcome:nvlink_recoveries:increase{ERROR_WINDOW}"
ERRORS = f"rack:nvlink_errors:increase{ERROR_WINDOW}"
ERRORS_OF_GPU = f"rack_node_gpu:nvlink_errors:increase{ERROR_WINDOW}"
_GPU = ("rack", "node", "gpu")
_OF_GPUS = Override(fields=ByQuery("B"), links=(links.to_gpu(),))
"""The second query is that of GPUs: a rack leads to its board, a GPU to its own."""
_MOST = 10
"""GPUs that are drawn (chosen)."""
_WINDOWS_OF_AN_HOUR = 6
"""`ERROR_WINDOW` is ten minutes."""


def last_hour(recorded: str) -> str:
    """Add up an increase over the last hour, of what is recorded over ten minutes.

    As `increase` does, it counts what is known: what was not yet recorded an hour ago adds nothing.
    """
    earlier = (
        f"({recorded} offset {number}0m or {recorded} * 0)" for number in range(1, _WINDOWS_OF_AN_HOUR)
    )
    return " + ".join((recorded, *earlier))


def recoveries(recordings: Recordings) -> Timeseries:
    """Draw recoveries as bars, by outcome."""
    return Timeseries(
        key="recoveries",
        title="Recoveries of links by outcome, in 10 minutes",
        description=describe(RECOVERIES, note="A failed one took its link down."),
        width=12,
        height=8,
        targets=(
            Target(
                expr=recordings.by(RECOVERIES, "rack", "outcome"),
                legend="{{rack}} {{outcome}}",
                interval=ERROR_WINDOW,
            ),
        ),
        fields=FieldOptions(
            unit=unit(RECOVERIES),
            decimals=0,
            minimum=0,
            colouring=Shades(palette.NVLINK),
            links=(links.to_rack(),),
        ),
        overrides=(Override(fields=ByRegexp("/ failed$/"), colouring=Shades(palette.FAILED)),),
        draw=Draw.BARS,
        fill=80,
        stacking=Stacking.NORMAL,
    )


def errors(recordings: Recordings) -> Timeseries:
    """Draw the growth of error counters, of racks and of the GPUs that have most."""
    return Timeseries(
        key="errors",
        title="Errors of links by rack and GPU, in 10 minutes",
        description=describe(
            ERRORS,
            ERRORS_OF_GPU,
            note=f"Each rack, and the {_MOST} GPUs that have most, where there are any.",
        ),
        width=12,
        height=8,
        targets=(
            Target(expr=recordings.by(ERRORS, "rack"), legend=RACK_LEGEND),
            Target(
                expr=f"topk({_MOST}, {recordings.by(ERRORS_OF_GPU, *_GPU)} > 0)",
                legend=GPU_LEGEND,
            ),
        ),
        fields=FieldOptions(
            unit=unit(ERRORS),
            decimals=0,
            minimum=0,
            colouring=Shades(palette.NVLINK),
            links=(links.to_rack(),),
        ),
        overrides=(_OF_GPUS,),
    )


def bit_errors(recordings: Recordings) -> tuple[Timeseries, ...]:
    """Draw the worst bit error ratios, of racks and of the worst GPUs, on a logarithmic scale."""
    panels = []
    for kind in BER_KINDS:
        check = CHECK_BY_ID[f"nvlink_{kind}_ber"]
        of_rack, of_gpu = (f"{level}:nvlink_{kind}_ber:max" for level in ("rack", "rack_node_gpu"))
        steps = () if check.threshold is None else (Step(check.threshold, palette.DEGRADED),)
        panels.append(
            Timeseries(
                key=f"{kind}-ber",
                title=f"Worst {kind} bit error ratios, by rack and GPU",
                description=describe(
                    of_rack,
                    of_gpu,
                    note=f"Of each rack, and of the {_MOST} worst GPUs. 0, no error, stands in the legend "
                    f"only: a logarithmic scale has no place for it. Line: `{check.id}`, {check.help}, from "
                    f"{check.threshold:g} on ({check.source}).",
                ),
                width=12,
                height=9,
                targets=(
                    Target(expr=recordings.by(of_rack, "rack"), legend=RACK_LEGEND),
                    Target(
                        expr=f"topk({_MOST}, {recordings.by(of_gpu, *_GPU)} > 0)",
                        legend=GPU_LEGEND,
                    ),
                ),
                fields=FieldOptions(
                    unit=units.SCIENTIFIC,
                    colouring=Shades(palette.NVLINK),
                    thresholds=Thresholds(steps=steps),
                    links=(links.to_rack(),),
                ),
                overrides=(_OF_GPUS,),
                scale=Scale.LOGARITHMIC,
                threshold_lines=ThresholdLines.DASHED,
                legend=Legend(calculations=("last", "max"), table=True),
            )
        )
    return tuple(panels)
