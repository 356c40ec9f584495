"""The schema that the catalogue gives line protocol: one rule a row, and the values of `/metrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.catalog.spec import Encoding, Kind, Metric, ValueType
from collector.model import HistogramSample, Series, Snapshot, Value
from exporters.influxdb.lines import LineWriter
from exporters.influxdb.schema import Form, field_key, rule_of
from exporters.influxdb.selection import Selection
from exporters.prometheus import Renderer, TextFormat
from tests.exporter_snapshots import EMPTY, snapshot_of
from tests.influx_snapshots import ROWS, labels_of, whole_node, whole_rack
from tests.line_protocol import FieldValue, Point, parse


def points(snapshot: Snapshot) -> list[Point]:
    return parse(LineWriter(Selection()).write(snapshot).payload)


FORMS = {
    Form.INTEGER: int,
    Form.FLOAT: float,
    Form.FLAG: bool,
    Form.WORD: str,
    Form.TEXTS: str,
    Form.HISTOGRAM: float,
}


def fields_of(metric: Metric) -> Iterator[str]:
    """Yield the names of a row's fields, but for the bounds of histograms."""
    rule = rule_of(metric)
    for labels in labels_of(metric):
        key = field_key(rule, labels)
        if rule.form is Form.TEXTS:
            yield from (f"{key}_{name}" for name in rule.texts)
        elif rule.form is Form.HISTOGRAM:
            yield from (f"{key}_count", f"{key}_sum", f"{key}_le_0.5")
        else:
            yield key


def test_no_two_rows_share_a_field() -> None:
    found = Counter((rule_of(metric).measurement, name) for metric in ROWS for name in set(fields_of(metric)))
    assert [key for key, count in found.items() if count > 1] == []


def test_no_field_is_called_as_a_tag_of_its_measurement() -> None:
    tags = {(rule_of(metric).measurement, tag) for metric in ROWS for tag in rule_of(metric).tags}
    assert not tags & {(rule_of(metric).measurement, name) for metric in ROWS for name in fields_of(metric)}
    assert not {"time", "_field", "_measurement"} & {name for metric in ROWS for name in fields_of(metric)}


@pytest.mark.parametrize("metric", ROWS, ids=lambda metric: metric.name)
def test_every_row_has_one_rule(metric: Metric) -> None:
    rule = rule_of(metric)
    # Each label has one place: tag, part of the field's name, word or text; a check implies its impact.
    places = [*rule.tags, *rule.suffixes, *rule.texts, *([rule.word] if rule.word else [])]
    labels = [*metric.entity.implied_keys, *metric.label_names]
    assert sorted(places) == sorted(label for label in labels if label != "impact")
    assert metric.name.removesuffix("_total") == f"{metric.entity.value.split('_')[0]}_{rule.field}"
    assert list(rule.tags) == sorted(rule.tags)


@pytest.mark.parametrize("metric", ROWS, ids=lambda metric: metric.name)
def test_the_form_follows_from_the_kind(metric: Metric) -> None:
    one_hot = metric.codes is not None and metric.codes.encoding is Encoding.ONE_HOT
    words = {"rack_node_state", "rack_verdict", "rack_domain_state", "agent_influxdb_sender_state"}
    expected = {
        Kind.GAUGE: Form.INTEGER if metric.value_type is ValueType.INT else Form.FLOAT,
        Kind.COUNTER: Form.INTEGER if metric.value_type is ValueType.INT else Form.FLOAT,
        Kind.HISTOGRAM: Form.HISTOGRAM,
        Kind.STATE: Form.WORD if one_hot or metric.name in words else Form.FLAG,
        Kind.INFO: Form.INTEGER if metric.name == "llm_gpu_info" else Form.TEXTS,
    }[metric.kind]
    assert rule_of(metric).form is expected


@pytest.mark.parametrize("metric", ROWS, ids=lambda metric: metric.name)
@pytest.mark.parametrize("value", [1, 1.0])
def test_the_type_does_not_depend_on_the_value(metric: Metric, value: Value) -> None:
    labels = tuple(next(labels_of(metric))[name] for name in metric.label_names)
    if metric.kind is Kind.HISTOGRAM:
        snapshot = replace(EMPTY, histograms=(HistogramSample(metric, labels, (1.0,), (1, value), value),))
    else:
        snapshot = snapshot_of((Series(metric, labels), value))
    (point,) = points(snapshot)
    assert {type(found) for _, found in point.fields} == {FORMS[rule_of(metric).form]}


def flat(snapshot: Snapshot) -> dict[tuple[str, frozenset[tuple[str, str]], str], FieldValue]:
    found = {}
    for point in points(snapshot):
        assert point.time_ns == snapshot.time_ns
        for name, value in point.fields:
            key = (point.measurement, frozenset(point.tags), name)
            assert key not in found
            found[key] = value
    return found


WORDS = {"recovery_action": "action", "fabric_state": "state"} | {
    "node_state": "state",
    "verdict": "verdict",
    "domain_state": "state",
    "influxdb_sender_state": "state",
}
INFO_MEASUREMENTS = {"gpu_info", "node_info"}


def field_names(measurement: str, field: str, labels: dict[str, str]) -> str:
    """Name a field as CONTRACTS §7 has it, from a series on `/metrics`; its labels leave `labels`."""
    suffixes: tuple[str, ...] = (
        "reason",
        "cause",
        "xid",
        "condition",
        "outcome",
        "phase",
        "error",
        "cadence",
        "check",
        "domain",
    )
    if measurement == "rack" and field in {"nodes", "gpus", "verdict_seconds"}:
        suffixes = (*suffixes, "state", "verdict")
    labels.pop("impact", None)
    return "_".join([field, *(labels.pop(name) for name in suffixes if name in labels)])


@pytest.mark.parametrize("snapshot", [whole_node(), whole_rack()], ids=["node", "rack"])
def test_values_are_those_of_metrics(snapshot: Snapshot) -> None:
    found = flat(snapshot)
    text = Renderer().render(snapshot, TextFormat.PLAIN).decode()
    seen = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix("rackwatt_").removesuffix("_total")
            measurement, _, field = name.partition("_")
            labels = dict(sample.labels)
            if name in INFO_MEASUREMENTS:
                entity = {"gpu_info": ("gpu", "gpu_uuid"), "node_info": ()}[name]
                tags = frozenset((label, labels.pop(label)) for label in ("rack", "node", *entity))
                for label, own in labels.items():
                    key = (measurement, tags, f"info_{label}")
                    assert found[key] == own
                    seen.add(key)
                continue
            if field in WORDS:
                word = labels.pop(WORDS[field]).upper()
                key = (measurement, frozenset(labels.items()), field)
                assert (found[key] == word) == (sample.value == 1)
                seen.add(key)
                continue
            if "le" in labels:
                bound = labels.pop("le")
                field = f"{field.removesuffix('_bucket')}_le_{bound}"
                field = field.replace("_le_+Inf", "_count")
            key_field = field_names(measurement, field, labels)
            key = (measurement, frozenset((n, v) for n, v in labels.items() if v), key_field)
            assert found[key] == sample.value
            seen.add(key)
    assert seen == found.keys()
