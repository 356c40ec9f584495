"""Picking out and parsing what is wanted of an exposition, within bounds."""

from __future__ import annotations

import math

import pytest

from collector.sources.serving.endpoint import ScrapeError
from collector.sources.serving.exposition import (
    MAXIMUM_LINE_BYTES,
    MAXIMUM_QUOTES,
    MAXIMUM_SERIES,
    Sample,
    Wanted,
    check_text,
    helps,
    mentions,
)
from tests.serving_bodies import fixture

WANTED = Wanted(["a_total", "b:c", "h_bucket"])


def refusal(body: bytes) -> tuple[str, str]:
    with pytest.raises(ScrapeError) as caught:
        WANTED.samples(body)
    return caught.value.error, str(caught.value)


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        (b"a_total 5", Sample("a_total", {}, 5.0)),
        (b"  a_total\t5 1760000000000", Sample("a_total", {}, 5.0)),
        (b'b:c{x="1", y="two",} 0.5\r', Sample("b:c", {"x": "1", "y": "two"}, 0.5)),
        (b'b:c {x="1"} 1.5e+03', Sample("b:c", {"x": "1"}, 1500.0)),
        (b'b:c{x="a\\"b\\\\c\\nd}"} 1', Sample("b:c", {"x": 'a"b\\c\nd}'}, 1.0)),
        (b'b:c{x="\xff\xfe"} 1', Sample("b:c", {"x": "��"}, 1.0)),
        (
            b'h_bucket{le="+Inf"} 3 # {trace_id="5f1a"} 0.67 1760000000.5',
            Sample("h_bucket", {"le": "+Inf"}, 3.0),
        ),
        (b'a_total 3 # {trace_id="5f1a"} 0.67', Sample("a_total", {}, 3.0)),
        (b"a_total +Inf", Sample("a_total", {}, math.inf)),
    ],
)
def test_a_wanted_line_is_parsed(line: bytes, sample: Sample) -> None:
    assert WANTED.samples(b"# TYPE a_total counter\n" + line + b"\n# EOF\n") == [sample]


def test_what_is_not_wanted_is_left_out_unread() -> None:
    body = (
        b"a_total_created 1\nxa_total 1\na_totals 1\na 1\nb:cc 1\nh_sum 1\nh 1\n"
        b"# a_total 1\n<html> a_total 1\nnonsense {{{\n\n\x00\xff\n"
    )
    assert WANTED.samples(body) == []


def test_the_order_is_that_of_the_text() -> None:
    body = b"b:c 1\na_total 2\nb:c 3"
    assert [(sample.name, sample.value) for sample in WANTED.samples(body)] == [
        ("b:c", 1),
        ("a_total", 2),
        ("b:c", 3),
    ]


def test_both_formats_hold_the_same_samples() -> None:
    wanted = Wanted(["vllm:prompt_tokens_total", "vllm:inter_token_latency_seconds_bucket"])
    classic = wanted.samples(fixture("vllm-0.16"))
    assert len(classic) == 42  # two ranks, with 20 buckets each
    assert wanted.samples(fixture("vllm-0.16.openmetrics")) == classic


@pytest.mark.parametrize(
    "line",
    [
        b"a_total ",
        b"a_total five",
        b"a_total 1_000",
        b'a_total{x="1" 5',
        b"a_total{x=1} 5",
        b'a_total{x="1",x="2"} 5',
        b'a_total{x="1} 5',
        b"a_total{} ",
        b"a_total{",
        b'a_total{="1"} 5',
        b"a_total " + b"9" * 2000,
        b"a_total 1 " + b"9" * 2000,
    ],
)
def test_a_wanted_line_that_is_no_sample_is_named_by_number(line: bytes) -> None:
    error, message = refusal(b"# one\na_total 1\n" + line + b"\nb:c 1\n")
    assert error == "malformed"
    assert message.startswith(f"line 3 ({len(line)} bytes) begins with {line[:80]!r}: expected a name")
    assert len(message) < 400


def test_series_are_bounded() -> None:
    body = b"b:c 1\n" * MAXIMUM_SERIES
    assert len(WANTED.samples(body)) == MAXIMUM_SERIES
    error, message = refusal(body + b"b:c 1\n")
    assert error == "too_large"
    assert "more than 20000 series" in message


def test_unwanted_series_do_not_count() -> None:
    assert len(WANTED.samples(b"other 1\n" * (MAXIMUM_SERIES + 1) + b"b:c 1\n")) == 1


def test_the_bytes_of_all_wanted_lines_are_bounded() -> None:
    line = b'b:c{x="' + b"y" * (MAXIMUM_LINE_BYTES - 10) + b'"} 1'
    assert len(line) == MAXIMUM_LINE_BYTES + 1
    assert refusal(b"\n" + line)[1].startswith("line 2 (4097 bytes) begins with ")
    error, message = refusal((line.replace(b"y", b"", 1) + b"\n") * 1025)
    assert (error, "4194304 bytes of series" in message) == ("too_large", True)


def test_labels_are_bounded() -> None:
    def line(labels: int) -> bytes:
        return b"b:c{" + b",".join(b'l%d="v"' % number for number in range(labels)) + b"} 1\n"

    assert len(WANTED.samples(line(MAXIMUM_QUOTES // 2))[0].labels) == 64
    error, message = refusal(line(MAXIMUM_QUOTES // 2 + 1))
    assert (error, "expected at most 4096 bytes and 64 labels" in message) == ("too_large", True)


def test_names_are_found_before_their_first_series() -> None:
    pattern = mentions(["vllm:gen", "x"])
    for body in (b"\n# TYPE vllm:generation_tokens counter", b" #  HELP vllm:gen x", b"vllm:gen 1", b"x{} 1"):
        assert pattern.search(body)
    for body in (b"# vllm:gen", b"a vllm:gen 1", b"# UNIT vllm:gen x", b'y{z="x"} 1', b"vllm:ge\nn"):
        assert not pattern.search(body)


def test_help_lines_are_read_in_both_formats() -> None:
    pattern = helps("a_total", "tokens")
    assert pattern.search(b"# HELP a_total counted in tokens\n")
    assert pattern.search(b"x 1\n# HELP a counted in tokens\n")
    assert not pattern.search(b"# HELP a_total counted in blocks\n# HELP b_total tokens\n")
    assert not pattern.search(b"# HELP a_totals tokens\na_total tokens\n")


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b"# anything\r\n\t\n", b'x{a="}"} 1\ny 1e5 5\n{"z",a="1"} 2\n# EOF', b"x\tNaN\r\n"]
)
def test_an_exposition_of_something_else_is_well_formed(body: bytes) -> None:
    check_text(body)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"<html>\n", "line 1 (6 bytes) begins with b'<html>'"),
        (b"x 1\n\nnot found\nx\n", "line 4 (1 bytes) begins with b'x'"),
        (b'{"detail": "Not Found"}', "line 1 (23 bytes)"),
        (b"\x1f\x8b\x08\x00", "line 1 (4 bytes)"),
        (b"<" * 10_000, "line 1 (4096 bytes)"),
    ],
)
def test_what_is_no_exposition_is_named_by_its_first_line(body: bytes, place: str) -> None:
    with pytest.raises(ScrapeError) as caught:
        check_text(body)
    assert caught.value.error == "malformed"
    assert str(caught.value).startswith(place)
    assert len(str(caught.value)) < 500
