"""Which links are not up, and which went to recovery: by node over time, by node and link now."""

from __future__ import annotations

from dataclasses import replace

from collector.catalog.spec import Entity
from dashboards import links, queries, units
from dashboards.boards.recordings import NODE_LEGEND, Recordings, describe
from dashboards.boards.rows import Column, columns_table
from dashboards.panels import (
    ByRegexp,
    CellKind,
    FieldOptions,
    GroupingToMatrix,
    Override,
    SortBy,
    StatusHistory,
    Step,
    Table,
    Thresholds,
    ValueText,
    palette,
    table,
)
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER, Regexp, Scope

LINK = (*Entity.NVLINK.implied_keys, *Entity.NVLINK.keys)

RECOVERIES = "rack_node_gpu_outcome:nvlink_recoveries:increase10m"
_UP, _EXPECTED = (f"rack_node:nvlinks_{what}:sum" for what in ("up", "expected"))
_UP_OF_GPU = "rack_node_gpu:nvlinks_up:sum"

ROWS = 18
"""Rows a page (chosen): the nodes of an NVL72 rack."""
_STEP = "1m"
"""A box a minute at most (chosen): links are read every 10 s, recorded every 30 s."""
_MOST = 100
"""Links that are listed (chosen)."""
_WINDOW = "1h"

NONE_KNOWN = "none known"
GPU_MISSING = -1
_LINKS_DOWN = "suffix:links down"
_HEALTH = Thresholds(base=palette.UNKNOWN, steps=(Step(0, palette.OK), Step(1, palette.DEGRADED)))
_TO_NODE = (links.to_node(),)
ROW_LINKS = {
    "Rack": (links.to_rack(source=links.cell("Rack")),),
    "Node": (links.to_node(rack=links.cell("Rack"), node=links.cell("Node")),),
    "GPU": (links.to_gpu(rack=links.cell("Rack"), node=links.cell("Node"), gpu=links.cell("GPU")),),
}


_LINK_HEADINGS = (
    ("rack", "Rack"),
    ("node", "Node"),
    ("gpu", "GPU"),
    ("link", "Link"),
    ("gpu_uuid", "GPU UUID"),
)


def none_known(listed: Table) -> Table:
    """Say of an empty list that nothing is known, not that data is missing nor that all is well."""
    return replace(listed, fields=replace(listed.fields, no_value=NONE_KNOWN))


def _by(*labels: str) -> str:
    return f"by ({', '.join((CLUSTER, *labels))})"


def links_down(recordings: Recordings) -> StatusHistory:
    """Draw how many links of each node are down; a node with a lost GPU is never said to be whole."""
    expected, up = (recordings.by(name, "rack", "node") for name in (_EXPECTED, _UP))
    gpus = f"max {_by('rack', 'node')} ({recordings.scope.series('node_gpus_expected')})"
    told = f"count {_by('rack', 'node')} ({recordings.selector(_UP_OF_GPU, gpu=Regexp('.*'))})"
    down = f"({expected} - {up})"
    expression = f"({down} > 0) or ({gpus} - {told} > 0) * 0 - 1 or {down}"
    return StatusHistory(
        key="links-down",
        title="Links of each node that are down",
        description=describe(
            _EXPECTED,
            _UP,
            note="All up, links that are down, or a GPU that is missing, whose links nobody knows. Nothing "
            "is drawn while a node does not answer. GPUs of a node: "
            f"`{queries.row('node_gpus_expected').exposed_name}`.",
        ),
        width=12,
        height=12,
        targets=(Target(expr=expression, legend=NODE_LEGEND, interval=_STEP),),
        fields=FieldOptions(
            unit=_LINKS_DOWN,
            decimals=0,
            thresholds=_HEALTH,
            mappings=(
                ValueText(str(GPU_MISSING), "a GPU is missing", palette.UNKNOWN),
                ValueText("0", "all up", palette.OK),
            ),
            links=_TO_NODE,
        ),
        rows_a_page=ROWS,
    )


def failed_recoveries(recordings: Recordings) -> StatusHistory:
    """Draw how many recoveries of links failed, by node."""
    failed = f"sum {_by('rack', 'node')} ({recordings.selector(RECOVERIES, outcome='failed')})"
    return StatusHistory(
        key="failed-recoveries",
        title="Failed recoveries of each node's links in 10 minutes",
        description=describe(RECOVERIES, note="One that failed took its link down."),
        width=12,
        height=12,
        targets=(Target(expr=failed, legend=NODE_LEGEND, interval=_STEP),),
        fields=FieldOptions(
            unit=units.NUMBER,
            decimals=0,
            thresholds=Thresholds(base=palette.OK, steps=(Step(1, palette.FAILED),)),
            mappings=(ValueText("0", "none", palette.OK),),
            links=_TO_NODE,
        ),
        rows_a_page=ROWS,
    )


def node_by_link(scope: Scope) -> Table:
    """Map nodes and links: on how many of a node's GPUs the link is down now."""
    down = f"max {_by(*LINK)} (1 - {scope.series('nvlink_up')})"
    by_link = f"sum {_by('rack', 'node', 'link')} ({down})"
    two_digits = f'label_replace({by_link}, "link", "0$1", "link", "([0-9])")'
    named = f'label_join({two_digits}, "node", " ", "rack", "node")'
    return Table(
        key="node-by-link",
        title="Node by link, now",
        description=queries.describe(
            "nvlink_up",
            note="On how many GPUs of the node the link of that number is down. A link that no GPU of the "
            "node tells of is grey; a GPU that is missing is not counted.",
        ),
        width=24,
        height=13,
        targets=(table(named),),
        transformations=(SortBy("link"), GroupingToMatrix(across="link", down="node", value="Value")),
        sort_by="node\\link",
        page=True,
        fields=FieldOptions(
            unit="suffix:down",
            decimals=0,
            thresholds=_HEALTH,
            mappings=(ValueText("0", "up", palette.OK),),
        ),
        overrides=(Override(fields=ByRegexp("/^[0-9]+$/"), cell=CellKind.COLOURED_BACKGROUND),),
    )


def down_now(scope: Scope) -> Table:
    """List the links that are down."""
    return columns_table(
        key="down-now",
        title="Links that are down now",
        description=queries.describe(
            "nvlink_up", note=f"At most {_MOST}. Empty while every link that is read is up."
        ),
        width=12,
        height=8,
        labels=_LINK_HEADINGS,
        columns=(
            Column(
                "Link state",
                f"topk({_MOST}, max {_by(*LINK)} ({scope.series('nvlink_up')}) == 0)",
                cell=CellKind.COLOURED_TEXT,
                mappings=(ValueText("0", "DOWN", palette.FAILED),),
            ),
        ),
        dropped=("gpu_uuid",),
        links=ROW_LINKS,
    )


def recovered_badly(scope: Scope) -> Table:
    """List the links of which recoveries failed."""
    counted = scope.selector("nvlink_recoveries_total", outcome="failed")
    # A link that stays down tells of no recoveries any more.
    failed = f"max {_by(*LINK)} (last_over_time({counted}[{_WINDOW}]))"
    before = f"max {_by(*LINK)} ({counted} offset {_WINDOW})"
    return columns_table(
        key="failed-links",
        title="Links that failed to recover in the last hour",
        description=queries.describe(
            "nvlink_recoveries_total",
            note=f"At most {_MOST}. Of a link that was not known an hour ago: since its driver was loaded.",
        ),
        width=12,
        height=8,
        labels=_LINK_HEADINGS,
        columns=(
            Column(
                "Failed recoveries",
                f"topk({_MOST}, ({failed} - {before} > 0) or (({failed} unless {before}) > 0))",
                cell=CellKind.COLOURED_TEXT,
                thresholds=Thresholds(steps=(Step(1, palette.FAILED),)),
            ),
        ),
        dropped=("gpu_uuid",),
        sort_by="Failed recoveries",
        links=ROW_LINKS,
    )
