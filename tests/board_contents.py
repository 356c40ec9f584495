"""What a board shows, read from its generated JSON: titles, metrics by panel, and where clicks lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import promql_parser

from dashboards.dashboard import Board
from dashboards.panels.board_json import board_json
from tests.dashboard_lint import interpolated, selectors
from tests.grafana_schema.schema import panels_of

Json = dict[str, Any]  # generated JSON, read rather than typed

_NAMES = re.compile(r"[a-z_:0-9]+", re.IGNORECASE)


def panels(board: Board) -> dict[str, Json]:
    """Return the panels by title, folded ones included."""
    return {panel["title"]: panel for panel in panels_of(board_json(board))}


def sections(board: Board) -> list[tuple[str, bool]]:
    """Return the headings in order, and whether each starts folded."""
    written: Json = board_json(board)
    return [(row["title"], row["collapsed"]) for row in written["panels"] if row["type"] == "row"]


def metrics(panel: Json) -> set[str]:
    """Return the names of all series that a panel asks for."""
    found: set[str] = set()
    for target in panel["targets"]:
        for selector in selectors(promql_parser.parse(interpolated(target["expr"]))):
            if selector.name:
                found.add(selector.name)
            for matcher in selector.matchers.matchers:
                if matcher.name == "__name__":
                    found |= set(_NAMES.findall(matcher.value))
    return found


def links(panel: Json) -> Iterator[tuple[str, str]]:
    """Yield the uids of the boards that a panel's values lead to, each with its address."""
    lists = [panel["fieldConfig"]["defaults"].get("links", [])]
    for override in panel["fieldConfig"]["overrides"]:
        lists += [each["value"] for each in override["properties"] if each["id"] == "links"]
    for item in (item for listed in lists for item in listed):
        if match := re.match(r"/d/([\w-]+)\?", item["url"]):
            yield match[1], item["url"]


def targets_of(panel: Json) -> set[str]:
    """Return the uids of the boards that a panel leads to."""
    return {uid for uid, _ in links(panel)}


def headings(panel: Json) -> list[str]:
    """Return the headings of a table's columns, in order."""
    options = next(t["options"] for t in panel["transformations"] if t["id"] == "organize")
    renamed, order = options["renameByName"], options["indexByName"]
    return list(dict.fromkeys(renamed[column] for column in sorted(order, key=lambda name: order[name])))


def override(panel: Json, column: str) -> Json:
    """Return what a table says of a column, by property."""
    found: Json = {}
    for each in panel["fieldConfig"]["overrides"]:
        if each["matcher"] == {"id": "byName", "options": column}:
            found |= {one["id"]: one["value"] for one in each["properties"]}
    return found


def texts(mappings: list[Json]) -> dict[str, str]:
    """Return what single values are shown as."""
    return {
        value: result["text"]
        for mapping in mappings
        if mapping["type"] == "value"
        for value, result in mapping["options"].items()
    }


def colours(mappings: list[Json]) -> dict[str, str]:
    """Return the colours of words, that of missing values included."""
    found: dict[str, str] = {}
    for mapping in mappings:
        options = mapping["options"]
        results = [options["result"]] if mapping["type"] == "special" else list(options.values())
        found |= {result["text"]: result["color"] for result in results if "color" in result}
    return found
