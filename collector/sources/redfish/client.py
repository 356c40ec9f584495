"""Fetches resources of one Redfish service over HTTP, and never more than is allowed."""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import msgspec
from yarl import URL

from collector.sources.bounded_http import TooLargeError, open_session, read_at_most, short, tls_context
from collector.sources.redfish.documents import (
    MAXIMUM_BYTES,
    MAXIMUM_MEMBERS,
    Collection,
    PowerSupply,
    PowerSupplyCollection,
    Resource,
    decode,
)
from collector.sources.redfish.target import RedfishError, RedfishTarget

MEDIA_TYPE = "application/json"
"""Content-Type of every resource (DSP0266, "Media types")."""

SERVICE_ROOT = "/redfish/v1/"
"""Where every service begins (DSP0266, "Service root request")."""

_EXPAND = "$expand=."
"""Members in full, those below `Links` left out (DSP0266, "$expand")."""

_PATH = re.compile(r"/redfish/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")
"""A path and query of URI characters (RFC 3986) below the only folder that is Redfish's."""
_UPWARDS = re.compile(r"/(\.|%2e){1,2}(/|\?|\Z)", re.IGNORECASE)

_MAXIMUM_PAGES = 64
_IDENTITY = ("", "identity")


class NotThereError(RedfishError):
    """The service has no such resource (404)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedfishLimits:
    """How long a service may take; chosen: management controllers take 50 ms to 2 s an answer.

    Attributes:
        request_seconds: For one answer.
        reading_seconds: For all answers of one reading; finding out where to read takes about 20 of them.
    """

    request_seconds: float = 5.0
    reading_seconds: float = 30.0


class RedfishClient:
    """Asks one service, one question after the other: a management controller is a small machine."""

    def __init__(self, target: RedfishTarget, limits: RedfishLimits | None = None) -> None:
        """Prepare to ask; nothing is opened before the first question.

        Args:
            target: The service.
            limits: How long it may take; None for the usual times.

        Raises:
            ConfigurationError: The certificates of the authorities cannot be used.
        """
        self.target = target
        self.limits = limits or RedfishLimits()
        self._origin = target.origin
        self._tls = tls_context(target.ca_file) if self._origin.scheme == "https" else None
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """End the connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, kind: type[Resource]) -> Resource:
        """Fetch a resource.

        Args:
            path: Its path, below `/redfish/`.
            kind: What it should be.

        Raises:
            NotThereError: There is none.
            RedfishError: There was no answer, or it cannot be used.
        """
        try:
            return decode(await self._fetch(check_path(path)), kind)
        except TimeoutError:
            seconds = self.limits.request_seconds
            raise RedfishError(f"{_shown(path)}: no answer within {seconds:g} s") from None
        except RedfishError as error:
            raise type(error)(f"{_shown(path)}: {error}") from None

    async def members(self, path: str) -> tuple[str, ...]:
        """Return the paths of a collection's members, from all its pages.

        Raises:
            RedfishError: See `get`; also for a collection that does not end.
        """
        found: list[str] = []
        for _ in range(_MAXIMUM_PAGES):
            page = await self.get(path, Collection)
            found += [member.path for member in page.members]
            if page.next_page is None:
                _check_count(path, len(found))
                return tuple(found)
            path = page.next_page
            _check_count(path, len(found))
        raise RedfishError(f"{_shown(path)}: the collection has more than {_MAXIMUM_PAGES} pages")

    async def power_supplies(self, path: str, *, expand: bool) -> tuple[PowerSupply, ...]:
        """Return the power supplies of a collection in full.

        Args:
            path: Path of the collection.
            expand: Whether the service may be asked for all at once.

        Raises:
            RedfishError: See `members`.
        """
        if expand:
            page = await self.get(f"{path}?{_EXPAND}", PowerSupplyCollection)
            if page.next_page is None:
                return tuple(
                    [each if each.id else await self._power_supply(each.path) for each in page.members]
                )
        return tuple([await self._power_supply(member) for member in await self.members(path)])

    async def _power_supply(self, path: str) -> PowerSupply:
        """Return a supply under the path that its collection gives it, whatever it calls itself."""
        return msgspec.structs.replace(await self.get(path, PowerSupply), path=path)

    async def _fetch(self, path: str) -> bytes:
        session = self._open()
        url = URL(f"{self._origin}{path}", encoded=True)
        try:
            async with (
                asyncio.timeout(self.limits.request_seconds),
                # A redirection could send the password elsewhere.
                session.get(url, headers=self._headers(), allow_redirects=False) as response,
            ):
                self._check_head(response)
                body = bytearray()
                await read_at_most(response, MAXIMUM_BYTES, body.extend)
                return bytes(body)
        except TooLargeError:
            mebibytes = MAXIMUM_BYTES // 1024 // 1024
            raise RedfishError(
                f"the answer is larger than {mebibytes} MiB; no resource that is read here is"
            ) from None
        except aiohttp.ClientConnectorDNSError as error:
            raise RedfishError(f"the host name cannot be resolved: {short(error)}") from None
        except aiohttp.ClientConnectorCertificateError as error:
            reason = short(error.certificate_error)
            raise RedfishError(
                f"the certificate is not trusted: {reason}; name who signed it in `ca_file`"
            ) from None
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, ConnectionRefusedError)
            raise RedfishError("the connection was refused" if refused else short(error)) from None
        except (aiohttp.ServerDisconnectedError, ConnectionResetError):
            raise RedfishError("the service ended the connection unanswered") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # A timeout is an OSError, too, and none of these.
            if isinstance(error, TimeoutError):
                raise
            raise RedfishError(f"the answer is not HTTP as it should be: {short(error)}") from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session(
                aiohttp.TCPConnector(limit=1, ssl=self._tls or True, keepalive_timeout=60),
                accept=MEDIA_TYPE,
                # What is compressed is refused, so nothing can unfold to more than was sent.
                accept_encoding="identity",
            )
        return self._session

    def _headers(self) -> dict[str, str]:
        target = self.target
        headers = {"OData-Version": "4.0"}
        if target.password is not None:
            pair = f"{target.user}:{target.password()}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"
        return headers

    def _check_head(self, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            user = self.target.user
            who = f"user {user!r}" if user else "a request without a user"
            advice = "check `user` and `password_file`" if user else "give `user` and `password_file`"
            raise RedfishError(f"the service refuses {who} with status {status}; {advice}")
        if status == HTTPStatus.NOT_FOUND:
            raise NotThereError("the service has no such resource (status 404)")
        if status != HTTPStatus.OK:
            raise RedfishError(f"the service answers with status {status} instead of 200")
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _IDENTITY:
            raise RedfishError(
                f"the answer is encoded as {encoding[:40]!r}; nothing but identity is accepted"
            )
        if response.content_type != MEDIA_TYPE:
            raise RedfishError(f"the answer is {response.content_type[:80]!r} instead of {MEDIA_TYPE}")


def check_path(path: str) -> str:
    """Return a path that a service named, if it leads to a resource of the same service.

    Args:
        path: What stands in `@odata.id`.

    Raises:
        RedfishError: It leads elsewhere.
    """
    if _PATH.fullmatch(path) is None or _UPWARDS.search(path) is not None:
        raise RedfishError("only paths below /redfish/ of the same service are followed")
    return path


def _check_count(path: str, count: int) -> None:
    if count > MAXIMUM_MEMBERS:
        raise RedfishError(f"{_shown(path)}: the collection has more than {MAXIMUM_MEMBERS} members")


def _shown(path: str) -> str:
    text = path if len(path) <= 120 else path[:117] + "..."
    return text if text.isprintable() else repr(text)
