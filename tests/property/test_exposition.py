"""Whatever texts and values a Snapshot holds, its exposition parses back to its samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric as ParsedFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from collector.catalog import ALL
from collector.catalog.spec import Kind, Metric, ValueType
from collector.model import HistogramSample, Series, SeriesTable, Snapshot, Value
from exporters.prometheus import Renderer, TextFormat
from tests.exporter_snapshots import EMPTY

Key = tuple[str, frozenset[tuple[str, str]]]

SINGLE = [metric for metric in ALL if metric.kind is not Kind.HISTOGRAM]
HISTOGRAMS = [metric for metric in ALL if metric.kind is Kind.HISTOGRAM]

HOSTILE = st.text(max_size=12) | st.text(alphabet='"\\\n\r%a{}, #=\t\x00\u2028é\udcff', max_size=12)


def values_of(metric: Metric) -> st.SearchStrategy[Value | None]:
    numbers: st.SearchStrategy[Value]
    if metric.kind is Kind.INFO:
        numbers = st.just(1)
    elif metric.kind is Kind.STATE:
        numbers = st.integers(0, 1)
    elif metric.value_type is ValueType.INT:
        numbers = st.integers(0, 2**53)  # the parsers read every number as a double
    else:
        numbers = st.floats(0 if metric.kind is Kind.COUNTER else None, allow_nan=False, allow_infinity=False)
    return st.none() | numbers


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw rows of the catalogue, in its order, each with some distinct series."""
    chosen = draw(st.sets(st.sampled_from(range(len(SINGLE))), max_size=6))
    entries: list[Series] = []
    values: list[Value | None] = []
    for metric in (SINGLE[place] for place in sorted(chosen)):
        width = len(metric.label_names)
        labels = st.tuples(*[HOSTILE] * width)
        for own in draw(st.lists(labels, min_size=1, max_size=4, unique_by=readable)):
            entries.append(Series(metric, own))
            values.append(draw(values_of(metric)))
    return replace(
        EMPTY,
        rack=draw(HOSTILE),
        node=draw(HOSTILE),
        table=SeriesTable(tuple(entries)),
        values=tuple(values),
        histograms=tuple(draw(histograms())),
    )


@st.composite
def histograms(draw: st.DrawFn) -> list[HistogramSample]:
    """Draw histograms of some metrics, in the order of the catalogue, each with some distinct labels."""
    samples: list[HistogramSample] = []
    for metric in HISTOGRAMS:
        labels = st.tuples(*[HOSTILE] * len(metric.label_names))
        for own in draw(st.lists(labels, max_size=2, unique_by=readable)):
            numbers = st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 2**53)
            bounds = tuple(sorted(draw(st.sets(numbers, max_size=5))))
            # Whole numbers, as OpenMetrics has it; some as floats, as engines write them.
            whole = st.integers(0, 2**53) | st.integers(0, 2**53).map(float)
            counts = tuple(sorted(draw(st.tuples(*[whole] * (len(bounds) + 1)))))
            samples.append(HistogramSample(metric, own, bounds, counts, draw(numbers)))
    return samples


def readable(labels: Iterable[str]) -> tuple[str, ...]:
    """Replace what UTF-8 cannot hold, as the exposition does."""
    return tuple(text.encode("utf-8", errors="replace").decode() for text in labels)


def expected(snapshot: Snapshot) -> dict[Key, Value]:
    node = readable((snapshot.rack, snapshot.node))
    found: dict[Key, Value] = {
        (
            sample.metric.exposed_name,
            frozenset(
                zip(("rack", "node", *sample.metric.label_names), node + readable(sample.labels), strict=True)
            ),
        ): sample.value
        for sample in snapshot.samples()
    }
    for histogram in snapshot.histograms:
        names = ("rack", "node", *histogram.metric.label_names)
        labels = dict(zip(names, node + readable(histogram.labels), strict=True))
        for bound, count in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
            # The bound is compared as the number that it is read as.
            found[
                f"{histogram.metric.exposed_name}_bucket",
                frozenset({**labels, "le": str(float(bound))}.items()),
            ] = count
        found[f"{histogram.metric.exposed_name}_sum", frozenset(labels.items())] = histogram.sum
        found[f"{histogram.metric.exposed_name}_count", frozenset(labels.items())] = histogram.counts[-1]
    return found


def parsed(families: Iterable[ParsedFamily]) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for family in families:
        for sample in family.samples:
            labels = dict(sample.labels)
            if "le" in labels:
                labels["le"] = str(float(labels["le"]))
            key = (sample.name, frozenset(labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


@given(snapshots())
def test_plain_text_parses_back_to_the_samples(snapshot: Snapshot) -> None:
    text = Renderer().render(snapshot, TextFormat.PLAIN).decode("utf-8")
    assert parsed(parse_plain(text)) == expected(snapshot)


@given(snapshots())
def test_openmetrics_parses_back_to_the_samples(snapshot: Snapshot) -> None:
    text = Renderer().render(snapshot, TextFormat.OPENMETRICS).decode("utf-8")
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]  # it declares no types
    assert parsed(families) == expected(snapshot)


@given(st.lists(snapshots(), min_size=2, max_size=4))
def test_a_renderer_that_remembers_writes_what_a_new_one_writes(history: list[Snapshot]) -> None:
    renderer = Renderer()
    for snapshot in history:
        for form in TextFormat:
            assert renderer.render(snapshot, form) == Renderer().render(snapshot, form)
