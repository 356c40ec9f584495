"""Every dashboard keeps to the rules, and each rule finds what breaks it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dashboards.catalogue import BOARDS
from dashboards.dashboard import Board
from dashboards.panels.board_json import board_json
from tests import dashboard_lint as lint
from tests.dashboard_samples import EVERY_KIND
from tests.grafana_schema.schema import panels_of

Json = dict[str, Any]
Rule = Callable[[Json], Iterator[str]]

every_board = pytest.mark.parametrize("board", BOARDS, ids=[board.identity.uid for board in BOARDS])
every_rule = pytest.mark.parametrize("rule", lint.RULES, ids=[rule.__name__ for rule in lint.RULES])


@every_board
@every_rule
def test_a_board_keeps_to_a_rule(board: Board, rule: Rule) -> None:
    assert list(rule(board_json(board))) == []


@every_board
def test_links_of_a_board_lead_somewhere(board: Board) -> None:
    boards = {each.identity.uid: board_json(each) for each in BOARDS}
    assert list(lint.links_lead_somewhere(board_json(board), boards)) == []


def test_every_board_has_its_own_uid_and_title() -> None:
    assert len({board.identity for board in BOARDS}) == len(BOARDS)
    assert len({board.identity.title for board in BOARDS}) == len(BOARDS)


@every_rule
def test_the_sample_keeps_to_a_rule(rule: Rule) -> None:
    assert list(rule(board_json(EVERY_KIND))) == []


def _panel(board: Json, kind: str = "timeseries") -> Json:
    return next(panel for panel in panels_of(board) if panel["type"] == kind)


def _defaults(board: Json) -> Json:
    defaults: Json = _panel(board)["fieldConfig"]["defaults"]
    return defaults


def _expr(text: str) -> Callable[[Json], object]:
    return lambda board: _panel(board)["targets"][0].update(expr=text)


_SELECTOR = 'rackwatt_gpu_energy_joules_total{cluster=~"$cluster",rack=~"$rack"}'

BREACHES: tuple[tuple[Rule, Callable[[Json], object]], ...] = (
    (lint.queries_parse, _expr("sum(")),
    (lint.datasource_is_a_variable, lambda board: _panel(board).update(datasource={"uid": "prom"})),
    (lint.datasource_is_a_variable, lambda board: _panel(board)["targets"][0].pop("datasource")),
    (lint.datasource_is_a_variable, lambda board: board["templating"]["list"][1].pop("datasource")),
    (lint.panels_are_explained, lambda board: _panel(board).pop("description")),
    (lint.panels_are_explained, lambda board: _panel(board).pop("title")),
    (lint.panels_are_explained, lambda board: _panel(board).update(targets=[])),
    (lint.panels_are_explained, lambda board: _defaults(board).pop("unit")),
    (lint.missing_is_grey, lambda board: _defaults(board).pop("noValue")),
    (lint.missing_is_grey, lambda board: _defaults(board).update(mappings=[])),
    (
        lint.missing_is_grey,
        lambda board: _defaults(board)["mappings"][0]["options"]["result"].update(color="#009E73"),
    ),
    (lint.newest_values_are_instant, lambda board: _panel(board, "stat")["targets"][0].update(instant=False)),
    (lint.rates_fit_the_zoom, _expr(f"rate({_SELECTOR}[5m])")),
    (lint.rates_fit_the_zoom, _expr(f"sum(irate({_SELECTOR}[1m]))")),
    (lint.queries_keep_to_the_variables, _expr('rackwatt_gpu_up{cluster=~"$cluster"}')),
    (lint.queries_keep_to_the_variables, _expr('rackwatt_gpu_up{rack=~"$rack"}')),
    (lint.queries_keep_to_the_variables, _expr('rack_node:power_watts:sum{cluster=~"$cluster"}')),
    (lint.queries_keep_to_the_variables, _expr("cluster:power_watts:sum")),
    (lint.variables_exist, _expr('rackwatt_gpu_up{cluster=~"$cluster",rack=~"$rack",node=~"$host"}')),
    (lint.variables_exist, lambda board: board["panels"][0].update(title="Power of ${host}")),
    (lint.variables_are_fresh, lambda board: board["templating"]["list"].pop(0)),
    (lint.variables_are_fresh, lambda board: board["templating"]["list"].pop(1)),
    (lint.variables_are_fresh, lambda board: board["templating"]["list"][1].update(refresh=1)),
    (lint.variables_are_fresh, lambda board: board["templating"]["list"][2].update(includeAll=False)),
    (lint.board_is_fixed, lambda board: board.update(editable=True)),
    (lint.board_is_fixed, lambda board: board.update(uid="fleet")),
    (lint.board_is_fixed, lambda board: board.update(tags=[])),
    (lint.board_is_fixed, lambda board: board["links"][0].update(keepTime=False)),
    (lint.ids_are_unique, lambda board: board["panels"][0].update(id=board["panels"][1]["id"])),
    (lint.panels_do_not_overlap, lambda board: board["panels"][1]["gridPos"].update(x=11)),
    (lint.panels_do_not_overlap, lambda board: board["panels"][1]["gridPos"].update(w=13)),
    (lint.nothing_is_null, lambda board: board.update(style=None)),
    (lint.nothing_is_null, lambda board: _defaults(board)["thresholds"]["steps"][1].update(value=None)),
    (lint.efficiency_says_what_it_counts, lambda board: _defaults(board).update(unit="suffix:tokens/J")),
)


@pytest.mark.parametrize(("rule", "breach"), BREACHES, ids=[rule.__name__ for rule, _ in BREACHES])
def test_a_breach_is_found(rule: Rule, breach: Callable[[Json], object]) -> None:
    board = copy.deepcopy(board_json(EVERY_KIND))
    breach(board)
    assert list(rule(board)) != []


def test_every_rule_has_a_breach() -> None:
    assert {rule for rule, _ in BREACHES} == set(lint.RULES)


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Generation tokens per joule (GPU power)", True),
        ("Total tokens per joule (rack input)", True),
        ("Tokens per joule ($tokens, $domain)", True),
        ("Generation tokens per joule", False),
        ("Tokens per joule of GPU power", False),
    ],
)
def test_a_title_of_efficiency(title: str, *, said: bool) -> None:
    panel = {"type": "stat", "title": title, "fieldConfig": {"defaults": {"unit": "suffix:tokens/J"}}}
    assert (list(lint.efficiency_says_what_it_counts({"panels": [panel]})) == []) is said


def test_a_fixed_window_of_a_recorded_series_may_stay() -> None:
    board = board_json(EVERY_KIND)
    _expr('rate(rack:energy_joules:sum{cluster=~"$cluster",rack=~"$rack"}[5m])')(board)
    assert list(lint.rates_fit_the_zoom(board)) == []


@pytest.mark.parametrize(
    "url",
    [
        "/d/rackwatt-nowhere?${__url_time_range}",
        "/d/rackwatt-node?${datasource:queryparam}",
        "/d/rackwatt-node?${__url_time_range}&var-host=n01",
        "/d/rackwatt-node?${__url_time_range}&${host:queryparam}",
    ],
)
def test_a_link_that_leads_nowhere_is_found(url: str) -> None:
    board = copy.deepcopy(board_json(EVERY_KIND))
    _defaults(board).update(links=[{"title": "x", "url": url, "targetBlank": False}])
    fleet = {**board, "uid": "rackwatt-fleet"}
    found = lint.links_lead_somewhere(board, {"rackwatt-node": board, "rackwatt-fleet": fleet})
    assert list(found) != []
