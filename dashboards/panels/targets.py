"""What a panel asks Prometheus, and how answers are reshaped before they are drawn."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Format(enum.Enum):
    """What Grafana makes of the answer (its Prometheus data source, `format`)."""

    TIME_SERIES = "time_series"
    TABLE = "table"
    HEATMAP = "heatmap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One query.

    Attributes:
        expr: PromQL; `dashboards.queries` writes it.
        legend: Name of a series, with its labels in double braces: `{{node}}`.
        ref_id: Its name within the panel; empty for the letter of its place.
        instant: True asks for the newest values only, False for the whole time range.
        format: What is made of the answer.
        interval: Smallest step, such as `1m`; empty for the data source's.
    """

    expr: str
    legend: str = ""
    ref_id: str = ""
    instant: bool = False
    format: Format = Format.TIME_SERIES
    interval: str = ""


def instant(expr: str, legend: str = "", ref_id: str = "") -> Target:
    """Ask for the newest values: what a stat, gauge or bar shows, so that nothing old looks new."""
    return Target(expr=expr, legend=legend, ref_id=ref_id, instant=True)


def table(expr: str, ref_id: str = "") -> Target:
    """Ask for the newest values as rows, with a column a label; the value's is `Value #A` (its `ref_id`)."""
    return Target(expr=expr, ref_id=ref_id, instant=True, format=Format.TABLE)


@dataclass(frozen=True, slots=True)
class Merge:
    """Makes one table of all answers; rows with equal labels become one."""


@dataclass(frozen=True, slots=True)
class JoinByField:
    """Makes one table of all answers by a common column; what others lack stays empty.

    Attributes:
        field: The common column.
    """

    field: str


@dataclass(frozen=True, slots=True)
class Organize:
    """Chooses, orders and names columns.

    Attributes:
        columns: Pairs of column and heading, in order. Others follow them, unless they are dropped.
        dropped: Columns that are left out.
    """

    columns: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...] = ("Time",)


@dataclass(frozen=True, slots=True)
class KeepFields:
    """Keeps the columns whose name a regular expression matches, and no others."""

    pattern: str


@dataclass(frozen=True, slots=True)
class SortBy:
    """Orders rows by a column."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """Keeps the first rows."""

    rows: int


@dataclass(frozen=True, slots=True)
class LabelsToFields:
    """Makes a column of every label.

    Attributes:
        value_label: Label whose values become names of columns; None for none.
    """

    value_label: str | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    """Makes a row of every series, with one column a calculation such as `max`."""

    calculations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupingToMatrix:
    """Makes a matrix of a table: values of one column across, of another down.

    Attributes:
        across: Column whose values become columns.
        down: Column whose values become rows.
        value: Column that fills the cells. What is missing stays null.
    """

    across: str
    down: str
    value: str


Transformation = (
    Merge | JoinByField | Organize | KeepFields | SortBy | Limit | LabelsToFields | Reduce | GroupingToMatrix
)
