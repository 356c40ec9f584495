"""What is sent to a server, and what is made of whatever it answers."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.influxdb import target as target_module
from exporters.influxdb.backoff import Backoff, Pace, Rate, retry_after_seconds
from exporters.influxdb.failures import ADVICE, Failure
from exporters.influxdb.target import InfluxWriter, Outcome, Target
from tests.influx_server import (
    BREAK,
    HANG,
    OK,
    TRICKLE,
    InfluxServer,
    Reply,
    deaf_port,
    failing,
    influx_server,
)

TOKEN = "s3cret-token-of-a-bucket"  # noqa: S105 -- of a server that does not look
LINES = b"gpu,gpu=0 power_watts=1.5 1\ngpu,gpu=1 power_watts=2.5 1\n"
NOW_NS = 1_764_505_200_000_000_000  # 2025-11-30T12:20:00Z


@pytest.fixture
def server() -> Iterator[InfluxServer]:
    with influx_server() as running:
        yield running


def writer_of(url: str, *, org: str = "ops", token: str = TOKEN, ca_file: str | None = None) -> InfluxWriter:
    return InfluxWriter(
        Target(url=url, bucket="gpu", org=org, token=(lambda: token) if token else None, ca_file=ca_file)
    )


def test_the_request_is_that_of_the_v2_api(server: InfluxServer) -> None:
    # https://docs.influxdata.com/influxdb/v2/api/v2/#operation/PostWrite
    assert writer_of(server.url).write(LINES).outcome is Outcome.WRITTEN
    (request,) = server.requests
    assert request.path == "/api/v2/write"
    assert request.query == {"org": "ops", "bucket": "gpu", "precision": "ns"}
    assert request.headers["authorization"] == f"Token {TOKEN}"
    assert request.headers["content-encoding"] == "gzip"
    assert b"".join(line + b"\n" for line in request.lines) == LINES


def test_a_path_before_the_write_path_is_kept(server: InfluxServer) -> None:
    writer_of(f"{server.url}/insert/0/influx").write(LINES)
    assert server.requests[0].path == "/insert/0/influx/api/v2/write"


def test_without_a_token_or_an_organization_none_is_shown(server: InfluxServer) -> None:
    # influxdb-client insists on an organization; servers without one do not look.
    writer_of(server.url, org="", token="").write(LINES)
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].query["org"] == "-"


def test_a_token_that_changes_is_shown_from_then_on(server: InfluxServer) -> None:
    tokens = iter(["first-token", "second-token"])
    writer = InfluxWriter(Target(url=server.url, bucket="gpu", token=lambda: next(tokens)))
    writer.write(LINES)
    writer.write(LINES)
    shown = [request.headers["authorization"] for request in server.requests]
    assert shown == ["Token first-token", "Token second-token"]


def test_one_connection_serves_many_writes(server: InfluxServer) -> None:
    writer = writer_of(server.url)
    server.answer = lambda request: failing(500, "no") if len(server.requests) % 2 else OK
    for _ in range(6):
        writer.write(LINES)
    assert len(server._connections) == 1


@pytest.mark.parametrize(
    ("status", "outcome", "failure"),
    [
        # Every documented server answers 204, and InfluxDB Cloud 201 where it took a part.
        (200, Outcome.HELD, Failure.OTHER),
        (201, Outcome.REFUSED, Failure.REFUSED_LINES),
        (202, Outcome.HELD, Failure.OTHER),
        (204, Outcome.WRITTEN, None),
        (299, Outcome.HELD, Failure.OTHER),
        (301, Outcome.HELD, Failure.REDIRECTED),
        (308, Outcome.HELD, Failure.REDIRECTED),
        (400, Outcome.REFUSED, Failure.REFUSED_LINES),
        (401, Outcome.HELD, Failure.UNAUTHORIZED),
        (403, Outcome.HELD, Failure.FORBIDDEN),
        (404, Outcome.HELD, Failure.NOT_FOUND),
        (408, Outcome.FAILED, Failure.OTHER),
        (413, Outcome.TOO_LARGE, Failure.TOO_LARGE),
        (422, Outcome.REFUSED, Failure.REFUSED_LINES),
        (429, Outcome.FAILED, Failure.OVERLOADED),
        (500, Outcome.FAILED, Failure.SERVER_ERROR),
        (503, Outcome.FAILED, Failure.OVERLOADED),
        (599, Outcome.FAILED, Failure.SERVER_ERROR),
    ],
)
def test_each_status_has_its_outcome(
    server: InfluxServer, status: int, outcome: Outcome, failure: Failure | None
) -> None:
    server.answer = lambda _: Reply(status)
    answer = writer_of(server.url).write(LINES)
    assert (answer.outcome, answer.failure) == (outcome, failure)


def test_a_success_that_no_influxdb_answers_acknowledges_nothing(server: InfluxServer) -> None:
    # A captive portal, or an address that belongs to something else, says "200 OK" to anything.
    server.answer = lambda _: Reply(200, b"<html>welcome</html>")
    answer = writer_of(server.url).write(LINES)
    assert answer.words == (
        "HTTP 200: an InfluxDB answers 204 to what it took; see to `url`, something else stands there"
    )
    assert answer.status == 200


def test_a_write_that_was_taken_in_part_has_the_words_of_the_server(server: InfluxServer) -> None:
    # https://docs.influxdata.com/influxdb/cloud-serverless/write-data/troubleshoot/
    server.answer = lambda _: Reply(201, b'{"code":"invalid","message":"partial write: 1 line rejected"}')
    answer = writer_of(server.url).write(LINES)
    assert answer.words == "HTTP 201: partial write: 1 line rejected"


def test_a_redirect_is_not_followed(server: InfluxServer) -> None:
    with influx_server() as other:
        server.answer = lambda _: failing(307, "elsewhere", Location=f"{other.url}/api/v2/write")
        assert writer_of(server.url).write(LINES).outcome is Outcome.HELD
        assert other.requests == []


def test_no_proxy_is_taken_from_the_environment(
    server: InfluxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert writer_of(server.url).write(LINES).outcome is Outcome.WRITTEN


WORDS = {
    "InfluxDB 2": (
        b'{"code":"unauthorized","message":"unauthorized access"}',
        {},
        "HTTP 401: unauthorized access",
    ),
    "InfluxDB 1": (b'{"error":"database not found: \\"x\\""}', {}, 'HTTP 401: database not found: "x"'),
    # https://docs.influxdata.com/influxdb3/core/write-data/troubleshoot/
    "InfluxDB 3": (
        b'{"error":"partial write of line protocol occurred","data":[{"error_message":"invalid column type",'
        b'"line_number":1,"original_line":"gpu a=1"}]}',
        {},
        "HTTP 401: partial write of line protocol occurred: invalid column type",
    ),
    "a header": (b"", {"X-Influxdb-Error": "not today"}, "HTTP 401: not today"),
    "text": (b"go away\r\n\x1b[31m", {}, "HTTP 401: go away [31m"),
    "nothing": (b"", {}, "HTTP 401: Unauthorized"),
    "no UTF-8": (b"\xff\xfe", {}, "HTTP 401: \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
    "JSON of another shape": (b'["message"]', {}, 'HTTP 401: ["message"]'),
    "JSON of another type": (b'{"message":{"a":1}}', {}, 'HTTP 401: {"message":{"a":1}}'),
    "JSON too deep": (b"[" * 60_000, {}, "HTTP 401: " + "[" * 397 + "..."),
    "our token": (b"what is " + TOKEN.encode() + b"?", {}, "HTTP 401: what is [hidden]?"),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_words_of_a_server_are_passed_on_in_one_line(server: InfluxServer, name: str) -> None:
    body, headers, expected = WORDS[name]
    server.answer = lambda _: Reply(401, body, headers)
    assert writer_of(server.url).write(LINES).words == expected


@pytest.mark.parametrize("body", [b"x" * 5_000_000, b"\x1f\x8b" + b"\0" * 1_000_000])
def test_a_long_answer_is_cut_and_the_next_write_works(server: InfluxServer, body: bytes) -> None:
    server.answer = lambda _: Reply(500, body, {"Content-Encoding": "gzip"})
    writer = writer_of(server.url)
    assert len(writer.write(LINES).words) <= 420
    server.answer = lambda _: OK
    assert writer.write(LINES).outcome is Outcome.WRITTEN


def test_retry_after_is_read(server: InfluxServer) -> None:
    server.answer = lambda _: failing(429, "slow down", Retry_After="7")
    assert writer_of(server.url).write(LINES).retry_after_seconds == 7.0


def test_a_connection_that_breaks_is_a_failure_and_the_next_write_works(server: InfluxServer) -> None:
    writer = writer_of(server.url)
    server.answer = lambda _: Reply(BREAK)
    answer = writer.write(LINES)
    assert (answer.outcome, answer.failure) == (Outcome.FAILED, Failure.TIMEOUT)
    server.answer = lambda _: OK
    assert writer.write(LINES).outcome is Outcome.WRITTEN


@pytest.mark.parametrize("how", [HANG, TRICKLE])
def test_a_server_that_does_not_answer_costs_a_bounded_time(
    server: InfluxServer, how: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_module, "READ_SECONDS", 0.5)
    monkeypatch.setattr(target_module, "REQUEST_SECONDS", 1.0)
    server.answer = lambda _: Reply(how)
    writer = writer_of(server.url)
    answer = writer.write(LINES)
    assert (answer.outcome, answer.failure) == (Outcome.FAILED, Failure.TIMEOUT)
    server.answer = lambda _: OK
    assert writer.write(LINES).outcome is Outcome.WRITTEN


def test_a_write_can_be_ended_from_another_thread(server: InfluxServer) -> None:
    server.answer = lambda _: Reply(HANG)
    writer = writer_of(server.url)
    timer = threading.Timer(0.3, writer.abort)
    timer.start()
    started = time.monotonic()
    assert writer.write(LINES).outcome is Outcome.FAILED
    assert time.monotonic() - started < target_module.READ_SECONDS
    timer.join()


def test_nobody_there_is_unreachable_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answer = writer_of(f"http://127.0.0.1:{port}").write(LINES)
    assert (answer.outcome, answer.words) == (Outcome.UNREACHABLE, "no connection: Connection refused")


def test_a_name_that_nobody_knows_is_unreachable_in_words() -> None:
    answer = writer_of("http://no-such-host.invalid:8086").write(LINES)
    assert (answer.outcome, answer.words) == (Outcome.UNREACHABLE, "the host's name cannot be resolved")


def test_a_port_that_never_reads_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "READ_SECONDS", 0.3)
    with deaf_port() as port:
        answer = writer_of(f"http://127.0.0.1:{port}").write(LINES)
    assert (answer.outcome, answer.failure) == (Outcome.FAILED, Failure.TIMEOUT)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, with its key in the same file; its own authority."""
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    key, certificate = file.with_suffix(".key"), file.with_suffix(".crt")
    command = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {key} -out"
        f" {certificate} -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    file.write_bytes(key.read_bytes() + certificate.read_bytes())
    return file


@pytest.mark.needs_program("openssl")
def test_tls_takes_a_private_authority_and_nothing_else(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with influx_server(context=context) as server:
        trusted = writer_of(server.url, ca_file=str(certificate.with_suffix(".crt")))
        assert trusted.write(LINES).outcome is Outcome.WRITTEN
        answer = writer_of(server.url).write(LINES)
        assert (answer.outcome, answer.failure) == (Outcome.UNREACHABLE, Failure.CERTIFICATE)
        assert "self-signed certificate" in answer.words
        wrong_name = server.url.replace("127.0.0.1", "localhost")
        answer = writer_of(wrong_name, ca_file=str(certificate.with_suffix(".crt"))).write(LINES)
        assert (answer.outcome, answer.failure) == (Outcome.UNREACHABLE, Failure.CERTIFICATE)
        assert len(server.requests) == 1


@pytest.mark.needs_program("openssl")
def test_tls_that_hangs_can_be_ended(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with influx_server(lambda _: Reply(HANG), context=context) as server:
        writer = writer_of(server.url, ca_file=str(certificate.with_suffix(".crt")))
        timer = threading.Timer(0.5, writer.abort)
        timer.start()
        assert writer.write(LINES).outcome is Outcome.FAILED
        timer.join()


def test_the_client_leaves_the_log_alone(server: InfluxServer) -> None:
    # It logs to the root by logging.debug, which would set it up for a program that has not.
    root = logging.getLogger()
    before = list(root.handlers)
    root.handlers.clear()
    try:
        server.answer = lambda _: Reply(500, b"no JSON")
        writer_of(server.url).write(LINES)
        assert root.handlers == []
    finally:
        root.handlers[:] = before


def test_the_client_is_loaded_with_the_first_write_only() -> None:
    program = (
        "import sys, exporters.influxdb.feed, exporters.influxdb.target as t\n"
        "t.InfluxWriter(t.Target(url='http://127.0.0.1:1', bucket='b'))\n"
        "assert not {'influxdb_client', 'urllib3', 'reactivex'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_there_is_advice_for_every_failure() -> None:
    assert set(ADVICE) == set(Failure)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("99999999", 600.0),
        ("Sun, 30 Nov 2025 12:21:30 GMT", 90.0),
        ("Sun, 30 Nov 2025 12:00:00 GMT", 0.0),
        ("Wed, 30 Nov 2095 12:00:00 GMT", 600.0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
    ],
)
def test_retry_after_in_seconds_or_as_a_date(text: str | None, seconds: float | None) -> None:
    # RFC 9110 §10.2.3; bounded as Telegraf does (facts on reliability, §1).
    assert retry_after_seconds(text, NOW_NS) == seconds


@given(st.text())
def test_any_retry_after_is_bounded(text: str) -> None:
    wait = retry_after_seconds(text, NOW_NS)
    assert wait is None or 0 <= wait <= 600


@given(st.lists(st.floats(0, 0.999), min_size=1, max_size=50), st.floats(0, 1e6))
def test_no_wait_is_longer_than_a_minute_and_what_the_server_asked_for(
    draws: list[float], asked: float
) -> None:
    numbers = iter(draws)
    backoff = Backoff(lambda: next(numbers))
    for place in range(len(draws)):
        wait = backoff.next(asked)
        assert min(asked, 600.0) <= wait <= min(asked, 600.0) + min(60.0, 2.0**place)


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(1, 1_000_000)), min_size=1, max_size=60))
def test_a_pace_allows_no_more_than_its_rate_and_what_it_saved(steps: list[tuple[float, int]]) -> None:
    now = [0.0]
    pace = Pace(lambda: now[0], lambda: 1000.0)
    sent = 0
    largest = 0
    for seconds, size in steps:
        now[0] += seconds
        while pace.allowed() >= 1:
            pace.take(size)
            sent += size
            largest = max(largest, size)
        assert sent <= 5 * 1000.0 * now[0] + 2 * 5 * 1000.0 + largest + 1


def test_a_rate_follows_what_is_made() -> None:
    now = [0.0]
    rate = Rate(lambda: now[0])
    assert rate.per_second() is None
    for _ in range(120):
        rate.add(500)
        now[0] += 1.0
    assert rate.per_second() == pytest.approx(500.0, rel=0.02)
    for _ in range(300):
        rate.add(50)
        now[0] += 1.0
    assert rate.per_second() == pytest.approx(50.0, rel=0.1)
