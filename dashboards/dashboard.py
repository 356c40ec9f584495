"""A board: what its author writes, before it becomes Grafana's JSON."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.identities import BoardId
from dashboards.layout import Section
from dashboards.panels.palette import Colour
from dashboards.variables import Variable

REFRESH = "30s"
"""How often a board asks anew (chosen): Prometheus commonly scrapes every 15 s to 60 s."""

TIMEZONE = "utc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Marks in all time series of a board.

    Attributes:
        name: What the switch above the board says.
        expr: PromQL; a mark stands wherever it has a value.
        title: Text of a mark, with labels in double braces.
        text: Further text.
        colour: Colour of the marks.
        enabled: Whether they show from the beginning.
    """

    name: str
    expr: str
    title: str
    text: str = ""
    colour: Colour
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard.

    Attributes:
        identity: Which one it is; fixes uid and title.
        description: What it answers, in a sentence or two.
        variables: Its variables, in order: `variables.down_to(variables.NODE)`.
        sections: Its panels.
        annotations: Marks in its time series.
        time_from: Where its time range starts, as Grafana writes it.
    """

    identity: BoardId
    description: str
    variables: tuple[Variable, ...]
    sections: tuple[Section, ...]
    annotations: tuple[Annotation, ...] = ()
    time_from: str = "now-1h"
