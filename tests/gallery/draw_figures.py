"""Big figures and bars."""

from __future__ import annotations

import math

from dashboards.panels import BarGauge, Stat, StatText
from tests.gallery.area import Area
from tests.gallery.frames import NamedSeries
from tests.gallery.looks import FAINT, GRID, TEXT, look_of, series_colour, shown
from tests.gallery.sheet import width_of

_NAME_SIZE = 9.0
_LARGEST, _SMALLEST = 28.0, 9.0
_ROW = 22.0


def draw_stat(panel: Stat, area: Area) -> None:
    """Draw figures, side by side or in lines."""
    found = area.source.series(panel)
    if not found:
        area.nothing(panel.fields.no_value)
        return
    named = panel.text in (StatText.VALUE_AND_NAME, StatText.NAME) or (
        panel.text is StatText.AUTO and len(found) > 1
    )
    lines = _lines(len(found), area)
    across = math.ceil(len(found) / lines)
    width, height = area.width / across, area.height / lines
    for place, each in enumerate(found):
        x = area.x + width * (place % across)
        y = area.y + height * (place // across)
        _figure(panel, area, each, (x, y, width, height), named=named)


def _lines(count: int, area: Area) -> int:
    """Return how many lines use the room best."""

    def worst(lines: int) -> float:
        across = math.ceil(count / lines)
        return min(area.width / across / 3.2, area.height / lines)

    return max(range(1, count + 1), key=worst)


def _figure(
    panel: Stat, area: Area, each: NamedSeries, place: tuple[float, float, float, float], *, named: bool
) -> None:
    x, y, width, height = place
    look = look_of(panel, each.name, each.ref_id)
    what = shown(each.answer.value, look, now_seconds=area.now)
    room = height - (14 if named else 0)
    size = min(_LARGEST, room * 0.7)
    while size > _SMALLEST and width_of(what.text, size, bold=True) > width - 10:
        size -= 1
    middle = y + height / 2
    if named:
        area.sheet.text(
            x + width / 2,
            middle - size / 2 - 4,
            each.name,
            size=_NAME_SIZE,
            colour=FAINT,
            align="center",
            room=width - 6,
        )
        middle += 6
    area.sheet.text(
        x + width / 2,
        middle,
        what.text,
        size=size,
        colour=what.colour or TEXT,
        align="center",
        bold=True,
        room=width - 4,
    )


def draw_bars(panel: BarGauge, area: Area) -> None:
    """Draw bars from left to right, one a series."""
    found = area.source.series(panel)
    if not found:
        area.nothing(panel.fields.no_value)
        return
    fitting = found[: max(1, int(area.height // _ROW))]
    looks = [look_of(panel, each.name, each.ref_id) for each in fitting]
    values = [each.answer.value for each in fitting]
    top = max([*values, *(look.maximum or 0 for look in looks)]) or 1.0
    name_width = min(area.width * 0.5, max(width_of(each.name, _NAME_SIZE) for each in fitting) + 8)
    value_width = 96.0
    full = area.width - name_width - value_width
    row = min(_ROW * 1.6, area.height / len(fitting))
    for place, (each, look) in enumerate(zip(fitting, looks, strict=True)):
        y = area.y + row * place
        what = shown(each.answer.value, look, now_seconds=area.now)
        colour = what.colour or series_colour(look, 0)
        area.sheet.text(area.x, y + row / 2, each.name, size=_NAME_SIZE, room=name_width - 6)
        area.sheet.box(area.x + name_width, y + row * 0.2, full, row * 0.6, GRID)
        length = full * max(0.0, min(1.0, each.answer.value / top))
        area.sheet.box(area.x + name_width, y + row * 0.2, length, row * 0.6, colour)
        area.sheet.text(area.right, y + row / 2, what.text, size=10, colour=colour, align="right")
