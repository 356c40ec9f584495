"""Where clicks lead: every link finds the labels and columns that it hands on.

A label that a series lacks becomes an empty value of a variable, and a board on which nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import promql_parser

from dashboards.recorded import RECORDED_BY_NAME
from tests.dashboard_lint import interpolated
from tests.grafana_schema.schema import panels_of

Json = dict[str, Any]  # generated JSON, read rather than typed

_LABEL = re.compile(r"\$\{__field\.labels\.(\w+)\}")
_COLUMN = re.compile(r'\$\{__data\.fields\["([^"]+)"\]\}')

_PASSING = frozenset({"topk", "bottomk"})
_ADDING = frozenset({"label_replace", "label_join"})
_SETS = frozenset({"and", "unless"})

Labels = frozenset[str] | None
"""Labels of an answer; None for those of the series that are read, whatever they are."""


def result_labels(tree: promql_parser.Expr) -> Labels:
    """Return the labels that the answer of a query has for certain."""
    if isinstance(tree, promql_parser.AggregateExpr):
        if str(tree.op) in _PASSING:
            return result_labels(tree.expr)
        return frozenset(tree.modifier.labels) if tree.modifier is not None else frozenset()
    if isinstance(tree, promql_parser.ParenExpr | promql_parser.UnaryExpr | promql_parser.SubqueryExpr):
        return result_labels(tree.expr)
    if isinstance(tree, promql_parser.BinaryExpr):
        return _of_two(tree)
    if isinstance(tree, promql_parser.Call):
        return _of_call(tree)
    if isinstance(tree, promql_parser.MatrixSelector):
        return result_labels(tree.vector_selector)
    name = getattr(tree, "name", None) or ""
    return frozenset(("cluster", *RECORDED_BY_NAME[name].labels)) if name in RECORDED_BY_NAME else None


def _of_two(tree: promql_parser.BinaryExpr) -> Labels:
    operator = str(tree.op)
    if isinstance(tree.rhs, promql_parser.NumberLiteral) or operator in _SETS:
        return result_labels(tree.lhs)
    if isinstance(tree.lhs, promql_parser.NumberLiteral):
        return result_labels(tree.rhs)
    left, right = result_labels(tree.lhs), result_labels(tree.rhs)
    if operator == "or":
        return right if left is None else left if right is None else left & right
    return right if "ManyToOne" not in str(getattr(tree.modifier, "card", "")) and left is None else left


def _of_call(tree: promql_parser.Call) -> Labels:
    vectors = [each for each in tree.args if not isinstance(each, promql_parser.NumberLiteral)]
    inner = result_labels(vectors[0]) if vectors else frozenset()
    if tree.func.name in _ADDING and inner is not None:
        return inner | {tree.args[1].val}
    return inner


def clicks_find_their_labels(dashboard: Json) -> Iterator[str]:
    """Every series that a link of a drawing stands at has the labels that the link hands on."""
    for panel in panels_of(dashboard):
        if panel["type"] in ("table", "text"):
            continue
        for target in panel["targets"]:
            labels = result_labels(promql_parser.parse(interpolated(target["expr"])))
            for link in _links_at(panel["fieldConfig"], target):
                wanted = set(_LABEL.findall(link["url"]))
                if labels is not None and (lacking := wanted - labels):
                    where = f"panel {panel['title']!r}, {target['refId']}"
                    yield f"{where}: {link['title']} lacks {sorted(lacking)}"


def _links_at(fields: Json, target: Json) -> list[Json]:
    """Return the links at the series of a target: the last override that says any counts."""
    links: list[Json] = fields["defaults"].get("links", [])
    for override in fields["overrides"]:
        said = [each["value"] for each in override["properties"] if each["id"] == "links"]
        if said and _matches(override["matcher"], target):
            links = said[-1]
    return links


def _matches(matcher: Json, target: Json) -> bool:
    wanted = matcher["options"]
    if matcher["id"] == "byFrameRefID":
        return bool(wanted == target["refId"])
    if matcher["id"] == "byRegexp":
        return re.search(wanted.strip("/"), target["legendFormat"]) is not None
    return bool(wanted == target["legendFormat"])


def cells_name_columns(dashboard: Json) -> Iterator[str]:
    """Every link of a table names columns that the table has, by label or by heading."""
    for panel in panels_of(dashboard):
        if panel["type"] != "table":
            continue
        renamed: dict[str, str] = {}
        for step in panel.get("transformations", []):
            renamed |= step["options"].get("renameByName", {})
        known = set(renamed) | set(renamed.values())
        for override in panel["fieldConfig"]["overrides"]:
            for each in override["properties"]:
                for link in each["value"] if each["id"] == "links" else []:
                    if strangers := set(_COLUMN.findall(link["url"])) - known:
                        yield f"panel {panel['title']!r}: there is no column {sorted(strangers)}"
                    if _LABEL.search(link["url"]):
                        yield f"panel {panel['title']!r}: a cell has no labels"


RULES = (clicks_find_their_labels, cells_name_columns)
