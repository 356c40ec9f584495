"""Whatever texts and values a Snapshot holds, its lines read back as its samples."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from collector.catalog.spec import Metric
from collector.model import Event, Snapshot, Value
from exporters.influxdb.escaping import string_field, tag_text
from exporters.influxdb.fields import float_text
from exporters.influxdb.lines import LineWriter
from exporters.influxdb.schema import Form, field_key, rule_of
from exporters.influxdb.selection import Selection
from exporters.prometheus_histograms import bound_text
from tests.exporter_snapshots import EMPTY
from tests.line_protocol import FieldValue, Point, parse
from tests.property.test_exposition import HOSTILE, readable, snapshots

Key = tuple[str, frozenset[tuple[str, str]], str]
"""Measurement, tags and field, as they were meant."""

_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")


def written(snapshot: Snapshot) -> list[Point]:
    lines = LineWriter(Selection()).write(snapshot)
    found = parse(lines.payload)
    assert len(found) == lines.points
    return found


def meant(points: list[Point]) -> dict[Key, FieldValue]:
    found: dict[Key, FieldValue] = {}
    for point in points:
        tags = frozenset((name, unquote(value)) for name, value in point.tags)
        for name, value in point.fields:
            key = (point.measurement, tags, unquote(name))
            assert key not in found
            found[key] = value
    return found


def labels_of(snapshot: Snapshot, metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    names = (*metric.entity.implied_keys, *metric.label_names)
    node = (snapshot.rack, snapshot.node) if metric.entity.implied_keys else ()
    return dict(zip(names, readable((*node, *labels)), strict=True))


def expected(snapshot: Snapshot) -> dict[Key, FieldValue]:
    found: dict[Key, FieldValue] = {}
    words: dict[Key, list[str]] = {}
    flags: dict[Key, bool] = {}
    identities: dict[tuple[str, frozenset[tuple[str, str]]], dict[str, str]] = {}
    for entry, value in zip(snapshot.table.series, snapshot.values, strict=True):
        rule = rule_of(entry.metric)
        labels = labels_of(snapshot, entry.metric, entry.labels)
        tags = frozenset((name, labels[name]) for name in rule.tags if labels[name])
        key = (rule.measurement, tags, field_key(rule, labels))
        if rule.form is Form.TEXTS:  # Of two identities of one subject the last counts.
            texts = {name: labels[name].translate(_CONTROLS) if value else "" for name in rule.texts}
            identities[rule.measurement, tags] = texts
        elif value is None:
            continue
        elif rule.form is Form.WORD:
            words.setdefault(key, []).extend([labels[rule.word]] if value else [])
        elif rule.form is Form.FLAG:
            flags[key] = flags.get(key, False) or bool(value)
        else:
            found[key] = number(rule.form, value)
    for histogram in snapshot.histograms:
        rule = rule_of(histogram.metric)
        labels = labels_of(snapshot, histogram.metric, histogram.labels)
        tags = frozenset((name, labels[name]) for name in rule.tags if labels[name])
        for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
            found[rule.measurement, tags, f"{rule.field}_le_{bound_text(bound)}"] = float(count)
        found[rule.measurement, tags, f"{rule.field}_count"] = float(histogram.counts[-1])
        found[rule.measurement, tags, f"{rule.field}_sum"] = float(histogram.sum)
    for (measurement, tags), texts in identities.items():
        found |= {(measurement, tags, f"info_{name}"): text for name, text in texts.items() if text}
    for key, held in words.items():
        if len(held) == 1:
            found[key] = held[0].upper().translate(_CONTROLS)
    return found | flags


def number(form: Form, value: Value) -> Value:
    return int(value) if form is Form.INTEGER else float(value)


@given(snapshots())
def test_lines_read_back_as_the_samples(snapshot: Snapshot) -> None:
    points = written(snapshot)
    found = meant(points)
    assert found == expected(snapshot)
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in expected(snapshot).items()
    }
    assert {point.time_ns for point in points} <= {snapshot.time_ns}
    # No two lines are one point: what is sent is what is there.
    assert len({(point.measurement, point.tags) for point in points}) == len(points)


@given(st.lists(snapshots(), min_size=2, max_size=4))
def test_a_writer_that_remembers_writes_what_a_new_one_writes(history: list[Snapshot]) -> None:
    writer = LineWriter(Selection())
    for number_of, snapshot in enumerate(history):
        own = replace(snapshot, time_ns=10**18 + number_of * 10**13)  # all is due
        assert writer.write(own).payload == LineWriter(Selection()).write(own).payload


@given(HOSTILE)
def test_a_tag_comes_back_and_a_line_stays_one_line(text: str) -> None:
    point = f"m,tag=x{tag_text(text)} field=1.0 1\n"
    (found,) = parse(point.encode())
    assert "x" + readable((text,))[0] == unquote(found.labels["tag"])
    assert point.count("\n") == 1
    # InfluxDB's models.ValidKeyToken: printable, and no replacement character.
    assert tag_text(text).isprintable()
    assert "\N{REPLACEMENT CHARACTER}" not in tag_text(text)
    # Nothing that servers read differently: no backslash but before a separator.
    assert all(after in ",= " for before, after in pairwise(tag_text(text)) if before == "\\")


@given(HOSTILE, HOSTILE)
def test_two_texts_are_never_one_tag(one: str, other: str) -> None:
    assert (tag_text(one) == tag_text(other)) == (readable((one,)) == readable((other,)))


@given(HOSTILE)
def test_a_string_comes_back_but_for_its_controls(text: str) -> None:
    line = f"m field={string_field(text)} 1\n"
    (found,) = parse(line.encode())
    assert found.fields == (("field", readable((text,))[0].translate(_CONTROLS)),)
    assert line.count("\n") == 1


EVENTS = st.builds(
    Event,
    cursor=st.just(0),
    time_ns=st.integers(1, 3),
    kind=st.sampled_from(("xid", "gpu_lost")),
    gpu_uuid=st.sampled_from(("", "GPU-a", "GPU-b")),
    gpu=st.just("0"),
    code=st.none() | st.integers(0, 200),
    severity=HOSTILE,
    detail=HOSTILE,
)


@given(st.lists(EVENTS, max_size=12), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12))))
def test_each_event_is_one_point_of_its_own(events: list[Event], windows: list[tuple[int, int]]) -> None:
    numbered = tuple(replace(event, cursor=place) for place, event in enumerate(events, 1))
    writer = LineWriter(Selection())
    found: list[Point] = []
    seen = 0
    for first, last in (*sorted(windows, key=lambda window: window[1]), (0, len(numbered))):
        # A Snapshot has the newest events up to some moment, and none that was not seen is left out.
        shown = numbered[min(first, seen) : last]
        found += parse(writer.write(replace(EMPTY, events=shown)).payload)
        seen = max(seen, min(last, len(numbered)))
    cursors = [int(dict(point.fields)["cursor"]) for point in found]
    assert cursors == [event.cursor for event in numbered]
    assert [point.time_ns for point in found] == [event.time_ns for event in numbered]
    assert len({(point.tags, point.time_ns) for point in found}) == len(found)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_as_itself(value: float) -> None:
    text = float_text(value)
    assert text is not None
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert float(text) == value
    assert set(text) & set(".e")
