"""How values look: units, colours, thresholds, texts for values, links, and exceptions for single fields."""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import Final

from dashboards.panels import palette
from dashboards.panels.palette import Colour

NO_DATA: Final = "no data"
"""What stands where there is no value. Never "0", and never the text of a healthy state."""


@dataclass(frozen=True, slots=True)
class Step:
    """From this value on, this colour."""

    value: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Colours by value.

    Attributes:
        base: Colour below the first step.
        steps: Further steps, by rising value.

    Raises:
        ValueError: The steps do not rise.
    """

    base: Colour = palette.NEUTRAL
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        """Refuse steps out of order: Grafana would colour by another step than the one meant."""
        values = [step.value for step in self.steps]
        if any(low >= high for low, high in itertools.pairwise(values)):
            raise ValueError(f"thresholds must rise, and these do not: {values}")


class Scheme(enum.Enum):
    """Colours along a scale; both are made for every colour vision (Matplotlib's documentation)."""

    CIVIDIS = "continuous-cividis"
    VIRIDIS = "continuous-viridis"


@dataclass(frozen=True, slots=True)
class Fixed:
    """One colour for every series, as for a panel with a single one."""

    colour: Colour


@dataclass(frozen=True, slots=True)
class Shades:
    """Shades of one hue: the family of the metric stays recognizable with many series."""

    colour: Colour


@dataclass(frozen=True, slots=True)
class ByThresholds:
    """The colour of the threshold that the value has reached."""


@dataclass(frozen=True, slots=True)
class ByValue:
    """A place on a colour scale between minimum and maximum."""

    scheme: Scheme = Scheme.CIVIDIS


Colouring = Fixed | Shades | ByThresholds | ByValue


@dataclass(frozen=True, slots=True)
class ValueText:
    """Text and colour for one value.

    Attributes:
        value: The value, as Grafana compares it: `1`, or a text.
        text: What is shown instead.
        colour: Its colour; None leaves it to the colouring.
    """

    value: str
    text: str
    colour: Colour | None = None


@dataclass(frozen=True, slots=True)
class RangeText:
    """Text and colour for values from `low` to `high`, both included; None leaves an end open."""

    low: float | None
    high: float | None
    text: str
    colour: Colour | None = None


ValueMapping = ValueText | RangeText
"""Texts for values. The mapping of missing values to "no data" in grey is added to every panel by itself."""


def state_mappings(states: tuple[str, ...]) -> tuple[ValueText, ...]:
    """Map the words of states (CONTRACTS §3) to their colours.

    Raises:
        KeyError: A word is none of them.
    """
    return tuple(ValueText(state, state, palette.STATE_COLOURS[state]) for state in states)


def state_codes(states: tuple[str, ...]) -> tuple[ValueText, ...]:
    """Map 0, 1, 2 … to the words of states and their colours, for `queries.coded_state`."""
    return tuple(
        ValueText(str(code), state, palette.STATE_COLOURS[state]) for code, state in enumerate(states)
    )


@dataclass(frozen=True, slots=True)
class DataLink:
    """Where a click on a value leads; `dashboards.links` makes them.

    Attributes:
        title: What the menu shows.
        url: Address, with Grafana's variables.
        new_tab: Whether it opens beside this one.
    """

    title: str
    url: str
    new_tab: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """How all values of a panel look.

    Attributes:
        unit: Grafana's id of the unit (`dashboards.units`).
        decimals: Decimals; None lets Grafana choose.
        minimum: Lower end of the axis or gauge; None for the data's own.
        maximum: Upper end.
        no_value: What stands where there is nothing at all.
        display_name: Name of every series, with Grafana's variables; None for the target's legend.
        colouring: Where colours come from.
        thresholds: Colours by value, and lines of a time series.
        mappings: Texts for values.
        links: Where a click on a value leads.
    """

    unit: str
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    no_value: str = NO_DATA
    display_name: str | None = None
    colouring: Colouring = ByThresholds()
    thresholds: Thresholds = Thresholds()
    mappings: tuple[ValueMapping, ...] = ()
    links: tuple[DataLink, ...] = ()


@dataclass(frozen=True, slots=True)
class ByName:
    """Chooses the field of this name: a column of a table, or a series by its legend."""

    name: str


@dataclass(frozen=True, slots=True)
class ByRegexp:
    """Chooses fields whose name a regular expression matches, as Grafana writes them: `/^limit/`."""

    pattern: str


@dataclass(frozen=True, slots=True)
class ByQuery:
    """Chooses the fields that a target brought, by its `ref_id`."""

    ref_id: str


@dataclass(frozen=True, slots=True)
class ByType:
    """Chooses the fields of a type, such as `string`: the labels of a table."""

    type: str


Matcher = ByName | ByRegexp | ByQuery | ByType


class CellKind(enum.Enum):
    """How a cell of a table is drawn (TableCellDisplayMode of @grafana/schema)."""

    AUTO = "auto"
    COLOURED_TEXT = "color-text"
    COLOURED_BACKGROUND = "color-background"
    GAUGE = "gauge"
    PILL = "pill"
    LINKS = "data-links"
    MARKDOWN = "markdown"


class AxisPlacement(enum.Enum):
    """Where an axis stands."""

    AUTO = "auto"
    LEFT = "left"
    RIGHT = "right"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Line:
    """How a single series of a time series is drawn.

    Attributes:
        width: Width in pixels.
        dash: Lengths of dashes and gaps in pixels; empty for a solid line.
        fill: Opacity of the area below, 0 to 100.
        stacked: False takes it out of a stack, as a limit that others are stacked against.
    """

    width: int = 2
    dash: tuple[int, ...] = ()
    fill: int = 0
    stacked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An exception for some fields of a panel; None leaves what the panel says.

    Attributes:
        fields: Which fields.
        unit: As in FieldOptions.
        decimals: As in FieldOptions.
        minimum: As in FieldOptions.
        maximum: As in FieldOptions.
        display_name: As in FieldOptions.
        colouring: As in FieldOptions.
        thresholds: As in FieldOptions.
        mappings: As in FieldOptions.
        links: As in FieldOptions.
        cell: How the cells of a table's column are drawn.
        column_width: Width of a table's column in pixels.
        axis: Where the axis of these series stands.
        axis_label: Text at that axis.
        line: How these series are drawn.
        hidden: True keeps the field for others to refer to, and shows it nowhere.
    """

    fields: Matcher
    unit: str | None = None
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    display_name: str | None = None
    colouring: Colouring | None = None
    thresholds: Thresholds | None = None
    mappings: tuple[ValueMapping, ...] | None = None
    links: tuple[DataLink, ...] | None = None
    cell: CellKind | None = None
    column_width: int | None = None
    axis: AxisPlacement | None = None
    axis_label: str | None = None
    line: Line | None = None
    hidden: bool = False


def limit_line(fields: Matcher) -> Override:
    """Draw series as a limit: dashed, in the colour of failure, outside of any stack. It leads nowhere."""
    return Override(
        fields=fields,
        colouring=Fixed(palette.FAILED),
        links=(),
        line=Line(width=2, dash=(10, 10), fill=0, stacked=False),
    )


def reference_line(fields: Matcher) -> Override:
    """Draw series as something to compare with: dotted, in the colour of text, outside of any stack."""
    return Override(
        fields=fields,
        colouring=Fixed(palette.NEUTRAL),
        line=Line(width=1, dash=(2, 6), fill=0, stacked=False),
    )
