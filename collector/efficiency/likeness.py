"""Whether two measurements are of the same thing: names of models, lengths, interactivity."""

from __future__ import annotations

from collector.efficiency.figure import Figure

TOLERANCE_RATIO = 0.25
"""How far a mean length or an interactivity may lie from what it is held against; chosen: lengths of 8k/1k
and 1k/1k are told apart, and a data set that varies around its nominal length is not."""


def model_key(model: str) -> str:
    """Return a model's name without its organization or folder, in small letters."""
    return model.rstrip("/").rpartition("/")[2].lower()


def same_model(one: str, other: str) -> bool:
    """Tell whether two names mean one model; an empty name means none."""
    return bool(one) and model_key(one) == model_key(other)


def difference(what: str, measured: Figure, wanted: float, unit: str) -> str:
    """Say how a measured value differs from the one that it is held against; empty if it is close enough.

    Args:
        what: What it is.
        measured: The measured value.
        wanted: The value to hold it against.
        unit: Its unit, for the words.
    """
    if measured.value is None:
        return f"the {what} is not known here ({measured.reason}) instead of {_number(wanted)} {unit}"
    if abs(measured.value - wanted) > TOLERANCE_RATIO * wanted:
        return f"the {what} differs: {_number(measured.value)} instead of {_number(wanted)} {unit}"
    return ""


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
