"""How most panels about GPUs are drawn: one quantity over time, one line a GPU."""

from __future__ import annotations

from dataclasses import replace

from dashboards import links, queries, units
from dashboards.boards.node_gpus import GPU
from dashboards.boards.recordings import GPU_LEGEND, Recordings
from dashboards.boards.recordings import describe as describe_recorded
from dashboards.boards.recordings import unit as recorded_unit
from dashboards.panels import Draw, FieldOptions, Shades, Target, Timeseries
from dashboards.panels.palette import Colour
from dashboards.queries import Scope

WIDTH, HEIGHT = 8, 7


def drawn(
    key: str,
    title: str,
    description: str,
    unit: str,
    hue: Colour,
    *targets: Target,
    minimum: float | None = 0,
    width: int = WIDTH,
) -> Timeseries:
    """Draw targets."""
    return Timeseries(
        key=key,
        title=title,
        description=description,
        width=width,
        height=HEIGHT,
        targets=targets,
        fields=FieldOptions(unit=unit, minimum=minimum, colouring=Shades(hue), links=(links.to_gpu(),)),
    )


def gauges(scope: Scope, name: str, title: str, hue: Colour, *, width: int = WIDTH) -> Timeseries:
    """Draw a gauge of the catalogue by GPU."""
    row = queries.row(name)
    return drawn(
        name.replace("_", "-"),
        title,
        queries.describe(name),
        queries.unit(name),
        hue,
        Target(expr=scope.series(name), legend=GPU_LEGEND),
        minimum=0 if row.minimum == 0 else None,
        width=width,
    )


def errors(scope: Scope, name: str, title: str, hue: Colour, *, legend: str = GPU_LEGEND) -> Timeseries:
    """Draw what a counter of rare things rises by: single ones show as bars."""
    bars = drawn(
        name.replace("_", "-"),
        title,
        queries.describe(name, note="Growth between two points of the drawing."),
        units.NUMBER,
        hue,
        Target(expr=scope.increase(name), legend=legend),
    )
    return replace(bars, draw=Draw.BARS, fill=60)


def recorded(
    recordings: Recordings, name: str, key: str, title: str, hue: Colour, *, legend: str = GPU_LEGEND
) -> Timeseries:
    """Draw a recorded series of GPUs, by reason where the legend names it."""
    labels = GPU if "reason" not in legend else (*GPU, "reason")
    return drawn(
        key,
        title,
        describe_recorded(name),
        recorded_unit(name),
        hue,
        Target(expr=recordings.by(name, *labels), legend=legend),
    )
