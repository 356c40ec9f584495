"""Fetches a Snapshot document over HTTP, and never more than is allowed."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import aiohttp
from yarl import URL

from collector.sources.bounded_http import TooLargeError, open_session, read_at_most, short
from collector.sources.peers.document import MAXIMUM_BYTES, PeerError

MEDIA_TYPE = "application/msgpack"
"""Content-Type of the document (CONTRACTS §4)."""

_IDENTITY = ("", "identity")


class UnreachableError(PeerError):
    """There was no HTTP answer.

    Attributes:
        host_answers: Whether the host itself answered, by refusing or ending the connection.
    """

    def __init__(self, message: str, *, host_answers: bool) -> None:
        """Keep what this says about the host."""
        super().__init__(message)
        self.host_answers = host_answers


class AgentClient:
    """Asks agents; keeps one connection to each."""

    def __init__(self, *, keepalive_seconds: float, token: Callable[[], str] | None = None) -> None:
        """Open a session within the running event loop.

        Args:
            keepalive_seconds: How long a connection is kept between two polls.
            token: Returns the bearer token to send; None to send none.
        """
        self._token = token
        # The caller bounds each poll as a whole. What is compressed is refused, so nothing can unfold.
        self._session = open_session(
            aiohttp.TCPConnector(limit=0, keepalive_timeout=keepalive_seconds, ttl_dns_cache=60),
            accept=MEDIA_TYPE,
            accept_encoding="identity",
        )

    async def close(self) -> None:
        """End every connection."""
        await self._session.close()

    async def get(self, authority: str, query: str) -> bytes:
        """Fetch a document.

        Args:
            authority: Host and port of the agent.
            query: Query string.

        Returns:
            The body.

        Raises:
            UnreachableError: There was no HTTP answer.
            PeerError: The answer is no document that may be read; the message says why.
        """
        url = URL(f"http://{authority}/v1/snapshot?{query}", encoded=True)
        headers = {"Authorization": f"Bearer {self._token()}"} if self._token is not None else None
        try:
            # A redirection could send the token elsewhere.
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                _check_head(response)
                return await _read(response)
        except aiohttp.ClientConnectorDNSError as error:
            raise UnreachableError(f"the host name cannot be resolved: {error}", host_answers=False) from None
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, ConnectionRefusedError | ConnectionResetError)
            reason = "the connection was refused; no agent listens there" if refused else str(error)
            raise UnreachableError(reason, host_answers=refused) from None
        except (aiohttp.ServerDisconnectedError, ConnectionResetError):
            raise UnreachableError("the agent ended the connection unanswered", host_answers=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PeerError(f"the answer is not HTTP as it should be: {short(error)}") from None


def _check_head(response: aiohttp.ClientResponse) -> None:
    if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise PeerError(
            f"the agent refuses this rack service with status {response.status}; give the agent's token in "
            "`agent_auth.bearer_token_file`"
        )
    if response.status != HTTPStatus.OK:
        raise PeerError(f"the agent answers with status {response.status} instead of 200")
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _IDENTITY:
        raise PeerError(
            f"the answer is encoded as {encoding[:40]!r} although nothing but identity is accepted"
        )
    if response.content_type != MEDIA_TYPE:
        raise PeerError(f"the answer is {response.content_type[:80]!r} instead of {MEDIA_TYPE}")


async def _read(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    try:
        await read_at_most(response, MAXIMUM_BYTES, parts.append)
    except TooLargeError:
        raise PeerError(
            f"the answer is larger than {MAXIMUM_BYTES // 1024 // 1024} MiB; no Snapshot is"
        ) from None
    return b"".join(parts)
