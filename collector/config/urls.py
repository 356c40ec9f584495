"""Addresses on the web, as a person writes them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from collector.config.document import show

_MAXIMUM_CHARACTERS = 2000


def http_url(text: str) -> str:
    """Check an address of HTTP: with a host, without a secret in it.

    Args:
        text: What was written.

    Returns:
        The same text.

    Raises:
        ValueError: It is none; the message never repeats a password.
    """
    parts = split(text)
    if "@" in parts.netloc:
        raise ValueError("the address holds a user or password; name files with them instead")
    if parts.fragment or "#" in text:
        raise ValueError(f"{show(text)}: what follows '#' means nothing to a server; remove it")
    return text


def split(text: str) -> SplitResult:
    """Split an address of HTTP into its parts.

    Raises:
        ValueError: It is none.
    """
    if len(text) > _MAXIMUM_CHARACTERS:
        raise ValueError(f"an address of {len(text)} characters; {_MAXIMUM_CHARACTERS} at most are allowed")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("the address holds a space, or a character that an address cannot have")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        shown = "it" if "@" in text else show(text)
        raise ValueError(f"{shown} is not an address such as http://127.0.0.1:8000/metrics")
    return parts


def host_and_port(url: str) -> str:
    """Return host and port of an address that `http_url` has checked: `127.0.0.1:8000`."""
    parts = split(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
