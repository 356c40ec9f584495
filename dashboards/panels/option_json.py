"""JSON of each kind of panel: `options` and `fieldConfig.defaults.custom`, after @grafana/schema 13.2.3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from dashboards.panels.field_json import Json, given
from dashboards.panels.fields import ByName, ByType, Override
from dashboards.panels.kinds import (
    BarGauge,
    Draw,
    Gauge,
    Heatmap,
    Legend,
    Panel,
    Scale,
    SingleValues,
    Stat,
    StateTimeline,
    StatusHistory,
    Table,
    Text,
    Timeseries,
    Tooltip,
    XYChart,
    XYSeries,
)

_SHOWN = {"legend": False, "tooltip": False, "viz": False}
"""`hideFrom` of what shows everywhere."""


_TEXTS = Override(fields=ByType("string"), unit="string")
"""Texts are no numbers: without it Grafana gives a serial or a node that looks like one the unit of numbers,
and links hand on what is shown."""


@dataclass(frozen=True, slots=True)
class KindJson:
    """What a kind of panel has of its own.

    Attributes:
        options: `options`.
        custom: `fieldConfig.defaults.custom`.
        overrides: Exceptions that its options bring along, before those of its author.
        most_points: `maxDataPoints`; None for as many as the panel is wide.
    """

    options: Json
    custom: Json
    overrides: tuple[Override, ...] = ()
    most_points: int | None = None


def _legend(legend: Legend) -> Json:
    return {
        "showLegend": legend.show,
        "displayMode": "table" if legend.table else "list",
        "placement": "right" if legend.right else "bottom",
        "calcs": list(legend.calculations),
    }


def _tooltip(tooltip: Tooltip) -> Json:
    return {"mode": tooltip.value, "sort": "desc" if tooltip is Tooltip.MULTI else "none"}


def _scale(scale: Scale) -> Json:
    return {"type": "log", "log": 10} if scale is Scale.LOGARITHMIC else {"type": "linear"}


def _timeseries(panel: Timeseries) -> KindJson:
    custom = given(
        drawStyle=panel.draw.value,
        lineInterpolation="stepAfter" if panel.stepped else "linear",
        lineWidth=panel.line_width,
        fillOpacity=panel.fill,
        gradientMode="none",
        showPoints="always" if panel.draw is Draw.POINTS else "auto",
        pointSize=4,
        # Neighbours of a gap are not joined: nobody knows what was between them.
        spanNulls=False,
        stacking={"mode": panel.stacking.value, "group": "A"},
        scaleDistribution=_scale(panel.scale),
        thresholdsStyle={"mode": panel.threshold_lines.value},
        axisPlacement="auto",
        axisLabel=panel.axis_label,
        axisSoftMin=panel.soft_minimum,
        axisSoftMax=panel.soft_maximum,
        hideFrom=_SHOWN,
    )
    return KindJson({"legend": _legend(panel.legend), "tooltip": _tooltip(panel.tooltip)}, custom)


def _single(panel: SingleValues) -> Json:
    reduce = {"calcs": [panel.calculation], "fields": "", "values": panel.every_row}
    return {"orientation": panel.orientation.value, "reduceOptions": reduce}


def _stat(panel: Stat) -> KindJson:
    options = _single(panel) | given(
        colorMode=panel.colour.value,
        graphMode="none",
        justifyMode="auto",
        textMode=panel.text.value,
        wideLayout=True,
        showPercentChange=False,
        percentChangeColorMode="standard",
        text=None if panel.value_size is None else {"valueSize": panel.value_size},
    )
    return KindJson(options, {})


def _gauge(panel: Gauge) -> KindJson:
    options = _single(panel) | {
        "shape": "gauge",
        "barShape": "flat",
        "barWidthFactor": 0.5,
        "segmentCount": 1,
        "segmentSpacing": 0.3,
        "effects": {"barGlow": False, "centerGlow": False, "gradient": False},
        "showThresholdLabels": False,
        "showThresholdMarkers": True,
        "sizing": "auto",
        "minVizWidth": 75,
        "minVizHeight": 75,
    }
    return KindJson(options, {})


def _bar_gauge(panel: BarGauge) -> KindJson:
    options = _single(panel) | {
        "displayMode": "basic",
        "namePlacement": "auto",
        "valueMode": "color",
        "showUnfilled": True,
        "sizing": "auto",
        "minVizWidth": 8,
        "minVizHeight": 16,
        "maxVizHeight": 300,
        "legend": _legend(Legend(show=False)),
    }
    return KindJson(options, {})


def _table(panel: Table) -> KindJson:
    sort = [{"displayName": panel.sort_by, "desc": panel.descending}] if panel.sort_by else []
    options: Json = {
        "showHeader": True,
        "cellHeight": "sm",
        "frameIndex": 0,
        "sortBy": sort,
        "enablePagination": panel.page,
    }
    custom: Json = {
        "align": "auto",
        "cellOptions": {"type": "auto"},
        "inspect": False,
        "filterable": panel.filterable,
        "hideFrom": _SHOWN,
    }
    return KindJson(options, custom, overrides=(_TEXTS,))


def _blocks(panel: StateTimeline | StatusHistory) -> Json:
    return {
        "showValue": panel.show_values.value,
        "rowHeight": panel.row_height,
        "legend": _legend(panel.legend),
        "tooltip": _tooltip(panel.tooltip),
    }


def _block_custom(line_width: int) -> Json:
    return {"fillOpacity": 85, "lineWidth": line_width, "hideFrom": _SHOWN}


def _state_timeline(panel: StateTimeline) -> KindJson:
    options = _blocks(panel) | given(mergeValues=True, alignValue="left", perPage=panel.rows_a_page)
    return KindJson(options, _block_custom(0))


def _status_history(panel: StatusHistory) -> KindJson:
    options = _blocks(panel) | given(colWidth=panel.column_width, perPage=panel.rows_a_page)
    return KindJson(options, _block_custom(1), most_points=panel.most_points)


def _xy_chart(panel: XYChart) -> KindJson:
    options: Json = {
        "mapping": "manual",
        "series": [_xy_series(series) for series in panel.series],
        "legend": _legend(panel.legend),
        "tooltip": _tooltip(panel.tooltip),
    }
    custom: Json = {
        "show": "points",
        "pointSize": {"fixed": panel.point_size},
        "pointShape": "circle",
        "pointStrokeWidth": 1,
        "fillOpacity": 50,
        "axisPlacement": "auto",
        "axisLabel": panel.y_label,
        "scaleDistribution": _scale(Scale.LINEAR),
        "hideFrom": _SHOWN,
    }
    # The label of the defaults is that of every field, and each axis takes its field's.
    across = dict.fromkeys(series.x for series in panel.series)
    labels = tuple(Override(fields=ByName(field), axis_label=panel.x_label) for field in across)
    return KindJson(options, custom, overrides=labels)


def _xy_series(series: XYSeries) -> Json:
    return {
        "name": {"fixed": series.name},
        # A series without a frame is not drawn, and Grafana knows frames by their place alone.
        "frame": {"matcher": {"id": "byIndex", "options": 0}},
        "x": {"matcher": {"id": "byName", "options": series.x}},
        "y": {"matcher": {"id": "byName", "options": series.y}},
    }


def _heatmap(panel: Heatmap) -> KindJson:
    options: Json = {
        # The targets are histograms already.
        "calculate": False,
        "rowsFrame": {"layout": "auto"},
        "color": {
            "mode": "scheme",
            # Made for every colour vision, as `Scheme` has it.
            "scheme": "Cividis",
            "fill": "dark-blue",
            "scale": "exponential",
            "exponent": 0.5,
            "steps": 64,
            "reverse": False,
        },
        "cellGap": 1,
        "cellValues": {"unit": panel.fields.unit},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        # Empty buckets stay empty rather than take the scale's first colour.
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "selectionMode": "x",
        "showValue": "never",
        "tooltip": {"mode": panel.tooltip.value, "yHistogram": False, "showColorScale": True},
        "yAxis": {"unit": panel.bucket_unit, "axisPlacement": "left", "reverse": False},
    }
    return KindJson(options, {"scaleDistribution": _scale(Scale.LINEAR), "hideFrom": _SHOWN})


def _text(panel: Text) -> KindJson:
    return KindJson({"mode": "markdown", "content": panel.content}, {})


_Kind = TypeVar("_Kind", bound=Panel)
_Make = Callable[[Panel], KindJson]


def _for(kind: type[_Kind], make: Callable[[_Kind], KindJson]) -> tuple[type[Panel], _Make]:
    return kind, lambda panel: make(cast(_Kind, panel))


MAKERS: Mapping[type[Panel], _Make] = dict(
    (
        _for(Timeseries, _timeseries),
        _for(Stat, _stat),
        _for(Gauge, _gauge),
        _for(BarGauge, _bar_gauge),
        _for(Table, _table),
        _for(StateTimeline, _state_timeline),
        _for(StatusHistory, _status_history),
        _for(XYChart, _xy_chart),
        _for(Heatmap, _heatmap),
        _for(Text, _text),
    )
)
"""Makes the JSON of each kind."""
