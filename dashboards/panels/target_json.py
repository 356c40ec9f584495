"""JSON of what a panel asks, and of how answers are reshaped."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import assert_never

from dashboards.panels.field_json import Json, given
from dashboards.panels.targets import (
    GroupingToMatrix,
    JoinByField,
    KeepFields,
    LabelsToFields,
    Limit,
    Merge,
    Organize,
    Reduce,
    SortBy,
    Target,
    Transformation,
)

ANNOTATION_REF_ID = "Anno"
"""As Grafana's Prometheus data source calls the query of an annotation."""


def named(targets: Iterable[Target]) -> list[tuple[str, Target]]:
    """Give every target its `ref_id`: its own, or the letter of its place.

    Raises:
        ValueError: Two have the same, or there are more than letters.
    """
    listed = list(targets)
    if len(listed) > len(string.ascii_uppercase):
        raise ValueError(f"{len(listed)} targets in one panel; 26 at most")
    names = [target.ref_id or letter for target, letter in zip(listed, string.ascii_uppercase, strict=False)]
    if len(set(names)) < len(names):
        raise ValueError(f"two targets of one panel have the same ref_id: {names}")
    return list(zip(names, listed, strict=True))


def transformation(step: Transformation) -> Json:
    """Make one step of `transformations`."""
    match step:
        case Merge():
            return {"id": "merge", "options": {}}
        case JoinByField():
            return {"id": "joinByField", "options": {"byField": step.field, "mode": "outer"}}
        case Organize():
            return {"id": "organize", "options": _organize(step)}
        case KeepFields():
            return {"id": "filterFieldsByName", "options": {"include": {"pattern": step.pattern}}}
        case SortBy():
            return {
                "id": "sortBy",
                "options": {"fields": {}, "sort": [{"field": step.field, "desc": step.descending}]},
            }
        case Limit():
            return {"id": "limit", "options": {"limitField": step.rows}}
        case LabelsToFields():
            return {
                "id": "labelsToFields",
                "options": given(mode="columns", valueLabel=step.value_label),
            }
        case Reduce():
            return {
                "id": "reduce",
                "options": {
                    "mode": "seriesToRows",
                    "reducers": list(step.calculations),
                    "labelsToFields": True,
                },
            }
        case GroupingToMatrix():
            return {
                "id": "groupingToMatrix",
                "options": {
                    "columnField": step.across,
                    "rowField": step.down,
                    "valueField": step.value,
                    "emptyValue": "null",
                },
            }
        case _:
            assert_never(step)


def _organize(step: Organize) -> Json:
    return {
        "excludeByName": dict.fromkeys(step.dropped, True),
        "includeByName": {},
        "indexByName": {column: index for index, (column, _) in enumerate(step.columns)},
        "renameByName": dict(step.columns),
    }
