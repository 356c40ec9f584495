"""The Snapshot document, schema 1 (CONTRACTS §4)."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from collector.model import Event
from exporters.snapshot import DocumentFormat, DocumentWriter, ages_now, negotiate
from tests.exporter_snapshots import EMPTY, histogram, series, snapshot_of, whole_catalogue

XID = Event(cursor=3, time_ns=1_764_505_100_000_000_000, kind="xid", gpu_uuid="GPU-a", gpu="0", code=79)
LOST = Event(cursor=4, time_ns=1_764_505_101_000_000_000, kind="gpu_lost", gpu_uuid="GPU-a", gpu="0")
FIRST_TOKEN = histogram(
    "llm_time_to_first_token_seconds",
    *("decode-0", "vllm", "a/model", "engine"),
    bounds=(0.5, 1.0),
    counts=(3.0, 4.0, 6),
    total=4.75,
)
SNAPSHOT = replace(
    snapshot_of(
        (series("gpu_up", "0", "GPU-a"), 1),
        (series("gpu_power_watts", "0", "GPU-a"), None),
        (series("gpu_energy_joules_total", "0", "GPU-a"), 0.5),
        (series("node_gpus_present"), 1),
    ),
    events=(XID, LOST),
    histograms=(FIRST_TOKEN,),
)
# Schema of CONTRACTS §4; 1764505200 s is 2025-11-30T12:20:00Z (`date -ud @1764505200`).
EXPECTED = {
    "schema": 1,
    "rack": "r01",
    "node": "n03",
    "agent_id": "agent-1",
    "boot_id": "boot-1",
    "seq": 7,
    "observed_at": "2025-11-30T12:20:00.123Z",
    "time_ns": 1764505200123456789,
    "nvml_up": True,
    "reason": "",
    "age_seconds": {"fast": 0.25, "links": 3.0, "slow": None},
    "identity": {"platform": "gb300-nvl72", "simulated": "true"},
    "slots_hash": SNAPSHOT.table.digest,
    "slots": [
        ["gpu_up", "0", "GPU-a"],
        ["gpu_power_watts", "0", "GPU-a"],
        ["gpu_energy_joules_total", "0", "GPU-a"],
        ["node_gpus_present"],
    ],
    "values": [1, None, 0.5, 1],
    "histograms": [
        [
            "llm_time_to_first_token_seconds",
            ["decode-0", "vllm", "a/model", "engine"],
            [0.5, 1.0],
            [3.0, 4.0, 6],
            4.75,
        ]
    ],
    "checks": None,
    "events": {
        "next": 4,
        "items": [
            {
                "cursor": 3,
                "time_ns": 1764505100000000000,
                "kind": "xid",
                "gpu": "0",
                "gpu_uuid": "GPU-a",
                "code": 79,
            },
            {
                "cursor": 4,
                "time_ns": 1764505101000000000,
                "kind": "gpu_lost",
                "gpu": "0",
                "gpu_uuid": "GPU-a",
                "code": None,
            },
        ],
    },
}


def decode(body: bytes, form: DocumentFormat) -> object:
    return json.loads(body) if form is DocumentFormat.JSON else msgspec.msgpack.decode(body)


@pytest.mark.parametrize("form", DocumentFormat)
def test_the_whole_document(form: DocumentFormat) -> None:
    assert decode(DocumentWriter().write(SNAPSHOT, form), form) == EXPECTED


@pytest.mark.parametrize("form", DocumentFormat)
def test_slots_are_left_out_for_who_holds_them(form: DocumentFormat) -> None:
    body = DocumentWriter().write(SNAPSHOT, form, slots_held=SNAPSHOT.table.digest)
    assert decode(body, form) == {key: value for key, value in EXPECTED.items() if key != "slots"}


@pytest.mark.parametrize("held", ["", "0123456789abcdef", SNAPSHOT.table.digest.upper() + "x"])
def test_slots_are_sent_to_who_holds_others(held: str) -> None:
    body = DocumentWriter().write(SNAPSHOT, DocumentFormat.JSON, slots_held=held)
    assert json.loads(body)["slots"] == EXPECTED["slots"]


def test_a_writer_follows_a_new_table() -> None:
    writer = DocumentWriter()
    other = whole_catalogue()
    for snapshot in (SNAPSHOT, other, SNAPSHOT):
        for form in DocumentFormat:
            assert writer.write(snapshot, form) == DocumentWriter().write(snapshot, form)


@pytest.mark.parametrize(("after", "cursors"), [(0, [3, 4]), (2, [3, 4]), (3, [4]), (4, []), (99, [])])
def test_events_after_a_cursor(after: int, cursors: list[int]) -> None:
    events = json.loads(DocumentWriter().write(SNAPSHOT, DocumentFormat.JSON, after=after))["events"]
    assert [item["cursor"] for item in events["items"]] == cursors
    assert events["next"] == 4


def test_without_events_the_cursor_is_zero() -> None:
    assert json.loads(DocumentWriter().write(EMPTY, DocumentFormat.JSON))["events"] == {
        "next": 0,
        "items": [],
    }


def test_ages_grow_with_the_time_since_publication() -> None:
    body = DocumentWriter().write(SNAPSHOT, DocumentFormat.JSON, elapsed_seconds=12.5)
    assert json.loads(body)["age_seconds"] == {"fast": 12.75, "links": 15.5, "slow": None}
    assert ages_now(SNAPSHOT, 0.1)["fast"] == 0.35


@pytest.mark.parametrize("form", DocumentFormat)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_null(form: DocumentFormat, value: float) -> None:
    snapshot = snapshot_of((series("gpu_power_watts", "0", "a"), value), (series("gpu_up", "0", "a"), 1))
    document = decode(DocumentWriter().write(snapshot, form), form)
    assert isinstance(document, dict)
    assert document["values"] == [None, 1]


@pytest.mark.parametrize("form", DocumentFormat)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_histogram_that_is_not_finite_is_left_out(form: DocumentFormat, value: float) -> None:
    snapshot = replace(SNAPSHOT, histograms=(replace(FIRST_TOKEN, sum=value), FIRST_TOKEN))
    document = decode(DocumentWriter().write(snapshot, form), form)
    assert isinstance(document, dict)
    assert document["histograms"] == EXPECTED["histograms"]


@pytest.mark.parametrize("form", DocumentFormat)
def test_text_that_is_no_unicode_does_not_break_the_document(form: DocumentFormat) -> None:
    snapshot = replace(
        snapshot_of((series("gpu_up", "0", "GPU-\udcff"), 1)),
        node="n\ud800",
        reason="why \udc80",
        identity={"hostname": "h\udcff"},
        histograms=(replace(FIRST_TOKEN, labels=("a", "b", "m\ud800", "d")),),
    )
    document = decode(DocumentWriter().write(snapshot, form), form)
    assert isinstance(document, dict)
    assert document["slots"] == [["gpu_up", "0", "GPU-?"]]
    assert document["histograms"][0][1] == ["a", "b", "m?", "d"]
    assert (document["node"], document["reason"], document["identity"]["hostname"]) == ("n?", "why ?", "h?")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", DocumentFormat.JSON),
        ("*/*", DocumentFormat.JSON),
        ("text/html", DocumentFormat.JSON),
        ("application/json, application/msgpack", DocumentFormat.JSON),
        ("application/msgpack", DocumentFormat.MESSAGEPACK),
        ("application/vnd.msgpack", DocumentFormat.MESSAGEPACK),
        ("application/vnd.msgpack, application/json;q=0.9", DocumentFormat.MESSAGEPACK),
        ("application/msgpack;q=0.1, application/json;q=0.9", DocumentFormat.JSON),
    ],
)
def test_negotiation(accept: str, form: DocumentFormat) -> None:
    assert negotiate(accept) is form
