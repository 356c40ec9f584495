"""Tables of one row a rack, node or GPU, of which every column is a query of its own."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass

from dashboards import units
from dashboards.panels import (
    ByName,
    CellKind,
    DataLink,
    FieldOptions,
    Fixed,
    Merge,
    Organize,
    Override,
    Table,
    Target,
    Thresholds,
    ValueMapping,
    table,
)
from dashboards.panels.palette import Colour
from dashboards.queries import CLUSTER


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        heading: Its heading.
        expression: Its query, whose series have the labels of the rows and no others.
        unit: Unit of its values; None for that of a number.
        decimals: Decimals; None lets Grafana choose.
        cell: How its cells are drawn; None for plain text.
        colour: Colour of all of them; None for that of the thresholds.
        thresholds: Colours by value.
        mappings: Texts for values.
        links: Where a click leads.
        maximum: Upper end of a gauge.
        width: Width in pixels.
    """

    heading: str
    expression: str
    unit: str | None = None
    decimals: int | None = None
    cell: CellKind | None = None
    colour: Colour | None = None
    thresholds: Thresholds | None = None
    mappings: tuple[ValueMapping, ...] | None = None
    links: tuple[DataLink, ...] | None = None
    maximum: float | None = None
    width: int | None = None

    def override(self) -> Override:
        """Return how the column looks."""
        return Override(
            fields=ByName(self.heading),
            unit=self.unit,
            decimals=self.decimals,
            minimum=0 if self.cell is CellKind.GAUGE else None,
            maximum=self.maximum,
            cell=self.cell,
            colouring=None if self.colour is None else Fixed(self.colour),
            thresholds=self.thresholds,
            mappings=self.mappings,
            links=self.links,
            column_width=self.width,
        )


NO_LINKS: Mapping[str, tuple[DataLink, ...]] = {}


def columns_table(
    *,
    key: str,
    title: str,
    description: str,
    width: int,
    height: int,
    labels: tuple[tuple[str, str], ...],
    columns: tuple[Column, ...],
    further: tuple[Target, ...] = (),
    further_labels: tuple[tuple[str, str], ...] = (),
    dropped: tuple[str, ...] = (),
    sort_by: str = "",
    links: Mapping[str, tuple[DataLink, ...]] = NO_LINKS,
) -> Table:
    """Make a table whose rows are series with the same labels.

    Args:
        key: As in Panel.
        title: As in Panel.
        description: As in Panel.
        width: As in Panel.
        height: As in Panel.
        labels: Labels of the rows, with their headings; every query has just these, and the cluster.
        columns: The columns.
        further: Queries that bring more labels, one only for each label; their values are not shown.
        further_labels: Those labels, with their headings.
        dropped: Labels of the rows that are not shown.
        sort_by: Heading that rows are sorted by, largest first; empty for the order of the labels.
        links: Where headings of labels lead.

    Raises:
        ValueError: There are more columns than letters.
    """
    letters = string.ascii_uppercase[: len(columns)]
    if len(letters) < len(columns):
        raise ValueError(f"table {key}: {len(columns)} columns, and a query has a letter for its name")
    values = tuple(
        (f"Value #{letter}", column.heading) for letter, column in zip(letters, columns, strict=True)
    )
    # Grafana calls the column of the only query with an answer `Value`: of silent nodes, the first has one.
    first, rest = (*values[:1], ("Value", columns[0].heading)), values[1:]
    return Table(
        key=key,
        title=title,
        description=description,
        width=width,
        height=height,
        targets=(
            *(table(column.expression, letter) for letter, column in zip(letters, columns, strict=True)),
            *further,
        ),
        transformations=(
            Merge(),
            Organize(
                (*labels, *first, *further_labels, *rest, (CLUSTER, "Cluster")),
                dropped=("Time", *dropped, *(f"Value #{target.ref_id}" for target in further)),
            ),
        ),
        sort_by=sort_by,
        descending=bool(sort_by),
        fields=FieldOptions(unit=units.NUMBER),
        overrides=(
            *(Override(fields=ByName(heading), links=leads) for heading, leads in links.items()),
            *(column.override() for column in columns),
        ),
    )
