"""Asks a rack service over HTTP, bounded in time and bytes; what it answers is text from elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import aiohttp
import msgspec
from yarl import URL

from collector.errors import ConfigurationError, RackwattError
from collector.sources.bounded_http import TooLargeError, open_session, read_at_most

DEFAULT_URL = "http://127.0.0.1:10073"
"""Where a rack service of this machine listens (CONTRACTS §5)."""

ANSWER_SECONDS = 20.0
"""Longest wait for an answer: the service itself waits 8 s for its disk."""

_MAXIMUM_BYTES = 8 * 1024 * 1024
_SHOWN_CHARACTERS = 500


class ServiceError(RackwattError):
    """The rack service cannot be asked, or refuses."""


class _Problem(msgspec.Struct):
    """An error as the service tells it (RFC 9457), as far as people need it."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """Where a rack service is.

    Attributes:
        scheme: `http` or `https`.
        host: Host.
        port: Port.
        prefix: Path before its own, as behind a proxy; empty for none.
    """

    scheme: str
    host: str
    port: int
    prefix: str

    def __str__(self) -> str:
        """Write it as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def service_at(url: str) -> Service:
    """Read the URL of a rack service.

    Raises:
        ValueError: It is none, or holds what it must not.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(_no_url(url)) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not _plain(url):
        raise ValueError(_no_url(url))
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "a URL must not hold a user or a password: others see command lines; use --token-file"
        )
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} holds more than scheme, host, port and path")
    return Service(parts.scheme, parts.hostname, port or _usual_port(parts), parts.path.rstrip("/"))


def _plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and " " not in url


def _no_url(url: str) -> str:
    return f"{url[:100]!r} is no URL of a rack service; write one such as {DEFAULT_URL}"


def _usual_port(parts: SplitResult) -> int:
    return 443 if parts.scheme == "https" else 80


def ask(
    service: Service,
    method: str,
    path: str,
    *,
    body: object = None,
    token: str | None = None,
    seconds: float = ANSWER_SECONDS,
) -> bytes:
    """Send a request and return the body of the answer.

    Args:
        service: Whom to ask.
        method: HTTP method.
        path: Path and query.
        body: What is sent as JSON; None for nothing.
        token: Bearer token; None for none.
        seconds: Longest time for all of it.

    Raises:
        ServiceError: There is no service, it does not answer in time, or it refuses.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    try:
        status, content_type, answer = asyncio.run(
            asyncio.wait_for(_exchange(service, method, path, headers, data), seconds)
        )
    except TimeoutError:
        raise ServiceError(
            f"{service} did not answer within {seconds:g} s; what was asked for may be done all the same"
        ) from None
    except aiohttp.ClientSSLError as error:
        raise ServiceError(f"{service} cannot be trusted, or speaks no TLS: {one_line(str(error))}") from None
    except aiohttp.ClientConnectorError as error:
        number = error.os_error.errno
        why = os.strerror(number) if number is not None and number > 0 else str(error.os_error)
        raise ServiceError(
            f"no rack service answers at {service}: {one_line(why)}; name the right one with --url"
        ) from None
    except UnicodeError:
        # As the codec of host names raises it (RFC 3490): a part that is empty, or longer than 63 letters.
        raise ServiceError(f"{service}: that is no name of a host; name the right one with --url") from None
    except TooLargeError as error:
        raise ServiceError(f"{service}: {error}; is it a rack service?") from None
    except aiohttp.ClientError:
        raise ServiceError(
            f"what listens at {service} broke off, or does not speak HTTP; is it a rack service?"
        ) from None
    if not 200 <= status < 300:
        raise ServiceError(_refusal(service, status, content_type, answer))
    return answer


async def _exchange(
    service: Service, method: str, path: str, headers: dict[str, str], data: bytes | None
) -> tuple[int, str, bytes]:
    """Send a request; return status, content type and body of the answer."""
    url = URL(f"{service}{path}", encoded=True)
    async with (
        # No encoding, so that what arrives is all that there is.
        open_session(
            aiohttp.TCPConnector(force_close=True), accept="application/json", accept_encoding="identity"
        ) as session,
        session.request(method, url, data=data, headers=headers, allow_redirects=False) as response,
    ):
        body = bytearray()
        await read_at_most(response, _MAXIMUM_BYTES, body.extend)
        return response.status, response.headers.get("Content-Type", ""), bytes(body)


def _refusal(service: Service, status: int, content_type: str, body: bytes) -> str:
    detail = ""
    if content_type.startswith("application/problem+json"):
        try:
            detail = msgspec.json.decode(body, type=_Problem).detail
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            detail = ""
    if not detail:
        return f"{service} answers {status} without saying why; is it a rack service?"
    return f"{service} refuses ({status}): {one_line(detail)}"


def one_line(text: str) -> str:
    """Make text from elsewhere one printable line of bounded length."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:_SHOWN_CHARACTERS])
    return shown + (" …" if len(text) > _SHOWN_CHARACTERS else "")


def write_token(path: str | None) -> str:
    """Read the token that writes need.

    Raises:
        ConfigurationError: No file is named, or it holds no token.
    """
    from collector.token_file import TokenFile

    if path is None:
        raise ConfigurationError(
            "recording needs the token: name with --token-file the file that `api_token_file` of the rack "
            "service names"
        )
    return TokenFile(path).token()
