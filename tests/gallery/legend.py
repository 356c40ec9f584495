"""Legends: a list of names, or a table with calculations."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashboards.panels import Legend
from tests.gallery.area import Area
from tests.gallery.looks import FAINT, Look
from tests.gallery.sheet import width_of
from tests.gallery.values import written

_SIZE = 8.5
_LINE = 13.0
_MOST_OF_HEIGHT = 0.3
_SWATCH = 14.0
_CELL = 74.0

_CALCULATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": lambda values: values[-1],
    "max": max,
    "mean": statistics.fmean,
    "min": min,
    "sum": sum,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a legend.

    Attributes:
        name: Name of the series.
        colour: Its colour.
        values: Its values.
        look: How they look.
    """

    name: str
    colour: str
    values: Sequence[float]
    look: Look


def _lines(legend: Legend, entries: Sequence[Entry], area: Area) -> list[list[Entry]]:
    if legend.table:
        return [[entry] for entry in entries]
    lines: list[list[Entry]] = []
    room = 0.0
    for entry in entries:
        width = _SWATCH + width_of(entry.name, _SIZE) + 10
        if width > room:
            lines.append([])
            room = area.width
        lines[-1].append(entry)
        room -= width
    return lines


def legend_height(legend: Legend, entries: Sequence[Entry], area: Area) -> float:
    """Return how much room a legend takes; it is cut where it would take too much."""
    if not legend.show:
        return 0.0
    wanted = len(_lines(legend, entries, area)) + (1 if legend.table else 0)
    most = max(1, int(area.height * _MOST_OF_HEIGHT // _LINE))
    return min(wanted, most) * _LINE + 3


def draw_legend(legend: Legend, entries: Sequence[Entry], area: Area, y: float) -> None:
    """Draw a legend below a drawing, whatever side it is on in Grafana."""
    if not legend.show:
        return
    room = int((area.bottom - y) // _LINE)
    y += 3 + _LINE / 2
    if legend.table:
        for place, name in enumerate(reversed(legend.calculations)):
            area.sheet.text(
                area.right - 6 - _CELL * place, y, name.title(), size=_SIZE, colour=FAINT, align="right"
            )
        y += _LINE
        room -= 1
    lines = _lines(legend, entries, area)
    left = sum(map(len, lines[room:]))
    for place, line in enumerate(lines[:room]):
        x = area.x + 4
        for entry in line:
            area.sheet.box(x, y - 1.5, 9, 3, entry.colour)
            area.sheet.text(x + _SWATCH, y, entry.name, size=_SIZE, room=area.right - x - _SWATCH)
            x += _SWATCH + width_of(entry.name, _SIZE) + 10
        if legend.table:
            _calculations(legend, line[0], area, y)
        if left and place == room - 1:
            words = f"+ {left} more"
            width = width_of(words, _SIZE)
            if not legend.table:
                area.sheet.box(area.right - width - 10, y - 6, width + 10, 12, "#181b1f")
                area.sheet.text(area.right - 4, y, words, size=_SIZE, colour=FAINT, align="right")
            else:
                area.sheet.text(area.x + 60 + width_of(entry.name, _SIZE), y, words, size=_SIZE, colour=FAINT)
        y += _LINE


def _calculations(legend: Legend, entry: Entry, area: Area, y: float) -> None:
    for place, name in enumerate(reversed(legend.calculations)):
        value = _CALCULATIONS[name](entry.values)
        area.sheet.text(
            area.right - 6 - _CELL * place,
            y,
            written(value, entry.look.unit, entry.look.decimals),
            size=_SIZE,
            align="right",
        )
