"""How a field looks once its overrides have been applied, and what a value's text and colour are."""

from __future__ import annotations

import colorsys
import re
from dataclasses import dataclass, fields

from dashboards.panels import (
    ByName,
    ByQuery,
    ByRegexp,
    ByValue,
    CellKind,
    DataPanel,
    FieldOptions,
    Fixed,
    Line,
    Override,
    RangeText,
    Shades,
    Thresholds,
    ValueMapping,
    ValueText,
    palette,
)
from dashboards.panels.fields import Colouring
from tests.gallery.values import written

TEXT = "#ccccdc"
FAINT = "#8e8e99"
GRID = "#2c3038"
PANEL = "#181b1f"
PAGE = "#111217"
"""Colours of Grafana's dark theme, about."""

_SHADE_STEPS = 5
_NO_THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True)
class Look:
    """How a field looks; as in FieldOptions and Override."""

    unit: str
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    display_name: str | None = None
    colouring: Colouring | None = None
    thresholds: Thresholds = _NO_THRESHOLDS
    mappings: tuple[ValueMapping, ...] = ()
    cell: CellKind = CellKind.AUTO
    column_width: int | None = None
    line: Line | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as it is shown.

    Attributes:
        text: Its text.
        colour: Its colour; None for that of text.
    """

    text: str
    colour: str | None


def look_of(panel: DataPanel, name: str, ref_id: str) -> Look:
    """Return how a field looks.

    Args:
        panel: Its panel.
        name: Its name as shown.
        ref_id: The target that brought it; empty where none is known.
    """
    base: FieldOptions = panel.fields
    chosen: dict[str, object] = {
        field.name: getattr(base, field.name) for field in fields(Look) if hasattr(base, field.name)
    }
    for override in panel.overrides:
        if _matches(override, name, ref_id):
            for field in fields(Look):
                value = getattr(override, field.name)
                if value is not None:
                    chosen[field.name] = value
    return Look(**chosen)  # type: ignore[arg-type]  # the fields have one type by one name


def _matches(override: Override, name: str, ref_id: str) -> bool:
    chosen = override.fields
    if isinstance(chosen, ByName):
        return chosen.name == name
    if isinstance(chosen, ByRegexp):
        return re.search(chosen.pattern.strip("/"), name) is not None
    return isinstance(chosen, ByQuery) and chosen.ref_id == ref_id


def shown(value: float | str | None, look: Look, *, now_seconds: float, no_value: str = "") -> Shown:
    """Return text and colour of a value."""
    if value is None:
        return Shown(no_value, palette.UNKNOWN)
    for mapping in look.mappings:
        if _is_mapped(value, mapping):
            return Shown(mapping.text, rgb(mapping.colour) if mapping.colour else None)
    if isinstance(value, str):
        return Shown(value, None)
    return Shown(written(value, look.unit, look.decimals, now_seconds=now_seconds), colour_of(value, look))


def _is_mapped(value: float | str, mapping: ValueMapping) -> bool:
    if isinstance(mapping, ValueText):
        return mapping.value == (value if isinstance(value, str) else f"{value:.12g}")
    assert isinstance(mapping, RangeText)
    return (
        not isinstance(value, str)
        and (mapping.low is None or value >= mapping.low)
        and (mapping.high is None or value <= mapping.high)
    )


def colour_of(value: float, look: Look) -> str | None:
    """Return the colour of a value; None for that of text."""
    if isinstance(look.colouring, Fixed | Shades):
        return rgb(look.colouring.colour)
    assert not isinstance(look.colouring, ByValue)
    reached = [step.colour for step in look.thresholds.steps if value >= step.value]
    colour = rgb(reached[-1] if reached else look.thresholds.base)
    return None if colour == TEXT else colour


def series_colour(look: Look, place: int) -> str:
    """Return the colour of a line or bar.

    Args:
        look: How its field looks.
        place: Its place among the series that share its colouring, so that shades differ.
    """
    if isinstance(look.colouring, Fixed):
        return rgb(look.colouring.colour)
    if isinstance(look.colouring, Shades):
        return _shade(rgb(look.colouring.colour), place)
    return rgb(look.thresholds.base)


def rgb(colour: str) -> str:
    """Return a colour as matplotlib takes it."""
    return TEXT if colour == palette.NEUTRAL else colour


def _shade(colour: str, place: int) -> str:
    """Make a colour lighter or darker, in a few steps."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    light = min(0.9, max(0.25, light * (1.15 - 0.14 * (place % _SHADE_STEPS))))
    red, green, blue = colorsys.hls_to_rgb(hue, light, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
