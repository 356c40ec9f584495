"""A board as a picture: the same panels in the same grid, folded ones opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from dashboards.dashboard import Board
from dashboards.layout import COLUMNS, PlacedPanel, PlacedSection, lay_out
from dashboards.panels import (
    BarGauge,
    Heatmap,
    Panel,
    Stat,
    StateTimeline,
    StatusHistory,
    Table,
    Timeseries,
    XYChart,
)
from dashboards.variables import CustomVariable, DatasourceVariable, QueryVariable, Variable
from tests.gallery.area import Area, Mark
from tests.gallery.draw_clouds import draw_cloud, draw_heatmap
from tests.gallery.draw_figures import draw_bars, draw_stat
from tests.gallery.draw_lines import draw_timeseries
from tests.gallery.draw_states import draw_history, draw_timeline
from tests.gallery.draw_table import draw_table
from tests.gallery.frames import Source
from tests.gallery.looks import FAINT, PANEL, rgb
from tests.gallery.sheet import Sheet, width_of
from tests.history.asking import View, written
from tests.history.prometheus import Prometheus

COLUMN = 54.0
UNIT = 29.0
"""Pixels of a column and of a unit of height (chosen): Grafana's are about 80 and 38."""
_GAP = 5.0
_HEAD = 54.0
_TITLE = 20.0

# Any: each draws the kind of panel that it is listed for.
_DRAW: Mapping[type[Panel], Callable[[Any, Area], None]] = {
    BarGauge: draw_bars,
    Heatmap: draw_heatmap,
    Stat: draw_stat,
    StateTimeline: draw_timeline,
    StatusHistory: draw_history,
    Table: draw_table,
    Timeseries: draw_timeseries,
    XYChart: draw_cloud,
}


@dataclass(frozen=True, slots=True)
class _Page:
    board: Board
    sheet: Sheet
    source: Source
    marks: tuple[Mark, ...]


def draw(board: Board, view: View, prometheus: Prometheus) -> Sheet:
    """Draw a board.

    Args:
        board: The board.
        view: What is looked at.
        prometheus: Who answers.
    """
    opened = tuple(replace(section, collapsed=False) for section in board.sections)
    placed = lay_out(opened)
    bottom = max(each.place.y + each.place.height for section in placed for each in section.panels)
    sheet = Sheet(round(COLUMNS * COLUMN + _GAP), round(_HEAD + bottom * UNIT + _GAP))
    page = _Page(board, sheet, Source(board, view, prometheus), tuple(_marks(board, view, prometheus)))
    _draw_head(page, view)
    for own, section in zip(board.sections, placed, strict=True):
        _draw_heading(section, sheet, folded=own.collapsed)
        for panel in section.panels:
            _draw_panel(panel, page)
    return sheet


def _marks(board: Board, view: View, prometheus: Prometheus) -> Iterator[Mark]:
    """Yield the beginnings of what annotations mark."""
    begin, step = view.end_seconds - view.range_seconds, view.step_seconds
    for annotation in board.annotations:
        expression = written(annotation.expr, board, view)
        for each in prometheus.between(expression, begin, view.end_seconds, step):
            times = each.times
            for place, time in enumerate(times):
                if place == 0 or time - times[place - 1] > 2 * step:
                    yield Mark(time, rgb(annotation.colour))


def _draw_head(page: _Page, view: View) -> None:
    sheet, board = page.sheet, page.board
    sheet.text(_GAP * 2, 17, board.identity.title, size=15, bold=True)
    span = (view.end_seconds - view.range_seconds, view.end_seconds)
    begin, end = (datetime.fromtimestamp(each, UTC).strftime("%Y-%m-%d %H:%M") for each in span)
    sheet.text(sheet.width - _GAP * 2, 17, f"{begin} to {end[-5:]} UTC", size=10, colour=FAINT, align="right")
    x = _GAP * 2
    for variable in board.variables:
        name, value = variable.label, _chosen(variable, view)
        sheet.text(x, 40, name, size=9, colour=FAINT)
        x += width_of(name, 9) + 6
        width = width_of(value, 9) + 14
        sheet.box(x, 31, width, 18, PANEL, edge="#3a3f47")
        sheet.text(x + 7, 40, value, size=9)
        x += width + 14
    for annotation in board.annotations:
        sheet.box(x + 4, 36, 2, 9, rgb(annotation.colour))
        sheet.text(x + 10, 40, annotation.name, size=9, colour=FAINT)
        x += width_of(annotation.name, 9) + 26


def _chosen(variable: Variable, view: View) -> str:
    match variable:
        case DatasourceVariable():
            return "Prometheus"
        case QueryVariable():
            return view.chosen.get(variable.name, "All")
        case CustomVariable():
            return view.chosen.get(variable.name, variable.values[0])


def _draw_heading(section: PlacedSection, sheet: Sheet, *, folded: bool) -> None:
    if section.heading is not None:
        y = _HEAD + section.heading.y * UNIT + UNIT / 2
        words = f"▾  {section.section.title}" + ("   (folded until it is opened)" if folded else "")
        sheet.text(_GAP * 2, y + 2, words, size=11, bold=True)


def _draw_panel(placed: PlacedPanel, page: _Page) -> None:
    panel, place = placed.panel, placed.place
    x, y = place.x * COLUMN + _GAP, _HEAD + place.y * UNIT + _GAP / 2
    width, height = place.width * COLUMN - _GAP, place.height * UNIT - _GAP
    page.sheet.box(x, y, width, height, PANEL, edge="#24272d")
    size = 10.0
    while size > 7.0 and width_of(panel.title, size, bold=True) > width - 16:
        size -= 0.5
    page.sheet.text(x + 8, y + 12, panel.title, size=size, bold=True, room=width - 16)
    area = Area(
        page.sheet, x + 8, y + _TITLE + 2, width - 16, height - _TITLE - 8, page.source, marks=page.marks
    )
    cast("Callable[[Panel, Area], None]", _DRAW[type(panel)])(panel, area)
