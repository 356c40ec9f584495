"""One node and its GPUs: which one is in trouble, and what to do about it."""

from __future__ import annotations

from dashboards import queries, variables
from dashboards.boards.failed_checks import failed_checks
from dashboards.boards.node_agent import agent_panels
from dashboards.boards.node_gpus import gpu_identity, gpu_table, node_identity
from dashboards.boards.node_rows import gpu_sections
from dashboards.boards.node_states import clock_events, fabric, recovery, xids
from dashboards.boards.recordings import Recordings
from dashboards.boards.troubles import firing_alerts, recent_xids
from dashboards.dashboard import Annotation, Board
from dashboards.identities import BoardId
from dashboards.layout import Section
from dashboards.panels import palette

_VARIABLES = variables.down_to(variables.GPU, one=(variables.RACK,))
_SCOPE = queries.Scope.of(_VARIABLES)
_RECORDED = Recordings(_SCOPE)
_STATE = "rack_node_state:node_state:max"

BOARD = Board(
    identity=BoardId.NODE,
    description="A node and its GPUs: which GPU is in trouble, what to do, and what every GPU does.",
    variables=_VARIABLES,
    sections=(
        Section(
            panels=(
                gpu_table(_SCOPE, _RECORDED),
                failed_checks(_SCOPE, width=14, height=7),
                firing_alerts(_SCOPE, width=10, height=7),
            )
        ),
        Section(
            key="states",
            title="Clock events, Xids, fabric, recovery",
            panels=(
                clock_events(_SCOPE),
                xids(_SCOPE, _RECORDED),
                fabric(_SCOPE),
                recovery(_SCOPE),
                recent_xids(_SCOPE, height=6),
            ),
        ),
        *gpu_sections(_SCOPE, _RECORDED),
        Section(
            key="identity",
            title="Identity and versions",
            panels=(node_identity(_SCOPE), gpu_identity(_SCOPE)),
        ),
        Section(
            key="agent",
            title="Agent: how well it reads",
            panels=agent_panels(_SCOPE, _RECORDED),
            collapsed=True,
        ),
    ),
    annotations=(
        Annotation(
            name="Fatal Xids",
            expr=f"{_RECORDED.selector('rack_node_gpu_class:xids:increase10m', **{'class': 'fatal'})} > 0",
            title="fatal Xid: {{node}} GPU {{gpu}}",
            colour=palette.FAILED,
        ),
        Annotation(
            name="Node not READY",
            expr=f"{_RECORDED.selector(_STATE, state=queries.Regexp('FAILED|UNKNOWN'))} == 1",
            title="{{node}} {{state}}",
            colour=palette.DEGRADED,
        ),
    ),
)
