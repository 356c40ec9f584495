"""Serving endpoints that are broken, slow, hostile or gone, over real sockets, each beside a healthy one."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from collector.schedule import Schedule
from collector.sources.serving import fetch
from collector.sources.serving.body import Body
from collector.sources.serving.endpoint import ServingEndpoint
from collector.sources.serving.feed import ServingFeed
from collector.sources.serving.fetch import MAXIMUM_BYTES, Fetcher
from tests.agent_http_client import run
from tests.peer_agents import until
from tests.serving_endpoints import (
    GOOD,
    Answer,
    FakeEngine,
    PlainReader,
    answered,
    errors_of,
    listening,
    value_of,
)

PERIOD_SECONDS = 0.6
TIMEOUT_SECONDS = 0.5

MIB = 1024 * 1024


@asynccontextmanager
async def feeding(*endpoints: ServingEndpoint) -> AsyncIterator[ServingFeed]:
    """Scrape endpoints."""
    schedule = Schedule()
    feed = ServingFeed(
        endpoints,
        fetcher=Fetcher(timeout_seconds=TIMEOUT_SECONDS),
        make_reader=lambda _: PlainReader(),
        schedule=schedule,
        period_seconds=PERIOD_SECONDS,
    )
    schedule.start()
    await feed.start()
    try:
        yield feed
    finally:
        await feed.close()
        await schedule.close()


def in_parts(part: bytes, *, times: int | None, pause_seconds: float = 0.0, **headers: str) -> Answer:
    """Answer the same part again and again, `times` or for ever, without a length."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        response.content_type = "text/plain"
        await response.prepare(request)
        sent = 0
        while times is None or sent < times:
            await response.write(part)
            await asyncio.sleep(pause_seconds)
            sent += 1
        return response

    return answer


async def never(_: web.BaseRequest) -> web.StreamResponse:
    """Accept the request, and say nothing."""
    await asyncio.sleep(3600)
    raise AssertionError


async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
    """End the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    await asyncio.sleep(1)
    raise AssertionError


async def fail(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=500, text="tokens 7\n")


def bomb() -> bytes:
    """Pack 1 GiB of zeros: after a full flush the same MiB packs to the same bytes (zlib.h)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * 1023


THOUSAND_SERIES = b"".join(b'm{series="%07d"} 1\n' % number for number in range(1000))

BAD: dict[str, tuple[Answer, str]] = {
    "10 MB with its length": (answered(b"tokens 7 \n" * 1_000_000), "too_large"),
    "10 MB without its length": (in_parts(b"tokens 7 \n" * 10_000, times=100), "too_large"),
    "a million series": (in_parts(THOUSAND_SERIES, times=1000), "too_large"),
    "without an end": (in_parts(b"x" * 65_536, times=None), "too_large"),
    "a gzip bomb": (answered(bomb(), Content_Encoding="gzip"), "too_large"),
    "a byte now and then": (in_parts(b"t", times=None, pause_seconds=0.05), "timeout"),
    "silence": (never, "timeout"),
    "no word": (hang_up, "connection"),
    "500": (fail, "status"),
    "not text": (answered(bytes(range(256))), "malformed"),
    "nothing": (answered(b""), "malformed"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_endpoint_is_counted_and_costs_the_others_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, error = BAD[name]
    bodies: list[Body] = []

    class CountedBody(Body):
        def __init__(self, maximum_bytes: int, *, gzip: bool) -> None:
            super().__init__(maximum_bytes, gzip=gzip)
            bodies.append(self)

    monkeypatch.setattr(fetch, "Body", CountedBody)

    async def scenario() -> None:
        bad, good = FakeEngine(answer), FakeEngine()
        async with listening(bad, good), feeding(bad.endpoint("bad"), good.endpoint("good")) as feed:
            await until(lambda: sum(map(int_of, errors_of(feed, "bad").values())) >= 3)
            assert list(errors_of(feed, "bad")) == [error]
            assert value_of(feed, "llm_up", "bad") == 0
            assert_healthy(feed, good)

    run(scenario)
    # The good one's bodies are among them.
    assert max(body.unpacked_bytes for body in bodies) <= MAXIMUM_BYTES + 1


def int_of(value: object) -> int:
    assert isinstance(value, int)
    return value


def assert_healthy(feed: ServingFeed, good: FakeEngine) -> None:
    """See that an endpoint was scraped each period, while another was scraped three times."""
    assert errors_of(feed, "good") == {}
    assert value_of(feed, "llm_up", "good") == 1
    assert value_of(feed, "llm_tokens_total", "good", "generation") == 7
    assert len(good.requests) in {2, 3, 4}


Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def headers_without_an_end(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for _block in range(1000):
        # Many at once, so that it is their number that ends it, and not the time on a slow machine.
        writer.write(b"".join(b"X-%d: y\r\n" % number for number in range(1000)))
        await writer.drain()


async def headers_slowly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        writer.write(b"X-%d: y\r\n" % number)
        await writer.drain()
        await asyncio.sleep(0.05)


async def a_long_header(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n" + GOOD)


async def half_a_body(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n" + GOOD)


async def half_a_chunk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n" + GOOD)


async def another_protocol(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")


RAW: Sequence[tuple[Speak, str]] = (
    (headers_without_an_end, "malformed"),
    (headers_slowly, "timeout"),
    (a_long_header, "malformed"),
    (half_a_body, "connection"),
    (half_a_chunk, "connection"),
    (another_protocol, "malformed"),
)


@pytest.mark.parametrize(("speak", "error"), RAW, ids=[speak.__name__ for speak, _ in RAW])
def test_what_is_not_http_as_it_should_be_is_counted(speak: Speak, error: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await speak(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def scenario() -> None:
        good = FakeEngine()
        async with listening(good), await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            bad = ServingEndpoint(
                name="bad", url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
            )
            async with feeding(bad, good.endpoint("good")) as feed:
                await until(lambda: sum(map(int_of, errors_of(feed, "bad").values())) >= 3)
                assert list(errors_of(feed, "bad")) == [error]
                assert_healthy(feed, good)

    run(scenario)


def test_a_redirection_is_not_followed() -> None:
    async def scenario() -> None:
        elsewhere = FakeEngine()

        async def redirect(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/"})

        bad = FakeEngine(redirect)
        async with listening(bad, elsewhere), feeding(bad.endpoint("bad", token=lambda: "token")) as feed:
            await until(lambda: len(bad.requests) >= 3)
            assert list(errors_of(feed, "bad")) == ["status"]
            assert elsewhere.requests == []

    run(scenario)


def test_json_is_read_once_and_never_again() -> None:
    async def scenario() -> None:
        bad, good = FakeEngine(answered(b"[]", Content_Type="application/json")), FakeEngine()
        async with listening(bad, good), feeding(bad.endpoint("bad"), good.endpoint("good")) as feed:
            await until(lambda: len(good.requests) >= 4)
            assert len(bad.requests) == 1
            assert errors_of(feed, "bad") == {"drained_json": 1}
            assert value_of(feed, "llm_up", "bad") == 0

    run(scenario)


def test_an_engine_that_goes_and_comes_back() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        async with listening(engine):
            port = engine.port
        async with feeding(engine.endpoint()) as feed:
            await until(lambda: errors_of(feed, "decode-0"))
            assert list(errors_of(feed, "decode-0")) == ["connection"]
            later = FakeEngine(port=port)
            async with listening(later):
                await until(lambda: value_of(feed, "llm_up", "decode-0") == 1)
                assert value_of(feed, "llm_tokens_total", "decode-0", "generation") == 7
            await until(lambda: value_of(feed, "llm_up", "decode-0") == 0)
            assert value_of(feed, "llm_tokens_total", "decode-0", "generation") is None

    run(scenario)


def test_many_endpoints_that_hang_do_not_keep_one_waiting_that_answers() -> None:
    async def scenario() -> None:
        bad, good = FakeEngine(never), FakeEngine()
        async with listening(bad, good):
            endpoints = [*(bad.endpoint(f"bad-{number}") for number in range(63)), good.endpoint("good")]
            async with feeding(*endpoints) as feed:
                await until(lambda: errors_of(feed, "bad-62").get("timeout") == 3)
                assert_healthy(feed, good)

    run(scenario)


def test_closing_ends_scrapes_under_way() -> None:
    async def scenario() -> None:
        engine = FakeEngine(never)
        async with listening(engine):
            async with feeding(engine.endpoint()):
                await until(lambda: engine.requests)
            assert [task for task in asyncio.all_tasks() if task.get_name().startswith("job ")] == []

    run(scenario)
