"""Clouds of points, and histograms over time."""

from __future__ import annotations

import math

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from dashboards.panels import Heatmap, XYChart
from tests.gallery.area import Area
from tests.gallery.legend import Entry, draw_legend, legend_height
from tests.gallery.looks import FAINT, look_of, series_colour
from tests.gallery.times import clock, moments
from tests.gallery.values import written

_LEFT = 78.0
_BELOW = 32.0


def draw_cloud(panel: XYChart, area: Area) -> None:
    """Draw one quantity over another."""
    found = area.source.table(panel)
    if not found.rows:
        area.nothing(panel.fields.no_value)
        return
    looks = {series.name: look_of(panel, series.y, "") for series in panel.series}
    colours = {series.name: series_colour(looks[series.name], 0) for series in panel.series}
    entries = [Entry(series.name, colours[series.name], (), looks[series.name]) for series in panel.series]
    below = legend_height(panel.legend, entries, area)
    axes = area.sheet.axes(
        area.x + _LEFT, area.y + 4, area.width - _LEFT - 12, area.height - below - _BELOW - 4
    )
    for series in panel.series:
        points = [
            (x, y)
            for row in found.rows
            if isinstance(x := row.get(series.x), float) and isinstance(y := row.get(series.y), float)
        ]
        axes.scatter(
            [x for x, _ in points],
            [y for _, y in points],
            s=panel.point_size * 4,
            color=colours[series.name],
            alpha=0.6,
            linewidths=0,
        )
    across = look_of(panel, panel.series[0].x, "")
    upwards = looks[panel.series[0].name]
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: written(value, across.unit, across.decimals))
    )
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: written(value, upwards.unit, upwards.decimals))
    )
    area.sheet.text(
        area.x + _LEFT + (area.width - _LEFT) / 2,
        area.bottom - below - 8,
        panel.x_label,
        size=8,
        colour=FAINT,
        align="center",
    )
    draw_legend(panel.legend, entries, area, area.bottom - below)


def draw_heatmap(panel: Heatmap, area: Area) -> None:
    """Draw how many fell into each bucket; empty ones stay empty."""
    found = area.source.series(panel)
    if not found:
        area.nothing(panel.fields.no_value)
        return
    by_bound = sorted(found, key=lambda each: float(each.answer.labels["le"]))
    times = by_bound[0].answer.times
    counts: list[list[float]] = []
    before = [0.0] * len(times)
    for each in by_bound:
        values = dict(zip(each.answer.times, each.answer.values, strict=True))
        total = [values.get(time, 0.0) for time in times]
        counts.append([max(0.0, now - then) for now, then in zip(total, before, strict=True)])
        before = total
    axes = area.sheet.axes(area.x + _LEFT, area.y + 4, area.width - _LEFT - 12, area.height - 24)
    shades = [[count if count > 1e-9 else float("nan") for count in row] for row in counts]
    axes.pcolormesh(
        [*times, times[-1] + area.source.view.step_seconds],
        range(len(by_bound) + 1),
        shades,
        cmap="cividis",
    )
    axes.grid(visible=False)
    axes.set_xlim(area.begin, area.now)
    axes.xaxis.set_major_locator(FixedLocator(moments(area, area.width)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: clock(value)))
    step = max(1, len(by_bound) // 7)
    places = list(range(0, len(by_bound), step))
    axes.yaxis.set_major_locator(FixedLocator([place + 1 for place in places]))
    bounds = [float(each.answer.labels["le"]) for each in by_bound]
    words = [written(bound, panel.bucket_unit) if math.isfinite(bound) else "∞" for bound in bounds]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words[int(value) - 1]))
