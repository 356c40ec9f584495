"""The trays of a rack: their states over time, and a table of what each one has."""

from __future__ import annotations

from collections.abc import Iterator

from dashboards import links, queries, units
from dashboards.boards.fleet_racks import AGE, SOME
from dashboards.boards.recordings import (
    NODE_LEGEND,
    NODE_STATE_CODES,
    Recordings,
    code_texts,
    describe,
)
from dashboards.boards.rows import Column, columns_table
from dashboards.identities import BoardId
from dashboards.panels import (
    CellKind,
    FieldOptions,
    Show,
    StateTimeline,
    Step,
    Table,
    Thresholds,
    palette,
    table,
)
from dashboards.panels.targets import Target
from dashboards.queries import Regexp, Scope

_STATE = "rack_node_state:node_state:max"
_NODE = ("rack", "node")
_ALARM = Thresholds(steps=(Step(1, palette.FAILED),))


def tray_states(recordings: Recordings) -> StateTimeline:
    """Draw the state of each node over time."""
    return StateTimeline(
        key="tray-states",
        title="State of each tray",
        description=describe(
            _STATE,
            note="As the rack service judges it. Where nothing is drawn, the rack service said nothing. "
            "A click leads to the node.",
        ),
        width=12,
        height=12,
        targets=(Target(expr=recordings.coded(_STATE, NODE_STATE_CODES, label="state"), legend=NODE_LEGEND),),
        fields=FieldOptions(unit=units.NONE, mappings=code_texts(NODE_STATE_CODES), links=(links.to_node(),)),
        show_values=Show.AUTO,
    )


def _columns(scope: Scope, recordings: Recordings) -> Iterator[Column]:
    rack, node = links.cell("rack"), links.cell("node")
    to_node = (links.to_node(rack=rack, node=node),)
    to_links = (links.to_node(BoardId.NVLINK, rack=rack, node=node),)
    yield Column(
        "State",
        recordings.coded(_STATE, NODE_STATE_CODES, label="state"),
        cell=CellKind.COLOURED_BACKGROUND,
        mappings=code_texts(NODE_STATE_CODES),
        links=to_node,
    )
    for impact, looks in (("fail", _ALARM), ("avoid", SOME), ("warn", SOME)):
        yield Column(
            f"Checks: {impact}",
            recordings.by("rack_node_impact:checks_failed:sum", *_NODE, impact=impact),
            cell=CellKind.COLOURED_TEXT,
            thresholds=looks,
            links=to_node,
        )
    for heading, name in (("GPUs", "node_gpus_present"), ("GPUs expected", "node_gpus_expected")):
        yield Column(heading, queries.largest(scope.series(name), *_NODE))
    yield Column("Links up", recordings.by("rack_node:nvlinks_up:sum", *_NODE), links=to_links)
    yield Column("Links down", _links_down(recordings), cell=CellKind.COLOURED_TEXT, thresholds=SOME)
    yield Column(
        "Margin",
        recordings.by("rack_node:temperature_margin_celsius:min", *_NODE),
        unit=units.CELSIUS,
    )
    yield Column(
        "GPU power",
        queries.total(queries.largest(scope.series("gpu_power_watts"), *_NODE, "gpu_uuid"), *_NODE),
        unit=units.WATTS,
        colour=palette.POWER,
    )
    yield Column(
        "Data age",
        recordings.by("rack_node:agent_sample_age_seconds:min", *_NODE),
        unit=units.SECONDS,
        cell=CellKind.COLOURED_TEXT,
        thresholds=AGE,
    )


def _links_down(recordings: Recordings) -> str:
    expected, up = (recordings.by(f"rack_node:nvlinks_{what}:sum", *_NODE) for what in ("expected", "up"))
    return f"{expected} - {up}"


def tray_table(scope: Scope, recordings: Recordings) -> Table:
    """List the nodes of a rack, worst first, with what each one has."""
    place = queries.largest(scope.series("gpu_info", slot=Regexp(".+")), *_NODE, "slot", "tray")
    return columns_table(
        key="trays",
        title="Trays, worst first",
        description=describe(
            _STATE,
            "rack_node_impact:checks_failed:sum",
            "rack_node:nvlinks_up:sum",
            "rack_node:nvlinks_expected:sum",
            "rack_node:temperature_margin_celsius:min",
            "rack_node:agent_sample_age_seconds:min",
            note="Every expected node; what an agent does not tell is blank. Slot and tray are those "
            "that the GPUs read from their chassis.",
        )
        + "\n\n"
        + queries.describe("node_gpus_present", "node_gpus_expected", "gpu_power_watts"),
        width=24,
        height=10,
        labels=(("rack", "Rack"), ("node", "Node")),
        columns=tuple(_columns(scope, recordings)),
        further=(table(place, ref_id="PLACE"),),
        further_labels=(("slot", "Slot"), ("tray", "Tray")),
        sort_by="State",
        links={"Node": (links.to_node(rack=links.cell("rack"), node=links.cell("node")),)},
    )
