"""Snapshots for tests of exporters: a few literal series, and the whole catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from collector.catalog import ALL, BY_NAME
from collector.catalog.spec import Entity, Kind, Metric, ValueType
from collector.model import HistogramSample, Series, SeriesTable, Snapshot, Value

UUIDS = ("GPU-aaaa", "GPU-bbbb")
LINKS = 2
ENDPOINTS = (("decode-0", "vllm", "engine"), ("front", "dynamo", "router"))

EMPTY = Snapshot(
    rack="r01",
    node="n03",
    agent_id="agent-1",
    boot_id="boot-1",
    sequence=7,
    time_ns=1_764_505_200_123_456_789,  # 2025-11-30T12:20:00.123456789Z
    table=SeriesTable(()),
    values=(),
    ages_seconds={"fast": 0.25, "links": 3.0, "slow": None},
    nvml_up=True,
    identity={"platform": "gb300-nvl72", "simulated": "true"},
)
"""A Snapshot without any series."""


def series(name: str, *labels: str) -> Series:
    """Make a series of a catalogue row, by name without prefix."""
    return Series(BY_NAME[name], labels)


def snapshot_of(*rows: tuple[Series, Value | None], base: Snapshot = EMPTY) -> Snapshot:
    """Make a Snapshot of series and their values."""
    table = SeriesTable(tuple(entry for entry, _ in rows))
    return replace(base, table=table, values=tuple(value for _, value in rows))


def histogram(
    name: str, *labels: str, bounds: tuple[float, ...], counts: tuple[Value, ...], total: Value
) -> HistogramSample:
    """Make a histogram of a catalogue row, by name without prefix; `total` is the sum of its observations."""
    return HistogramSample(BY_NAME[name], labels, bounds, counts, total)


def whole_catalogue() -> Snapshot:
    """Make a Snapshot with every row of the catalogue, for two GPUs with two links, all values present."""
    whole = snapshot_of(*((entry, _value(entry.metric)) for entry in _every_series()))
    return replace(whole, histograms=tuple(_every_histogram()))


def _every_histogram() -> Iterator[HistogramSample]:
    for metric in ALL:
        if metric.kind is Kind.HISTOGRAM:
            for keys in _keys(metric.entity):
                yield HistogramSample(metric, keys, (0.5, 1.0), (1.0, 1.0, 2.0), 3.5)


def _every_series() -> Iterator[Series]:
    for metric in ALL:
        if metric.kind is Kind.HISTOGRAM:
            continue
        for keys in _keys(metric.entity):
            if metric.kind is Kind.INFO:
                yield Series(metric, (*keys, *(f"a {name}" for name in metric.info_labels)))
            elif metric.open_label:
                yield Series(metric, (*keys, "79"))
            elif metric.info_labels:
                yield from (Series(metric, (*keys, value, "warn")) for value in metric.label_values)
            elif metric.label:
                yield from (Series(metric, (*keys, value)) for value in metric.label_values)
            else:
                yield Series(metric, keys)


def _keys(entity: Entity) -> tuple[tuple[str, ...], ...]:
    gpus = tuple((str(index), uuid) for index, uuid in enumerate(UUIDS))
    return {
        Entity.NODE: ((),),
        Entity.AGENT: ((),),
        Entity.GPU: gpus,
        Entity.NVLINK: tuple((*gpu, str(link)) for gpu in gpus for link in range(LINKS)),
        Entity.MODULE: (("1652425000001",),),
        Entity.CPU: (("0",), ("1",)),
        Entity.LLM_ENDPOINT: ENDPOINTS,
        Entity.LLM: tuple((endpoint, engine, "a/model", role) for endpoint, engine, role in ENDPOINTS),
    }[entity]


def _value(metric: Metric) -> Value:
    return 1 if metric.value_type is ValueType.INT else 0.5
