"""Time series: lines, bars and areas, with limits, thresholds, marks and a legend."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dashboards.panels import Draw, Scale, Stacking, ThresholdLines, Timeseries
from tests.gallery.area import Area
from tests.gallery.frames import NamedSeries
from tests.gallery.legend import Entry, draw_legend, legend_height
from tests.gallery.looks import Look, look_of, rgb, series_colour
from tests.gallery.sheet import width_of
from tests.gallery.times import clock, moments
from tests.gallery.values import written
from tests.history.asking import step_of

_AXIS_ROOM = 18.0
_SHARES = (1, 0.35, 0.75)
"""Parts of the largest value at which ticks may be."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A series as it is drawn."""

    series: NamedSeries
    look: Look
    colour: str

    @property
    def stacked(self) -> bool:
        return self.look.line is None or self.look.line.stacked


def draw_timeseries(panel: Timeseries, area: Area) -> None:
    """Draw a time series."""
    found = _styled(panel, area.source.series(panel))
    if not found:
        area.nothing(panel.fields.no_value)
        return
    entries = [Entry(each.series.name, each.colour, each.series.answer.values, each.look) for each in found]
    below = legend_height(panel.legend, entries, area)
    left = 10 + max(width_of(text, 8) for text in _likely_ticks(panel, found))
    height = area.height - below - _AXIS_ROOM
    axes = area.sheet.axes(area.x + left, area.y + 2, area.width - left - 6, height - 2)
    _draw_all(axes, panel, found, area)
    _finish(axes, panel, area, [value for each in found for value in each.series.answer.values])
    draw_legend(panel.legend, entries, area, area.bottom - below)


def _likely_ticks(panel: Timeseries, found: list[_Drawn]) -> list[str]:
    """Return texts about as long as those of the ticks will be."""
    if panel.scale is Scale.LOGARITHMIC:
        return [
            _tick(panel, value) for value in (1e-10, *(step.value for step in panel.fields.thresholds.steps))
        ]
    highest = max((abs(value) for each in found for value in each.series.answer.values), default=0.0)
    return [_tick(panel, (highest or 1.0) * share) for share in _SHARES]


def _tick(panel: Timeseries, value: float) -> str:
    return written(value, panel.fields.unit, panel.fields.decimals)


def _styled(panel: Timeseries, found: list[NamedSeries]) -> list[_Drawn]:
    """Give each series its look; those that share a hue get shades of it."""
    used: dict[object, int] = {}
    drawn = []
    for each in found:
        look = look_of(panel, each.name, each.ref_id)
        place = used.get(look.colouring, 0)
        used[look.colouring] = place + 1
        drawn.append(_Drawn(each, look, series_colour(look, place)))
    return drawn


def _draw_all(axes: Axes, panel: Timeseries, found: list[_Drawn], area: Area) -> None:
    step = max(step_of(panel, target, area.source.view) for target in panel.targets)
    floor: dict[float, float] = {}
    for each in found:
        answer = each.series.answer
        stacked = panel.stacking is not Stacking.NONE and each.stacked
        bottoms = [floor.get(time, 0.0) if stacked else 0.0 for time in answer.times]
        tops = [value + bottom for value, bottom in zip(answer.values, bottoms, strict=True)]
        if stacked:
            floor |= dict(zip(answer.times, tops, strict=True))
        if panel.draw is Draw.BARS:
            axes.bar(
                answer.times, answer.values, width=step * 0.8, bottom=bottoms, color=each.colour, alpha=0.85
            )
            continue
        line = each.look.line
        times, (upper, lower) = _gapped(answer.times, (tops, bottoms), step)
        axes.plot(
            times,
            upper,
            color=each.colour,
            linewidth=(line.width if line else panel.line_width) * 1.1,
            linestyle=(0, tuple(length / 2 for length in line.dash)) if line and line.dash else "solid",
            drawstyle="steps-post" if panel.stepped else "default",
            marker="." if len(answer.times) == 1 else None,
            markersize=3,
        )
        if fill := line.fill if line else panel.fill:
            axes.fill_between(
                times,
                lower,
                upper,
                color=each.colour,
                alpha=fill / 100 * 0.8,
                step="post" if panel.stepped else None,
                linewidth=0,
            )


def _gapped(
    times: tuple[float, ...], columns: tuple[list[float], ...], step: int
) -> tuple[list[float], tuple[list[float], ...]]:
    """Put a value that is none where points are missing, so that a gap is a gap."""
    new_times: list[float] = []
    new_columns: tuple[list[float], ...] = tuple([] for _ in columns)
    for place, time in enumerate(times):
        if new_times and time - new_times[-1] > step * 1.5:
            new_times.append(new_times[-1] + step)
            for column in new_columns:
                column.append(math.nan)
        new_times.append(time)
        for column, values in zip(new_columns, columns, strict=True):
            column.append(values[place])
    return new_times, new_columns


def _finish(axes: Axes, panel: Timeseries, area: Area, values: list[float]) -> None:
    """Set scales, write ticks, and draw thresholds and marks."""
    axes.set_xlim(area.begin, area.now)
    axes.xaxis.set_major_locator(FixedLocator(moments(area, area.width)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: clock(value)))
    steps = panel.fields.thresholds.steps if panel.threshold_lines is not ThresholdLines.NONE else ()
    if panel.scale is Scale.LOGARITHMIC:
        # A logarithmic scale has no place for zero.
        shown = [value for value in (*values, *(each.value for each in steps)) if value > 0]
        axes.set_ylim(min(shown, default=1) / 30, max(shown, default=1) * 30)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=5))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(*_limits(axes, panel, values))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=panel.fields.decimals == 0))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(panel, value)))
    for each in steps:
        axes.axhline(each.value, color=rgb(each.colour), linewidth=1, linestyle=(0, (5, 4)))
    for mark in area.marks:
        axes.axvline(mark.time_seconds, color=mark.colour, linewidth=0.8, linestyle=(0, (2, 2)))


def _limits(axes: Axes, panel: Timeseries, values: list[float]) -> tuple[float, float]:
    """Return the ends of the value axis: those that are set, else those of the data with some room."""
    low, high = axes.get_ylim()
    soft = [value for value in (panel.soft_maximum, panel.fields.maximum) if value is not None]
    high = max([high + (high - low) * 0.06, *(value * 1.06 for value in soft)])
    if panel.soft_minimum is not None:
        low = min(low, panel.soft_minimum)
    if panel.fields.minimum is not None:
        low = panel.fields.minimum
    if not any(values) and not soft:
        high = 1.0
    # The highest line is not the upper edge.
    return low, max(high, low + (max(values, default=low) - low) * 1.1)
