"""Decoding what agents answer: typed, bounded, with reasons."""

from __future__ import annotations

import math

import msgspec
import pytest

from collector.sources.peers.document import PeerError, all_finite, decode
from tests.peer_agents import NOW_NS, check, decoded, event, fields, histogram, packed, without


def refusal(**changes: object) -> str:
    with pytest.raises(PeerError) as caught:
        decoded(**changes)
    return str(caught.value)


def test_a_document_is_read_as_it_was_written() -> None:
    document = decoded(checks=[check()], events={"next": 3, "items": [event(3, link=4, severity="fatal")]})
    assert (document.rack, document.node, document.seq, document.time_ns) == ("r01", "n01", 1, NOW_NS)
    assert document.age_seconds == {"fast": 0.25, "links": 3.0, "slow": None}
    assert len(document.values) == 15
    assert document.checks is not None
    assert (document.checks[0].check, document.checks[0].failed) == ("gpu_row_remap_failure", True)
    assert (document.events.items[0].code, document.events.items[0].link) == (79, 4)


def test_a_histogram_is_read_as_it_was_written() -> None:
    (item,) = decoded(histograms=[histogram()]).histograms
    assert item.metric == "llm_time_to_first_token_seconds"
    assert item.labels == ("decode-0", "vllm", "a/model", "engine")
    assert (item.bounds, item.counts, item.sum) == ((0.5, 1.0), (3, 4, 6.0), 4.75)


def test_fields_of_a_newer_minor_version_are_passed_over() -> None:
    newer = {**check(), "confidence": 0.9}
    document = decoded(switches=[{"tray": 1}], checks=[newer], histograms=[[*histogram(), "exemplars"]])
    assert document.histograms[0].sum == 4.75
    assert document.checks is not None
    assert document.checks[0].check == "gpu_row_remap_failure"


def test_what_an_older_minor_version_leaves_out_has_its_default() -> None:
    left_out = ("checks", "events", "reason", "identity", "slots", "histograms")
    document = decode(packed(without(fields(), *left_out)))
    assert document.checks is None
    assert document.histograms == ()
    assert document.events.items == ()


@pytest.mark.parametrize(
    ("schema", "advice"), [(2, "update the rack service"), (0, "update the agent"), (99, "update the rack")]
)
def test_another_schema_is_refused_with_advice(schema: int, advice: str) -> None:
    assert refusal(schema=schema).startswith(
        f"the agent speaks schema {schema} of the Snapshot, not 1; {advice}"
    )


def test_another_schema_is_named_although_nothing_else_is_understood() -> None:
    with pytest.raises(PeerError, match="speaks schema 2 of the Snapshot, not 1"):
        decode(packed({"schema": 2, "racks": {"values": "elsewhere"}}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"values": ["x"]}, "at `$.values[0]`"),
        ({"values": None}, "at `$.values`"),
        ({"values": [1] * 50_001}, "length <= 50000"),
        ({"rack": "r" * 257}, "length <= 256"),
        ({"agent_id": ""}, "length >= 1"),
        ({"reason": "r" * 2001}, "length <= 2000"),
        ({"seq": -1}, ">= 0"),
        ({"time_ns": 2**63}, "<= 9223372036854775807"),
        ({"slots_hash": "../../x?y=z"}, "matching regex"),
        ({"slots_hash": ""}, "matching regex"),
        ({"slots_hash": "aa\n"}, "matching regex"),
        ({"slots": [[]]}, "length >= 1"),
        ({"slots": [["gpu_up", "x" * 257]]}, "length <= 256"),
        ({"slots": [["gpu_up"] * 65]}, "length <= 64"),
        ({"identity": {str(number): "x" for number in range(65)}}, "length <= 64"),
        ({"checks": [check(reason="x" * 2001)]}, "length <= 2000"),
        ({"checks": [check(failed="yes")]}, "Expected `bool`"),
        ({"checks": [{}]}, "missing required field"),
        ({"histograms": [histogram()] * 2_001}, "length <= 2000"),
        ({"histograms": [histogram(bounds=list(range(201)))]}, "length <= 200"),
        ({"histograms": [histogram(counts=[1] * 202)]}, "length <= 201"),
        ({"histograms": [histogram(labels=["x" * 257])]}, "length <= 256"),
        ({"histograms": [histogram(labels=["x"] * 65)]}, "length <= 64"),
        ({"histograms": [histogram(counts=[3, None, 6])]}, "at `$.histograms[0][3][1]`"),
        ({"histograms": [histogram()[:4]]}, "at `$.histograms[0]`"),
        ({"histograms": [{"le": [1, 2]}]}, "at `$.histograms[0]`"),
        ({"events": {"next": -1, "items": []}}, ">= 0"),
        ({"events": {"next": 1, "items": [event(1, kind=None)]}}, "at `$.events.items[0].kind`"),
    ],
)
def test_what_breaks_a_type_or_a_bound_is_refused_with_its_place(
    changes: dict[str, object], says: str
) -> None:
    reason = refusal(**changes)
    assert reason.startswith("the answer is no Snapshot of schema 1: ")
    assert says in reason


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    assert refusal(values=[1, None, number]) == (
        "a value of the Snapshot is not finite; values must be numbers or null"
    )
    assert "age" in refusal(age_seconds={"fast": number})
    assert "check 'gpu_row_remap_failure'" in refusal(checks=[check(value=number)])
    assert "check 'gpu_row_remap_failure'" in refusal(checks=[check(threshold=number)])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"counts": [3, 4]}, "has 2 counts for 2 bounds, not one more"),
        ({"counts": []}, "has 0 counts for 2 bounds"),
        ({"counts": [3, 4, math.inf]}, "is not finite"),
        ({"bounds": [0.5, math.nan]}, "is not finite"),
        ({"sum": math.nan}, "is not finite"),
        ({"bounds": [0.5, 0.5]}, "the bounds of a histogram 'llm_time_to_first_token_seconds' do not rise"),
        ({"bounds": [1.0, 0.5]}, "do not rise"),
        ({"counts": [3, 4, 2]}, "the counts of a histogram 'llm_time_to_first_token_seconds' fall"),
        ({"counts": [-1, 4, 6]}, "fall, or begin below zero"),
    ],
)
def test_what_is_no_histogram_is_refused(changes: dict[str, object], says: str) -> None:
    assert says in refusal(histograms=[histogram(), histogram(**changes)])


def test_a_negative_age_is_refused() -> None:
    assert refusal(age_seconds={"fast": -0.5}) == "an age in `age_seconds` is negative or not finite"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"<html>",
        b"\x91" * 100_000,  # nested beyond any stack
        b"\xdd\xff\xff\xff\xff",  # an array of 4 billion elements, without them
        packed(fields())[:-1],
        packed(fields()) + b"\x00",
        msgspec.json.encode(fields()),
        packed({"schema": "1"}),
        packed({}),
        b"\x81\xa4rack\xa1\xff",  # no UTF-8
    ],
)
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(PeerError, match="the answer is no Snapshot of schema 1: "):
        decode(body)


def test_large_finite_numbers_stay_finite() -> None:
    assert all_finite([1e308, 1e308, 2**64 - 1, None])
    assert not all_finite([math.inf, -math.inf])
    assert all_finite([])
