"""A sheet to draw on, in pixels from its upper left corner."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Rectangle
from PIL import Image

from tests.gallery.looks import FAINT, GRID, PAGE, TEXT

_DPI = 72
"""So that a point of a font is a pixel."""
_COLOURS = 224
"""Colours of a picture: enough for smooth letters, and few enough for a small file (chosen)."""
_FAMILY = "DejaVu Sans"
"""Comes with matplotlib, so that pictures are alike on every machine."""

Align = Literal["left", "center", "right"]


class Sheet:
    """A sheet.

    Attributes:
        width: Pixels across.
        height: Pixels down.
    """

    def __init__(self, width: int, height: int) -> None:
        """Take an empty sheet."""
        self.width, self.height = width, height
        self._figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=PAGE)
        self._ground = self._figure.add_axes((0, 0, 1, 1))
        self._ground.set_xlim(0, width)
        self._ground.set_ylim(height, 0)
        self._ground.axis("off")

    def box(
        self, x: float, y: float, width: float, height: float, colour: str, *, edge: str | None = None
    ) -> None:
        """Draw a rectangle."""
        self._ground.add_patch(
            Rectangle((x, y), width, height, facecolor=colour, edgecolor=edge or "none", linewidth=1)
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 9,
        colour: str = TEXT,
        align: Align = "left",
        bold: bool = False,
        room: float | None = None,
    ) -> None:
        """Write a line, its middle at `y`; cut where it has more than `room` pixels."""
        words = words if room is None else cut(words, size, room, bold=bold)
        self._ground.text(
            x,
            y,
            # A dollar is no formula.
            words.replace("$", r"\$"),
            fontsize=size,
            color=colour,
            ha=align,
            va="center",
            family=_FAMILY,
            weight="bold" if bold else "normal",
        )

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Return axes in a rectangle."""
        axes = self._figure.add_axes(
            (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        )
        axes.set_facecolor("none")
        axes.grid(visible=True, color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        for name, spine in axes.spines.items():
            spine.set_visible(name == "bottom")
            spine.set_color(GRID)
        axes.tick_params(colors=FAINT, labelsize=8, length=0, labelfontfamily=_FAMILY)
        return axes

    def save(self, path: Path) -> None:
        """Write the sheet as PNG."""
        drawn = io.BytesIO()
        self._figure.savefig(drawn, format="png", dpi=_DPI, metadata={"Software": None})
        with Image.open(drawn) as picture:
            few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
            few.save(path, format="PNG", optimize=True)


@functools.cache
def width_of(words: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a line in pixels."""
    font = get_font(findfont(FontProperties(family=_FAMILY, weight="bold" if bold else "normal")))
    font.set_size(size, _DPI)
    font.set_text(words, 0)
    width, _ = font.get_width_height()
    # Drawn without hinting, letters are a little wider than measured.
    return float(width) / 64 * 1.08


def cut(words: str, size: float, room: float, *, bold: bool = False) -> str:
    """Cut a line so that it fits in."""
    if width_of(words, size, bold=bold) <= room:
        return words
    for length in range(len(words) - 1, 0, -1):
        shorter = words[:length].rstrip() + "…"
        if width_of(shorter, size, bold=bold) <= room:
            return shorter
    return ""
