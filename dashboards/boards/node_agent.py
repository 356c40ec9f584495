"""How well a node's agent reads its GPUs."""

from __future__ import annotations

from dashboards import links, queries, units
from dashboards.boards.recordings import NODE_LEGEND, Recordings, describe
from dashboards.panels import (
    DataPanel,
    Draw,
    FieldOptions,
    Shades,
    StateTimeline,
    Target,
    Timeseries,
    ValueText,
    palette,
)
from dashboards.queries import Scope

_UP = "rack_node:agent_nvml_up:max"
_ANSWERS = (
    ValueText("1", "reads the GPUs", palette.OK),
    ValueText("0", "cannot read the GPUs", palette.UNKNOWN),
)


def _nvml(recordings: Recordings) -> StateTimeline:
    return StateTimeline(
        key="nvml-up",
        title="NVML",
        description=describe(_UP, note="Nothing is drawn while the agent says nothing."),
        width=8,
        height=7,
        targets=(Target(expr=recordings.by(_UP, "rack", "node"), legend=NODE_LEGEND),),
        fields=FieldOptions(unit=units.NONE, mappings=_ANSWERS, links=(links.to_node(),)),
    )


def _drawn(
    scope: Scope, name: str, title: str, *, legend: str, unit: str = "", bars: bool = False
) -> Timeseries:
    """Draw a gauge of the agent, or how much a counter of rare things rises."""
    return Timeseries(
        key=name.replace("_", "-"),
        title=title,
        description=queries.describe(name),
        width=8,
        height=7,
        targets=(Target(expr=scope.increase(name) if bars else scope.series(name), legend=legend),),
        fields=FieldOptions(
            unit=unit or queries.unit(name),
            minimum=0,
            colouring=Shades(palette.CLOCK),
            links=(links.to_node(),),
        ),
        draw=Draw.BARS if bars else Draw.LINE,
        fill=60 if bars else 0,
    )


def agent_panels(scope: Scope, recordings: Recordings) -> tuple[DataPanel, ...]:
    """Return the panels about the agent."""
    by_cadence = f"{NODE_LEGEND} {{{{cadence}}}}"
    return (
        _nvml(recordings),
        _drawn(scope, "agent_sample_age_seconds", "Age of the data", legend=by_cadence),
        _drawn(scope, "agent_sweep_seconds", "Time of a sweep", legend=by_cadence),
        _drawn(
            scope,
            "agent_read_errors_total",
            "Read errors by kind",
            legend=f"{NODE_LEGEND} {{{{error}}}}",
            unit=units.NUMBER,
            bars=True,
        ),
        _drawn(
            scope,
            "agent_reader_restarts_total",
            "Restarts of the reader",
            legend=NODE_LEGEND,
            unit=units.NUMBER,
            bars=True,
        ),
        Timeseries(
            key="agent-nvml-calls-total",
            title="Calls to NVML",
            description=queries.describe("agent_nvml_calls_total"),
            width=8,
            height=7,
            targets=(Target(expr=scope.rate("agent_nvml_calls_total"), legend=NODE_LEGEND),),
            fields=FieldOptions(
                unit=queries.rate_unit("agent_nvml_calls_total"),
                minimum=0,
                colouring=Shades(palette.CLOCK),
                links=(links.to_node(),),
            ),
        ),
    )
