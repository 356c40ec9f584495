"""The fabric: NVLink domains, how GPUs are registered with it, and what it reports of them."""

from __future__ import annotations

from collector.catalog.rack import DOMAIN_STATES
from dashboards import links, queries, units
from dashboards.boards.nvlink_links import ROWS, none_known
from dashboards.boards.recordings import (
    DOMAIN_STATE_CODES,
    NODE_LEGEND,
    Recordings,
    code_texts,
    describe,
)
from dashboards.boards.rows import Column, columns_table
from dashboards.identities import BoardId
from dashboards.panels import (
    CellKind,
    FieldOptions,
    Shades,
    Show,
    StateTimeline,
    Table,
    Timeseries,
    ValueText,
    palette,
)
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER, Scope

DOMAIN_STATE = "rack_cluster_uuid_clique_state:domain_state:max"

FABRIC_STATES = ("completed", "not_supported", "in_progress", "not_started")
"""States of `gpu_fabric_state`, the best first; a platform without a fabric passes (CONTRACTS §3)."""
_FABRIC_TEXTS = (
    ValueText("0", "COMPLETED", palette.OK),
    ValueText("1", "NOT SUPPORTED", palette.NEUTRAL),
    ValueText("2", "IN PROGRESS", palette.UNKNOWN),
    ValueText("3", "NOT STARTED", palette.FAILED),
)
_MOST = 50
"""Rows of the table of conditions (chosen)."""


def domain_history(recordings: Recordings) -> StateTimeline:
    """Draw the state of each NVLink domain."""
    return StateTimeline(
        key="domain-history",
        title="State of each NVLink domain",
        description=describe(
            DOMAIN_STATE,
            note=f"Of {', '.join(DOMAIN_STATES)}. Nothing is drawn while the rack service says nothing.",
        ),
        width=12,
        height=8,
        targets=(
            Target(
                expr=recordings.coded(DOMAIN_STATE, DOMAIN_STATE_CODES, label="state"),
                legend="{{rack}} {{clique}}",
            ),
        ),
        fields=FieldOptions(
            unit=units.NONE, mappings=code_texts(DOMAIN_STATE_CODES), links=(links.to_rack(),)
        ),
        show_values=Show.AUTO,
        rows_a_page=ROWS,
    )


def domains(recordings: Recordings) -> Table:
    """List NVLink domains and cliques, worst first; more than one board shows them."""
    return columns_table(
        key="domains",
        title="NVLink domains and cliques, worst first",
        description=describe(DOMAIN_STATE),
        width=12,
        height=8,
        labels=(("rack", "Rack"), ("clique", "Clique"), ("cluster_uuid", "Domain")),
        columns=(
            Column(
                "State",
                recordings.coded(DOMAIN_STATE, DOMAIN_STATE_CODES, label="state"),
                cell=CellKind.COLOURED_BACKGROUND,
                mappings=code_texts(DOMAIN_STATE_CODES),
                width=120,
            ),
        ),
        sort_by="State",
        links={
            "Rack": (links.to_rack(source=links.cell("rack")),),
            "Domain": (links.to_rack(BoardId.NVLINK, source=links.cell("rack")),),
        },
    )


def registration(scope: Scope) -> StateTimeline:
    """Draw how the GPUs of each node are registered with the fabric."""
    return StateTimeline(
        key="fabric-state",
        title="Fabric state of each node",
        description=queries.describe(
            "gpu_fabric_state", note="That of the node's GPU that has come least far."
        ),
        width=12,
        height=10,
        targets=(
            Target(
                expr=queries.largest(scope.coded_state("gpu_fabric_state", FABRIC_STATES), "rack", "node"),
                legend=NODE_LEGEND,
            ),
        ),
        fields=FieldOptions(unit=units.NONE, mappings=_FABRIC_TEXTS, links=(links.to_node(),)),
        rows_a_page=ROWS,
    )


def conditions(scope: Scope) -> tuple[Timeseries, Table]:
    """Return what the fabric reports of GPUs: how many over time, and where now."""
    name = "gpu_fabric_condition"
    reported = queries.total(scope.series(name), "rack", "condition")
    here = f"topk({_MOST}, sum by ({CLUSTER}, rack, node, condition) ({scope.series(name)}) > 0)"
    over_time = Timeseries(
        key="conditions",
        title="GPUs of which the fabric reports a fault",
        description=queries.describe(name, note="0 while it denies it; nothing where it does not say."),
        width=12,
        height=5,
        targets=(Target(expr=reported, legend="{{rack}} {{condition}}"),),
        fields=FieldOptions(
            unit=units.NUMBER,
            decimals=0,
            minimum=0,
            colouring=Shades(palette.NVLINK),
            links=(links.to_rack(),),
        ),
        stepped=True,
    )
    now = columns_table(
        key="conditions-now",
        title="Faults that the fabric reports now",
        description=queries.describe(name, note=f"At most {_MOST}. Empty while none is reported."),
        width=12,
        height=5,
        labels=(("rack", "Rack"), ("node", "Node"), ("condition", "Condition")),
        columns=(Column("GPUs", here),),
        sort_by="GPUs",
        links={"Node": (links.to_node(rack=links.cell("Rack"), node=links.cell("Node")),)},
    )
    return over_time, none_known(now)
