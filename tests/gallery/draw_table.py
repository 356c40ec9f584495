"""Tables."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.panels import CellKind, Table
from tests.gallery.area import Area
from tests.gallery.frames import Row, Rows, sorted_by
from tests.gallery.looks import FAINT, GRID, TEXT, Look, Shown, look_of, rgb, shown
from tests.gallery.sheet import width_of

_SIZE = 9.0
_ROW = 19.0
_PADDING = 10.0
_LONGEST = 420.0
"""Most pixels that a column asks for."""


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    look: Look
    cells: tuple[Shown, ...]
    values: tuple[float | str | None, ...]

    @property
    def is_number(self) -> bool:
        return any(isinstance(value, float | int) for value in self.values)


def draw_table(panel: Table, area: Area) -> None:
    """Draw as many rows as there is room for, and say how many are left out."""
    found = area.source.table(panel)
    if not found.rows:
        area.nothing(panel.fields.no_value)
        return
    if panel.sort_by:
        found = sorted_by(found, panel.sort_by, descending=panel.descending)
    room = int((area.height - _ROW) // _ROW)
    rows = found.rows if len(found.rows) <= room else found.rows[: room - 1]
    columns = [_column(panel, name, rows, area) for name in _columns_of(found)]
    widths = _widths(columns, area)
    x = area.x
    for column, width in zip(columns, widths, strict=True):
        _draw_column(column, x, width, area)
        x += width
    if left := len(found.rows) - len(rows):
        area.sheet.text(
            area.x + 4,
            area.y + _ROW * (len(rows) + 1.5),
            f"… {left} rows more",
            size=_SIZE,
            colour=FAINT,
        )


def _columns_of(found: Rows) -> list[str]:
    # That of an external label which nobody set says nothing, though Grafana shows it.
    return [name for name in found.columns if name != "Cluster" or any(row[name] for row in found.rows)]


def _column(panel: Table, name: str, rows: tuple[Row, ...], area: Area) -> _Column:
    look = look_of(panel, name, "")
    values = tuple(row[name] for row in rows)
    return _Column(name, look, tuple(shown(value, look, now_seconds=area.now) for value in values), values)


def _widths(columns: list[_Column], area: Area) -> list[float]:
    """Share the width by content."""
    wanted = []
    for column in columns:
        longest = max((width_of(cell.text, _SIZE) for cell in column.cells), default=0.0)
        gauge = 60.0 if column.look.cell is CellKind.GAUGE else 0.0
        own = max(longest + gauge, width_of(column.heading, _SIZE, bold=True)) + _PADDING
        wanted.append(min(own, _LONGEST))
    spare = area.width - sum(wanted)
    if spare >= 0:
        return [width + spare / len(wanted) for width in wanted]
    # What is wide gives way, down to a width at which all fit in.
    left, most = area.width, area.width
    for place, width in enumerate(sorted(wanted)):
        most = left / (len(wanted) - place)
        if width > most:
            break
        left -= width
    return [min(width, most) for width in wanted]


def _draw_column(column: _Column, x: float, width: float, area: Area) -> None:
    sheet = area.sheet
    right = column.is_number and column.look.cell not in (CellKind.COLOURED_BACKGROUND, CellKind.GAUGE)
    edge = x + width - 6 if right else x + 4
    sheet.text(
        edge,
        area.y + _ROW / 2,
        column.heading,
        size=_SIZE,
        colour="#6e9fff",
        bold=True,
        align="right" if right else "left",
        room=width - 8,
    )
    for place, (cell, value) in enumerate(zip(column.cells, column.values, strict=True)):
        y = area.y + _ROW * (place + 1)
        sheet.box(x, y, width, 1, GRID)
        middle = y + _ROW / 2
        colour = TEXT
        if column.look.cell is CellKind.COLOURED_BACKGROUND and cell.text:
            sheet.box(x + 1, y + 1, width - 2, _ROW - 2, cell.colour or GRID)
            colour = "#111217" if cell.colour else TEXT
        elif column.look.cell is CellKind.COLOURED_TEXT:
            colour = cell.colour or TEXT
        elif column.look.cell is CellKind.GAUGE and isinstance(value, float | int):
            text_width = 52.0
            full = width - text_width - 8
            sheet.box(x + 4, y + 5, full, _ROW - 9, GRID)
            share = max(0.0, min(1.0, value / (column.look.maximum or 1)))
            sheet.box(x + 4, y + 5, full * share, _ROW - 9, rgb(cell.colour or TEXT))
            sheet.text(x + width - 6, middle, cell.text, size=_SIZE, align="right")
            continue
        sheet.text(
            edge,
            middle,
            cell.text,
            size=_SIZE,
            colour=colour,
            align="right" if right else "left",
            room=width - 8,
        )
