"""The REST server through real sockets: it starts, is bounded, and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from collector.errors import ConfigurationError
from exporters.rest.server import RestServer
from exporters.rest.settings import ConnectionLimits, RestSettings
from tests.agent_http_client import run
from tests.rest_double import ServiceDouble

REQUEST = b"GET /v1/racks HTTP/1.1\r\nHost: rack:10073\r\n\r\n"
WHOLE_ANSWER = b'"frozen":false}]}'
Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


@dataclass
class Served:
    """A server, and connections to it that end with the test."""

    server: RestServer
    writers: list[Writer] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.port

    async def connect(self) -> tuple[Reader, Writer]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer


@asynccontextmanager
async def serving(**limits: float) -> AsyncIterator[Served]:
    settings = RestSettings(port=0, limits=ConnectionLimits(**limits))  # type: ignore[arg-type]  # some are ints
    served = Served(RestServer(ServiceDouble(), settings))
    await served.server.start()
    try:
        yield served
    finally:
        await served.server.close()
        for writer in served.writers:
            writer.transport.abort()


async def ended(reader: Reader) -> bytes:
    """Read until the server ends the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_it_answers_and_keeps_the_connection() -> None:
    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await server.connect()
            for _ in range(2):
                writer.write(REQUEST)
                answer = await reader.readuntil(WHOLE_ANSWER)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
                assert answer.lower().count(b"\r\nserver: rackwatt\r\n") == 1

    run(scenario)


def test_head_has_no_body() -> None:
    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await server.connect()
            writer.write(
                REQUEST.replace(b"GET", b"HEAD").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            )
            head, _, body = (await ended(reader)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert body == b""

    run(scenario)


def test_an_address_that_is_taken_is_said_with_what_to_do() -> None:
    async def scenario() -> None:
        async with serving() as server:
            second = RestServer(ServiceDouble(), RestSettings(port=server.port))
            with pytest.raises(
                ConfigurationError, match=rf"cannot listen on 127\.0\.0\.1:{server.port}: .* in use"
            ):
                await second.start()
            await second.close()

    run(scenario)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_said(host: str) -> None:
    async def scenario() -> None:
        server = RestServer(ServiceDouble(), RestSettings(host=host, port=0))
        with pytest.raises(ConfigurationError, match=f"cannot listen on {host}:0"):
            await server.start()

    run(scenario)


async def _nothing(reader: Reader, writer: Writer) -> None:
    """Send nothing at all."""


async def _half_a_request(reader: Reader, writer: Writer) -> None:
    writer.write(REQUEST[:-2])


async def _half_a_body(reader: Reader, writer: Writer) -> None:
    writer.write(b"POST /v1/maintenance HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")


async def _nothing_more(reader: Reader, writer: Writer) -> None:
    writer.write(REQUEST)
    await reader.readuntil(WHOLE_ANSWER)


@pytest.mark.parametrize("behave", [_nothing, _half_a_request, _half_a_body, _nothing_more])
def test_who_keeps_the_server_waiting_is_dropped(behave: Callable[[Reader, Writer], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with serving(request_seconds=0.05, answer_seconds=0.05, idle_seconds=0.1) as server:
            reader, writer = await server.connect()
            await behave(reader, writer)
            await ended(reader)

    run(scenario)


def test_who_sends_a_byte_now_and_then_is_dropped_all_the_same() -> None:
    async def scenario() -> None:
        async with serving(request_seconds=0.1) as server:
            reader, writer = await server.connect()
            gone = asyncio.create_task(ended(reader))
            for byte in REQUEST * 100:
                if gone.done():
                    break
                writer.write(bytes([byte]) if byte != 10 else b"\t")  # The request never ends.
                await asyncio.sleep(0.01)
            await gone

    run(scenario)


def test_who_does_not_read_is_dropped() -> None:
    async def scenario() -> None:
        async with serving(answer_seconds=0.1) as server:
            _, writer = await server.connect()
            assert isinstance(writer.transport, asyncio.Transport)
            writer.transport.pause_reading()
            # Far more answers than the sockets' buffers hold.
            writer.write(REQUEST.replace(b"/v1/racks", b"/v1/racks/r01/nodes") * 2000)
            while server.server.connections:  # noqa: ASYNC110 - a client that does not read is not told
                await asyncio.sleep(0.01)

    run(scenario)


def test_one_connection_too_many_ends_the_one_that_is_missed_least() -> None:
    async def scenario() -> None:
        async with serving(connections=2) as server:
            idle, other = await server.connect(), await server.connect()
            await _nothing_more(*idle)
            await _half_a_request(*other)
            await asyncio.sleep(0.02)
            newest = await server.connect()
            await _nothing_more(*newest)
            assert await ended(idle[0]) == b""
            other[1].write(b"\r\n")
            await other[0].readuntil(WHOLE_ANSWER)

    run(scenario)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 20_000,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000,
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/maintenance HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
    ids=["TLS", "no path", "no host", "long path", "long header", "two lengths", "strange coding"],
)
def test_what_is_not_http_is_a_problem(data: bytes) -> None:
    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await server.connect()
            writer.write(data)
            answer = await ended(reader)
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 "))
            assert b"application/problem+json" in answer

    run(scenario)


def test_a_websocket_is_answered_as_any_request() -> None:
    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await server.connect()
            upgrade = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n"
            writer.write(REQUEST.replace(b"\r\n\r\n", upgrade))
            assert (await reader.readuntil(WHOLE_ANSWER)).startswith(b"HTTP/1.1 200 OK\r\n")

    run(scenario)


def test_closing_ends_whoever_is_there_and_frees_the_port() -> None:
    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await server.connect()
            await _half_a_request(reader, writer)
            port = server.port
        assert await ended(reader) == b""
        again = RestServer(ServiceDouble(), RestSettings(port=port))
        await again.start()
        await again.close()
        await again.close()

    run(scenario)
