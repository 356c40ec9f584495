"""JSON of how values look: `fieldConfig`, as @grafana/schema 13.2.3 has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from dashboards.panels import palette
from dashboards.panels.fields import (
    NO_DATA,
    ByName,
    ByQuery,
    ByThresholds,
    ByType,
    ByValue,
    CellKind,
    Colouring,
    DataLink,
    FieldOptions,
    Fixed,
    Line,
    Matcher,
    Override,
    RangeText,
    Shades,
    Thresholds,
    ValueMapping,
)

Json = dict[str, object]


def given(**values: object) -> Json:
    """Return the values that are not None: what is not said stays out of the JSON."""
    return {name: value for name, value in values.items() if value is not None}


def field_config(fields: FieldOptions, custom: Json, overrides: Iterable[Override]) -> Json:
    """Make a panel's `fieldConfig`.

    Args:
        fields: How values look.
        custom: What the kind of panel has of its own.
        overrides: Exceptions.
    """
    defaults = given(
        unit=fields.unit,
        decimals=fields.decimals,
        min=fields.minimum,
        max=fields.maximum,
        noValue=fields.no_value,
        displayName=fields.display_name,
        color=colour(fields.colouring),
        thresholds=thresholds(fields.thresholds),
        mappings=mappings(fields.mappings),
        links=[link(item) for item in fields.links] or None,
        custom=custom,
    )
    return {"defaults": defaults, "overrides": [_override(override) for override in overrides]}


def colour(colouring: Colouring) -> Json:
    """Make `color`."""
    match colouring:
        case Fixed():
            return {"mode": "fixed", "fixedColor": colouring.colour}
        case Shades():
            return {"mode": "shades", "fixedColor": colouring.colour}
        case ByThresholds():
            return {"mode": "thresholds"}
        case ByValue():
            return {"mode": colouring.scheme.value}
        case _:
            assert_never(colouring)


def thresholds(steps: Thresholds) -> Json:
    """Make `thresholds`; the base has no value, which Grafana takes for minus infinity."""
    base: Json = {"color": steps.base, "value": None}
    further: list[Json] = [{"color": step.colour, "value": step.value} for step in steps.steps]
    return {"mode": "absolute", "steps": [base, *further]}


def mappings(own: Iterable[ValueMapping]) -> list[Json]:
    """Make `mappings`: those of the panel, then missing values in grey."""
    made = [_mapping(mapping, index) for index, mapping in enumerate(own)]
    missing: Json = {"text": NO_DATA, "color": palette.UNKNOWN, "index": len(made)}
    return [*made, {"type": "special", "options": {"match": "null+nan", "result": missing}}]


def _mapping(mapping: ValueMapping, index: int) -> Json:
    result = given(text=mapping.text, color=mapping.colour, index=index)
    if isinstance(mapping, RangeText):
        return {"type": "range", "options": {"from": mapping.low, "to": mapping.high, "result": result}}
    return {"type": "value", "options": {mapping.value: result}}


def link(item: DataLink) -> Json:
    """Make a data link."""
    return {"title": item.title, "url": item.url, "targetBlank": item.new_tab}


def _override(override: Override) -> Json:
    properties: Mapping[str, object] = {
        "unit": override.unit,
        "decimals": override.decimals,
        "min": override.minimum,
        "max": override.maximum,
        "displayName": override.display_name,
        "color": None if override.colouring is None else colour(override.colouring),
        "thresholds": None if override.thresholds is None else thresholds(override.thresholds),
        "mappings": None if override.mappings is None else mappings(override.mappings),
        "links": None if override.links is None else [link(item) for item in override.links],
        "custom.cellOptions": None if override.cell is None else cell_options(override.cell),
        "custom.width": override.column_width,
        "custom.axisPlacement": None if override.axis is None else override.axis.value,
        "custom.axisLabel": override.axis_label,
        **({} if override.line is None else _line(override.line)),
        "custom.hideFrom": {"legend": True, "tooltip": True, "viz": True} if override.hidden else None,
    }
    said = [{"id": name, "value": value} for name, value in properties.items() if value is not None]
    return {"matcher": _matcher(override.fields), "properties": said}


def _matcher(fields: Matcher) -> Json:
    if isinstance(fields, ByName):
        return {"id": "byName", "options": fields.name}
    if isinstance(fields, ByQuery):
        return {"id": "byFrameRefID", "options": fields.ref_id}
    if isinstance(fields, ByType):
        return {"id": "byType", "options": fields.type}
    return {"id": "byRegexp", "options": fields.pattern}


def _line(line: Line) -> Json:
    style: Json = {"fill": "dash", "dash": list(line.dash)} if line.dash else {"fill": "solid"}
    return {
        "custom.lineWidth": line.width,
        "custom.lineStyle": style,
        "custom.fillOpacity": line.fill,
        "custom.stacking": None if line.stacked else {"mode": "none", "group": "alone"},
    }


def cell_options(kind: CellKind) -> Json:
    """Make `cellOptions` of a table's column."""
    if kind is CellKind.GAUGE:
        return {"type": kind.value, "mode": "basic", "valueDisplayMode": "text"}
    if kind is CellKind.COLOURED_BACKGROUND:
        return {"type": kind.value, "mode": "basic"}
    return {"type": kind.value}
