"""From types to Grafana's JSON of panels, by way of grafanalib.

grafanalib 0.7.1 gives the frame of every board and panel. Its newest release is from January 2024, and the
blocks that it writes for thresholds, options and field settings are those of older Grafana, of which current
ones drop some without a word. Those blocks are written here whole (`field_json`, `option_json`), and of its
frames only the keys stay that current Grafana knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from grafanalib import core

from dashboards.layout import Place, PlacedPanel, PlacedSection
from dashboards.panels.field_json import Json, field_config, given
from dashboards.panels.fields import DataLink
from dashboards.panels.kinds import (
    BarGauge,
    DataPanel,
    Gauge,
    Heatmap,
    Panel,
    Stat,
    StateTimeline,
    StatusHistory,
    Table,
    Text,
    Timeseries,
    XYChart,
)
from dashboards.panels.option_json import MAKERS
from dashboards.panels.target_json import named, transformation
from dashboards.panels.targets import Target

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
"""The data source that the variable of this name chooses."""

_PANEL_KEYS: Final = frozenset(
    {
        "datasource",
        "description",
        "gridPos",
        "id",
        "links",
        "repeat",
        "targets",
        "title",
        "transformations",
        "transparent",
        "type",
    }
)
_ROW_KEYS: Final = frozenset({"collapsed", "gridPos", "id", "panels", "repeat", "title", "type"})
_TARGET_KEYS: Final = frozenset(
    {"datasource", "expr", "format", "instant", "interval", "legendFormat", "refId"}
)
"""What may stay of what grafanalib writes."""


# grafanalib has no types, so that its classes are Any to mypy.
class StatusHistoryPanel(core.Panel):  # type: ignore[misc]
    """A status history, which grafanalib has not (its issue 629)."""

    def to_json_data(self) -> Json:
        """Write the frame."""
        return dict(self.panel_json({"type": "status-history"}))


class XYChartPanel(core.Panel):  # type: ignore[misc]  # see above
    """An XY chart, which grafanalib has not."""

    def to_json_data(self) -> Json:
        """Write the frame."""
        return dict(self.panel_json({"type": "xychart"}))


class HeatmapPanel(core.Panel):  # type: ignore[misc]  # see above
    """A heatmap of Grafana 9 and later; grafanalib's is the one before."""

    def to_json_data(self) -> Json:
        """Write the frame."""
        return dict(self.panel_json({"type": "heatmap"}))


_FRAMES: Mapping[type[Panel], type[core.Panel]] = {
    Timeseries: core.TimeSeries,
    Stat: core.Stat,
    Gauge: core.GaugePanel,
    BarGauge: core.BarGauge,
    Table: core.Table,
    StateTimeline: core.StateTimeline,
    StatusHistory: StatusHistoryPanel,
    XYChart: XYChartPanel,
    Heatmap: HeatmapPanel,
    Text: core.Text,
}


def kept(written: object, keys: frozenset[str]) -> Json:
    """Keep the keys that current Grafana knows, where they say something."""
    plain: dict[str, object] = json.loads(json.dumps(written, cls=_Encoder))
    return {name: value for name, value in plain.items() if name in keys and value not in (None, "", [])}


class _Encoder(json.JSONEncoder):
    """Writes grafanalib's objects, as its own encoder does."""

    def default(self, value: object) -> object:
        to_json_data = getattr(value, "to_json_data", None)
        return to_json_data() if to_json_data is not None else super().default(value)


def _grid(place: Place) -> core.GridPos:
    return core.GridPos(x=place.x, y=place.y, w=place.width, h=place.height)


def _target(ref_id: str, target: Target) -> Json:
    written = core.Target(
        expr=target.expr,
        legendFormat=target.legend or "__auto",
        format=target.format.value,
        instant=target.instant,
        interval=target.interval,
        refId=ref_id,
        datasource=DATASOURCE,
    )
    further = {"range": not target.instant, "exemplar": False, "editorMode": "code"}
    return kept(written.to_json_data(), _TARGET_KEYS) | further


def _panel_link(item: DataLink) -> core.DashboardLink:
    return core.DashboardLink(
        type="link",
        title=item.title,
        uri=item.url,
        targetBlank=item.new_tab,
        keepTime=False,
        includeVars=False,
    )


def panel_json(placed: PlacedPanel) -> Json:
    """Write a panel."""
    panel = placed.panel
    frame = _FRAMES[type(panel)](
        id=placed.id,
        title=panel.title,
        description=panel.description or None,
        gridPos=_grid(placed.place),
        dataSource=DATASOURCE if isinstance(panel, DataPanel) else None,
        links=[_panel_link(item) for item in panel.links],
        transparent=panel.transparent,
    )
    own = MAKERS[type(panel)](panel)
    written = kept(frame.to_json_data(), _PANEL_KEYS) | {"options": own.options}
    if not isinstance(panel, DataPanel):
        return written
    written["targets"] = [_target(ref_id, target) for ref_id, target in named(panel.targets)]
    written["fieldConfig"] = field_config(panel.fields, own.custom, (*own.overrides, *panel.overrides))
    written |= given(maxDataPoints=own.most_points)
    if panel.transformations:
        written["transformations"] = [transformation(step) for step in panel.transformations]
    return written


def _row(placed: PlacedSection, heading: Place) -> Json:
    row = core.RowPanel(
        id=placed.id,
        title=placed.section.title,
        gridPos=_grid(heading),
        collapsed=placed.section.collapsed,
        repeat=core.Repeat(variable=placed.section.repeat or None),
    )
    return kept(row.to_json_data(), _ROW_KEYS)


def panels_json(sections: Iterable[PlacedSection]) -> list[Json]:
    """Write all panels of a board, folded ones within their heading."""
    written: list[Json] = []
    for placed in sections:
        panels = [panel_json(panel) for panel in placed.panels]
        if placed.heading is None:
            written += panels
            continue
        folded = placed.section.collapsed
        written.append(_row(placed, placed.heading) | {"panels": panels if folded else []})
        written += [] if folded else panels
    return written
