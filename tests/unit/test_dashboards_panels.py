"""Panels as Grafana's JSON: literal, so that a reader sees what is written."""

from __future__ import annotations

from typing import Any

import pytest

from dashboards.layout import Place, PlacedPanel
from dashboards.panels import (
    BarGauge,
    ByName,
    CellKind,
    FieldOptions,
    Fixed,
    Override,
    Panel,
    RangeText,
    Stat,
    StatusHistory,
    Step,
    Table,
    Target,
    Thresholds,
    Timeseries,
    ValueText,
    XYChart,
    XYSeries,
    instant,
    limit_line,
    palette,
    table,
)
from dashboards.panels.board_json import board_json
from dashboards.panels.field_json import field_config
from dashboards.panels.grafana import panel_json
from dashboards.panels.target_json import named
from tests.dashboard_samples import EVERY_KIND

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
NO_DATA = {
    "type": "special",
    "options": {"match": "null+nan", "result": {"text": "no data", "color": "#808080", "index": 0}},
}


def written(panel: Panel) -> dict[str, Any]:
    return panel_json(PlacedPanel(panel, 7, Place(1, 2, panel.width, panel.height)))


def test_a_stat() -> None:
    panel = Stat(
        key="power",
        title="Power",
        description="Of the GPUs.",
        width=4,
        height=3,
        targets=(instant("up", "{{node}}"),),
        fields=FieldOptions(unit="watt", thresholds=Thresholds(palette.OK, (Step(10, palette.FAILED),))),
    )
    assert written(panel) == {
        "id": 7,
        "type": "stat",
        "title": "Power",
        "description": "Of the GPUs.",
        "gridPos": {"x": 1, "y": 2, "w": 4, "h": 3},
        "transparent": False,
        "datasource": DATASOURCE,
        "targets": [
            {
                "refId": "A",
                "datasource": DATASOURCE,
                "expr": "up",
                "legendFormat": "{{node}}",
                "format": "time_series",
                "instant": True,
                "range": False,
                "exemplar": False,
                "editorMode": "code",
            }
        ],
        "options": {
            "orientation": "auto",
            "reduceOptions": {"calcs": ["last"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "textMode": "auto",
            "wideLayout": True,
            "showPercentChange": False,
            "percentChangeColorMode": "standard",
        },
        "fieldConfig": {
            "defaults": {
                "unit": "watt",
                "noValue": "no data",
                "color": {"mode": "thresholds"},
                "thresholds": {
                    "mode": "absolute",
                    "steps": [{"color": "#009E73", "value": None}, {"color": "#D55E00", "value": 10}],
                },
                "mappings": [NO_DATA],
                "custom": {},
            },
            "overrides": [],
        },
    }


def test_an_override_says_only_what_it_changes() -> None:
    config = field_config(
        FieldOptions(unit="watt"),
        {},
        [
            Override(fields=ByName("Power"), unit="short", cell=CellKind.GAUGE, column_width=90),
            limit_line(ByName("limit")),
            Override(fields=ByName("state"), mappings=(ValueText("1", "up", palette.OK),)),
        ],
    )
    overrides: Any = config["overrides"]
    cells, limit, states = overrides
    assert cells == {
        "matcher": {"id": "byName", "options": "Power"},
        "properties": [
            {"id": "unit", "value": "short"},
            {
                "id": "custom.cellOptions",
                "value": {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"},
            },
            {"id": "custom.width", "value": 90},
        ],
    }
    assert limit["properties"] == [
        {"id": "color", "value": {"mode": "fixed", "fixedColor": "#D55E00"}},
        {"id": "links", "value": []},
        {"id": "custom.lineWidth", "value": 2},
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}},
        {"id": "custom.fillOpacity", "value": 0},
        {"id": "custom.stacking", "value": {"mode": "none", "group": "alone"}},
    ]
    # Whoever maps values anew keeps the grey of missing ones.
    assert [mapping["type"] for mapping in states["properties"][0]["value"]] == ["value", "special"]


def test_mappings_keep_their_order() -> None:
    fields = FieldOptions(
        unit="none", mappings=(ValueText("0", "none"), RangeText(1, None, "some", palette.DEGRADED))
    )
    defaults: Any = field_config(fields, {}, [])["defaults"]
    assert defaults["mappings"] == [
        {"type": "value", "options": {"0": {"text": "none", "index": 0}}},
        {
            "type": "range",
            "options": {"from": 1, "to": None, "result": {"text": "some", "color": "#E69F00", "index": 1}},
        },
        {
            "type": "special",
            "options": {"match": "null+nan", "result": {"text": "no data", "color": "#808080", "index": 2}},
        },
    ]


@pytest.mark.parametrize("values", [(2.0, 1.0), (1.0, 1.0)])
def test_thresholds_that_do_not_rise_are_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        Thresholds(palette.OK, tuple(Step(value, palette.FAILED) for value in values))


@pytest.mark.parametrize("kind", [Stat, BarGauge])
def test_the_newest_value_is_not_the_last_of_a_range(kind: type[Stat | BarGauge]) -> None:
    with pytest.raises(ValueError, match="panel power: the newest value takes instant targets"):
        kind(
            key="power",
            title="Power",
            width=4,
            height=3,
            targets=(Target(expr="up"),),
            fields=FieldOptions(unit="watt"),
        )


def test_targets_are_named_by_their_place() -> None:
    names = [name for name, _ in named((instant("a"), Target(expr="b", ref_id="limit"), table("c")))]
    assert names == ["A", "limit", "C"]
    with pytest.raises(ValueError, match="the same ref_id"):
        named((instant("a"), instant("b", ref_id="A")))
    with pytest.raises(ValueError, match="26 at most"):
        named([instant("a")] * 27)


def test_a_gap_stays_a_gap() -> None:
    panel = Timeseries(
        key="p", title="P", width=1, height=1, targets=(Target(expr="up"),), fields=FieldOptions(unit="watt")
    )
    assert written(panel)["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False


def test_a_scatter_says_which_frame_it_draws_and_names_both_axes() -> None:
    panel = XYChart(
        key="p",
        title="P",
        width=12,
        height=8,
        targets=(table("a"), table("b")),
        fields=FieldOptions(unit="watt"),
        series=(XYSeries("racks", x="Power", y="Tokens"),),
        x_label="power",
        y_label="tokens",
    )
    chart = written(panel)
    # Without a frame, and with any matcher but byIndex, Grafana draws nothing: prepSeries of its XY chart.
    assert chart["options"]["series"] == [
        {
            "name": {"fixed": "racks"},
            "frame": {"matcher": {"id": "byIndex", "options": 0}},
            "x": {"matcher": {"id": "byName", "options": "Power"}},
            "y": {"matcher": {"id": "byName", "options": "Tokens"}},
        }
    ]
    fields = chart["fieldConfig"]
    assert fields["defaults"]["custom"]["axisLabel"] == "tokens"
    # Each field has its own axis, and the text of the default would stand at both.
    assert fields["overrides"] == [
        {
            "matcher": {"id": "byName", "options": "Power"},
            "properties": [{"id": "custom.axisLabel", "value": "power"}],
        }
    ]


def test_texts_of_a_table_are_no_numbers() -> None:
    panel = Table(
        key="p",
        title="P",
        width=12,
        height=8,
        targets=(table("up"),),
        fields=FieldOptions(unit="short"),
        overrides=(Override(fields=ByName("Power"), unit="watt"),),
    )
    # Grafana gives texts that look like numbers the unit of numbers: a serial 1654823001234 would be
    # "1.65 Tri", a node 007 would be 7, and links hand on what is shown (@grafana/data, getDisplayProcessor).
    first, second = written(panel)["fieldConfig"]["overrides"]
    assert first == {
        "matcher": {"id": "byType", "options": "string"},
        "properties": [{"id": "unit", "value": "string"}],
    }
    assert second["matcher"]["options"] == "Power"


def test_a_status_history_asks_for_as_many_points_as_it_can_draw() -> None:
    panel = StatusHistory(
        key="p", title="P", width=12, height=8, targets=(Target(expr="up"),), fields=FieldOptions(unit="none")
    )
    # Grafana draws no more points than half its width in pixels, and else says "Too many points".
    assert written(panel)["maxDataPoints"] == 120


def test_folded_panels_stand_in_their_heading() -> None:
    panels = board_json(EVERY_KIND)["panels"]
    assert isinstance(panels, list)
    rows = [panel for panel in panels if panel["type"] == "row"]
    assert [(row["title"], row["collapsed"], row.get("repeat"), len(row["panels"])) for row in rows] == [
        ("More of $node", True, "node", 5),
        ("Last", False, None, 0),
    ]
    assert [panel["type"] for panel in rows[0]["panels"]] == [
        "table",
        "state-timeline",
        "status-history",
        "xychart",
        "text",
    ]


def test_a_board() -> None:
    board = board_json(EVERY_KIND)
    for part in ("panels", "templating", "annotations", "links"):
        del board[part]
    assert board == {
        "uid": "rackwatt-node",
        "title": "rackwatt: node and GPU",
        "description": "Everything that a board may use.",
        "tags": ["rackwatt"],
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 42,
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "utc",
    }


def test_variables_as_json() -> None:
    templating: Any = board_json(EVERY_KIND)["templating"]
    listed = templating["list"]
    datasource, cluster, *_, domain = listed
    assert datasource == {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "refresh": 1,
    }
    assert cluster == {
        "type": "query",
        "name": "cluster",
        "label": "Cluster",
        "description": "Clusters, where Prometheus has been given an external label of that name.",
        "datasource": DATASOURCE,
        "query": {
            "qryType": 1,
            "query": 'label_values({__name__=~"rackwatt_rack_nodes_expected|rackwatt_node_info"}, cluster)',
            "refId": "PrometheusVariableQueryEditor-VariableQuery",
        },
        "refresh": 2,
        "sort": 7,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }
    assert domain == {
        "type": "custom",
        "name": "domain",
        "label": "Power",
        "description": "Where power is measured.",
        "query": "gpu,module",
        "includeAll": False,
        "multi": False,
        "current": {"selected": True, "text": "gpu", "value": "gpu"},
        "options": [
            {"selected": True, "text": "gpu", "value": "gpu"},
            {"selected": False, "text": "module", "value": "module"},
        ],
    }


def test_colours_of_one_panel() -> None:
    config = field_config(FieldOptions(unit="watt", colouring=Fixed(palette.POWER)), {}, [])
    defaults: Any = config["defaults"]
    assert defaults["color"] == {"mode": "fixed", "fixedColor": "#F0E442"}
