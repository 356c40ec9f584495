"""From a board to Grafana's JSON, by way of grafanalib (see `dashboards.panels.grafana`)."""

from __future__ import annotations

from typing import Final

from grafanalib import core

from dashboards.dashboard import REFRESH, TIMEZONE, Annotation, Board
from dashboards.identities import TAG
from dashboards.layout import lay_out
from dashboards.panels.field_json import Json
from dashboards.panels.grafana import DATASOURCE, kept, panels_json
from dashboards.panels.target_json import ANNOTATION_REF_ID
from dashboards.variables import (
    ALL_VALUE,
    DATASOURCE_TYPE,
    CustomVariable,
    DatasourceVariable,
    QueryVariable,
    Variable,
)

SCHEMA_VERSION: Final = 42
"""Version of the dashboard's JSON that @grafana/schema 13.2.3 describes."""

_ON_TIME_RANGE_CHANGE: Final = 2
"""`VariableRefresh.onTimeRangeChanged` of @grafana/schema: a rack that came yesterday is listed today."""
_NATURAL_SORT: Final = 7
"""`VariableSort.naturalAsc` of @grafana/schema: n2 before n10."""

_VARIABLE_KEYS: Final = frozenset(
    {
        "allValue",
        "current",
        "datasource",
        "includeAll",
        "label",
        "multi",
        "name",
        "options",
        "query",
        "refresh",
        "sort",
        "type",
    }
)
_BOARD_KEYS: Final = frozenset(
    {
        "description",
        "editable",
        "graphTooltip",
        "links",
        "refresh",
        "schemaVersion",
        "tags",
        "time",
        "timezone",
        "title",
        "uid",
    }
)
"""What may stay of what grafanalib writes."""


def board_json(board: Board) -> Json:
    """Write a board.

    Raises:
        ValueError: Panels do not fit, or keys clash.
    """
    written = core.Dashboard(
        title=board.identity.title,
        uid=board.identity.uid,
        description=board.description,
        tags=[TAG],
        editable=False,
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        refresh=REFRESH,
        schemaVersion=SCHEMA_VERSION,
        time=core.Time(board.time_from, "now"),
        timezone=TIMEZONE,
        links=[_board_links()],
    )
    return kept(written.to_json_data(), _BOARD_KEYS) | {
        "annotations": {"list": [_annotation(annotation) for annotation in board.annotations]},
        "panels": panels_json(lay_out(board.sections)),
        "templating": {"list": [_variable(variable) for variable in board.variables]},
        "timepicker": {},
    }


def _board_links() -> core.DashboardLink:
    return core.DashboardLink(
        type="dashboards",
        title="rackwatt",
        tags=[TAG],
        asDropdown=False,
        includeVars=True,
        keepTime=True,
        icon="dashboard",
        tooltip="The other boards, with the same variables and time",
    )


def _annotation(annotation: Annotation) -> Json:
    return {
        "name": annotation.name,
        "datasource": DATASOURCE,
        "enable": annotation.enabled,
        "hide": False,
        "iconColor": annotation.colour,
        "target": {"expr": annotation.expr, "refId": ANNOTATION_REF_ID},
        "titleFormat": annotation.title,
        "textFormat": annotation.text,
    }


def _variable(variable: Variable) -> Json:
    match variable:
        case DatasourceVariable():
            written = core.Template(
                type="datasource", name=variable.name, label=variable.label, query=DATASOURCE_TYPE
            )
            return kept(written.to_json_data(), _VARIABLE_KEYS - {"current", "includeAll", "multi", "sort"})
        case QueryVariable():
            return _query_variable(variable)
        case CustomVariable():
            return _custom_variable(variable)


def _query_variable(variable: QueryVariable) -> Json:
    written = core.Template(
        type="query",
        name=variable.name,
        label=variable.label,
        query=variable.query,
        dataSource=DATASOURCE,
        refresh=_ON_TIME_RANGE_CHANGE,
        sort=_NATURAL_SORT,
        includeAll=variable.several,
        allValue=ALL_VALUE if variable.several else None,
        multi=variable.several,
    )
    # Without a current value Grafana takes the first that there is.
    every: Json = {"current": {"selected": True, "text": ["All"], "value": ["$__all"]}}
    keys = _VARIABLE_KEYS if variable.several else _VARIABLE_KEYS - {"current"}
    return (
        kept(written.to_json_data(), keys)
        | (every if variable.several else {})
        | {
            "description": variable.description,
            # The form that the data source's own editor writes.
            "query": {
                "qryType": 1,
                "query": variable.query,
                "refId": "PrometheusVariableQueryEditor-VariableQuery",
            },
        }
    )


def _custom_variable(variable: CustomVariable) -> Json:
    written = core.Template(
        type="custom",
        name=variable.name,
        label=variable.label,
        query=",".join(variable.values),
        default=variable.values[0],
    )
    return kept(written.to_json_data(), _VARIABLE_KEYS - {"refresh", "sort"}) | {
        "description": variable.description
    }
