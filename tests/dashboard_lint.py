"""What every dashboard must keep to, as rules over its generated JSON: each yields what breaks it.

After the rules of Grafana's dashboard-linter (docs/index.md of grafana/dashboard-linter), with `cluster` and
`rack` in the place of `job` and `instance`, and this project's own: grey for what is missing, titles that
name power domain and tokens.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import promql_parser

from dashboards.identities import TAG, is_uid
from dashboards.layout import COLUMNS, Place
from dashboards.panels import NO_DATA, palette
from dashboards.units import EFFICIENCY
from tests.grafana_schema.schema import panels_of

Json = dict[str, Any]  # generated JSON, read rather than typed

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)(?::\w+)?\}?")
_INTERPOLATED: Mapping[str, str] = {
    "$__rate_interval": "4m",
    "$__interval": "1m",
    "$__range_s": "3600",
    "$__range": "1h",
}
"""Grafana's own variables in queries, longest first, and something that parses in their place."""

_OF_GRAFANA = re.compile(r"__\w+")

POWER_DOMAIN = re.compile(r"\b(GPU|module|rack input)\b|\$\{?domain\b")
KIND_OF_TOKENS = re.compile(r"\b(generation|generated|prompt|total)\b|\$\{?tokens\b", re.IGNORECASE)


@dataclass(frozen=True)
class Query:
    """One query of a dashboard.

    Attributes:
        where: What it belongs to.
        text: As it is written.
        tree: As it is parsed, with Grafana's own variables filled in.
    """

    where: str
    text: str
    tree: promql_parser.Expr


def queries_of(dashboard: Json) -> Iterator[Query]:
    """Yield every query of panels and annotations, parsed."""
    for panel in panels_of(dashboard):
        for target in panel.get("targets", []):
            yield _query(f"panel {panel['title']!r}, target {target['refId']}", target["expr"])
    for annotation in dashboard["annotations"]["list"]:
        yield _query(f"annotation {annotation['name']!r}", annotation["target"]["expr"])


def _query(where: str, text: str) -> Query:
    try:
        return Query(where, text, promql_parser.parse(interpolated(text)))
    except ValueError as error:
        raise AssertionError(f"{where}: {error}: {text}") from None


def interpolated(text: str) -> str:
    """Fill in Grafana's own variables, as far as parsing needs it."""
    for name, value in _INTERPOLATED.items():
        text = text.replace(name, value)
    return text


def selectors(tree: promql_parser.Expr) -> list[promql_parser.VectorSelector]:
    """Return every selector of a query."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)

    promql_parser.walk(tree, pre_visit=visit)
    return list({id(selector): selector for selector in found}.values())


def queries_parse(dashboard: Json) -> Iterator[str]:
    """Every query is PromQL."""
    try:
        list(queries_of(dashboard))
    except AssertionError as error:
        yield str(error)


def datasource_is_a_variable(dashboard: Json) -> Iterator[str]:
    """Panels, targets, annotations and variables ask the data source that the variable chooses."""
    users = [("variable " + v["name"], v) for v in dashboard["templating"]["list"] if v["type"] == "query"]
    users += [("annotation " + item["name"], item) for item in dashboard["annotations"]["list"]]
    for panel in panels_of(dashboard):
        if "targets" in panel:
            users.append((f"panel {panel['title']!r}", panel))
            users += [(f"panel {panel['title']!r}, {t['refId']}", t) for t in panel["targets"]]
    yield from (
        f"{where}: not the variable's data source"
        for where, it in users
        if it.get("datasource") != DATASOURCE
    )


def panels_are_explained(dashboard: Json) -> Iterator[str]:
    """Panels with data have title, description, unit and targets."""
    for panel in panels_of(dashboard):
        if panel["type"] == "text":
            continue
        where = f"panel {panel.get('title')!r}"
        if not panel.get("title"):
            yield f"panel {panel['id']}: no title"
        if not panel.get("description"):
            yield f"{where}: no description"
        if not panel.get("targets"):
            yield f"{where}: no targets"
        if not panel["fieldConfig"]["defaults"].get("unit"):
            yield f"{where}: no unit"


def missing_is_grey(dashboard: Json) -> Iterator[str]:
    """Missing values are the words "no data" in grey, whatever else values are mapped to."""
    for panel in panels_of(dashboard):
        if "fieldConfig" not in panel:
            continue
        where = f"panel {panel['title']!r}"
        defaults = panel["fieldConfig"]["defaults"]
        if not defaults.get("noValue"):
            yield f"{where}: nothing stands where there is no value"
        lists = [defaults["mappings"]]
        for override in panel["fieldConfig"]["overrides"]:
            lists += [each["value"] for each in override["properties"] if each["id"] == "mappings"]
        for mappings in lists:
            results = [m["options"]["result"] for m in mappings if m["type"] == "special"]
            if [(r["text"], r["color"]) for r in results] != [(NO_DATA, palette.UNKNOWN)]:
                yield f"{where}: a missing value is not grey"


def newest_values_are_instant(dashboard: Json) -> Iterator[str]:
    """What shows the newest value asks for it, and does not take the last of a range."""
    for panel in panels_of(dashboard):
        if panel["type"] in ("stat", "gauge", "bargauge"):
            yield from (
                f"panel {panel['title']!r}: {target['refId']} is a range"
                for target in panel["targets"]
                if not target["instant"]
            )


def rates_fit_the_zoom(dashboard: Json) -> Iterator[str]:
    """Every `rate` and `irate` has `$__rate_interval`, but of recorded series."""
    for query in queries_of(dashboard):
        for call in re.finditer(r"\bi?rate\(([^\[\]]*)\[([^\]]*)\]", query.text):
            if ":" not in call[1].partition("{")[0] and call[2] != "$__rate_interval":
                yield f"{query.where}: a rate over {call[2]}, not $__rate_interval"


def queries_keep_to_the_variables(dashboard: Json) -> Iterator[str]:
    """Every selector matches the cluster, and the rack where its series have one."""
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    for query in queries_of(dashboard):
        for selector in selectors(query.tree):
            matched = {matcher.name for matcher in selector.matchers.matchers}
            wanted = {"cluster"} | ({"rack"} if _has_rack(selector.name or "") else set())
            if lacking := (wanted & names) - matched:
                yield f"{query.where}: {selector.name} is not matched by {sorted(lacking)}"


def _has_rack(metric: str) -> bool:
    """Tell whether a metric's series have a rack: of a recorded one its level says so."""
    level, colon, _ = metric.partition(":")
    return "rack" in level.split("_") if colon else metric.startswith("rackwatt_")


def variables_exist(dashboard: Json) -> Iterator[str]:
    """Queries, titles and links use only variables that the dashboard has."""
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    texts = [(query.where, query.text) for query in queries_of(dashboard)]
    texts += [(f"title {panel['title']!r}", panel["title"]) for panel in dashboard["panels"]]
    texts += [(f"panel {panel['title']!r}", url) for panel, url in _urls(dashboard)]
    for where, text in texts:
        for name in _VARIABLE.findall(text):
            if name not in names and not _OF_GRAFANA.fullmatch(name):
                yield f"{where}: there is no variable {name}"


def _urls(dashboard: Json) -> Iterator[tuple[Json, str]]:
    for panel in panels_of(dashboard):
        for item in panel.get("links", []):
            yield panel, item["url"]
        fields = panel.get("fieldConfig", {"defaults": {}, "overrides": []})
        lists = [fields["defaults"].get("links", [])]
        for override in fields["overrides"]:
            lists += [each["value"] for each in override["properties"] if each["id"] == "links"]
        for item in itertools.chain(*lists):
            yield panel, item["url"]


def links_lead_somewhere(dashboard: Json, boards: Mapping[str, Json]) -> Iterator[str]:
    """Links to boards keep the time range, and set variables that the board there has."""
    for panel, url in _urls(dashboard):
        parts = urlsplit(url)
        if not parts.path.startswith("/d/"):
            continue
        where, uid = f"panel {panel['title']!r}", parts.path.removeprefix("/d/")
        if uid not in boards:
            yield f"{where}: links to {uid}, which is no board"
            continue
        if "${__url_time_range}" not in url:
            yield f"{where}: the link to {uid} loses the time range"
        there = {variable["name"] for variable in boards[uid]["templating"]["list"]}
        passed = {name.removeprefix("var-") for name, _ in parse_qsl(parts.query) if name.startswith("var-")}
        passed |= set(re.findall(r"\$\{(\w+):queryparam\}", url))
        if strangers := passed - there:
            yield f"{where}: {uid} has no variable {sorted(strangers)}"


def variables_are_fresh(dashboard: Json) -> Iterator[str]:
    """A data source comes first; what is queried is asked anew, has All or one value, narrows downwards."""
    variables = dashboard["templating"]["list"]
    if not variables or variables[0]["type"] != "datasource":
        yield "the first variable does not choose the data source"
    seen: set[str] = set()
    for variable in variables:
        if variable["type"] == "query":
            where = f"variable {variable['name']}"
            if variable["refresh"] != 2:
                yield f"{where}: refresh {variable['refresh']}, not 2"
            every = (variable["includeAll"], variable["multi"], variable.get("allValue"))
            if every not in ((True, True, ".*"), (False, False, None)):
                yield f"{where}: neither one value alone, nor several and All"
            if later := set(_VARIABLE.findall(variable["query"]["query"])) - seen:
                yield f"{where}: depends on {sorted(later)}, which do not stand before it"
        seen.add(variable["name"])


def board_is_fixed(dashboard: Json) -> Iterator[str]:
    """Uneditable, with a fixed uid, its tag, UTC, 30 s, a shared crosshair and links to its fellows."""
    wanted = {"editable": False, "timezone": "utc", "refresh": "30s", "graphTooltip": 1, "schemaVersion": 42}
    yield from (
        f"{key} is {dashboard.get(key)!r}" for key, value in wanted.items() if dashboard.get(key) != value
    )
    if not is_uid(dashboard["uid"]) or len(dashboard["uid"]) > 40:
        yield f"uid {dashboard['uid']!r}"
    if TAG not in dashboard["tags"]:
        yield "no tag"
    if not any(
        item["tags"] == [TAG] and item["includeVars"] and item["keepTime"] for item in dashboard["links"]
    ):
        yield "no links to the other boards that keep variables and time"


def ids_are_unique(dashboard: Json) -> Iterator[str]:
    """Rows and panels have different ids."""
    ids = [panel["id"] for panel in panels_of(dashboard)]
    ids += [panel["id"] for panel in dashboard["panels"] if panel["type"] == "row"]
    yield from (f"id {number} comes twice" for number in set(ids) if ids.count(number) > 1)


def panels_do_not_overlap(dashboard: Json) -> Iterator[str]:
    """Panels that show at once have cells of their own, and lie within the grid."""
    shown = [dashboard["panels"], *(p["panels"] for p in dashboard["panels"] if p["type"] == "row")]
    for panels in shown:
        places = [_place(panel) for panel in panels]
        for panel, place in zip(panels, places, strict=True):
            if not (place.x >= 0 and place.x + place.width <= COLUMNS and place.y >= 0):
                yield f"panel {panel['title']!r}: outside of the grid"
        for (one, left), (other, right) in itertools.combinations(zip(panels, places, strict=True), 2):
            if left.overlaps(right):
                yield f"panels {one['title']!r} and {other['title']!r} overlap"


def _place(panel: Json) -> Place:
    grid = panel["gridPos"]
    return Place(grid["x"], grid["y"], grid["w"], grid["h"])


def nothing_is_null(dashboard: Json) -> Iterator[str]:
    """No nulls, but below the first threshold and at the open end of a range."""
    yield from (f"{'/'.join(path)} is null" for path in _nulls(dashboard, ()) if not _may_be_null(path))


def _nulls(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if value is None:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _nulls(inner, (*path, str(key)))


def _may_be_null(path: tuple[str, ...]) -> bool:
    return path[-3:] == ("steps", "0", "value") or path[-2:] in (("options", "from"), ("options", "to"))


def efficiency_says_what_it_counts(dashboard: Json) -> Iterator[str]:
    """The title of a figure of efficiency names its power domain and its kind of tokens."""
    for panel in panels_of(dashboard):
        if panel.get("fieldConfig", {"defaults": {}})["defaults"].get("unit") in EFFICIENCY:
            if POWER_DOMAIN.search(panel["title"]) is None:
                yield f"panel {panel['title']!r}: does not name the power domain"
            if KIND_OF_TOKENS.search(panel["title"]) is None:
                yield f"panel {panel['title']!r}: does not name the kind of tokens"


RULES: tuple[Callable[[Json], Iterator[str]], ...] = (
    queries_parse,
    datasource_is_a_variable,
    panels_are_explained,
    missing_is_grey,
    newest_values_are_instant,
    rates_fit_the_zoom,
    queries_keep_to_the_variables,
    variables_exist,
    variables_are_fresh,
    board_is_fixed,
    ids_are_unique,
    panels_do_not_overlap,
    nothing_is_null,
    efficiency_says_what_it_counts,
)
"""Every rule that needs one dashboard only."""
