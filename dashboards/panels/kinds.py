"""The kinds of panels, as plain data. `dashboards.panels.grafana` turns them into Grafana's JSON."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dashboards.panels.fields import DataLink, FieldOptions, Override
from dashboards.panels.targets import Target, Transformation


class Draw(enum.Enum):
    """How a time series is drawn."""

    LINE = "line"
    BARS = "bars"
    POINTS = "points"


class Stacking(enum.Enum):
    """Whether series stand upon one another; only what may be summed may be stacked."""

    NONE = "none"
    NORMAL = "normal"
    PERCENT = "percent"


class Scale(enum.Enum):
    """The scale of a value axis."""

    LINEAR = "linear"
    LOGARITHMIC = "log"


class ThresholdLines(enum.Enum):
    """How thresholds show in a time series."""

    NONE = "off"
    LINE = "line"
    DASHED = "dashed"
    AREA = "area"


class Orientation(enum.Enum):
    """Which way values follow one another."""

    AUTO = "auto"
    HORIZONTAL = "horizontal"
    VERTICAL = "vertical"


class StatColour(enum.Enum):
    """What takes the value's colour."""

    NONE = "none"
    VALUE = "value"
    BACKGROUND = "background_solid"


class StatText(enum.Enum):
    """What a stat says."""

    AUTO = "auto"
    VALUE = "value"
    NAME = "name"
    VALUE_AND_NAME = "value_and_name"


class Show(enum.Enum):
    """Whether texts show."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """The legend.

    Attributes:
        show: Whether there is one.
        table: A table with the calculations, rather than a list of names.
        right: Beside the drawing rather than below.
        calculations: Columns of the table: `last`, `mean`, `max`, `min`, `sum`.
    """

    show: bool = True
    table: bool = False
    right: bool = False
    calculations: tuple[str, ...] = ()


NO_LEGEND = Legend(show=False)
TABLE_LEGEND = Legend(table=True, right=True, calculations=("last", "mean", "max"))


class Tooltip(enum.Enum):
    """What hovering shows: the series nearest, all of them (largest first), or nothing."""

    SINGLE = "single"
    MULTI = "multi"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What every panel has.

    Attributes:
        key: Its name within the board, for ever: links and alerts refer to the id that derives from it.
        title: Heading.
        description: What it shows, in words.
        width: Width in columns, of 24.
        height: Height in Grafana's units of 30 pixels and a gap of 8.
        links: Links at the panel's heading.
        transparent: True leaves out the frame.
    """

    key: str
    title: str
    description: str = ""
    width: int
    height: int
    links: tuple[DataLink, ...] = ()
    transparent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Panel):
    """Markdown text.

    Attributes:
        content: The text.
    """

    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPanel(Panel):
    """What every panel with data has.

    Attributes:
        targets: What is asked.
        fields: How values look.
        overrides: Exceptions for single fields.
        transformations: How answers are reshaped, in order.
    """

    targets: tuple[Target, ...]
    fields: FieldOptions
    overrides: tuple[Override, ...] = ()
    transformations: tuple[Transformation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeseries(DataPanel):
    """Values over time. A gap in the data is a gap in the line.

    Attributes:
        draw: Lines, bars or points.
        line_width: Width in pixels.
        fill: Opacity of the area below, 0 to 100.
        stepped: True draws steps, as for counts and states.
        stacking: Whether series stand upon one another.
        scale: Scale of the value axis.
        axis_label: Text at the axis.
        soft_minimum: The axis reaches at least down to here.
        soft_maximum: The axis reaches at least up to here.
        threshold_lines: How thresholds show.
        legend: The legend.
        tooltip: What hovering shows.
    """

    draw: Draw = Draw.LINE
    line_width: int = 1
    fill: int = 0
    stepped: bool = False
    stacking: Stacking = Stacking.NONE
    scale: Scale = Scale.LINEAR
    axis_label: str = ""
    soft_minimum: float | None = None
    soft_maximum: float | None = None
    threshold_lines: ThresholdLines = ThresholdLines.NONE
    legend: Legend = Legend()
    tooltip: Tooltip = Tooltip.MULTI


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleValues(DataPanel):
    """What shows the newest value of each series; its targets are instant.

    Attributes:
        calculation: Which value of a series counts; with an instant target there is only one.
        every_row: True shows each row of a table, not one value a series.
        orientation: Which way values follow one another.
    """

    calculation: str = "last"
    every_row: bool = False
    orientation: Orientation = Orientation.AUTO

    def __post_init__(self) -> None:
        """Refuse a range: where a series ended, its last value would look like the newest."""
        if not all(target.instant for target in self.targets):
            raise ValueError(f"panel {self.key}: the newest value takes instant targets; use targets.instant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat(SingleValues):
    """Big figures.

    Attributes:
        colour: What takes the value's colour.
        text: What is said.
        value_size: Font size in pixels; None lets Grafana choose.
    """

    colour: StatColour = StatColour.VALUE
    text: StatText = StatText.AUTO
    value_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge(SingleValues):
    """Figures on a dial between minimum and maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarGauge(SingleValues):
    """Bars of newest values, one a series.

    Attributes:
        orientation: Which way the bars point.
    """

    orientation: Orientation = Orientation.HORIZONTAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(DataPanel):
    """Rows and columns. `Override(cell=…)` says how a column is drawn.

    Attributes:
        sort_by: Column that rows are sorted by; empty for the order that they come in.
        descending: Largest first.
        filterable: Whether columns can be filtered by their headings.
        page: Rows a page; None for a table that scrolls.
    """

    sort_by: str = ""
    descending: bool = False
    filterable: bool = False
    page: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTimeline(DataPanel):
    """States over time, one row a series; equal neighbours become one block.

    Attributes:
        show_values: Whether the state's text stands in its block.
        row_height: Height of a block in its row, 0 to 1.
        rows_a_page: Rows shown at once; None for all.
        legend: The legend.
        tooltip: What hovering shows.
    """

    show_values: Show = Show.AUTO
    row_height: float = 0.9
    rows_a_page: int | None = None
    legend: Legend = NO_LEGEND
    tooltip: Tooltip = Tooltip.SINGLE


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHistory(DataPanel):
    """States over time, one box a point of time and series.

    Attributes:
        most_points: Points of time that are asked for at most. Grafana draws no more than half its width in
            pixels, and says so instead of drawing; 120 (chosen) fit into a third of a small screen, also
            when Grafana rounds the distance between them.
        show_values: Whether the state's text stands in its box.
        row_height: Height of a box in its row, 0 to 1.
        column_width: Width of a box in its column, 0 to 1.
        rows_a_page: Rows shown at once; None for all.
        legend: The legend.
        tooltip: What hovering shows.
    """

    most_points: int = 120
    show_values: Show = Show.NEVER
    row_height: float = 0.9
    column_width: float = 0.9
    rows_a_page: int | None = None
    legend: Legend = NO_LEGEND
    tooltip: Tooltip = Tooltip.SINGLE


@dataclass(frozen=True, slots=True)
class XYSeries:
    """One cloud of points.

    Attributes:
        name: Its name.
        x: Field across.
        y: Field upwards.
    """

    name: str
    x: str
    y: str


@dataclass(frozen=True, slots=True, kw_only=True)
class XYChart(DataPanel):
    """One quantity over another; both are columns of one table, to which `Merge` makes the answers.

    Attributes:
        series: Clouds of points.
        point_size: Size of a point in pixels.
        x_label: Text at the axis across.
        y_label: Text at the axis upwards.
        legend: The legend.
        tooltip: What hovering shows.
    """

    series: tuple[XYSeries, ...]
    point_size: int = 5
    x_label: str = ""
    y_label: str = ""
    legend: Legend = Legend()
    tooltip: Tooltip = Tooltip.SINGLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap(DataPanel):
    """A histogram over time: targets are rates of buckets summed by `le`, in the format HEATMAP.

    Attributes:
        bucket_unit: Unit of the buckets, which is the axis; that of `fields` is of the counts.
        tooltip: What hovering shows.
    """

    bucket_unit: str
    tooltip: Tooltip = Tooltip.SINGLE
