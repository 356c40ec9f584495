"""What the agent's server refuses, and whom it drops. Times are shortened; none is measured."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from dataclasses import replace

import pytest

from exporters.http_server import Limits
from tests.agent_http_client import Client, run, serving
from tests.exporter_snapshots import EMPTY, series, snapshot_of, whole_catalogue

WHOLE = whole_catalogue()
NEVER = 3600.0
PATIENT = Limits(request_seconds=NEVER, answer_seconds=NEVER, idle_seconds=NEVER)
BIG = snapshot_of(*((series("gpu_up", str(number), "x" * 4000), 1) for number in range(4000)))
"""More than the sockets on both sides buffer."""
BIG_BYTES = 16_000_000
"""A bit less than the size of its exposition."""


async def rest_of(client: socket.socket) -> int:
    """Count the bytes that a client can still read until the connection ends."""
    received = 0
    try:
        while chunk := await asyncio.get_running_loop().sock_recv(client, 2**20):
            received += len(chunk)
    except ConnectionError:
        pass  # the server may reset a connection that it drops
    return received


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /metrics?" + b"x" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 5000 + b"\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 70 + b"\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nno header\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the start of a TLS ClientHello
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
)
def test_malformed_and_oversize_requests_are_refused_and_dropped(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(WHOLE, limits=PATIENT) as exporter:
            async with Client(exporter) as client:
                await client.send(request_bytes)
                answer = await client.answer()
                assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
                assert answer.headers["server"] == "rackwatt"
                assert json.loads(answer.body)["detail"] == (
                    "The request is not HTTP, or larger than this server reads."
                )
                assert await client.ended()
            async with Client(exporter) as client:
                assert (await client.ask("/metrics")).status == 200

    run(scenario)
    # Strangers do not fill the log.
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize(
    ("header", "body"),
    [(b"Content-Length: 5", b"hello"), (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")],
)
@pytest.mark.parametrize("sent", [True, False])
def test_a_request_with_a_body_is_refused_and_dropped(header: bytes, body: bytes, sent: bool) -> None:
    async def scenario() -> None:
        async with serving(WHOLE, limits=PATIENT) as exporter, Client(exporter) as client:
            await client.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n" + body * sent)
            assert (await client.answer()).status == 413
            assert await client.ended()

    run(scenario)


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nHost:"])
def test_a_client_that_does_not_finish_its_request_is_dropped(sent: bytes) -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, request_seconds=0.2)
        async with serving(WHOLE, limits=limits) as exporter, Client(exporter) as client:
            await client.send(sent)
            assert await client.ended()

    run(scenario)


def test_a_client_that_does_not_finish_its_second_request_is_dropped() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, request_seconds=0.2)
        async with serving(WHOLE, limits=limits) as exporter, Client(exporter) as client:
            assert (await client.ask("/-/healthy")).status == 200
            await client.send(b"GET /metrics HTTP/1.1\r\n")
            assert await client.ended()

    run(scenario)


def test_a_client_that_dribbles_its_request_is_dropped() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, request_seconds=0.3)
        async with serving(WHOLE, limits=limits) as exporter, Client(exporter) as client:
            assert (await client.ask("/-/healthy")).status == 200

            async def dribble() -> None:
                while True:
                    await client.send(b"G")
                    await asyncio.sleep(0.02)

            dribbling = asyncio.create_task(dribble())
            assert await client.ended()
            dribbling.cancel()
            await asyncio.gather(dribbling, return_exceptions=True)

    run(scenario)


def test_a_connection_may_idle_longer_than_a_request_may_take() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, request_seconds=0.1)
        async with serving(WHOLE, limits=limits) as exporter, Client(exporter) as client:
            for _ in range(3):
                assert (await client.ask("/metrics")).status == 200
                await asyncio.sleep(0.4)

    run(scenario)


def test_an_idle_connection_is_dropped_in_the_end() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, idle_seconds=0.2)
        async with serving(WHOLE, limits=limits) as exporter, Client(exporter) as client:
            assert (await client.ask("/metrics")).status == 200
            assert await client.ended()

    run(scenario)


def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, answer_seconds=0.3)
        async with serving(BIG, limits=limits) as exporter:
            with socket.create_connection(("127.0.0.1", exporter.port)) as client:
                client.setblocking(False)
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
                await asyncio.sleep(1.0)
                assert 0 < await rest_of(client) < BIG_BYTES
            async with Client(exporter) as other:
                assert (await other.ask("/-/healthy")).status == 200

    run(scenario)


def test_a_client_that_pipelines_without_reading_is_dropped() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, answer_seconds=0.3)
        async with serving(BIG, limits=limits) as exporter:
            with socket.create_connection(("127.0.0.1", exporter.port)) as client:
                client.setblocking(False)
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
                await asyncio.sleep(1.0)
                assert await rest_of(client) < BIG_BYTES

    run(scenario)


def test_one_connection_too_many_ends_the_one_idle_for_longest() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, connections=3)
        async with (
            serving(WHOLE, limits=limits) as exporter,
            Client(exporter) as first,
            Client(exporter) as second,
            Client(exporter) as third,
        ):
            await first.send(b"GET /metrics HTTP/1.1\r\n")  # has begun a request: not idle
            for client in (third, second):
                assert (await client.ask("/-/healthy")).status == 200
            async with Client(exporter) as fourth:
                assert (await fourth.ask("/metrics")).status == 200
                assert await third.ended()
                assert (await second.ask("/-/healthy")).status == 200
                await first.send(b"Host: a\r\n\r\n")
                assert (await first.answer()).status == 200

    run(scenario)


def test_unfinished_requests_do_not_keep_a_scrape_out() -> None:
    async def scenario() -> None:
        limits = replace(PATIENT, connections=4)
        async with serving(WHOLE, limits=limits) as exporter:
            slow = [Client(exporter) for _ in range(20)]
            for client in slow:
                await client.__aenter__()
                await client.send(b"GET /metrics HTTP/1.1\r\nHost:")
            async with Client(exporter) as scrape:
                assert (await scrape.ask("/metrics")).status == 200
            for client in slow:
                await client.__aexit__()

    run(scenario)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /metrics HTTP/1.1\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50,
    ],
)
def test_hanging_clients_do_not_hold_up_the_close(sent: bytes) -> None:
    async def scenario() -> None:
        async with serving(BIG, limits=PATIENT) as exporter:
            clients = [socket.create_connection(("127.0.0.1", exporter.port)) for _ in range(3)]
            for client in clients:
                client.sendall(sent)
            await asyncio.sleep(0.2)
            async with asyncio.timeout(2):
                await exporter.close()
            for client in clients:
                client.setblocking(False)
                assert await rest_of(client) < BIG_BYTES
                client.close()

    run(scenario)


def test_an_answer_under_way_is_finished_on_close() -> None:
    async def scenario() -> None:
        async with serving(BIG, limits=PATIENT) as exporter, Client(exporter) as client:
            await client.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            await client.reader.readuntil(b" 200 OK\r\n")
            closing = asyncio.create_task(exporter.close())
            await client.reader.readuntil(b"\r\n\r\n")
            body = await client.reader.read(-1)
            await closing
            assert len(body) > BIG_BYTES

    run(scenario)


def test_a_failure_of_ours_is_a_problem_without_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        broken = replace(EMPTY, table=BIG.table)  # values are missing: `zip(strict=True)` raises
        async with serving(broken, limits=PATIENT) as exporter, Client(exporter) as client:
            answer = await client.ask("/")
            assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")
            assert json.loads(answer.body)["detail"] == "The agent failed to answer; its log says why."

    run(scenario)
    assert [record.getMessage() for record in caplog.records] == ["cannot answer GET /"]
