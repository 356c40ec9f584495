"""Which dashboards there are: fixed uids, so that links, bookmarks and alerts stay good."""

from __future__ import annotations

import enum
import re

TAG = "rackwatt"
"""Tag of every board; the links between boards go by it."""

_UID = re.compile(r"rackwatt-[a-z0-9-]{1,31}")
"""Grafana takes at most 40 of `[A-Za-z0-9_-]` (its documentation, "Dashboard API", on uids)."""


class BoardId(enum.Enum):
    """A board.

    The value is the part of its uid after `rackwatt-`, which names its file too.
    """

    FLEET = "fleet"
    RACK = "rack"
    EFFICIENCY = "tokens"
    NVLINK = "nvlink"
    NODE = "node"

    @property
    def uid(self) -> str:
        """Its uid in every Grafana."""
        return f"rackwatt-{self.value}"

    @property
    def title(self) -> str:
        """Its title."""
        return _TITLES[self]


_TITLES = {
    BoardId.FLEET: "rackwatt: fleet",
    BoardId.RACK: "rackwatt: rack availability",
    BoardId.EFFICIENCY: "rackwatt: tokens per watt",
    BoardId.NVLINK: "rackwatt: NVLink fabric",
    BoardId.NODE: "rackwatt: node and GPU",
}


def is_uid(text: str) -> bool:
    """Tell whether a text is a uid of this kind."""
    return _UID.fullmatch(text) is not None
