"""Where panels stand: a flow over 24 columns, and ids that stay when panels come and go."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboards.panels.kinds import Panel

COLUMNS = 24
"""Width of a dashboard in Grafana's grid (its documentation, "Dashboard JSON model")."""

HEADING_HEIGHT = 1

_IDS = 999_983
"""Ids are 1 to this prime; chosen: small enough to read, and a clash of two keys is refused in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Panels under a heading that folds them away.

    Attributes:
        panels: They flow from left to right and wrap, as words do.
        title: The heading; empty for none.
        key: Its name within the board, for ever; empty only without a heading.
        collapsed: Whether it starts folded; its panels ask nothing until it is opened.
        repeat: Variable of which each value gets its own copy; empty for none.
    """

    panels: tuple[Panel, ...]
    title: str = ""
    key: str = ""
    collapsed: bool = False
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A rectangle of the grid."""

    x: int
    y: int
    width: int
    height: int

    def overlaps(self, other: Place) -> bool:
        """Tell whether two rectangles have a cell in common."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@dataclass(frozen=True, slots=True)
class PlacedPanel:
    """A panel, its id and its place."""

    panel: Panel
    id: int
    place: Place


@dataclass(frozen=True, slots=True)
class PlacedSection:
    """A section with everything in its place.

    Attributes:
        section: The section.
        id: Id of the heading.
        heading: Place of the heading; None without one.
        panels: Its panels.
    """

    section: Section
    id: int
    heading: Place | None
    panels: tuple[PlacedPanel, ...]


def panel_id(key: str) -> int:
    """Derive the id of a panel from its key."""
    return zlib.crc32(key.encode()) % _IDS + 1


def lay_out(sections: Sequence[Section]) -> tuple[PlacedSection, ...]:
    """Place sections below one another.

    Raises:
        ValueError: A panel does not fit in, a key is missing or comes twice, or two keys have the same id.
    """
    _check_keys(sections)
    placed: list[PlacedSection] = []
    top = 0
    for section in sections:
        heading = Place(0, top, COLUMNS, HEADING_HEIGHT) if section.title else None
        first = top + (HEADING_HEIGHT if heading else 0)
        panels = tuple(_flow(section.panels, first))
        placed.append(PlacedSection(section, panel_id(f"section/{section.key}"), heading, panels))
        # What is folded away takes no room below its heading.
        top = first if section.collapsed else max((_bottom(panel) for panel in panels), default=first)
    return tuple(placed)


def _flow(panels: Iterable[Panel], top: int) -> Iterable[PlacedPanel]:
    x, y, line_height = 0, top, 0
    for panel in panels:
        if not (0 < panel.width <= COLUMNS and panel.height > 0):
            raise ValueError(
                f"panel {panel.key}: {panel.width} x {panel.height} does not fit in {COLUMNS} columns"
            )
        if x + panel.width > COLUMNS:
            x, y, line_height = 0, y + line_height, 0
        yield PlacedPanel(panel, panel_id(panel.key), Place(x, y, panel.width, panel.height))
        x, line_height = x + panel.width, max(line_height, panel.height)


def _bottom(panel: PlacedPanel) -> int:
    return panel.place.y + panel.place.height


def _check_keys(sections: Sequence[Section]) -> None:
    keys = [panel.key for section in sections for panel in section.panels]
    keys += [f"section/{section.key}" for section in sections if section.title]
    seen: dict[int, str] = {}
    for key in keys:
        if key.rpartition("/")[2] == "":
            raise ValueError("a panel or a section with a heading has no key")
        number = panel_id(key)
        if number in seen:
            raise ValueError(f"the keys {seen[number]!r} and {key!r} have the same id; change one")
        seen[number] = key
    for section in sections:
        if not section.title and (section.collapsed or section.repeat):
            raise ValueError("a section without a heading can be neither folded nor repeated")
