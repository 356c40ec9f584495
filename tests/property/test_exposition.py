"""Whatever texts and values a Snapshot holds, its exposition parses back to its samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric as ParsedFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from collector.catalog import ALL
from collector.catalog.spec import Kind, Metric, ValueType
from collector.model import Series, SeriesTable, Snapshot, Value
from exporters.prometheus import Renderer, TextFormat
from tests.exporter_snapshots import EMPTY

Key = tuple[str, frozenset[tuple[str, str]]]

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
    chosen = draw(st.sets(st.sampled_from(range(len(ALL))), max_size=6))
    entries: list[Series] = []
    values: list[Value | None] = []
    for metric in (ALL[place] for place in sorted(chosen)):
        width = len(metric.label_names)
        labels = st.tuples(*[HOSTILE] * width)
        for own in draw(st.lists(labels, min_size=1, max_size=4, unique_by=readable)):
            entries.append(Series(metric, own))
            values.append(draw(values_of(metric)))
    return replace(
        EMPTY, rack=draw(HOSTILE), node=draw(HOSTILE), table=SeriesTable(tuple(entries)), values=tuple(values)
    )


def readable(labels: Iterable[str]) -> tuple[str, ...]:
    """Replace what UTF-8 cannot hold, as the exposition does."""
    return tuple(text.encode("utf-8", errors="replace").decode() for text in labels)


def expected(snapshot: Snapshot) -> dict[Key, Value]:
    node = readable((snapshot.rack, snapshot.node))
    return {
        (
            sample.metric.exposed_name,
            frozenset(
                zip(("rack", "node", *sample.metric.label_names), node + readable(sample.labels), strict=True)
            ),
        ): sample.value
        for sample in snapshot.samples()
    }


def parsed(families: Iterable[ParsedFamily]) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
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
