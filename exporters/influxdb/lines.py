"""Snapshots as InfluxDB line protocol, by the schema that derives from the catalogue.

Names, tags and types are prepared once a series table; only values are written anew. A point has the time of
its Snapshot, so the same bytes sent twice are one point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from collector.catalog.spec import Metric
from collector.model import HistogramSample, SeriesTable, Snapshot
from exporters.finite import finite_histograms
from exporters.influxdb.events import EventWriter
from exporters.influxdb.fields import (
    Field,
    FlagField,
    FloatField,
    HistogramFields,
    IntegerField,
    TextsField,
    WordField,
)
from exporters.influxdb.schema import Form, Rule, field_key, prefix, rule_of
from exporters.influxdb.selection import DueTimes, Selection
from exporters.prometheus_histograms import Shape, shape

_Node = tuple[str, str]
_Member = tuple[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Lines:
    """What one Snapshot becomes.

    Attributes:
        payload: The lines, each with its newline; no other newline is in it.
        points: How many lines.
        time_ns: Time of the Snapshot, nanoseconds of Unix time.
    """

    payload: bytes
    points: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class _Line:
    """A line but for its values: its fields by how often they are written."""

    prefix: str
    fields: Mapping[float, Sequence[Field]]


@dataclass(frozen=True, slots=True)
class _Histogram:
    """A histogram but for its numbers."""

    prefix: str
    period_seconds: float
    fields: HistogramFields


class LineWriter:
    """Writes the Snapshots of one process, in order, and each of its events once.

    Not thread-safe: it belongs to one event loop.
    """

    def __init__(self, selection: Selection) -> None:
        """Begin with everything due.

        Args:
            selection: What is written, and how often.
        """
        self._selection = selection
        self._due = DueTimes()
        self._events = EventWriter()
        self._key = ("", "", "")
        self._lines: tuple[_Line, ...] = ()
        self._periods: frozenset[float] = frozenset()
        self._histograms: dict[Shape, _Histogram | None] = {}

    def write(self, snapshot: Snapshot) -> Lines:
        """Write what is due of a Snapshot, and its events that were not written yet.

        A value that is absent, not finite, or not of its row's type is left out; a line without any field is,
        too. There may be nothing to write: then `points` is 0.
        """
        self._prepare(snapshot)
        samples = self._chosen_histograms(snapshot)
        periods = self._periods.union(histogram.period_seconds for histogram, _ in samples)
        due = self._due.due(periods, snapshot.time_ns)
        texts = self._fields(snapshot, due)
        for histogram, sample in samples:
            if histogram.period_seconds in due:
                texts.setdefault(histogram.prefix, []).append(histogram.fields.write(sample))
        end = f" {snapshot.time_ns}\n"
        lines = [f"{start} {','.join(fields)}{end}" for start, fields in texts.items()]
        if self._selection.events:
            lines += self._events.write(snapshot)
        return Lines("".join(lines).encode(), len(lines), snapshot.time_ns)

    def _fields(self, snapshot: Snapshot, due: frozenset[float]) -> dict[str, list[str]]:
        """Write the fields that are due, by what their line begins with."""
        values = snapshot.values
        found: dict[str, list[str]] = {}
        for line in self._lines:
            texts = [
                text
                for period, fields in line.fields.items()
                if period in due
                for field in fields
                if (text := field.write(values)) is not None
            ]
            if texts:
                found[line.prefix] = texts
        return found

    def _chosen_histograms(self, snapshot: Snapshot) -> list[tuple[_Histogram, HistogramSample]]:
        """Return the histograms that are written, with what is prepared for them; forget the others."""
        prepared: dict[Shape, _Histogram | None] = {}
        chosen: list[tuple[_Histogram, HistogramSample]] = []
        for sample in finite_histograms(snapshot.histograms):
            key = shape(sample)
            histogram = self._histograms[key] if key in self._histograms else self._histogram(sample)
            prepared[key] = histogram
            if histogram is not None:
                chosen.append((histogram, sample))
        self._histograms = prepared
        return chosen

    def _histogram(self, sample: HistogramSample) -> _Histogram | None:
        metric = sample.metric
        if not self._selection.includes(metric):
            return None
        rule = rule_of(metric)
        return _Histogram(
            prefix(rule, _named(metric, sample.labels, self._key[1:])),
            self._selection.period_seconds(metric),
            HistogramFields(rule.field, sample.bounds),
        )

    def _prepare(self, snapshot: Snapshot) -> None:
        key = (snapshot.table.digest, snapshot.rack, snapshot.node)
        if key != self._key:
            self._key = key
            self._lines = tuple(_prepared(snapshot.table, key[1:], self._selection))
            self._periods = frozenset(period for line in self._lines for period in line.fields)
            self._histograms = {}


def _prepared(table: SeriesTable, node: _Node, selection: Selection) -> Iterator[_Line]:
    """Sort the series of a table into lines, and those of each line into fields."""
    lines: dict[str, dict[float, dict[str, tuple[Rule, list[_Member]]]]] = {}
    start = 0
    for metric, group in groupby(table.series, key=lambda entry: entry.metric):
        members = [_named(metric, entry.labels, node) for entry in group]
        places = range(start, start + len(members))
        start += len(members)
        if not selection.includes(metric):
            continue
        rule, period = rule_of(metric), selection.period_seconds(metric)
        for place, labels in zip(places, members, strict=True):
            fields = lines.setdefault(prefix(rule, labels), {}).setdefault(period, {})
            fields.setdefault(field_key(rule, labels), (rule, []))[1].append((place, labels))
    for start_of_line, by_period in lines.items():
        yield _Line(
            start_of_line,
            {
                period: tuple(_field(key, *fields[key]) for key in fields)
                for period, fields in by_period.items()
            },
        )


def _named(metric: Metric, labels: tuple[str, ...], node: _Node) -> Mapping[str, str]:
    """Put names to the labels of a series, rack and node among them where it has them from its node."""
    implied = metric.entity.implied_keys
    return dict(zip((*implied, *metric.label_names), (*(node if implied else ()), *labels), strict=True))


def _field(key: str, rule: Rule, members: Sequence[_Member]) -> Field:
    """Prepare a field of the series that it is made of."""
    place, labels = members[-1]
    if rule.form is Form.FLAG:
        return FlagField(key, [place for place, _ in members])
    if rule.form is Form.WORD:
        return WordField(key, [(place, labels[rule.word]) for place, labels in members])
    if rule.form is Form.TEXTS:
        return TextsField(key, place, [(name, labels[name]) for name in rule.texts])
    return IntegerField(key, place) if rule.form is Form.INTEGER else FloatField(key, place)
