"""A board with every kind of panel, override and transformation: what boards may use must be good JSON."""

from __future__ import annotations

from dashboards import links, queries, units, variables
from dashboards.dashboard import Annotation, Board
from dashboards.identities import BoardId
from dashboards.layout import Section
from dashboards.panels import (
    TABLE_LEGEND,
    AxisPlacement,
    BarGauge,
    ByName,
    ByQuery,
    ByRegexp,
    ByValue,
    CellKind,
    Draw,
    FieldOptions,
    Fixed,
    Format,
    Gauge,
    GroupingToMatrix,
    Heatmap,
    JoinByField,
    KeepFields,
    LabelsToFields,
    Limit,
    Merge,
    Organize,
    Override,
    RangeText,
    Reduce,
    Scale,
    Shades,
    SortBy,
    Stacking,
    Stat,
    StateTimeline,
    StatusHistory,
    Step,
    Table,
    Target,
    Text,
    ThresholdLines,
    Thresholds,
    Timeseries,
    ValueText,
    XYChart,
    XYSeries,
    instant,
    limit_line,
    palette,
    reference_line,
    state_codes,
    table,
)

VARIABLES = (
    *variables.down_to(variables.GPU),
    variables.CustomVariable(
        name="domain", label="Power", values=("gpu", "module"), description="Where power is measured."
    ),
)
SCOPE = queries.Scope.of(VARIABLES)

_POWER = "gpu_power_watts"
_STATES = ("OK", "DEGRADED", "FAILED")
_FIELDS = FieldOptions(unit=units.WATTS)
_THRESHOLDS = Thresholds(palette.OK, (Step(1, palette.DEGRADED), Step(2.5, palette.FAILED)))


def _every_override() -> tuple[Override, ...]:
    return (
        Override(
            fields=ByName("limit"),
            unit=units.RATIO,
            decimals=1,
            minimum=0,
            maximum=1,
            display_name="Limit",
            colouring=ByValue(),
            thresholds=_THRESHOLDS,
            mappings=(ValueText("0", "none", palette.OK), RangeText(1, None, "some")),
            links=(links.to_gpu(),),
            axis=AxisPlacement.RIGHT,
            axis_label="share",
            hidden=True,
        ),
        limit_line(ByRegexp("/^limit/")),
        reference_line(ByQuery("B")),
    )


PANELS = (
    Timeseries(
        key="timeseries",
        title="Power",
        description=queries.describe(_POWER),
        width=12,
        height=8,
        targets=(
            Target(expr=SCOPE.series(_POWER), legend="{{node}} {{gpu}}", interval="1m"),
            Target(expr=SCOPE.series("gpu_power_limit_watts"), legend="limit {{gpu}}"),
        ),
        fields=FieldOptions(
            unit=units.WATTS,
            minimum=0,
            maximum=1500,
            decimals=0,
            colouring=Shades(palette.POWER),
            thresholds=_THRESHOLDS,
            links=(links.to_node(),),
        ),
        overrides=_every_override(),
        draw=Draw.BARS,
        stepped=True,
        stacking=Stacking.NORMAL,
        scale=Scale.LOGARITHMIC,
        axis_label="power",
        soft_minimum=0,
        soft_maximum=100,
        threshold_lines=ThresholdLines.DASHED,
        legend=TABLE_LEGEND,
        links=(links.to_board(BoardId.FLEET, "All racks"),),
    ),
    Stat(
        key="stat",
        title="Power of the rack",
        description=queries.describe("rack_power_watts"),
        width=12,
        height=8,
        targets=(instant(SCOPE.series("rack_power_watts", domain="gpu")),),
        fields=FieldOptions(unit=units.WATTS, thresholds=_THRESHOLDS),
        value_size=40,
    ),
    Gauge(
        key="gauge",
        title="Utilization",
        description=queries.describe("gpu_utilization_ratio"),
        width=8,
        height=8,
        targets=(instant(queries.largest(SCOPE.series("gpu_utilization_ratio"))),),
        fields=FieldOptions(unit=units.RATIO, minimum=0, maximum=1, colouring=Fixed(palette.UTILIZATION)),
    ),
    BarGauge(
        key="bars",
        title="Links that are up",
        description=queries.describe("gpu_nvlinks_up"),
        width=8,
        height=8,
        targets=(instant(SCOPE.series("gpu_nvlinks_up"), "{{gpu}}"),),
        fields=FieldOptions(unit=units.NUMBER, minimum=0),
    ),
    Heatmap(
        key="heatmap",
        title="Time to the first token",
        description=queries.describe("llm_time_to_first_token_seconds"),
        width=8,
        height=8,
        targets=(
            Target(
                expr=SCOPE.buckets("llm_time_to_first_token_seconds"), legend="{{le}}", format=Format.HEATMAP
            ),
        ),
        fields=FieldOptions(unit=units.NUMBER),
        bucket_unit=units.SECONDS,
    ),
)

FOLDED = (
    Table(
        key="table",
        title="GPUs",
        description=queries.describe(_POWER, "gpu_temperature_celsius"),
        width=12,
        height=8,
        targets=(table(SCOPE.series(_POWER)), table(SCOPE.series("gpu_temperature_celsius"))),
        fields=_FIELDS,
        overrides=tuple(Override(fields=ByName(kind.name), cell=kind, column_width=80) for kind in CellKind),
        transformations=(
            Merge(),
            JoinByField("gpu"),
            KeepFields("gpu|Value.*"),
            Organize(columns=(("gpu", "GPU"), ("Value #A", "Power"))),
            SortBy("GPU", descending=True),
            Limit(10),
            LabelsToFields("gpu"),
            Reduce(("max",)),
            GroupingToMatrix("link", "gpu", "Value"),
        ),
        sort_by="Power",
        descending=True,
        filterable=True,
        page=True,
    ),
    StateTimeline(
        key="timeline",
        title="Nodes",
        description=queries.describe("rack_node_state"),
        width=12,
        height=8,
        targets=(
            Target(
                expr=SCOPE.coded_state("rack_node_state", ("READY", "DEGRADED", "FAILED")), legend="{{node}}"
            ),
        ),
        fields=FieldOptions(unit=units.NONE, mappings=state_codes(_STATES)),
        rows_a_page=18,
    ),
    StatusHistory(
        key="history",
        title="Links",
        description=queries.describe("nvlink_up"),
        width=12,
        height=8,
        targets=(Target(expr=SCOPE.series("nvlink_up"), legend="{{link}}"),),
        fields=FieldOptions(unit=units.NONE),
    ),
    XYChart(
        key="scatter",
        title="Power over clock",
        description=queries.describe(_POWER, "gpu_sm_clock_hertz"),
        width=12,
        height=8,
        targets=(table(SCOPE.series(_POWER)), table(SCOPE.series("gpu_sm_clock_hertz"))),
        fields=_FIELDS,
        series=(XYSeries("GPUs", "Value #B", "Value #A"), XYSeries("all", "Value #B", "y")),
        x_label="power",
        y_label="clock",
    ),
    Text(key="text", title="What to do", width=24, height=3, content="Read *the runbook*.", transparent=True),
)

EVERY_KIND = Board(
    identity=BoardId.NODE,
    description="Everything that a board may use.",
    variables=VARIABLES,
    sections=(
        Section(panels=PANELS),
        Section(key="more", title="More of $node", panels=FOLDED, collapsed=True, repeat="node"),
        Section(key="last", title="Last", panels=()),
    ),
    annotations=(
        Annotation(
            name="Incidents",
            expr=SCOPE.increase("rack_incidents_total") + " > 0",
            title="A node of {{rack}} failed",
            text="{{rack}}",
            colour=palette.FAILED,
        ),
    ),
)
