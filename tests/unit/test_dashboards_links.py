"""A click leads to the rack, node or GPU that it was made at, on every board."""

from __future__ import annotations

import copy

import promql_parser
import pytest

from dashboards.catalogue import BOARDS
from dashboards.dashboard import Board
from dashboards.panels.board_json import board_json
from tests import dashboard_links
from tests.dashboard_links import Json, result_labels
from tests.dashboard_samples import EVERY_KIND
from tests.grafana_schema.schema import panels_of

every_board = pytest.mark.parametrize("board", BOARDS, ids=[board.identity.uid for board in BOARDS])


@every_board
@pytest.mark.parametrize("rule", dashboard_links.RULES, ids=[rule.__name__ for rule in dashboard_links.RULES])
def test_clicks_find_what_they_hand_on(board: Board, rule: object) -> None:
    assert callable(rule)
    assert list(rule(board_json(board))) == []


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("rackwatt_gpu_up", None),
        ("rack:nodes_expected:max", {"cluster", "rack"}),
        ("sum(rackwatt_gpu_up)", set()),
        ("max by (cluster, rack) (rackwatt_gpu_up) * 2 > 0", {"cluster", "rack"}),
        ("topk(3, max by (rack, node) (rackwatt_gpu_up))", {"rack", "node"}),
        ("sum by (rack) (x) and on (rack) sum by (rack, node) (y)", {"rack"}),
        ("sum by (rack, node) (x) or sum by (rack) (y)", {"rack"}),
        ('label_replace(sum by (rack) (x), "window", "7d", "", "")', {"rack", "window"}),
        ("rate(rackwatt_gpu_energy_joules_total[5m])", None),
        ("histogram_quantile(0.9, sum by (rack, le) (x))", {"rack", "le"}),
        ("1 - max by (rack) (x)", {"rack"}),
    ],
)
def test_labels_of_an_answer(query: str, labels: set[str] | None) -> None:
    assert result_labels(promql_parser.parse(query)) == labels


def _first(board: Json, kind: str) -> Json:
    return next(panel for panel in panels_of(board) if panel["type"] == kind)


def test_a_click_without_its_label_is_found() -> None:
    board = copy.deepcopy(board_json(EVERY_KIND))
    panel = _first(board, "timeseries")
    panel["fieldConfig"]["defaults"]["links"] = [
        {"title": "x", "url": "/d/y?var-node=${__field.labels.node}"}
    ]
    assert list(dashboard_links.clicks_find_their_labels(board)) == []
    panel["targets"][0]["expr"] = "max by (rack) (rackwatt_gpu_up)"
    assert list(dashboard_links.clicks_find_their_labels(board)) != []


def test_a_cell_of_a_column_that_is_not_there_is_found() -> None:
    board = copy.deepcopy(board_json(EVERY_KIND))
    override = _first(board, "table")["fieldConfig"]["overrides"][0]
    for column, found in (("gpu", False), ("GPU", False), ("node", True)):
        url = f'/d/y?var-gpu=${{__data.fields["{column}"]}}'
        override["properties"] = [{"id": "links", "value": [{"title": "x", "url": url}]}]
        assert (list(dashboard_links.cells_name_columns(board)) != []) is found
