"""Asks a Grafana over its HTTP API, bounded in time and bytes; what it answers is text from elsewhere.

Fields, paths and status codes are those of Grafana's documentation, "Dashboard API" and "Folder API".
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from collector.errors import RackwattError
from collector.sources.bounded_http import TooLargeError, open_session, read_at_most, short

ANSWER_SECONDS = 30.0
"""Longest wait for an answer (chosen): Grafana stores a dashboard in well under a second."""

_MAXIMUM_BYTES = 8 * 1024 * 1024
"""Largest answer that is read (chosen): large boards have about half a MiB."""

_SHOWN_CHARACTERS = 300

_MEANINGS = {
    400: "it does not take this; a dashboard that is provisioned from a file can only be changed there",
    401: "the token is not valid, or has expired",
    403: "the token may not do this; its service account needs the role Editor, or the permissions to create "
    "and write dashboards and folders",
    404: "there is no such thing; is the URL that of a Grafana?",
    409: "it is there already",
    412: "it refuses to overwrite what is there, as a dashboard of a plugin or another one of this title",
    429: "it is asked too often; try again later",
}
"""What a status code means here (Grafana's documentation, "Dashboard API" and "Folder API")."""


Answer = TypeVar("Answer", bound=msgspec.Struct)


class GrafanaError(RackwattError):
    """Grafana cannot be asked, or refuses."""


class _Refusal(msgspec.Struct):
    message: str = ""


class _Folder(msgspec.Struct):
    title: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    folder_uid: str = ""


class _Stored(msgspec.Struct):
    dashboard: dict[str, object]
    meta: _Meta


@dataclass(frozen=True, slots=True)
class StoredBoard:
    """A board as Grafana has it.

    Attributes:
        json: Its JSON.
        folder: Uid of its folder; empty for none.
    """

    json: dict[str, object]
    folder: str


def grafana_url(text: str) -> str:
    """Check the URL of a Grafana.

    Returns:
        The URL without a slash at its end.

    Raises:
        ValueError: It is none, or holds what it must not.
    """
    wrong = f"{text[:100]!r} is no URL of a Grafana; write one such as https://grafana.example.org"
    try:
        parts = urlsplit(text)
        # Reading the port checks it.
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(wrong) from None
    if not usable or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(wrong)
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "a URL must not hold a user or a password: others see command lines; use --token-file"
        )
    if parts.query or parts.fragment:
        raise ValueError(f"{text[:100]!r} holds more than scheme, host, port and path")
    return text.rstrip("/")


class Grafana:
    """A Grafana, for the time of an `async with`."""

    def __init__(self, url: str, token: str, trust: ssl.SSLContext | bool = True) -> None:
        """Name whom to ask.

        Args:
            url: What `grafana_url` returns.
            token: Token of a service account.
            trust: Whose certificates are believed; True for the system's authorities.
        """
        self._url = url
        self._token = token
        self._session = open_session(
            aiohttp.TCPConnector(limit=1, ssl=trust), accept="application/json", accept_encoding="identity"
        )

    async def __aenter__(self) -> Grafana:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        await self._session.close()

    def __repr__(self) -> str:
        """Name the URL, not the token."""
        return f"Grafana({self._url!r})"

    async def has_folder(self, uid: str) -> bool:
        """Tell whether there is a folder.

        Raises:
            GrafanaError: Grafana cannot be asked, or refuses.
        """
        answer = await self._ask("GET", f"/api/folders/{uid}", f"folder {uid}", absent=404)
        return answer is not None and self._read(answer, _Folder, f"folder {uid}") is not None

    async def create_folder(self, uid: str, title: str) -> None:
        """Create a folder.

        Raises:
            GrafanaError: Grafana cannot be asked, or refuses.
        """
        await self._ask("POST", "/api/folders", f"folder {uid}", body={"uid": uid, "title": title})

    async def board(self, uid: str) -> StoredBoard | None:
        """Return a board as it is stored; None if there is none.

        Raises:
            GrafanaError: Grafana cannot be asked, or refuses.
        """
        what = f"dashboard {uid}"
        answer = await self._ask("GET", f"/api/dashboards/uid/{uid}", what, absent=404)
        if answer is None:
            return None
        stored = self._read(answer, _Stored, what)
        return StoredBoard(stored.dashboard, stored.meta.folder_uid)

    async def save(self, uid: str, board: dict[str, object], folder: str, message: str) -> None:
        """Create a board, or put it in the place of the one with its uid.

        Raises:
            GrafanaError: Grafana cannot be asked, or refuses.
        """
        body = {
            "dashboard": {**board, "id": None},
            "folderUid": folder,
            "message": message,
            "overwrite": True,
        }
        await self._ask("POST", "/api/dashboards/db", f"dashboard {uid}", body=body)

    async def _ask(
        self, method: str, path: str, what: str, *, body: object = None, absent: int | None = None
    ) -> bytes | None:
        """Send a request; return the body of the answer, or None if its status says `absent`."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status, answer = await self._exchange(method, path, body)
        except TimeoutError:
            raise GrafanaError(f"{self._url} did not answer within {ANSWER_SECONDS:g} s") from None
        except aiohttp.ClientSSLError as error:
            raise GrafanaError(
                f"{self._url} cannot be trusted, or speaks no TLS: {short(error)}; name the authority of its "
                "certificate with --ca-file"
            ) from None
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno
            why = os.strerror(number) if number is not None and number > 0 else short(error)
            raise GrafanaError(f"no Grafana answers at {self._url}: {why}; is --url right?") from None
        except UnicodeError:
            # The codec of host names raises it (RFC 3490): a part is empty, or longer than 63 letters.
            raise GrafanaError(f"{self._url}: that is no name of a host; is --url right?") from None
        except TooLargeError as error:
            raise GrafanaError(f"{self._url}: {error}; is it a Grafana?") from None
        except aiohttp.ClientError:
            raise GrafanaError(
                f"what listens at {self._url} broke off, or does not speak HTTP; is it a Grafana?"
            ) from None
        if status == absent:
            return None
        if status != 200:
            raise GrafanaError(f"{what}: {self._url} answers {self._refusal(status, answer)}")
        return answer

    async def _exchange(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._token}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body, allow_nan=False).encode()
        url = URL(f"{self._url}{path}", encoded=True)
        async with self._session.request(
            method, url, data=data, headers=headers, allow_redirects=False
        ) as response:
            received = bytearray()
            await read_at_most(response, _MAXIMUM_BYTES, received.extend)
            return response.status, bytes(received)

    def _refusal(self, status: int, answer: bytes) -> str:
        meaning = _MEANINGS.get(status)
        if meaning is None:
            meaning = "it is in trouble itself; see its log" if status >= 500 else "is it a Grafana?"
        try:
            told = msgspec.json.decode(answer, type=_Refusal).message
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            told = ""
        return f"{status}: {meaning}" + (f" (it says: {self._one_line(told)})" if told else "")

    def _one_line(self, text: str) -> str:
        shown = " ".join(text.replace(self._token, "…").split())[:_SHOWN_CHARACTERS]
        return "".join(letter if letter.isprintable() else " " for letter in shown)

    def _read(self, answer: bytes, kind: type[Answer], what: str) -> Answer:
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise GrafanaError(f"{what}: {self._url} answers no JSON of a Grafana; is it one?") from None
