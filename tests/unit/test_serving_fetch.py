"""Fetching an endpoint's metrics: what is asked, what is taken, and what is said of the rest."""

from __future__ import annotations

import contextlib
import gzip
import ssl
import subprocess
import zlib
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.serving.body import Body
from collector.sources.serving.endpoint import ScrapeError, ServingEndpoint
from collector.sources.serving.fetch import MAXIMUM_BYTES, Fetcher
from tests.agent_http_client import run
from tests.serving_endpoints import GOOD, Answer, FakeEngine, answered, listening

MIB = 1024 * 1024


def bomb(unpacked_mib: int) -> bytes:
    """Pack zeros: after a full flush the same MiB packs to the same bytes (zlib.h, `Z_FULL_FLUSH`)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (unpacked_mib - 1)


def parts_of(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def collected(data: bytes, *, gzip: bool, maximum_bytes: int = 1000, part_bytes: int = 7) -> bytes:
    body = Body(maximum_bytes, gzip=gzip)
    for part in parts_of(data, part_bytes):
        body.add(part)
    return body.whole()


async def fetched(answer: Answer, *, timeout_seconds: float = 15.0) -> bytes:
    engine = FakeEngine(answer)
    fetcher = Fetcher(timeout_seconds=timeout_seconds)
    try:
        async with listening(engine):
            return await fetcher.fetch(engine.endpoint())
    finally:
        await fetcher.close()


# What is collected.


@given(st.binary(max_size=400).filter(lambda data: not data[:64].lstrip().startswith((b"[", b"{"))))
def test_a_body_is_the_same_packed_or_not(data: bytes) -> None:
    assert collected(data, gzip=False) == data
    assert collected(gzip.compress(data, mtime=0), gzip=True) == data


@given(st.data(), st.binary(max_size=400), st.integers(1, 64), st.integers(0, 200))
def test_damaged_gzip_is_bounded_and_raises_nothing_else(
    source: st.DataObject, data: bytes, part_bytes: int, maximum_bytes: int
) -> None:
    packed = bytearray(gzip.compress(data, mtime=0))
    packed[source.draw(st.integers(0, len(packed) - 1))] ^= source.draw(st.integers(0, 255))
    body = Body(maximum_bytes, gzip=True)
    with contextlib.suppress(ScrapeError):
        for part in parts_of(bytes(packed), part_bytes):
            body.add(part)
        body.whole()
    assert body.unpacked_bytes <= maximum_bytes + 1


@pytest.mark.parametrize("packed", [True, False])
def test_the_bound_itself_is_within_it(packed: bool) -> None:
    assert collected(gzip.compress(bytes(1000)) if packed else bytes(1000), gzip=packed) == bytes(1000)
    with pytest.raises(ScrapeError, match="larger than") as raised:
        collected(gzip.compress(bytes(1001)) if packed else bytes(1001), gzip=packed)
    assert raised.value.error == "too_large"


def test_a_bomb_of_a_gibibyte_is_unpacked_to_the_bound_and_no_further() -> None:
    packed = bomb(1024)
    assert len(packed) < 2 * MIB
    body = Body(MAXIMUM_BYTES, gzip=True)
    with pytest.raises(ScrapeError, match="the answer is larger than 8 MiB; no engine's metrics are"):
        body.add(packed)
    assert body.unpacked_bytes == 8 * MIB + 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(b"tokens 7\n", mtime=0)[:-1], "the answer is gzip that ends too early"),
        (b"", "the answer is gzip that ends too early"),
        (b"tokens 7\n", "the answer says it is gzip and is not: "),
        (gzip.compress(b"tokens", mtime=0)[:-8] + bytes(8), "the answer says it is gzip and is not: "),
        (gzip.compress(b"tokens", mtime=0) + b"7", "the answer goes on after the end of its gzip"),
        (gzip.compress(b"tokens", mtime=0) * 2, "the answer goes on after the end of its gzip"),
    ],
)
def test_broken_gzip_is_malformed(data: bytes, message: str) -> None:
    with pytest.raises(ScrapeError, match=message) as raised:
        collected(data, gzip=True)
    assert raised.value.error == "malformed"


@pytest.mark.parametrize("data", [b"[]", b'[{"iter": 1}]', b' \n{"a": 1}', b"{"])
def test_json_is_told_by_its_beginning(data: bytes) -> None:
    with pytest.raises(ScrapeError, match="use `/prometheus/metrics`") as raised:
        collected(data, gzip=False)
    assert raised.value.error == "drained_json"


# What is asked.


def test_the_text_format_is_asked_for_and_nothing_else_is_sent() -> None:
    async def scenario() -> None:
        engine, fetcher = FakeEngine(), Fetcher()
        async with listening(engine):
            assert await fetcher.fetch(engine.endpoint()) == GOOD
            await fetcher.close()
        assert engine.requests == [
            {
                "host": f"127.0.0.1:{engine.port}",
                "accept": "text/plain;version=0.0.4, */*;q=0.1",
                "accept-encoding": "gzip",
                "user-agent": "rackwatt",
                "connection": "close",
            }
        ]

    run(scenario)


def test_the_token_is_sent_read_anew_and_never_repeated() -> None:
    tokens = ["first-secret", "second-secret"]

    async def scenario() -> None:
        engine, fetcher = FakeEngine(), Fetcher()
        async with listening(engine):
            endpoint = engine.endpoint(token=lambda: tokens.pop(0) if len(tokens) > 1 else tokens[0])
            await fetcher.fetch(endpoint)
            await fetcher.fetch(endpoint)
            assert [each["authorization"] for each in engine.requests] == [
                "Bearer first-secret",
                "Bearer second-secret",
            ]

            async def repeat(request: web.BaseRequest) -> web.StreamResponse:
                assert request.transport is not None
                token = request.headers["Authorization"].encode()
                # No web framework would let it: a header that is none.
                request.transport.write(b"HTTP/1.1 200 OK\r\n\x00" + token + b"\r\n\r\n")
                return web.Response()

            engine.answer = repeat
            with pytest.raises(ScrapeError) as raised:
                await fetcher.fetch(endpoint)
            assert str(raised.value) == "the answer is not HTTP as it should be"
            assert "secret" not in repr(endpoint)
        await fetcher.close()

    run(scenario)


def test_cookies_are_not_kept() -> None:
    async def scenario() -> None:
        engine, fetcher = FakeEngine(answered(GOOD, Set_Cookie="session=1")), Fetcher()
        async with listening(engine):
            await fetcher.fetch(engine.endpoint())
            await fetcher.fetch(engine.endpoint())
        await fetcher.close()
        assert ["cookie" in each for each in engine.requests] == [False, False]

    run(scenario)


def test_a_packed_answer_is_unpacked() -> None:
    async def scenario() -> None:
        assert await fetched(answered(gzip.compress(GOOD, mtime=0), Content_Encoding="gzip")) == GOOD
        assert await fetched(answered(gzip.compress(GOOD, mtime=0), Content_Encoding="X-GZIP")) == GOOD

    run(scenario)


# What is said of the rest.


def status(number: int) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=number)

    return answer


BAD: dict[str, tuple[Answer, str, str]] = {
    "unauthorized": (
        status(401),
        "status",
        "the status is 401 instead of 200; give its token in `token_file`",
    ),
    "fails": (status(500), "status", "the status is 500 instead of 200"),
    "not modified": (status(304), "status", "the status is 304 instead of 200; redirections are not"),
    "a number that is no status": (status(799), "status", "the status is 799 instead of 200"),
    "JSON": (answered(b"[]", Content_Type="application/json"), "drained_json", "the answer is JSON; "),
    "JSON of a kind": (
        answered(b"[]", Content_Type="application/problem+json; charset=utf-8"),
        "drained_json",
        "the answer is JSON; ",
    ),
    "deflate": (
        answered(zlib.compress(GOOD), Content_Encoding="deflate"),
        "malformed",
        "the answer is encoded as 'deflate'; only gzip is asked for",
    ),
    "packed twice": (
        answered(gzip.compress(gzip.compress(GOOD, mtime=0)), Content_Encoding="gzip, gzip"),
        "malformed",
        "the answer is encoded as 'gzip, gzip'; only gzip is asked for",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_told(name: str) -> None:
    answer, error, message = BAD[name]

    async def scenario() -> None:
        with pytest.raises(ScrapeError) as raised:
            await fetched(answer)
        assert raised.value.error == error
        assert str(raised.value).startswith(message)

    run(scenario)


def test_a_host_without_an_address_is_told() -> None:
    async def scenario() -> None:
        fetcher = Fetcher(timeout_seconds=15.0)
        with pytest.raises(ScrapeError, match="the host name cannot be resolved: ") as raised:
            await fetcher.fetch(ServingEndpoint(name="a", url="http://no-such-host.invalid/metrics"))
        assert raised.value.error == "connection"
        await fetcher.close()

    run(scenario)


# TLS.


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Make a certificate of 127.0.0.1 that signs itself, and its key."""
    public, private = tmp_path / "public.pem", tmp_path / "private.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=engine "
        f"-addext subjectAltName=IP:127.0.0.1 -out {public} -keyout {private}"
    )
    subprocess.run(command.split(), check=True, capture_output=True, timeout=60)
    return public, private


@pytest.mark.needs_program("openssl")
def test_an_authority_of_ones_own_is_trusted_where_it_is_named(certificate: tuple[Path, Path]) -> None:
    public, private = certificate

    async def scenario() -> None:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(public, private)
        runner = web.ServerRunner(web.Server(FakeEngine().handle), shutdown_timeout=0.1)
        await runner.setup()
        fetcher = Fetcher()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust).start()
            url = f"https://127.0.0.1:{runner.addresses[0][1]}/metrics"
            named = ServingEndpoint(name="a", url=url, ca_file=str(public))
            assert await fetcher.fetch(named) == GOOD
            with pytest.raises(ScrapeError, match=r"^TLS failed: .*belongs in `ca_file`$") as raised:
                await fetcher.fetch(ServingEndpoint(name="b", url=url))
            assert raised.value.error == "connection"
            with pytest.raises(ScrapeError, match=r"private\.pem: holds no certificates that can be used"):
                await fetcher.fetch(ServingEndpoint(name="c", url=url, ca_file=str(private)))
        finally:
            await fetcher.close()
            await runner.cleanup()

    run(scenario)


def test_an_authority_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        fetcher = Fetcher()
        missing = ServingEndpoint(name="a", url="https://127.0.0.1:1/", ca_file=str(tmp_path / "ca.pem"))
        with pytest.raises(ScrapeError, match=r"ca\.pem: holds no certificates that can be used"):
            await fetcher.fetch(missing)
        await fetcher.close()

    run(scenario)
