"""Redfish services that are slow, lying, hostile or gone, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from collector.errors import ConfigurationError
from collector.sources.redfish import (
    RedfishError,
    RedfishLimits,
    RedfishTarget,
    ShelfWatch,
)
from collector.sources.redfish.client import RedfishClient
from collector.sources.redfish.documents import MAXIMUM_BYTES
from collector.sources.redfish.shelf_watch import ShelfReader
from tests.agent_http_client import run
from tests.peer_agents import until
from tests.redfish_services import (
    PATIENT,
    QUICK,
    ROOT,
    SHELF,
    SUPPLIES,
    Answer,
    Document,
    LiteralService,
    collection,
    link,
    ocp_shelf,
    reading,
    serving,
    target,
)


def json_response(body: bytes, **headers: str) -> web.Response:
    every = {"Content-Type": "application/json", **headers}
    return web.Response(body=body, headers={name.replace("_", "-"): value for name, value in every.items()})


def answered(body: bytes, status: int = 200, **headers: str) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        response = json_response(body, **headers)
        response.set_status(status)
        return response

    return answer


async def never(_: web.BaseRequest) -> web.StreamResponse:
    """Accept the request, and say nothing."""
    await asyncio.sleep(3600)
    raise AssertionError


async def drip(request: web.BaseRequest) -> web.StreamResponse:
    """Answer a byte at a time, for ever."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def flood(request: web.BaseRequest) -> web.StreamResponse:
    """Answer without an end, in chunks."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" " * 256 * 1024)


async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
    """End the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    await asyncio.sleep(1)
    raise AssertionError


async def redirect(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/redfish/v1/"})


async def slow(_: web.BaseRequest) -> None:
    """Take the time that one answer may take, each time."""
    await asyncio.sleep(0.25)


BAD: dict[str, tuple[Answer, RedfishLimits, str]] = {
    "silent": (never, QUICK, "/redfish/v1/: no answer within 0.3 s"),
    "slow-loris": (drip, QUICK, "/redfish/v1/: no answer within 0.3 s"),
    "slow each time": (slow, QUICK, "the shelf did not tell its power within 1 s"),
    "endless": (flood, PATIENT, "/redfish/v1/: the answer is larger than 1 MiB"),
    "10 MB": (answered(b" " * 10_000_000), PATIENT, "/redfish/v1/: the answer is larger than 1 MiB"),
    "large by its own account": (
        answered(b"", Content_Length=str(MAXIMUM_BYTES + 1)),
        PATIENT,
        "/redfish/v1/: the answer is larger than 1 MiB",
    ),
    "a bomb": (
        answered(gzip.compress(bytes(64 * 1024 * 1024)), Content_Encoding="gzip"),
        PATIENT,
        "/redfish/v1/: the answer is encoded as 'gzip'; nothing but identity is accepted",
    ),
    "hangs up": (hang_up, PATIENT, "/redfish/v1/: the service ended the connection unanswered"),
    "redirects": (redirect, PATIENT, "/redfish/v1/: the service answers with status 302 instead of 200"),
    "fails": (
        answered(b"{}", 503),
        PATIENT,
        "/redfish/v1/: the service answers with status 503 instead of 200",
    ),
    "is none": (answered(b"{}", 404), PATIENT, "/redfish/v1/: the service has no such resource (status 404)"),
    "a page": (
        answered(b"<html>", Content_Type="text/html"),
        PATIENT,
        "/redfish/v1/: the answer is 'text/html' instead of application/json",
    ),
    "garbage": (answered(b"\xff\xfe"), PATIENT, "/redfish/v1/: the answer is no ServiceRoot: "),
    "nested": (
        answered(b'{"x":' + b"[" * 1_000_000),
        PATIENT,
        "/redfish/v1/: the answer is no ServiceRoot: ",
    ),
    "a list": (answered(b"[]"), PATIENT, "/redfish/v1/: the answer is no ServiceRoot: Expected `object`"),
    "wrong type": (
        answered(b'{"Chassis": {"@odata.id": 5}}'),
        PATIENT,
        "/redfish/v1/: the answer is no ServiceRoot: Expected `str`, got `int`",
    ),
    "no chassis": (
        answered(b"{}"),
        PATIENT,
        "/redfish/v1/: the service has no chassis; this is no power shelf",
    ),
    "foreign path": (
        answered(b'{"Chassis": {"@odata.id": "http://127.0.0.1:1/redfish/v1/Chassis"}}'),
        PATIENT,
        "http://127.0.0.1:1/redfish/v1/Chassis: only paths below /redfish/ of the same service are followed",
    ),
    "foreign host": (
        answered(b'{"Chassis": {"@odata.id": "//127.0.0.1:1/redfish/v1/Chassis"}}'),
        PATIENT,
        "//127.0.0.1:1/redfish/v1/Chassis: only paths below",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_service_is_told_in_bounded_time(name: str) -> None:
    answer, limits, said = BAD[name]

    async def scenario() -> None:
        async with reading(LiteralService(ocp_shelf(), answer=answer), limits) as reader:
            with pytest.raises(RedfishError) as caught:
                await reader.watts()
            assert str(caught.value).startswith(said)

    run(scenario)


HOSTILE: dict[str, tuple[dict[str, Document], str]] = {
    "many members": (
        {f"{ROOT}/Chassis": collection(*[SHELF] * 1025)},
        f"{ROOT}/Chassis: the answer is no Collection: Expected `array` of length <= 1024",
    ),
    "many chassis": (
        {f"{ROOT}/Chassis": collection(*[f"{SHELF}-{number}" for number in range(65)])},
        f"{ROOT}/Chassis: 65 chassis; 64 at most are read",
    ),
    "many members over pages": (
        {SUPPLIES: collection(*[f"{SUPPLIES}/1"] * 1000, **{"Members@odata.nextLink": SUPPLIES})},
        f"{SUPPLIES}: the collection has more than 1024 members",
    ),
    "pages in a ring": (
        {SUPPLIES: collection(**{"Members@odata.nextLink": SUPPLIES})},
        f"{SUPPLIES}: the collection has more than 64 pages",
    ),
    "a reading in words": (
        {f"{SUPPLIES}/1/Metrics": {"InputPowerWatts": {"Reading": "937.4"}}},
        f"{SUPPLIES}/1/Metrics: the answer is no PowerSupplyMetrics: Expected `int | float | null`, "
        "got `str`",
    ),
    "a reading that is true": (
        {f"{SUPPLIES}/1/Metrics": {"InputPowerWatts": {"Reading": True}}},
        f"{SUPPLIES}/1/Metrics: the answer is no PowerSupplyMetrics: Expected `int | float | null`, "
        "got `bool`",
    ),
    "a long path": (
        {SHELF: {"PowerSubsystem": link("/redfish/" + "x" * 2000)}},
        f"{SHELF}: the answer is no Chassis: Expected `str` of length <= 1024",
    ),
    "a long state": (
        {f"{SUPPLIES}/1": {**link(f"{SUPPLIES}/1"), "Status": {"State": "x" * 1000}}},
        f"{SUPPLIES}/1: the answer is no PowerSupply: Expected `str` of length <= 256",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused(name: str) -> None:
    changes, said = HOSTILE[name]

    async def scenario() -> None:
        service = LiteralService(ocp_shelf() | changes)
        async with reading(service) as reader:
            with pytest.raises(RedfishError) as caught:
                await reader.watts()
            assert str(caught.value).startswith(said)
            assert len(service.requests) < 100

    run(scenario)


def test_a_service_that_is_not_there_is_told() -> None:
    async def scenario() -> None:
        service = LiteralService({})
        async with serving(service):
            gone = target(service)
        client = RedfishClient(gone, PATIENT)
        with pytest.raises(RedfishError, match="the connection was refused"):
            await ShelfReader(client).watts()
        await client.close()

    run(scenario)


# Who asks.


def test_user_and_password_are_sent_and_read_anew() -> None:
    passwords = ["first-secret", "open-sesame"]

    async def scenario() -> None:
        service = LiteralService(ocp_shelf(), user="monitor", password="open-sesame")  # noqa: S106 - not one
        async with reading(service, user="monitor", password=lambda: passwords[0]) as reader:
            with pytest.raises(RedfishError) as caught:
                await reader.watts()
            # The service root is open to everybody, as DSP0266 wants it.
            assert str(caught.value) == (
                f"{ROOT}/Chassis: the service refuses user 'monitor' with status 401; "
                "check `user` and `password_file`"
            )
            passwords.pop(0)
            assert await reader.watts() == pytest.approx(1879.5)

    run(scenario)


@pytest.mark.parametrize("status", [401, 403])
def test_without_a_user_it_is_said_what_to_give(status: int) -> None:
    async def scenario() -> None:
        async with reading(LiteralService({}, answer=answered(b"{}", status))) as reader:
            with pytest.raises(RedfishError) as caught:
                await reader.watts()
            assert str(caught.value) == (
                f"/redfish/v1/: the service refuses a request without a user with status {status}; "
                "give `user` and `password_file`"
            )

    run(scenario)


def test_a_password_is_never_logged_or_told(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[str] = []

    async def scenario() -> None:
        service = LiteralService(ocp_shelf(), user="monitor", password="another")  # noqa: S106 - not one
        async with serving(service):
            shelf = target(service, user="monitor", password=lambda: "open-sesame")
            watch = ShelfWatch({"r01": [shelf]}, limits=PATIENT)
            await watch.read_all()
            errors.extend(each.error for each in watch.readings("r01"))
            await watch.close()

    with caplog.at_level(logging.DEBUG):
        run(scenario)
    assert "refuses user 'monitor'" in errors[0]
    assert "refuses user 'monitor'" in caplog.text
    # Nor as Basic authentication writes it: base64 of "monitor:open-sesame".
    for secret in ("open-sesame", "bW9uaXRvcjpvcGVuLXNlc2FtZQ=="):
        assert secret not in caplog.text + errors[0]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate of 127.0.0.1 that signs itself, as BMCs do, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    public, private = folder / "public.pem", folder / "private.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=shelf "
        f"-addext subjectAltName=IP:127.0.0.1 -out {public} -keyout {private}"
    )
    subprocess.run(command.split(), check=True, capture_output=True, timeout=60)
    return public, private


@pytest.mark.needs_program("openssl")
def test_over_tls_only_a_certificate_that_is_trusted_gets_the_password(
    certificate: tuple[Path, Path],
) -> None:
    public, private = certificate

    async def scenario() -> None:
        service = LiteralService(ocp_shelf(), user="monitor", password="open-sesame")  # noqa: S106 - not one
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(public, private)
        runner = web.ServerRunner(web.Server(service.respond), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        clients = [
            RedfishClient(
                RedfishTarget(
                    name="s", url=url, user="monitor", password=lambda: "open-sesame", ca_file=ca_file
                ),
                PATIENT,
            )
            for ca_file in (None, str(public))
        ]
        try:
            with pytest.raises(
                RedfishError, match=r"the certificate is not trusted: .*; name who signed it in"
            ):
                await ShelfReader(clients[0]).watts()
            assert service.requests == []
            assert await ShelfReader(clients[1]).watts() == pytest.approx(1879.5)
        finally:
            for client in clients:
                await client.close()
            await runner.cleanup()

    run(scenario)
    with pytest.raises(ConfigurationError, match="holds no certificates that can be used"):
        RedfishClient(RedfishTarget(name="s", url="https://127.0.0.1", ca_file=str(private)))


# Several shelves.


def test_a_shelf_that_hangs_costs_itself_only() -> None:
    async def scenario() -> None:
        hanging, good = LiteralService({}, answer=never), LiteralService(ocp_shelf())
        async with serving(hanging), serving(good):
            watch = ShelfWatch(
                {"r01": [target(hanging, "shelf-1"), target(good, "shelf-2")]},
                period_seconds=0.05,
                limits=RedfishLimits(request_seconds=60, reading_seconds=60),
            )
            await watch.start()
            try:
                await until(lambda: good.requests.count(f"{SUPPLIES}/1/Metrics") >= 4)
                first, second = watch.readings("r01")
                assert (first.shelf, first.watts, first.error) == ("shelf-1", None, "not read yet")
                assert second.watts == pytest.approx(1879.5)
                assert len(hanging.requests) == 1
            finally:
                await watch.close()

    run(scenario)
