"""Snapshots of every row, with values that can be told apart, for tests of line protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from collector.catalog import ALL
from collector.catalog.rack import RACK
from collector.catalog.spec import Kind, Metric, ValueType
from collector.model import Series, SeriesTable, Snapshot, Value
from tests.exporter_snapshots import EMPTY, whole_catalogue

ROWS = (*ALL, *RACK)

HOLDING = frozenset({"gpu_reset", "completed", "AVAILABLE", "READY", "HEALTHY", "hw_slowdown", "held"})
"""Label values of the states that hold: one of each row whose values exclude each other."""

OPEN_VALUES = {
    "rack_node_state": ("READY", "FAILED"),
    "rack_domain_state": ("HEALTHY", "SPLIT"),
    "rack_llm_tokens_total": ("prompt", "generation"),
}
"""Values of labels that the catalogue does not list."""


def labels_of(metric: Metric) -> Iterator[dict[str, str]]:
    """Yield label sets of a row, one for each field that it can have."""
    own = metric.label_names[len(metric.entity.keys) :]
    named = next((name for name in ("check", metric.label, *reversed(own)) if name in own), "")
    for value in OPEN_VALUES.get(metric.name, metric.label_values):
        yield {**dict.fromkeys((*metric.entity.implied_keys, *metric.label_names), "x"), named: value}


def with_values(snapshot: Snapshot) -> Snapshot:
    """Give every number another value, and let one of the words hold that exclude each other."""

    def value(place: int, entry: Series) -> Value:
        metric = entry.metric
        if metric.kind is Kind.INFO:
            return 1
        if metric.kind is Kind.STATE:
            return int(entry.labels[-1] in HOLDING)
        return place + 2 if metric.value_type is ValueType.INT else (place + 2) / 7

    return replace(
        snapshot, values=tuple(value(place, entry) for place, entry in enumerate(snapshot.table.series))
    )


def whole_node() -> Snapshot:
    """Make a Snapshot of an agent with every row, every histogram included."""
    return with_values(whole_catalogue())


def whole_rack() -> Snapshot:
    """Make a Snapshot of a rack service with every row."""

    def keys(metric: Metric) -> Iterator[tuple[str, ...]]:
        for labels in labels_of(metric):
            yield tuple("r01" if name == "rack" else labels[name] for name in metric.label_names)

    table = SeriesTable(tuple(Series(metric, labels) for metric in RACK for labels in keys(metric)))
    return with_values(replace(EMPTY, rack="", node="", table=table))
