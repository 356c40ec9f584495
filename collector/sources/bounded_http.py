"""What every HTTP client of this program has in common: it follows, keeps and believes nothing unasked."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable

import aiohttp

from collector.errors import ConfigurationError, RackwattError

USER_AGENT = "rackwatt"

_MAXIMUM_TEXT = 200
"""Characters of a client's error that are repeated (chosen)."""


class TooLargeError(RackwattError):
    """An answer has more bytes than are read."""


def open_session(
    connector: aiohttp.BaseConnector, *, accept: str, accept_encoding: str
) -> aiohttp.ClientSession:
    """Open a session without cookies, proxies or time limits of its own, that unpacks nothing.

    Whoever asks bounds the time of each request as a whole, and follows no redirection, which could send a
    token elsewhere.

    Args:
        connector: What connects; the session closes it.
        accept: Media types that are asked for.
        accept_encoding: Encodings that are asked for.
    """
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
        headers={"Accept": accept, "Accept-Encoding": accept_encoding, "User-Agent": USER_AGENT},
        trust_env=False,
    )


async def read_at_most(
    response: aiohttp.ClientResponse, maximum_bytes: int, take: Callable[[bytes], object]
) -> None:
    """Read the body of an answer as it was sent, part by part.

    Args:
        response: The answer.
        maximum_bytes: What is read at most.
        take: Takes each part, in order.

    Raises:
        TooLargeError: There is more, by the answer's own account or in truth.
    """
    if (response.content_length or 0) > maximum_bytes:
        raise TooLargeError(f"the answer is larger than {maximum_bytes} bytes")
    left = maximum_bytes
    async for part in response.content.iter_any():
        left -= len(part)
        if left < 0:
            raise TooLargeError(f"the answer is larger than {maximum_bytes} bytes")
        take(part)


@functools.lru_cache(maxsize=64)
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Make what checks certificates, once for each file: reading the system's takes some milliseconds.

    Args:
        ca_file: Certificates of the authorities; None for the system's.

    Raises:
        ConfigurationError: The file cannot be used.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"{ca_file}: holds no certificates that can be used: {reason}") from None


def short(error: Exception) -> str:
    """Say in one bounded line what a client's error says."""
    told = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    text = " ".join(told.split()) or type(error).__name__
    return text if len(text) <= _MAXIMUM_TEXT else text[: _MAXIMUM_TEXT - 3] + "..."
