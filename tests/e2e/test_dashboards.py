"""Every query of every dashboard and every rule against a real Prometheus that a simulated rack has filled.

Of a normal hour and of one with the demo's faults: what should have data has, what should have none has none,
and each variable narrows what it should.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import promql_parser
import pytest

from dashboards.catalogue import BOARDS
from dashboards.dashboard import Board
from dashboards.variables import QueryVariable, matched_by
from tests.gallery.__main__ import VIEWS as DRAWN
from tests.gallery.page import draw
from tests.history.asking import View, ask, queries_of, written
from tests.history.blocks import shipped_rules
from tests.history.hours import ALL, QUERIES, Hour
from tests.history.plans import STORY_SECONDS
from tests.history.prometheus import Answered
from tests.history.simulate import BEGIN_SECONDS, END_SECONDS
from tests.history.tray import SCRAPE_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.needs_program("prometheus", "promtool")]

_NOTHING_IS_WRONG = frozenset(
    {
        *(f"{board}/alerts/A" for board in ("fleet", "rack", "node")),
        *(f"{board}/failed-checks/{ref}" for board in ("rack", "node") for ref in "AB"),
        *(f"{board}/xids/{ref}" for board in ("rack", "node") for ref in "AB"),
        "nvlink/down-now/A",
        "nvlink/failed-links/A",
        "nvlink/conditions-now/A",
    }
)
"""Lists of what is wrong."""
_DAYS_ARE_UNKNOWN = frozenset(
    {
        *(f"fleet/racks-table/{ref}" for ref in "JKL"),
        *(f"rack/availability/{ref}" for ref in "ABC"),
        *(f"rack/availability-windows/{ref}" for ref in "ABCD"),
        *(f"rack/burn/{ref}" for ref in "BC"),
        *(f"rack/failures/{ref}" for ref in "ABC"),
        "rack/budget/A",
        "rack/time-by-verdict/A",
    }
)
"""What looks back for hours and days: absent while its counter is younger (docs/rules.md)."""
_NO_BIT_ERRORS = frozenset({"nvlink/errors/B", "nvlink/effective-ber/B", "nvlink/symbol-ber/B"})
"""GPUs with errors on links: simulated links have none."""
_OTHER_PLATFORMS = frozenset(f"tokens/published/R{number}" for number in (2, 3, 5, 6, 7, 8, 9))
"""Published figures of platforms and conditions that these racks do not match."""
_NO_WEEK = frozenset({"tokens/usual/B"})
"""The usual is that of seven days, four of which must be known (docs/rules.md)."""
_BLANK = frozenset(
    {
        *(f"tokens/{which}-cost/A" for which in ("energy", "all_in")),
        "tokens/first-token/A",
        "tokens/joules-per-token/A",
        "tokens/ranking-models/A",
        "tokens/ranking-racks/A",
        "tokens/tokens-per-joule/A",
    }
)
"""Newest figures of efficiency: at the end of the hour of faults less than 95 % of endpoints is known."""

EMPTY: Mapping[str, frozenset[str]] = {
    "normal": _NOTHING_IS_WRONG | _DAYS_ARE_UNKNOWN | _NO_BIT_ERRORS | _OTHER_PLATFORMS | _NO_WEEK,
    "faults": _BLANK | _NO_BIT_ERRORS | _OTHER_PLATFORMS | _NO_WEEK,
}
"""Queries that must answer nothing; all others must answer something."""

VIEWS: Mapping[str, View] = {
    "cluster": View(chosen={"cluster": "east"}),
    "rack": View(chosen={"rack": "r01"}),
    "node": View(chosen={"node": "n10"}),
    "gpu": View(chosen={"gpu": "5"}),
    "all four": View(chosen={"cluster": "west", "rack": "r01", "node": "n07", "gpu": "1"}),
}
"""Each variable at one value."""

_OF_THE_WHOLE_NODE = frozenset({"node/failed-checks/A", "node/failed-checks/B", "node/alerts/A"})
"""What is wrong with a node is said whichever of its GPUs is looked at."""
_JOINED = frozenset({"nvlink/node-by-link/A"})
"""Its label `node` is rack and node."""
_SILENT_SECONDS = 110
"""When a silence of n12, which lasts 120 s, is looked at: a value holds for 35 s, and what is
recorded of it for 65 s more."""


def _is_finite(answers: tuple[Answered, ...]) -> bool:
    return all(math.isfinite(value) for each in answers for value in each.values)


def _series(answers: tuple[Answered, ...]) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(each.labels.items()) for each in answers}


@pytest.mark.parametrize("view", [ALL, *VIEWS.values()], ids=("all", *VIEWS))
def test_every_query_is_promql(view: View) -> None:
    for query in QUERIES.values():
        promql_parser.parse(written(query.target.expr, query.board, view))
    for board in BOARDS:
        for annotation in board.annotations:
            promql_parser.parse(written(annotation.expr, board, view))


def test_every_rule_is_promql() -> None:
    for rule in shipped_rules():
        promql_parser.parse(rule.expression)


@pytest.mark.parametrize("name", EMPTY)
def test_queries_have_data_where_they_should_and_nowhere_else(hours: dict[str, Hour], name: str) -> None:
    answers = {query: hours[name].ask(query) for query in QUERIES}
    assert {query for query, found in answers.items() if not found} == EMPTY[name]
    assert [query for query, found in answers.items() if not _is_finite(found)] == []


def test_every_empty_query_exists() -> None:
    assert frozenset().union(*EMPTY.values(), _OF_THE_WHOLE_NODE, _JOINED) <= QUERIES.keys()


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_variable_narrows_a_board_and_loses_nothing(hours: dict[str, Hour], view: View) -> None:
    hour = hours["faults"]
    for name, query in QUERIES.items():
        mine = {key: value for key, value in view.chosen.items() if key in matched_by(query.board.variables)}
        if not mine:
            continue
        everything, narrowed = hour.ask(name), hour.ask(name, View(chosen=mine))
        assert _is_finite(narrowed), name
        if name in _JOINED:
            continue
        wanted = tuple(each for each in everything if mine.items() <= each.labels.items())
        assert _series(wanted) <= _series(narrowed), name
        if name not in _OF_THE_WHOLE_NODE:
            strangers = [
                each
                for each in narrowed
                if any(each.labels.get(key, value) != value for key, value in mine.items())
            ]
            assert strangers == [], name


def test_the_map_of_links_is_narrowed_too(hours: dict[str, Hour]) -> None:
    found = hours["faults"].ask("nvlink/node-by-link/A", View(chosen={"rack": "r01", "node": "n10"}))
    assert {each.labels["node"] for each in found} == {"r01 n10"}
    # A GB300 has 18 links (its profile).
    assert {each.labels["link"] for each in found} == {f"{link:02d}" for link in range(18)}


CHOICES: Mapping[str, Mapping[str, list[str]]] = {
    "normal": {"cluster": [], "rack": ["r01", "r02"], "node": ["h01", "n01", "n02"], "gpu": list("01234567")},
    "faults": {
        "cluster": ["east", "west"],
        "rack": ["r01", "r02"],
        "node": ["h02", "n03", "n07", "n10", "n12"],
        "gpu": list("01234567"),
    },
}
"""What variables offer at All: without an external label there is no cluster to choose."""


def _offers(hour: Hour, board: Board, view: View) -> dict[str, list[str]]:
    found = {}
    for variable in board.variables:
        if isinstance(variable, QueryVariable):
            prefix, suffix = "label_values(", f", {variable.name})"
            query = written(variable.query, board, view)
            assert query.startswith(prefix)
            assert query.endswith(suffix)
            selector = query.removeprefix(prefix).removesuffix(suffix)
            values = hour.prometheus.label_values(variable.name, selector, BEGIN_SECONDS, END_SECONDS)
            found[variable.name] = values
    return found


@pytest.mark.parametrize("name", CHOICES)
def test_variables_offer_what_there_is(hours: dict[str, Hour], name: str) -> None:
    for board in BOARDS:
        offered = _offers(hours[name], board, ALL)
        assert offered == {variable: CHOICES[name][variable] for variable in matched_by(board.variables)}


def test_variables_narrow_those_after_them(hours: dict[str, Hour]) -> None:
    (board,) = [board for board in BOARDS if board.identity.value == "node"]
    offered = _offers(hours["faults"], board, View(chosen={"cluster": "west", "node": "n07"}))
    # The GPU that is lost is offered, too.
    assert offered["rack"] == ["r01"]
    assert offered["node"] == ["n03", "n07", "n10", "n12"]
    assert offered["gpu"] == ["0", "1", "2", "3"]


def test_every_recording_rule_has_recorded(hours: dict[str, Hour]) -> None:
    silent = {}
    for name, hour in hours.items():
        asked = {
            rule.name: hour.prometheus.between(rule.name, BEGIN_SECONDS, END_SECONDS, 30)
            for rule in shipped_rules()
            if not rule.is_alert
        }
        assert [rule for rule, found in asked.items() if not _is_finite(found)] == []
        silent[name] = {rule for rule, found in asked.items() if not found}
    # What is usual is that of seven days, four of which must be known (docs/rules.md).
    of_days = {rule for rule in silent["faults"] if rule.endswith("_median7d")}
    assert silent["faults"] == of_days
    assert len(of_days) == 2
    # Windows that are longer than the history; and what goes wrong has no series until it did.
    of_windows = {rule for rule in silent["normal"] if rule.endswith(("6h", "1d", "3d", "7d", "30d"))}
    assert silent["normal"] - of_days - of_windows == {
        "rack_node_check_impact:check_failed:max",
        "rack_node_gpu_class:xids:increase10m",
        "rack_node_gpu_xid:xids:increase10m",
    }


def test_annotations_mark_the_hour_of_faults_alone(hours: dict[str, Hour]) -> None:
    marked = {
        name: {
            f"{board.identity.value}: {annotation.name}"
            for board in BOARDS
            for annotation in board.annotations
            if hour.prometheus.between(
                written(annotation.expr, board, ALL), BEGIN_SECONDS, END_SECONDS, SCRAPE_SECONDS
            )
        }
        for name, hour in hours.items()
    }
    assert marked["normal"] == set()
    # The story makes no rack UNAVAILABLE.
    assert marked["faults"] == {
        "rack: Incidents",
        "rack: Fatal Xids",
        "rack: Maintenance",
        "nvlink: Failed recoveries",
        "node: Fatal Xids",
        "node: Node not READY",
    }


def test_a_silent_node_shows_nothing_old(hours: dict[str, Hour]) -> None:
    """Look at n12 while it is silent: what it last said is nowhere, and that it is silent is said."""
    hour = hours["faults"]
    # It begins 150 s after the story, and again each 300 s (collector/cli/demonstration/story.py).
    end = BEGIN_SECONDS + STORY_SECONDS + 150 + 2 * 300 + _SILENT_SECONDS
    view = View(chosen={"node": "n12"}, end_seconds=end)
    (board,) = [board for board in BOARDS if board.identity.value == "node"]
    full = {
        query.name
        for query in queries_of(board)
        if query.target.instant and ask(query, view, hour.prometheus)
    }
    # What was used over the whole range stays; that it does not answer is a check of the rack service.
    assert full == {"node/gpu-energy/A", "node/failed-checks/A"}
    (failing,) = ask(QUERIES["node/failed-checks/A"], view, hour.prometheus)
    assert failing.labels["check"] == "poll"


@pytest.mark.parametrize("board", BOARDS, ids=[board.identity.value for board in BOARDS])
def test_every_board_can_be_drawn(hours: dict[str, Hour], board: Board, tmp_path: Path) -> None:
    path = tmp_path / "board.png"
    draw(board, DRAWN[board.identity], hours["faults"].prometheus).save(path)
    assert path.stat().st_size > 10_000
