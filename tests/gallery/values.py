"""Values as Grafana writes them: units, prefixes and decimals (packages/grafana-data/src/valueFormats)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

_SI: Final = ("y", "z", "a", "f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E")
_SI_ONE: Final = _SI.index("")
_SHORT: Final = ("", " K", " Mil", " Bil", " Tri", " Quadr")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_SPANS: Final = ((1.0, "s"), (60.0, "mins"), (3600.0, "hours"), (86_400.0, "days"), (604_800.0, "weeks"))
_AGES: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def decimals_of(value: float) -> int:
    """Return how many decimals a value gets that nobody has said it of."""
    # Three digits that count, but for whole numbers (`getDecimalsForValue`).
    return 0 if value % 1 == 0 else max(0, 2 - math.floor(math.log10(abs(value))))


def number(value: float, decimals: int | None = None) -> str:
    """Write a number."""
    return f"{value:.{decimals_of(value) if decimals is None else decimals}f}"


def _scaled(value: float, factor: float, names: tuple[str, ...], start: int) -> tuple[float, str]:
    place = start
    while abs(value) >= factor and place + 1 < len(names):
        value, place = value / factor, place + 1
    while 0 < abs(value) < 1 and place > 0:
        value, place = value * factor, place - 1
    return value, names[place]


def _si(value: float, decimals: int | None, unit: str) -> str:
    scaled, prefix = _scaled(value, 1000.0, _SI, _SI_ONE)
    return f"{number(scaled, decimals)} {prefix}{unit}"


def _short(value: float, decimals: int | None) -> str:
    scaled, suffix = _scaled(value, 1000.0, _SHORT, 0)
    return number(scaled, decimals) + suffix


def _bytes(value: float, decimals: int | None) -> str:
    scaled, prefix = _scaled(value, 1024.0, _BINARY, 0)
    return f"{number(scaled, decimals)} {prefix}B"


def _seconds(value: float, decimals: int | None) -> str:
    if 0 < abs(value) < 1:
        return f"{number(value * 1000, decimals)} ms"
    size, name = next(((size, name) for size, name in reversed(_SPANS) if abs(value) >= size), _SPANS[0])
    return f"{number(value / size, decimals)} {name}"


def age(seconds: float) -> str:
    """Write how long ago something was."""
    for size, name in _AGES:
        if seconds >= size:
            count = round(seconds / size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"


_UNITS: Mapping[str, Callable[[float, int | None], str]] = {
    "Bps": lambda value, decimals: _si(value, decimals, "B/s"),
    "bool_yes_no": lambda value, _: "Yes" if value else "No",
    "bytes": _bytes,
    "celsius": lambda value, decimals: f"{number(value, decimals)} °C",
    "currencyUSD": lambda value, decimals: f"${number(value, decimals)}",
    "hertz": lambda value, decimals: _si(value, decimals, "Hz"),
    "joule": lambda value, decimals: _si(value, decimals, "J"),
    "none": number,
    "percentunit": lambda value, decimals: f"{number(value * 100, decimals)}%",
    "s": _seconds,
    "sci": lambda value, decimals: f"{value:.{2 if decimals is None else decimals}e}" if value else "0",
    "short": _short,
    "watt": lambda value, decimals: _si(value, decimals, "W"),
}


def written(value: float, unit: str, decimals: int | None = None, *, now_seconds: float = 0.0) -> str:
    """Write a value.

    Args:
        value: The value.
        unit: Grafana's id of its unit.
        decimals: Decimals; None for as many as it needs.
        now_seconds: Unix time of the present, for ages.

    Raises:
        KeyError: There is no such unit here.
    """
    if unit == "dateTimeFromNow":
        return age(now_seconds - value / 1000)
    if unit.startswith("suffix:"):
        return f"{number(value, decimals)} {unit.removeprefix('suffix:')}"
    if unit.startswith("si:"):
        return _si(value, decimals, unit.removeprefix("si:"))
    return _UNITS[unit](value, decimals)
