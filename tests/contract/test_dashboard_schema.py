"""Every dashboard is what the types of Grafana say (@grafana/schema): no unknown keys, no wrong types."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from dashboards.catalogue import BOARDS
from dashboards.dashboard import Board
from dashboards.panels.board_json import board_json
from dashboards.panels.option_json import MAKERS
from tests.dashboard_samples import EVERY_KIND
from tests.grafana_schema.schema import Schemas, load, panels_of, violations

pytestmark = pytest.mark.needs_program("node", "npm")

every_board = pytest.mark.parametrize(
    "board", [*BOARDS, EVERY_KIND], ids=[*(board.identity.uid for board in BOARDS), "every kind"]
)


@pytest.fixture(scope="session")
def schemas() -> Schemas:
    return load()


@every_board
def test_a_dashboard_is_what_the_types_of_grafana_say(schemas: Schemas, board: Board) -> None:
    assert list(violations(schemas, board_json(board))) == []


def test_the_sample_has_every_kind_of_panel() -> None:
    kinds = {type(panel) for section in EVERY_KIND.sections for panel in section.panels}
    assert kinds == set(MAKERS)


def _first(dashboard: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(panel for panel in panels_of(dashboard) if panel["type"] == kind)


# What grafanalib 0.7.1 would have written, and slips of one's own.
_WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "a key that no dashboard has": lambda board: board.update(style="dark"),
    "a type": lambda board: board.update(editable="yes"),
    "a key that no panel has": lambda board: _first(board, "stat").update(minSpan=2),
    "a threshold without a number": lambda board: _first(board, "stat")["fieldConfig"]["defaults"][
        "thresholds"
    ]["steps"][1].update(value="null"),
    "an option of no stat": lambda board: _first(board, "stat")["options"].update(calc="mean"),
    "a word that no stat knows": lambda board: _first(board, "stat")["options"].update(colorMode="red"),
    "a setting of no time series": lambda board: _first(board, "timeseries")["fieldConfig"]["defaults"][
        "custom"
    ].update(lineWith=1),
    "an override of nothing": lambda board: _first(board, "timeseries")["fieldConfig"]["overrides"][0][
        "properties"
    ].append({"id": "custom.linewidth", "value": 1}),
    "an override of another type": lambda board: _first(board, "timeseries")["fieldConfig"]["overrides"][0][
        "properties"
    ].append({"id": "custom.lineWidth", "value": "1"}),
    "a kind without a schema": lambda board: _first(board, "stat").update(type="singlestat"),
}


@pytest.mark.parametrize("mistake", _WRONG.values(), ids=_WRONG)
def test_a_mistake_is_found(schemas: Schemas, mistake: Callable[[dict[str, Any]], object]) -> None:
    dashboard = copy.deepcopy(board_json(EVERY_KIND))
    mistake(dashboard)
    assert list(violations(schemas, dashboard)) != []
