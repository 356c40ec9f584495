"""Reads the metrics of serving engines over HTTP, each answer bounded in time and bytes."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus

import aiohttp

from collector.errors import ConfigurationError
from collector.sources.bounded_http import TooLargeError, open_session, read_at_most, short, tls_context
from collector.sources.serving.body import Body, drained_json, too_large
from collector.sources.serving.endpoint import ScrapeError, ServingEndpoint

TIMEOUT_SECONDS = 4.0
"""Time for a whole answer: less than the 5 s between two scrapes (DESIGN §5), so that none falls out."""

MAXIMUM_BYTES = 8 * 1024 * 1024
"""What an answer may have, as it was sent and unpacked (chosen): in the shape of vLLM's, with 20 histograms
of 20 buckets, a data-parallel rank has 47 kB, and an endpoint with 64 ranks 2.9 MB."""

MAXIMUM_CONNECTIONS = 64
"""As many as there may be endpoints: each has one at most, so that none waits for another."""

_ACCEPT = "text/plain;version=0.0.4, */*;q=0.1"
"""The text format of Prometheus is asked for; an engine that speaks OpenMetrics only may send that."""

_GZIP = ("gzip", "x-gzip")
_IDENTITY = ("", "identity")

_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "give its token in `token_file`",
    HTTPStatus.FORBIDDEN: "give a token that it accepts in `token_file`",
    HTTPStatus.NOT_FOUND: "see whether the path is right, and whether the engine serves metrics",
    HTTPStatus.NOT_IMPLEMENTED: "start the engine with its metrics enabled",
}
_REDIRECTED = "redirections are not followed: write the address of the metrics themselves"


class Fetcher:
    """Asks serving engines for their metrics."""

    def __init__(
        self, *, timeout_seconds: float = TIMEOUT_SECONDS, maximum_bytes: int = MAXIMUM_BYTES
    ) -> None:
        """Prepare; nothing is opened before the first `fetch`.

        Args:
            timeout_seconds: Time for a whole answer.
            maximum_bytes: What an answer may have, as it was sent and unpacked.
        """
        self._timeout_seconds = timeout_seconds
        self._maximum_bytes = maximum_bytes
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, endpoint: ServingEndpoint) -> bytes:
        """Read the metrics of an endpoint once.

        Returns:
            The body, unpacked; whatever text it is.

        Raises:
            ScrapeError: There is none that may be read; the message says why, without a secret.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._get(endpoint)
        except TimeoutError:
            raise ScrapeError("timeout", f"no whole answer came within {self._timeout_seconds:g} s") from None

    async def close(self) -> None:
        """End every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get(self, endpoint: ServingEndpoint) -> bytes:
        token = endpoint.token() if endpoint.token is not None else ""
        headers = {"Authorization": f"Bearer {token}"} if token else None
        trust = _trusted(endpoint.ca_file)
        try:
            async with self._opened().get(
                endpoint.url, headers=headers, allow_redirects=False, ssl=trust
            ) as response:
                _check_status(response.status)
                body = Body(self._maximum_bytes, gzip=_is_gzip(response))
                await read_at_most(response, self._maximum_bytes, body.add)
                return body.whole()
        except TooLargeError:
            raise too_large(self._maximum_bytes) from None
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _told(error, with_token=bool(token)) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # uvicorn, in which most engines serve, ends an idle connection after 5 s, just when it would be
            # used again (`timeout_keep_alive`).
            connector = aiohttp.TCPConnector(limit=MAXIMUM_CONNECTIONS, force_close=True, ttl_dns_cache=60)
            self._session = open_session(connector, accept=_ACCEPT, accept_encoding="gzip")
        return self._session


def _trusted(ca_file: str | None) -> ssl.SSLContext | bool:
    """Return what certificates are checked against; True for the system's authorities."""
    if ca_file is None:
        return True
    try:
        return tls_context(ca_file)
    except ConfigurationError as error:
        raise ScrapeError("connection", f"{error}; a PEM file is right") from None


def _check_status(status: int) -> None:
    if status != HTTPStatus.OK:
        hint = _REDIRECTED if 300 <= status < 400 else _HINTS.get(status, "")
        raise ScrapeError("status", f"the status is {status} instead of 200{hint and '; '}{hint}")


def _is_gzip(response: aiohttp.ClientResponse) -> bool:
    kind = response.content_type
    if kind == "application/json" or kind.endswith("+json"):
        raise drained_json()
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _GZIP + _IDENTITY:
        raise ScrapeError("malformed", f"the answer is encoded as {encoding[:40]!r}; only gzip is asked for")
    return encoding in _GZIP


def _told(error: Exception, *, with_token: bool) -> ScrapeError:
    """Say what an error means; of an answer to a token nothing is repeated, as it may be that token."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return ScrapeError("connection", f"the host name cannot be resolved: {short(error)}")
    if isinstance(error, aiohttp.ClientSSLError):
        return ScrapeError(
            "connection", f"TLS failed: {short(error)}; its authority's certificate belongs in `ca_file`"
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = isinstance(error.os_error, ConnectionRefusedError)
        return ScrapeError(
            "connection", "the connection was refused; nothing listens there" if refused else short(error)
        )
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return ScrapeError("connection", "the connection was ended unanswered")
    if isinstance(error, aiohttp.ClientPayloadError):
        return ScrapeError("connection", "the connection was ended in the middle of the answer")
    detail = "" if with_token else f": {short(error)}"
    return ScrapeError("malformed", f"the answer is not HTTP as it should be{detail}")
