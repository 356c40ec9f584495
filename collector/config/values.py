"""One reader for each kind of value: from the text that a person wrote to what the agent works with.

Every reader raises ValueError with what was read and what would be right; who calls it adds the place.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable

from collector.config.document import show
from collector.config.schema import Listen

IDENTIFIER = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Names of racks and nodes (CONTRACTS §5)."""

_ENDPOINT = re.compile(r"[A-Za-z0-9._:\[\]-]{1,128}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_UNIT_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_BYTES = re.compile(r"([0-9]{1,9})(KiB|MiB|GiB|TiB)")
_UNIT_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""Binary prefixes (IEC 80000-13), so that nobody has to guess what a megabyte is."""

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_IPV6_CHARACTERS = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]{1,32})?")
_LOOKS_LIKE_IPV4 = re.compile(r"[0-9.]+")
_PORT = re.compile(r"[0-9]{1,5}")


def nearest(word: str, valid: Iterable[str]) -> str:
    """Say which valid name was probably meant, or which names there are.

    Args:
        word: What was written.
        valid: The names that are right.

    Returns:
        `did you mean 'fast'?`, or `valid are fast, links, slow` where nothing is near.
    """
    names = list(valid)
    close = difflib.get_close_matches(word[:64].lower(), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"valid are {', '.join(names)}"


def identifier(text: str) -> str:
    """Check the name of a rack or a node."""
    if IDENTIFIER.fullmatch(text) is None:
        raise ValueError(f"{show(text)} is not a name: 1 to 64 letters, digits, '.', '_' or '-'")
    return text


def endpoint_name(text: str) -> str:
    """Check the name of a serving endpoint; it may be host and port."""
    if _ENDPOINT.fullmatch(text) is None:
        raise ValueError(f"{show(text)} is not a name: 1 to 128 letters, digits, '.', '_', '-' or ':'")
    return text


def number(text: str, lowest: float, highest: float, unit: str) -> float:
    """Read a decimal number within bounds that are allowed.

    Args:
        text: What was written.
        lowest: Smallest number that is allowed.
        highest: Largest number that is allowed.
        unit: What the number counts, for a message.

    Raises:
        ValueError: It is no number, or out of bounds.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{show(text)} is not a number such as {lowest + (highest - lowest) / 10:g}")
    if not lowest <= float(text) <= highest:
        raise ValueError(f"{text} is out of bounds; {lowest:g} to {highest:g} {unit} is allowed")
    return float(text)


def choice(text: str, valid: Iterable[str]) -> str:
    """Check that a word is one of the valid ones."""
    names = tuple(valid)
    if text not in names:
        raise ValueError(f"{show(text)} is unknown; {nearest(text, names)}")
    return text


def boolean(text: str) -> bool:
    """Read `true` or `false`."""
    if text not in {"true", "false"}:
        raise ValueError(f"{show(text)} is neither true nor false")
    return text == "true"


def duration_seconds(text: str, lowest_seconds: float, highest_seconds: float) -> float:
    """Read a duration such as `500ms`, `1s`, `2m` or `1h`, within bounds that are allowed.

    Args:
        text: What was written.
        lowest_seconds: Shortest duration that is allowed.
        highest_seconds: Longest duration that is allowed.

    Returns:
        The duration in seconds.

    Raises:
        ValueError: It is no duration, or out of bounds.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{show(text)} is not a duration; write a whole number and a unit, such as 500ms, 1s or 2m"
        )
    seconds = int(match[1]) * _UNIT_MILLISECONDS[match[2]] / 1000
    if not lowest_seconds <= seconds <= highest_seconds:
        allowed = f"{show_duration(lowest_seconds)} to {show_duration(highest_seconds)}"
        raise ValueError(f"{text} is out of bounds; {allowed} is allowed")
    return seconds


def show_duration(seconds: float) -> str:
    """Write a duration of whole milliseconds as in the configuration, with the largest unit that fits."""
    milliseconds = round(seconds * 1000)
    for unit, size in reversed(_UNIT_MILLISECONDS.items()):
        if milliseconds >= size and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def byte_count(text: str, lowest: int, highest: int) -> int:
    """Read a size such as `512MiB`, within bounds that are allowed.

    Args:
        text: What was written.
        lowest: Smallest size that is allowed, bytes.
        highest: Largest size that is allowed, bytes.

    Returns:
        Bytes.

    Raises:
        ValueError: It is no size, or out of bounds.
    """
    match = _BYTES.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{show(text)} is not a size; write a whole number and a unit, such as 64MiB, 512MiB or 2GiB"
        )
    count = int(match[1]) * _UNIT_BYTES[match[2]]
    if not lowest <= count <= highest:
        raise ValueError(f"{text} is out of bounds; {show_bytes(lowest)} to {show_bytes(highest)} is allowed")
    return count


def show_bytes(count: int) -> str:
    """Write a size as in the configuration, with the largest unit that fits."""
    for unit, size in reversed(_UNIT_BYTES.items()):
        if count >= size and count % size == 0:
            return f"{count // size}{unit}"
    return f"{count} bytes"


def absolute_path(text: str) -> str:
    """Check that a path is absolute: what it is relative to would depend on who starts the agent."""
    if "\0" in text or not text.isprintable():
        raise ValueError(f"{show(text)} is not a path: it holds a character that cannot be printed")
    if not text.startswith("/"):
        raise ValueError(f"{show(text)} is not an absolute path; write one such as /var/lib/rackwatt")
    return text


def listen_address(text: str) -> Listen:
    """Read `host:port` or `[IPv6]:port`.

    Args:
        text: What was written.

    Returns:
        The address.

    Raises:
        ValueError: Host or port is missing or cannot be right.
    """
    host, separator, port = text.rpartition(":")
    if text.startswith("[") and not (separator and host.endswith("]")):
        raise ValueError(f"{show(text)} is not an address; write [host]:port, such as [::]:10072")
    if not separator or not host:
        raise ValueError(
            f"{show(text)} is not an address; write host:port, such as 0.0.0.0:10072 for every interface"
        )
    if _PORT.fullmatch(port) is None or int(port) > 65535:
        raise ValueError(f"{show(text)}: {show(port)} is not a port; 0 to 65535 is allowed")
    return Listen(_host(host, text), int(port))


_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- told apart here, not bound


def reachable_address(listen: Listen) -> Listen:
    """Say under which address this machine itself reaches what listens somewhere.

    Args:
        listen: Where it listens; perhaps on every interface.

    Returns:
        An address that can be connected to.
    """
    return Listen(_EVERY_INTERFACE.get(listen.host, listen.host), listen.port)


def _host(host: str, text: str) -> str:
    if host.startswith("["):
        return _ip_address(host[1:-1], text, ipaddress.IPv6Address)
    if ":" in host:
        raise ValueError(f"{show(text)}: an IPv6 address stands in brackets, such as [::]:10072")
    if _LOOKS_LIKE_IPV4.fullmatch(host):
        return _ip_address(host, text, ipaddress.IPv4Address)
    if _HOST_NAME.fullmatch(host) is None:
        raise ValueError(f"{show(text)}: {show(host)} is not a host name")
    return host


def _ip_address(
    host: str, text: str, family: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]
) -> str:
    version = "IPv4" if family is ipaddress.IPv4Address else "IPv6"
    try:
        family(host)
    except ValueError:
        valid = False
    else:
        valid = version == "IPv4" or _IPV6_CHARACTERS.fullmatch(host) is not None
    if not valid:
        raise ValueError(f"{show(text)}: {show(host)} is not an {version} address")
    return host
