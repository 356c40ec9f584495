"""Where a panel's content goes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.gallery.frames import Source
from tests.gallery.sheet import Sheet


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of an annotation: where it begins, and its colour."""

    time_seconds: float
    colour: str


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of a sheet, and what is drawn from.

    Attributes:
        sheet: The sheet.
        x: Left edge in pixels.
        y: Upper edge.
        width: Pixels across.
        height: Pixels down.
        source: Who answers.
        marks: Marks of the board's annotations.
    """

    sheet: Sheet
    x: float
    y: float
    width: float
    height: float
    source: Source
    marks: tuple[Mark, ...] = ()

    @property
    def right(self) -> float:
        """Right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.y + self.height

    @property
    def now(self) -> float:
        """Unix time of the end of the time range."""
        return self.source.view.end_seconds

    @property
    def begin(self) -> float:
        """Unix time of its begin."""
        return self.now - self.source.view.range_seconds

    def nothing(self, words: str) -> None:
        """Say that there is nothing to be seen."""
        self.sheet.text(
            self.x + self.width / 2, self.y + self.height / 2, words, size=11, colour=UNKNOWN, align="center"
        )


UNKNOWN = "#8e8e99"
"""Grey of what is missing."""
