"""Whatever an agent answers: it is understood as it was meant, or refused with a reason."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from collector.catalog import ALL
from collector.catalog.spec import Kind
from collector.model import (
    CheckResult,
    Event,
    HistogramSample,
    Sample,
    Series,
    SeriesTable,
    Snapshot,
    Value,
)
from collector.sources.peers.document import PeerError, decode
from collector.sources.peers.peer import Answered, Peer
from exporters.snapshot import DocumentFormat, DocumentWriter
from tests.peer_agents import NOW_NS, address, fields, histogram, packed

TEXTS = st.text(max_size=20)
SINGLE = [metric for metric in ALL if metric.kind is not Kind.HISTOGRAM]
HISTOGRAMS = [metric for metric in ALL if metric.kind is Kind.HISTOGRAM]
NUMBERS = st.integers(0, 2**63) | st.floats(allow_nan=False, allow_infinity=False)


NATURAL = st.integers(0, 2**63) | st.floats(0, 1e300)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Snapshots of node n01 with any series of the catalogue."""
    chosen = sorted(draw(st.sets(st.sampled_from(range(len(SINGLE))), max_size=8)))
    series: list[Series] = []
    for metric in (SINGLE[place] for place in chosen):
        count = len(metric.label_names)
        keys = draw(st.sets(st.tuples(*[TEXTS] * count), min_size=1, max_size=3))
        series += [Series(metric, key) for key in sorted(keys)]
    values: list[Value | None] = [draw(st.none() | NUMBERS) for _ in series]
    return Snapshot(
        rack="r01",
        node="n01",
        agent_id=draw(st.text(min_size=1, max_size=20)),
        boot_id=draw(TEXTS),
        sequence=draw(st.integers(1, 2**40)),
        time_ns=NOW_NS,
        table=SeriesTable(tuple(series)),
        values=tuple(values),
        ages_seconds={"fast": draw(st.none() | st.floats(0, 1e6))},
        nvml_up=draw(st.booleans()),
        reason=draw(TEXTS),
        identity=draw(st.dictionaries(TEXTS, TEXTS, max_size=4)),
        events=tuple(draw(events())),
        checks=draw(st.none() | st.lists(checks(), max_size=3).map(tuple)),
        histograms=tuple(draw(histograms())),
    )


@st.composite
def histograms(draw: st.DrawFn) -> list[HistogramSample]:
    samples: list[HistogramSample] = []
    for metric in HISTOGRAMS:
        labels = st.tuples(*[TEXTS] * len(metric.label_names))
        for own in draw(st.lists(labels, max_size=2, unique_by=lambda each: tuple(map(written, each)))):
            bounds = tuple(sorted(draw(st.sets(st.floats(-1e300, 1e300), max_size=4))))
            counts = tuple(sorted(draw(st.tuples(*[NATURAL] * (len(bounds) + 1)))))
            samples.append(HistogramSample(metric, own, bounds, counts, draw(NUMBERS)))
    return samples


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    cursors = sorted(draw(st.sets(st.integers(1, 2**40), max_size=4)))
    return [
        Event(
            cursor=cursor,
            time_ns=draw(st.integers(1, NOW_NS)),
            kind=draw(TEXTS),
            gpu_uuid=draw(TEXTS),
            gpu=draw(TEXTS),
            code=draw(st.none() | st.integers(0, 200)),
            link=draw(st.none() | st.integers(0, 17)),
            detail=draw(TEXTS),
        )
        for cursor in cursors
    ]


def checks() -> st.SearchStrategy[CheckResult]:
    return st.builds(
        CheckResult,
        check=TEXTS,
        impact=st.sampled_from(["info", "warn", "avoid", "fail"]),
        failed=st.booleans(),
        gpu_uuid=TEXTS,
        gpu=TEXTS,
        metric=TEXTS,
        value=st.none() | NUMBERS,
        threshold=st.none() | NUMBERS,
        since_ns=st.integers(0, NOW_NS),
        reason=TEXTS,
        action=TEXTS,
    )


def written(text: str) -> str:
    """A text as it can travel: lone surrogates are replaced by the writer."""
    return text.encode(errors="replace").decode()


@given(snapshots())
def test_what_an_agent_writes_is_what_the_rack_service_knows(snapshot: Snapshot) -> None:
    peer = Peer(address())
    writer = DocumentWriter()
    digests = set()
    for _ in range(2):
        held = peer.query().partition("slots=")[2]
        body = writer.write(snapshot, DocumentFormat.MESSAGEPACK, slots_held=held)
        digests.add(held)
        assert peer.take(decode(body), monotonic=0.0, wall_ns=NOW_NS) is Answered.TAKEN
    assert digests == {"", snapshot.table.digest}
    poll = peer.poll(None)
    assert list(poll.samples) == [
        Sample(own.metric, tuple(map(written, own.labels)), own.value) for own in snapshot.samples()
    ]
    assert poll.histograms == tuple(
        replace(own, labels=tuple(map(written, own.labels))) for own in snapshot.histograms
    )
    assert poll.events == snapshot.events
    view = poll.view
    assert view is not None
    assert (view.agent_id, view.sequence, view.nvml_up) == (
        written(snapshot.agent_id),
        snapshot.sequence,
        snapshot.nvml_up,
    )
    found = [*view.checks, *(check for gpu in view.gpus for check in gpu.checks)]
    assert sorted(map(repr, found)) == sorted(map(repr, snapshot.checks or ()))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def believe_or_refuse(body: bytes) -> None:
    peer = Peer(address())
    try:
        peer.take(decode(body), monotonic=0.0, wall_ns=NOW_NS)
    except PeerError as error:
        peer.fail(str(error))
    poll = peer.poll(None)
    assert poll.last_good_ns is None or not poll.error
    assert all(sample.metric in ALL for sample in poll.samples)
    for own in poll.histograms:
        assert own.metric in HISTOGRAMS
        assert len(own.labels) == len(own.metric.label_names)
        assert len(own.counts) == len(own.bounds) + 1
        assert list(own.bounds) == sorted(set(own.bounds))
        assert list(own.counts) == sorted(own.counts)
        assert all(map(math.isfinite, (*own.bounds, *own.counts, own.sum)))


@given(st.binary(max_size=200))
def test_any_bytes_are_believed_or_refused(body: bytes) -> None:
    believe_or_refuse(body)


@given(st.sampled_from(sorted(fields())), ANYTHING)
def test_any_field_may_be_anything(name: str, value: Any) -> None:
    believe_or_refuse(msgspec.msgpack.encode(fields(**{name: value})))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([metric.name for metric in ALL]) | TEXTS,
            st.lists(st.sampled_from(["a", "b"]), min_size=3, max_size=5),
            st.lists(st.floats(width=16), max_size=3),
            st.lists(st.floats(width=16) | st.integers(-1, 9), max_size=4),
            st.floats(),
        ),
        max_size=3,
    )
)
def test_any_histograms_are_believed_or_refused(items: list[tuple[object, ...]]) -> None:
    believe_or_refuse(packed(fields(histograms=items)))


@given(st.data())
def test_any_byte_may_be_broken(data: st.DataObject) -> None:
    body = bytearray(packed(fields(histograms=[histogram()])))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    believe_or_refuse(bytes(body))


@given(
    st.lists(
        st.lists(
            st.text(max_size=5) | st.sampled_from(["gpu_up", "gpu_info", "gpu_fabric_state"]), max_size=4
        )
    ),
    st.data(),
)
def test_any_table_with_values_is_believed_or_refused(slots: list[list[str]], data: st.DataObject) -> None:
    values = data.draw(
        st.lists(st.none() | NUMBERS, min_size=max(0, len(slots) - 1), max_size=len(slots) + 1)
    )
    believe_or_refuse(packed(fields(slots=slots, values=values)))
