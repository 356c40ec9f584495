"""The agent's routes, through real sockets."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import msgspec
import pytest

from collector.errors import ConfigurationError
from collector.model import Event, Snapshot
from exporters.agent_http import AgentHttpExporter, why_not_ready
from exporters.prometheus import Renderer, TextFormat
from tests.agent_http_client import Answer, Client, Clock, run, serving
from tests.exporter_snapshots import EMPTY, series, snapshot_of, whole_catalogue

WHOLE = whole_catalogue()
PATHS = ("/metrics", "/v1/snapshot", "/-/healthy", "/-/ready", "/")


def ask(path: str, method: str = "GET", *, snapshot: Snapshot | None = WHOLE, **headers: str) -> Answer:
    """Ask a new server once."""
    answers: list[Answer] = []

    async def scenario() -> None:
        async with serving(snapshot) as exporter, Client(exporter) as client:
            answers.append(await client.ask(path, method, **headers))

    run(scenario)
    return answers[0]


def test_metrics_in_plain_text() -> None:
    answer = ask("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    assert "content-encoding" not in answer.headers
    assert answer.body == Renderer().render(WHOLE, TextFormat.PLAIN)


def test_metrics_in_openmetrics_and_gzip() -> None:
    answer = ask("/metrics", Accept="application/openmetrics-text; version=1.0.0", Accept_Encoding="gzip")
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.headers["content-encoding"] == "gzip"
    assert zlib.decompress(answer.body, wbits=31) == Renderer().render(WHOLE, TextFormat.OPENMETRICS)


def test_metrics_ignores_a_query() -> None:
    assert ask("/metrics?name[]=rackwatt_gpu_up").body == Renderer().render(WHOLE, TextFormat.PLAIN)


def test_the_newest_snapshot_is_served() -> None:
    async def scenario() -> None:
        present = series("node_gpus_present")
        async with serving(snapshot_of((present, 4))) as exporter, Client(exporter) as client:
            assert (await client.ask("/metrics")).body.endswith(b"} 4\n")
            exporter.publish(snapshot_of((present, 3)))
            assert (await client.ask("/metrics")).body.endswith(b"} 3\n")

    run(scenario)


@pytest.mark.parametrize("path", PATHS)
def test_head_answers_as_get_does_without_the_body(path: str) -> None:
    head, get = ask(path, "HEAD"), ask(path)
    assert (head.status, head.body) == (200, b"")
    assert {**head.headers, "date": ""} == {**get.headers, "date": ""}
    assert int(get.headers["content-length"]) == len(get.body) > 0


@pytest.mark.parametrize("path", [*PATHS, "/nothing"])
def test_headers_that_every_answer_has(path: str) -> None:
    headers = ask(path).headers
    assert headers["server"] == "rackwatt"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "path", ["/nothing", "/metrics/", "/v1", "/v1/snapshot/x", "/..%2f", "/favicon.ico", "//"]
)
def test_what_is_not_served_is_a_problem(path: str) -> None:
    answer = ask(path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert json.loads(answer.body) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Nothing is served at this path; these are: "
        "/metrics, /v1/snapshot, /v1/health, /-/healthy, /-/ready, /.",
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(method: str) -> None:
    answer = ask("/metrics", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert json.loads(answer.body)["detail"] == "This path answers GET, HEAD only."


def test_before_the_first_snapshot() -> None:
    metrics = ask("/metrics", snapshot=None)
    assert (metrics.status, metrics.body) == (
        503,
        b"The agent has taken no Snapshot yet; it is starting.\n",
    )
    document = ask("/v1/snapshot", snapshot=None)
    assert (document.status, document.headers["content-type"]) == (503, "application/problem+json")
    ready = ask("/-/ready", snapshot=None)
    assert (ready.status, ready.body) == (503, b"Not ready: the agent has taken no Snapshot yet.\n")
    assert ask("/-/healthy", snapshot=None).status == 200
    assert ask("/", snapshot=None).status == 200


def test_an_agent_that_stopped_publishing_serves_no_old_values() -> None:
    async def scenario() -> None:
        clock = Clock()
        async with serving(WHOLE, clock=clock) as exporter, Client(exporter) as client:
            clock.seconds += 10
            assert (await client.ask("/metrics")).status == 200
            clock.seconds += 1
            late = await client.ask("/metrics")
            assert (late.status, late.body) == (
                503,
                b"The agent has taken no Snapshot for 11 s; its last values are withheld.\n",
            )
            document = json.loads((await client.ask("/v1/snapshot")).body)
            assert document["age_seconds"]["fast"] == 11.25
            assert (await client.ask("/-/ready")).status == 503
            exporter.publish(WHOLE)
            assert (await client.ask("/metrics")).status == 200

    run(scenario)


@pytest.mark.parametrize(
    ("snapshot", "elapsed_seconds", "reason"),
    [
        (EMPTY, 0.0, ""),
        (EMPTY, 4.75, ""),  # 0.25 s of age and 4.75 s since make the 5 s of CONTRACTS §3
        (EMPTY, 5.0, "the fast values are 5.2 s old, more than 5 s."),
        (replace(EMPTY, ages_seconds={"fast": 7.2}), 0.0, "the fast values are 7.2 s old, more than 5 s."),
        (replace(EMPTY, ages_seconds={"fast": None}), 0.0, "the fast values have not been read yet."),
        (replace(EMPTY, ages_seconds={}), 0.0, "the fast values have not been read yet."),
        (replace(EMPTY, nvml_up=False, reason="driver not loaded"), 0.0, "driver not loaded"),
        (replace(EMPTY, nvml_up=False), 0.0, "NVML is not up."),
        (None, 0.0, "the agent has taken no Snapshot yet."),
    ],
)
def test_ready_only_with_fresh_data(snapshot: Snapshot | None, elapsed_seconds: float, reason: str) -> None:
    assert why_not_ready(snapshot, elapsed_seconds) == reason


def test_ready_and_healthy_are_sentences() -> None:
    assert ask("/-/ready").body == b"Ready: NVML is up and its data are fresh.\n"
    down = ask("/-/ready", snapshot=replace(EMPTY, nvml_up=False, reason="driver not loaded"))
    assert (down.status, down.body) == (503, b"Not ready: driver not loaded\n")
    assert ask("/-/healthy").body == b"The agent is alive.\n"


def test_the_document_leaves_out_what_the_caller_has() -> None:
    event = Event(cursor=5, time_ns=1, kind="xid", gpu_uuid="GPU-aaaa", gpu="0", code=79)
    snapshot = replace(WHOLE, events=(event,))
    digest = WHOLE.table.digest
    whole = json.loads(ask("/v1/snapshot", snapshot=snapshot).body)
    assert len(whole["slots"]) == len(whole["values"]) == len(WHOLE.table)
    assert [item["code"] for item in whole["events"]["items"]] == [79]
    flat = json.loads(ask(f"/v1/snapshot?slots={digest}&after=5", snapshot=snapshot).body)
    assert "slots" not in flat
    assert flat["events"] == {"next": 5, "items": []}


def test_the_document_as_messagepack() -> None:
    answer = ask("/v1/snapshot", Accept="application/vnd.msgpack")
    assert answer.headers["content-type"] == "application/msgpack"
    assert msgspec.msgpack.decode(answer.body)["seq"] == 7


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "", "%20", "%D9%A3", "1e3", "9" * 20])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    # %D9%A3 is the Arabic-Indic digit three, which int() would take.
    answer = ask(f"/v1/snapshot?after={cursor}")
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert "`after` is not a cursor" in json.loads(answer.body)["detail"]


def test_a_taken_port_is_a_configuration_error() -> None:
    async def scenario() -> None:
        async with serving() as exporter:
            second = AgentHttpExporter("127.0.0.1", exporter.port)
            with pytest.raises(ConfigurationError) as caught:
                await second.start()
            assert str(caught.value) == (
                f"cannot listen on 127.0.0.1:{exporter.port}: Address already in use; stop what listens "
                "there, or listen on another port (`listen:` or --listen HOST:PORT)"
            )
            await second.close()

    run(scenario)


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host.invalid"])
def test_an_address_that_is_not_ours_is_a_configuration_error(host: str) -> None:
    # 192.0.2.0/24 is for documentation, never assigned (RFC 5737). The reason's words are the system's.
    async def scenario() -> None:
        with pytest.raises(ConfigurationError) as caught:
            await AgentHttpExporter(host, 0).start()
        assert str(caught.value).startswith(f"cannot listen on {host}:0: ")
        assert str(caught.value).endswith(
            "; listen on an address of this machine, or on 0.0.0.0 for all (`listen:` or --listen HOST:PORT)"
        )

    run(scenario)


def test_the_port_is_the_bound_one() -> None:
    async def scenario() -> None:
        exporter = AgentHttpExporter("127.0.0.1", 0)
        assert exporter.port == 0
        await exporter.start()
        bound = exporter.port
        assert bound > 0
        await exporter.close()
        assert exporter.port == bound  # Started again, it is where its clients look for it.

    run(scenario)
