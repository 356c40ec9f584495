"""States over time: a row a series, its word in each block."""

from __future__ import annotations

from dashboards.panels import Show, StateTimeline, StatusHistory
from tests.gallery.area import Area
from tests.gallery.frames import NamedSeries
from tests.gallery.looks import FAINT, GRID, Shown, look_of, shown
from tests.gallery.sheet import width_of
from tests.gallery.times import draw_times
from tests.history.asking import step_of

_SIZE = 8.5
_AXIS = 16.0
_WORDS = 16.0
_HIGHEST_ROW = 30.0
_LOWEST_ROW = 11.0


def draw_timeline(panel: StateTimeline, area: Area) -> None:
    """Draw blocks: equal neighbours are one."""
    _draw(panel, area, merged=True)


def draw_history(panel: StatusHistory, area: Area) -> None:
    """Draw a box for each point of time."""
    _draw(panel, area, merged=False)


def _draw(panel: StateTimeline | StatusHistory, area: Area, *, merged: bool) -> None:
    found = area.source.series(panel)
    if not found:
        area.nothing(panel.fields.no_value)
        return
    height = area.height - _AXIS - _WORDS
    fitting = found[: max(1, int(height // _LOWEST_ROW))]
    if panel.rows_a_page is not None:
        fitting = fitting[: panel.rows_a_page]
    row = min(_HIGHEST_ROW, height / len(fitting))
    names = min(area.width * 0.3, max(width_of(each.name, _SIZE) for each in fitting) + 8)
    left, width = area.x + names, area.width - names
    step = max(step_of(panel, target, area.source.view) for target in panel.targets)
    written: set[str] = set()
    unwritten: dict[str, str] = {}
    for place, each in enumerate(fitting):
        y = area.y + row * place
        area.sheet.text(left - 6, y + row / 2, each.name, size=_SIZE, align="right", room=names - 8)
        block_height = row * panel.row_height
        for begin, end, what in _blocks(panel, each, area, step, merged=merged):
            x = left + (begin - area.begin) / (area.now - area.begin) * width
            block_width = (end - begin) / (area.now - area.begin) * width
            gap = 0.0 if merged else min(1.0, block_width * 0.1)
            area.sheet.box(
                x, y + (row - block_height) / 2, block_width - gap, block_height, what.colour or FAINT
            )
            fits = width_of(what.text, _SIZE) < block_width - 4 and block_height > _SIZE
            if fits and panel.show_values is not Show.NEVER:
                area.sheet.text(x + 3, y + row / 2, what.text, size=_SIZE, colour="#111217")
                written.add(what.text)
            else:
                unwritten[what.text] = what.colour or FAINT
    for word in written:
        unwritten.pop(word, None)
    bottom = area.y + row * len(fitting)
    draw_times(area, left, bottom + 2, width, colour=GRID)
    _explain(unwritten, area, bottom + _AXIS + 10)


def _explain(unwritten: dict[str, str], area: Area, y: float) -> None:
    """Say what colours mean whose word has no room in any block: a picture has no tooltip."""
    x = area.x + 4
    for word, colour in sorted(unwritten.items()):
        if y + 6 > area.bottom:
            return
        area.sheet.box(x, y - 4, 9, 9, colour)
        area.sheet.text(x + 14, y, word, size=_SIZE, colour=FAINT)
        x += 28 + width_of(word, _SIZE)


def _blocks(
    panel: StateTimeline | StatusHistory, each: NamedSeries, area: Area, step: int, *, merged: bool
) -> list[tuple[float, float, Shown]]:
    """Return begin, end and looks of each block; a gap in the data is a gap."""
    look = look_of(panel, each.name, each.ref_id)
    blocks: list[tuple[float, float, Shown]] = []
    for time, value in zip(each.answer.times, each.answer.values, strict=True):
        what = shown(value, look, now_seconds=area.now)
        end = min(time + step, area.now)
        if merged and blocks and blocks[-1][1] == time and blocks[-1][2] == what:
            blocks[-1] = (blocks[-1][0], end, what)
        elif end > time:
            blocks.append((time, end, what))
    return blocks
