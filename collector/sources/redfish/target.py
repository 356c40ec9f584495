"""Where a Redfish service is, and as whom it is asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

from yarl import URL

from collector.errors import ConfigurationError, RackwattError


class RedfishError(RackwattError):
    """What a Redfish service answers cannot be used; the message says why, without a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedfishTarget:
    """A Redfish service as it is configured.

    A password goes over TLS only, or to this machine itself: Basic authentication protects nothing (RFC 7617
    §4). Certificates are always checked; one that a BMC signed itself is named by `ca_file`.

    Attributes:
        name: Its name in readings and messages; `default_name(url)` is the host as configured.
        url: `https://HOST` or `https://HOST:PORT`; `http` without a password, or to a loopback address.
        user: User for Basic authentication, which every service supports (DSP0266, "HTTP Basic
            authentication"); empty to ask as nobody.
        password: Returns the user's password; None to ask as nobody.
        ca_file: Certificates of the authorities that sign the service's; None for the system's.

    Raises:
        ConfigurationError: The parts do not fit.
    """

    name: str
    url: str
    user: str = ""
    password: Callable[[], str] | None = field(default=None, repr=False)
    ca_file: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without asking."""
        url = _parse(self.name, self.url)
        if bool(self.user) != (self.password is not None):
            raise ConfigurationError(
                f"{self.name}: `user` and `password_file` go together; give both or neither"
            )
        # A colon would end the name (RFC 7617 §2).
        if ":" in self.user or not self.user.isprintable():
            raise ConfigurationError(f"{self.name}: user {self.user!r}: a user name has no colon or control")
        if url.scheme == "http" and self.user and not _is_loopback(url.host or ""):
            raise ConfigurationError(
                f"{self.name}: {self.url}: a password would travel in the open; write https://, "
                "or leave out `user` and `password_file`"
            )
        if url.scheme == "http" and self.ca_file is not None:
            raise ConfigurationError(f"{self.name}: {self.url}: `ca_file` is for https only")

    @property
    def origin(self) -> URL:
        """Scheme, host and port; nothing else of the service is ever asked."""
        return URL(self.url).origin()


def default_name(url: str) -> str:
    """Return the host of an address as configured, with its port where one is written.

    Args:
        url: `https://shelf-1`, `https://[fd00::1]:8443`.
    """
    return url.partition("://")[2].rstrip("/")


def _parse(name: str, text: str) -> URL:
    try:
        url = URL(text)
        port = url.port
    except ValueError:
        url, port = URL(), None
    if "@" in text:
        raise ConfigurationError(
            f"{name}: the address holds a user or password; write them as `user` and `password_file`"
        )
    if url.scheme not in ("http", "https") or not url.host or port is None:
        raise ConfigurationError(f"{name}: {text!r} is no address; write one such as https://shelf-1")
    if url.raw_path not in ("", "/") or url.raw_query_string or url.raw_fragment:
        raise ConfigurationError(
            f"{name}: {text!r}: a Redfish service begins at /redfish/v1/ of its host (DSP0266); "
            f"write {url.origin()}"
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
