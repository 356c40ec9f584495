"""Rack against rack, model against model, and tokens over watts."""

from __future__ import annotations

from collector.profiles.references import TokenKind
from dashboards import links, units
from dashboards.boards.recordings import RACK_LEGEND, describe, unit
from dashboards.boards.tokens_queries import (
    WATTS,
    TokenQueries,
    per_joule_name,
    tokens_name,
)
from dashboards.identities import BoardId
from dashboards.panels import (
    BarGauge,
    ByName,
    FieldOptions,
    Fixed,
    Format,
    Merge,
    Organize,
    Override,
    XYChart,
    XYSeries,
    instant,
    palette,
)
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER

GENERATED = TokenKind.GENERATION
TO_RACK = (links.to_rack(),)

_LONGEST = 20
"""Bars of a ranking (chosen)."""
_POINT_INTERVAL = "5m"
"""A point of a scatter every so often: windows of 5 minutes then do not overlap."""


def _ranking(key: str, title: str, description: str, expression: str, legend: str) -> BarGauge:
    return BarGauge(
        key=key,
        title=title,
        description=description,
        width=8,
        height=9,
        targets=(instant(f"topk({_LONGEST}, {expression})", legend=legend),),
        fields=FieldOptions(
            unit=unit(per_joule_name(GENERATED, "1h")),
            minimum=0,
            decimals=3,
            colouring=Fixed(palette.TOKENS),
            links=TO_RACK if legend == RACK_LEGEND else (),
        ),
        links=(links.to_board(BoardId.FLEET, "The fleet"),),
    )


def _of_models(own: TokenQueries) -> str:
    """Write tokens over joules by model, of racks that serve one model alone."""
    by = f"on ({CLUSTER}, rack)"
    tokens = own.recordings.by(tokens_name(GENERATED, "1h", level="rack_model"), "rack", "model")
    alone = f"count by ({CLUSTER}, rack) ({tokens}) == 1"
    energy = f"({own.watts(window='1h')} and {own.per_joule(GENERATED, window='1h')} and ({alone}))"
    return (
        f"sum by (model) ({tokens} and {by} {energy})"
        f" / sum by (model) ({tokens} * 0 + {by} group_left () {energy})"
    )


def rankings(own: TokenQueries) -> tuple[BarGauge, ...]:
    """Return racks and models by what they make of a joule, the best first."""
    name = per_joule_name(GENERATED, "1h")
    return (
        _ranking(
            "ranking-racks",
            "Racks by generated tokens/J of 1 h, rack input",
            describe(name),
            own.per_joule(GENERATED, window="1h"),
            RACK_LEGEND,
        ),
        _ranking(
            "ranking-models",
            "Models by generated tokens/J of 1 h, rack input",
            describe(
                name,
                tokens_name(GENERATED, "1h", level="rack_model"),
                "rack_domain:energy_joules:rate1h",
                note="Sums over racks that serve one model alone. How a rack shares its energy among several "
                "models is told by the rack service's `/v1/racks/{rack}/efficiency`.",
            ),
            _of_models(own),
            "{{model}}",
        ),
    )


def watts_and_tokens(own: TokenQueries) -> XYChart:
    """Scatter tokens over power: racks of one efficiency lie on a line through zero."""
    known = own.per_joule(GENERATED)
    power, tokens = "Rack input", "Generated tokens/s"
    return XYChart(
        key="watts-and-tokens",
        title="Generated tokens/s over power, rack input",
        description=describe(
            WATTS,
            tokens_name(GENERATED),
            note=f"A point for every rack and {_POINT_INTERVAL} of the time range, where both are known. "
            "Equal efficiency lies on a line through zero; power without tokens is idle.",
        ),
        width=8,
        height=9,
        targets=(
            Target(expr=f"{own.watts()} and {known}", format=Format.TABLE, interval=_POINT_INTERVAL),
            Target(
                expr=f"{own.tokens(GENERATED)} and {known}", format=Format.TABLE, interval=_POINT_INTERVAL
            ),
        ),
        transformations=(
            Merge(),
            Organize(
                (
                    ("Value #A", power),
                    ("Value #B", tokens),
                    ("rack", "Rack"),
                    (CLUSTER, "Cluster"),
                    ("Time", "Time"),
                ),
                dropped=(),
            ),
        ),
        series=(XYSeries("rack", x=power, y=tokens),),
        x_label=power,
        y_label=tokens,
        fields=FieldOptions(unit=unit(tokens_name(GENERATED)), minimum=0, colouring=Fixed(palette.TOKENS)),
        overrides=(Override(fields=ByName(power), unit=units.WATTS),),
    )
