"""One rack: is it available, which tray is not, and what to do about it."""

from __future__ import annotations

from dashboards import queries, units, variables
from dashboards.boards.failed_checks import failed_checks
from dashboards.boards.fleet_racks import AGE
from dashboards.boards.node_gpus import node_identity
from dashboards.boards.nvlink_fabric import domains
from dashboards.boards.rack_rows import (
    burn,
    clock_events,
    failures,
    margins,
    time_by_verdict,
    windows,
)
from dashboards.boards.rack_trays import tray_states, tray_table
from dashboards.boards.recordings import (
    RACK_LEGEND,
    VERDICT_CODES,
    Recordings,
    code_texts,
    describe,
)
from dashboards.boards.troubles import firing_alerts, recent_xids
from dashboards.dashboard import Annotation, Board
from dashboards.identities import BoardId
from dashboards.layout import Section
from dashboards.panels import (
    ByRegexp,
    FieldOptions,
    Override,
    Stat,
    StatColour,
    StatText,
    Step,
    Thresholds,
    instant,
    palette,
)
from dashboards.queries import NotRegexp

_VARIABLES = variables.down_to(variables.RACK)
_SCOPE = queries.Scope.of(_VARIABLES)
_RECORDED = Recordings(_SCOPE)

_LITTLE_LEFT = 0.25
"""Share of the error budget below which it is coloured (chosen)."""

_VERDICT = Stat(
    key="verdict",
    title="Verdict",
    description=describe("rack_verdict:verdict:max"),
    width=4,
    height=5,
    targets=(
        instant(
            _RECORDED.coded("rack_verdict:verdict:max", VERDICT_CODES, label="verdict"), legend=RACK_LEGEND
        ),
    ),
    fields=FieldOptions(unit=units.NONE, mappings=code_texts(VERDICT_CODES)),
    colour=StatColour.BACKGROUND,
    text=StatText.VALUE_AND_NAME,
)

_LARGEST, _MINIMUM, _EXPECTED = (
    _RECORDED.by(f"rack:{name}:max", "rack")
    for name in ("largest_block_nodes", "min_block_nodes", "nodes_expected")
)

_BLOCK = Stat(
    key="block",
    title="Largest block, against the minimum",
    description=describe(
        "rack:largest_block_nodes:max",
        "rack:min_block_nodes:max",
        note="To spare: nodes that may yet fail until the rack has no block any more.",
    ),
    width=4,
    height=5,
    targets=(
        instant(_LARGEST, legend="{{rack}} largest"),
        instant(_MINIMUM, legend="{{rack}} minimum"),
        instant(f"{_LARGEST} - {_MINIMUM}", legend="{{rack}} to spare"),
    ),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=(
        Override(
            fields=ByRegexp("/to spare$/"),
            thresholds=Thresholds(
                base=palette.FAILED, steps=(Step(0, palette.DEGRADED), Step(1, palette.OK))
            ),
        ),
    ),
    text=StatText.VALUE_AND_NAME,
)

_DOWN = Stat(
    key="nodes-down",
    title="Nodes that are not READY",
    description=describe("rack_state:nodes:max"),
    width=4,
    height=5,
    targets=(
        instant(
            _RECORDED.by("rack_state:nodes:max", "rack", "state", state=NotRegexp("READY")),
            legend="{{rack}} {{state}}",
        ),
    ),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=tuple(
        Override(
            fields=ByRegexp(f"/{state}$/"),
            thresholds=Thresholds(steps=(Step(1, palette.STATE_COLOURS[state]),)),
        )
        for state in ("DEGRADED", "FAILED", "MAINTENANCE", "UNKNOWN")
    ),
    text=StatText.VALUE_AND_NAME,
)

_AVAILABILITY = Stat(
    key="availability",
    title="Availability of 7 and 30 days",
    description=describe(
        "rack:availability_point:ratio7d",
        "rack:availability_point:ratio30d",
        "rack:availability_coverage:ratio30d",
        "rack:availability_target:ratio",
        note="Blank while too little of the window is known: see the table of windows for the bounds.",
    ),
    width=4,
    height=5,
    targets=(
        instant(_RECORDED.by("rack:availability_point:ratio7d", "rack"), legend="{{rack}} 7 d"),
        instant(_RECORDED.by("rack:availability_point:ratio30d", "rack"), legend="{{rack}} 30 d"),
        instant(_RECORDED.by("rack:availability_coverage:ratio30d", "rack"), legend="{{rack}} coverage 30 d"),
        instant(_RECORDED.by("rack:availability_target:ratio", "rack"), legend="{{rack}} target"),
    ),
    fields=FieldOptions(unit=units.RATIO, decimals=2),
    text=StatText.VALUE_AND_NAME,
)

_BUDGET = Stat(
    key="budget",
    title="Error budget left of 30 days",
    description=describe(
        "rack:availability_burn:ratio30d",
        note="Share of the downtime allowed within 30 days that is left; negative once the target is missed. "
        "Only proven downtime counts.",
    ),
    width=4,
    height=5,
    targets=(instant(f"1 - {_RECORDED.by('rack:availability_burn:ratio30d', 'rack')}", legend=RACK_LEGEND),),
    fields=FieldOptions(
        unit=units.RATIO,
        decimals=0,
        thresholds=Thresholds(
            base=palette.FAILED, steps=(Step(0, palette.DEGRADED), Step(_LITTLE_LEFT, palette.OK))
        ),
    ),
    text=StatText.VALUE_AND_NAME,
)

_FRESHNESS = Stat(
    key="freshness",
    title="Data: oldest, and agents reached",
    description=describe(
        "rack:agent_sample_age_seconds:max", "rack:agents_up:sum", "rack:nodes_expected:max"
    ),
    width=4,
    height=5,
    targets=(
        instant(_RECORDED.by("rack:agent_sample_age_seconds:max", "rack"), legend="{{rack}} oldest"),
        instant(_RECORDED.by("rack:agents_up:sum", "rack"), legend="{{rack}} agents"),
        instant(_EXPECTED, legend="{{rack}} nodes"),
    ),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=(Override(fields=ByRegexp("/oldest$/"), unit=units.SECONDS, thresholds=AGE),),
    text=StatText.VALUE_AND_NAME,
)

BOARD = Board(
    identity=BoardId.RACK,
    description="Whether a rack is available, which of its trays is not as it should be, and what to do.",
    variables=_VARIABLES,
    sections=(
        Section(panels=(_VERDICT, _BLOCK, _DOWN, _AVAILABILITY, _BUDGET, _FRESHNESS)),
        Section(
            key="trays",
            title="Which tray, and what to do",
            panels=(
                tray_states(_RECORDED),
                failed_checks(_SCOPE, width=12, height=12),
                tray_table(_SCOPE, _RECORDED),
            ),
        ),
        Section(
            key="events",
            title="Alerts, Xids, NVLink domains, versions",
            panels=(
                firing_alerts(_SCOPE, width=12),
                domains(_RECORDED),
                recent_xids(_SCOPE),
                node_identity(_SCOPE),
            ),
        ),
        Section(
            key="availability",
            title="Availability and its budget",
            panels=(windows(_RECORDED), time_by_verdict(_RECORDED), burn(_RECORDED), failures(_RECORDED)),
        ),
        Section(
            key="strain",
            title="Heat and clocks",
            panels=(margins(_RECORDED), clock_events(_RECORDED)),
        ),
    ),
    annotations=(
        Annotation(
            name="Unavailable",
            expr=f"{_RECORDED.selector('rack_verdict:verdict:max', verdict='UNAVAILABLE')} == 1",
            title="{{rack}} unavailable",
            colour=palette.FAILED,
        ),
        Annotation(
            name="Incidents",
            expr=f"{_SCOPE.increase('rack_incidents_total')} > 0",
            title="a node of {{rack}} failed",
            colour=palette.DEGRADED,
        ),
        Annotation(
            name="Fatal Xids",
            expr=f"{_RECORDED.selector('rack_node_gpu_class:xids:increase10m', **{'class': 'fatal'})} > 0",
            title="fatal Xid: {{node}} GPU {{gpu}}",
            colour=palette.FAILED,
        ),
        Annotation(
            name="Maintenance",
            expr=f"{_RECORDED.selector('rack:maintenance_active:max')} == 1",
            title="maintenance in {{rack}}",
            colour=palette.MAINTENANCE,
        ),
    ),
    time_from="now-6h",
)
