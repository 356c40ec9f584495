"""Answers as panels see them: series with names, and tables after their transformations, as in Grafana."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dashboards.dashboard import Board
from dashboards.panels import (
    DataPanel,
    Format,
    GroupingToMatrix,
    Merge,
    Organize,
    SortBy,
    Transformation,
)
from dashboards.panels.target_json import named
from tests.history.asking import Query, View, ask
from tests.history.prometheus import Answered, Prometheus

Value = float | str | None
Row = dict[str, Value]

_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class NamedSeries:
    """A series with its name.

    Attributes:
        name: As the legend has it.
        ref_id: The target that brought it.
        answer: The series.
    """

    name: str
    ref_id: str
    answer: Answered


@dataclass(frozen=True, slots=True)
class Rows:
    """A table.

    Attributes:
        columns: Names of its columns, in order.
        rows: Its rows; what is missing in one is None.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Source:
    """Asks what a panel asks, each query once."""

    def __init__(self, board: Board, view: View, prometheus: Prometheus) -> None:
        """Ask nothing yet.

        Args:
            board: The board.
            view: What is looked at.
            prometheus: Who is asked.
        """
        self.view = view
        self._board = board
        self._prometheus = prometheus

    def _answers(self, panel: DataPanel) -> Iterable[tuple[Query, tuple[Answered, ...]]]:
        for ref_id, target in named(panel.targets):
            query = Query(self._board, panel, ref_id, target)
            yield query, ask(query, self.view, self._prometheus)

    def series(self, panel: DataPanel) -> list[NamedSeries]:
        """Return the series of a panel, in the order of its targets."""
        return [
            NamedSeries(_name(query.target.legend, each), query.ref_id, each)
            for query, answers in self._answers(panel)
            for each in sorted(answers, key=lambda answer: _natural(_name(query.target.legend, answer)))
        ]

    def table(self, panel: DataPanel) -> Rows:
        """Return the one table that the transformations of a panel make of its answers."""
        answered = [(query, answers) for query, answers in self._answers(panel) if answers]
        frames = []
        for query, answers in answered:
            assert query.target.format is Format.TABLE
            # Grafana says of which query a value is only where there is more than one.
            value = f"Value #{query.ref_id}" if len(answered) > 1 else "Value"
            frames.append(_rows(answers, value))
        return transformed(frames, panel.transformations)


def _name(legend: str, answer: Answered) -> str:
    if legend:
        return _LABEL.sub(lambda match: answer.labels.get(match[1], ""), legend)
    labels = {key: value for key, value in answer.labels.items() if key != "__name__"}
    return " ".join(labels.values()) or "value"


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part or 0), word) for word, part in re.findall(r"(\D*)(\d*)", text)]


def _rows(answers: Sequence[Answered], value_name: str) -> Rows:
    labels = sorted({name for each in answers for name in each.labels})
    rows = tuple(
        {"Time": time, **{name: each.labels.get(name) for name in labels}, value_name: value}
        for each in answers
        for time, value in zip(each.times, each.values, strict=True)
    )
    return Rows(("Time", *labels, value_name), rows)


def _merge(frames: list[Rows], _: Transformation) -> list[Rows]:
    """Make one table: rows that agree in what all tables have become one, where nothing contradicts."""
    if not frames:
        return []
    common = [name for name in frames[0].columns if all(name in frame.columns for frame in frames)]
    columns = tuple(dict.fromkeys(name for frame in frames for name in frame.columns))
    merged: dict[tuple[Value, ...], list[Row]] = {}
    for frame in frames:
        for row in frame.rows:
            alike = merged.setdefault(tuple(row[name] for name in common), [])
            for other in alike:
                if all(other.get(name) in (None, value) for name, value in row.items()):
                    other.update(row)
                    break
            else:
                alike.append(dict(row))
    rows = (row for alike in merged.values() for row in alike)
    return [Rows(columns, tuple({name: row.get(name) for name in columns} for row in rows))]


def _organize(frames: list[Rows], step: Transformation) -> list[Rows]:
    assert isinstance(step, Organize)
    headings = dict(step.columns)
    organized = []
    for frame in frames:
        first = [name for name, _ in step.columns if name in frame.columns]
        kept = [*first, *(name for name in frame.columns if name not in headings)]
        kept = [name for name in kept if name not in step.dropped]
        columns = tuple(headings.get(name, name) for name in kept)
        rows = tuple(
            {heading: row[name] for heading, name in zip(columns, kept, strict=True)} for row in frame.rows
        )
        organized.append(Rows(columns, rows))
    return organized


def _sort_by(frames: list[Rows], step: Transformation) -> list[Rows]:
    assert isinstance(step, SortBy)
    return [sorted_by(frame, step.field, descending=step.descending) for frame in frames]


def _matrix(frames: list[Rows], step: Transformation) -> list[Rows]:
    assert isinstance(step, GroupingToMatrix)
    made = []
    for frame in frames:
        across = tuple(dict.fromkeys(str(row[step.across]) for row in frame.rows))
        corner = f"{step.down}\\{step.across}"
        rows: dict[str, Row] = {}
        for row in frame.rows:
            down = str(row[step.down])
            own = rows.setdefault(down, {corner: down, **dict.fromkeys(across)})
            own[str(row[step.across])] = row[step.value]
        made.append(Rows((corner, *across), tuple(rows.values())))
    return made


_TRANSFORMATIONS: dict[type[Transformation], Callable[[list[Rows], Transformation], list[Rows]]] = {
    Merge: _merge,
    Organize: _organize,
    SortBy: _sort_by,
    GroupingToMatrix: _matrix,
}


def transformed(frames: list[Rows], steps: Iterable[Transformation]) -> Rows:
    """Make one table of several, which transformations must have made of them."""
    for step in steps:
        frames = _TRANSFORMATIONS[type(step)](frames, step)
    assert len(frames) <= 1
    return frames[0] if frames else Rows((), ())


def sorted_by(table: Rows, column: str, *, descending: bool) -> Rows:
    """Order the rows of a table by a column; those without a value come last."""
    if column not in table.columns:
        return table

    def key(row: Row) -> tuple[float, list[tuple[int, str]]]:
        value = row[column]
        return (float(value), []) if isinstance(value, float | int) else (0.0, _natural(str(value)))

    known = [row for row in table.rows if row[column] is not None]
    unknown = [row for row in table.rows if row[column] is None]
    return Rows(table.columns, (*sorted(known, key=key, reverse=descending), *unknown))
