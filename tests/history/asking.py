"""What a Grafana would ask: queries of boards with variables and time ranges in place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dashboards.dashboard import Board
from dashboards.layout import Section
from dashboards.panels import DataPanel, Panel, StatusHistory, Target
from dashboards.panels.target_json import named
from dashboards.variables import ALL_VALUE, CustomVariable, QueryVariable
from tests.history.plans import HOUR_SECONDS
from tests.history.prometheus import Answered, Prometheus
from tests.history.simulate import END_SECONDS
from tests.history.tray import SCRAPE_SECONDS

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::\w+)?\}|(?P<plain>\w+))")
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class View:
    """What somebody looks at.

    Attributes:
        chosen: Values of variables; those that are missing are at All, or at their first value.
        end_seconds: Unix time of the end of the time range.
        range_seconds: Its length.
        step_seconds: Distance of points; a scrape interval at least.
    """

    chosen: Mapping[str, str] = field(default_factory=dict)
    end_seconds: int = END_SECONDS
    range_seconds: int = HOUR_SECONDS
    step_seconds: int = SCRAPE_SECONDS


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel.

    Attributes:
        board: The board.
        panel: The panel.
        ref_id: The target's name within the panel.
        target: The target.
    """

    board: Board
    panel: DataPanel
    ref_id: str
    target: Target

    @property
    def name(self) -> str:
        """What tests call it."""
        return f"{self.board.identity.value}/{self.panel.key}/{self.ref_id}"


def queries_of(board: Board) -> Iterator[Query]:
    """Yield the queries of a board, those of folded sections, too."""
    for panel in panels_of(board.sections):
        if isinstance(panel, DataPanel):
            for ref_id, target in named(panel.targets):
                yield Query(board, panel, ref_id, target)


def panels_of(sections: tuple[Section, ...]) -> Iterator[Panel]:
    """Yield all panels of sections."""
    for section in sections:
        yield from section.panels


def written(expression: str, board: Board, view: View, step_seconds: int | None = None) -> str:
    """Put variables and time into a query, as Grafana does.

    Raises:
        KeyError: There is no such variable.
    """
    step = step_seconds or view.step_seconds
    known = {
        # Grafana's documentation, "Prometheus template variables": at least four scrapes.
        "__rate_interval": f"{max(step + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS)}s",
        "__interval": f"{step}s",
        "__range": f"{view.range_seconds}s",
    }
    for variable in board.variables:
        if isinstance(variable, QueryVariable):
            known[variable.name] = (
                re.escape(chosen) if (chosen := view.chosen.get(variable.name)) else ALL_VALUE
            )
        elif isinstance(variable, CustomVariable):
            known[variable.name] = view.chosen.get(variable.name, variable.values[0])

    def value(match: re.Match[str]) -> str:
        return known[match["braced"] or match["plain"]]

    # "$1" stands in label_replace, not for a variable.
    return re.sub(r"\$(?!\d)" + _VARIABLE.pattern.removeprefix(r"\$"), value, expression)


def step_of(panel: DataPanel, target: Target, view: View) -> int:
    """Return the distance of points of a target."""
    least = int(target.interval[:-1]) * _UNITS[target.interval[-1]] if target.interval else 0
    most = panel.most_points if isinstance(panel, StatusHistory) else view.range_seconds
    return max(least, view.step_seconds, -(-view.range_seconds // most))


def ask(query: Query, view: View, prometheus: Prometheus) -> tuple[Answered, ...]:
    """Ask a query of a panel: the newest values, or all of the time range."""
    step = step_of(query.panel, query.target, view)
    expression = written(query.target.expr, query.board, view, step)
    if query.target.instant:
        return prometheus.at(expression, view.end_seconds)
    return prometheus.between(expression, view.end_seconds - view.range_seconds, view.end_seconds, step)
