"""The keys `redfish` and `bmc`: services of Redfish, and who we are to them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from collector.config import values
from collector.config.document import show
from collector.config.lists import section_list
from collector.config.rack_schema import RedfishSetting
from collector.config.reading import ConflictError, Key, Section
from collector.config.urls import http_url, split

_MAXIMUM_SHELVES = 64
"""Of one rack. An NVL72 rack has 8 (its profile)."""
_MAXIMUM_USER_CHARACTERS = 128


def _service(text: str) -> str:
    """Read the address of a service, which begins at a fixed path of its host (DSP0266, "Service root")."""
    parts = split(http_url(text))
    if parts.path not in {"", "/"} or parts.query:
        raise ValueError(f"{show(text)}: Redfish begins at /redfish/v1/ of the host; write the host alone")
    return text


def _user(text: str) -> str:
    if not (text.isprintable() and ":" not in text and len(text) <= _MAXIMUM_USER_CHARACTERS):
        raise ValueError(
            f"not a user's name: 1 to {_MAXIMUM_USER_CHARACTERS} characters that can be printed, no ':'"
        )
    return text


def _finish(read: Mapping[str, object]) -> RedfishSetting:
    if "url" not in read:
        raise ConflictError("url", "is missing; write one such as https://shelf-1")
    for key, other in (("user", "password_file"), ("password_file", "user")):
        if key in read and other not in read:
            raise ConflictError(key, f"stands without {other}; both are needed to log in")
    return msgspec.convert(read, RedfishSetting)


_KEYS: Mapping[str, Key] = {
    "url": Key(_service, "an address such as https://shelf-1"),
    "user": Key(_user, "a name such as monitor"),
    "password_file": Key(values.absolute_path, "a path such as /etc/rackwatt/shelf.password"),
    "ca_file": Key(values.absolute_path, "a path such as /etc/rackwatt/ca.pem"),
}

SHELVES = section_list(
    Section(_KEYS, _finish),
    RedfishSetting,
    maximum=_MAXIMUM_SHELVES,
    expects='a list such as [{url: "https://shelf-1"}]',
)

BMC = Section({**_KEYS, "system": Key(values.identifier, "the id of a system, such as System_0")}, _finish)
