"""Times below drawings."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from tests.gallery.area import Area
from tests.gallery.looks import FAINT

_STEPS = (300, 600, 900, 1800, 3600)
_ROOM = 64.0


def moments(area: Area, width: float) -> list[int]:
    """Return round times of the range, as many as there is room for."""
    most = max(1.0, width / _ROOM)
    step = next((step for step in _STEPS if (area.now - area.begin) / step <= most), _STEPS[-1])
    # Not at the edges, where others stand.
    first = math.floor(area.begin / step + 1) * step
    return list(range(first, int(area.now), step))


def clock(time_seconds: float) -> str:
    """Write a time of day."""
    return datetime.fromtimestamp(time_seconds, UTC).strftime("%H:%M")


def draw_times(area: Area, x: float, y: float, width: float, *, colour: str) -> None:
    """Write times below a drawing."""
    for moment in moments(area, width):
        at = x + (moment - area.begin) / (area.now - area.begin) * width
        area.sheet.box(at, y - 2, 1, 3, colour)
        align = "center" if at < x + width - 14 else "right"
        area.sheet.text(at, y + 7, clock(moment), size=8, colour=FAINT, align=align)  # type: ignore[arg-type]
