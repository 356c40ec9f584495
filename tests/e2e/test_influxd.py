"""A real InfluxDB 1.x takes our lines and gives back what was meant: types, texts, times, each point once."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from collector.model import Event
from exporters.influxdb.escaping import tag_text
from exporters.influxdb.lines import LineWriter
from exporters.influxdb.selection import Selection
from tests.exporter_snapshots import series, snapshot_of
from tests.influx_snapshots import whole_node, whole_rack
from tests.influxd import influxd
from tests.line_protocol import parse

pytestmark = [pytest.mark.e2e, pytest.mark.needs_program("influxd")]

NASTY = (
    *(
        "a b",
        "a,b",
        "a=b",
        " lead",
        "trail ",
        ",",
        "=",
        "= =,,",
        "\\",
        "a\\b",
        "a\\",
        "a\\\\",
        "a\\,b",
        "a\\ b",
    ),
    *('"', '"q"', "'", '\\"', "x\ny", "\r\n", "\t", "\x00", "\x7f", "#c", "%", "%0A", "%%", "é☃𝄞", "\u2028"),
    *("\udcff", "\x9b", "\ufffd", "i", "t", "true", "-1", "x" * 5000, "$where", "; DROP DATABASE x"),
)


def test_hostile_texts_come_back_from_a_real_server(tmp_path: Path) -> None:
    readable = [text.encode("utf-8", errors="replace").decode() for text in NASTY]
    endpoints = tuple((series("llm_up", text, "vllm", "engine"), number) for number, text in enumerate(NASTY))
    events = tuple(Event(n + 1, n + 1, "xid", text, "0", detail=text) for n, text in enumerate(NASTY))
    snapshot = replace(snapshot_of(*endpoints), events=events, time_ns=time.time_ns())
    payload = LineWriter(Selection()).write(snapshot).payload
    with influxd(tmp_path) as server:
        for _ in range(2):  # Written twice it is there once.
            assert server.write(payload) == (204, "")
        rows = server.rows('SELECT "up", "endpoint" FROM llm')
        assert {unquote(row["endpoint"]): row["up"] for row in rows} == {
            text: number for number, text in enumerate(readable)
        }
        assert len(rows) == len(NASTY)
        rows = server.rows('SELECT "detail", "gpu_uuid" FROM event')
        controls = dict.fromkeys((*range(32), *range(127, 160)), "\ufffd")
        assert [(row["time"], unquote(row["gpu_uuid"]), row["detail"]) for row in rows] == [
            (number, text, text.translate(controls)) for number, text in enumerate(readable, 1)
        ]


def test_a_real_server_takes_the_whole_catalogue_and_keeps_its_types(tmp_path: Path) -> None:
    snapshot = whole_node()
    rack = whole_rack()
    with influxd(tmp_path) as server:
        for own in (snapshot, rack):
            assert server.write(LineWriter(Selection()).write(own).payload) == (204, "")
        types = {
            (found["name"], name): kind
            for found in server.query("SHOW FIELD KEYS")
            for name, kind in found["values"]
        }
        expected = {
            (point.measurement, name): {int: "integer", float: "float", bool: "boolean", str: "string"}[
                type(value)
            ]
            for own in (snapshot, rack)
            for point in parse(LineWriter(Selection()).write(own).payload)
            for name, value in point.fields
        }
        assert types == expected
        for point in parse(LineWriter(Selection()).write(snapshot).payload):
            where = " AND ".join(f"\"{name}\"='{value}'" for name, value in point.tags)
            none = {"model", "gpu"} - dict(point.tags).keys() if point.measurement == "llm" else set()
            where += "".join(f" AND \"{name}\"=''" for name in sorted(none))
            (row,) = server.rows(f'SELECT * FROM "{point.measurement}" WHERE {where}')  # noqa: S608 - our own
            assert {name: row[name] for name, _ in point.fields} == dict(point.fields)
            assert row["time"] == point.time_ns


def test_why_a_backslash_does_not_stand_in_a_tag(tmp_path: Path) -> None:
    with influxd(tmp_path) as server:
        status, _ = server.write(b"m,tag=a\\ value=1.0 1\n")
        assert status == 400  # It hides the space that ends the tags.
        assert server.write(f"m,tag={tag_text('a' + chr(92))} value=1.0 1\n".encode()) == (204, "")
