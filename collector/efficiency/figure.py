"""A figure that is known, or the reason why it is not: never a number that might be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, or why there is none.

    Attributes:
        value: The number; None where it cannot be said.
        reason: Why it cannot be said, in words; empty where it can.
    """

    value: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse a figure that is both, neither, or no number."""
        if (self.value is None) != bool(self.reason):
            raise ValueError(f"a figure is a value or a reason, not {self.value!r} and {self.reason!r}")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"a figure is a finite number, not {self.value!r}")

    def but(self, reason: str) -> Figure:
        """Return this figure, blank where there is a reason; its own reason goes first."""
        return self if self.reason or not reason else Figure(reason=reason)

    def above_zero(self, reason: str) -> Figure:
        """Return this figure, blank with a reason where nothing can be divided by it."""
        return self if self.value is None or self.value > 0 else Figure(reason=reason)

    def map(self, compute: Callable[[float], float]) -> Figure:
        """Return what is computed from this figure; blank where it is."""
        return self if self.value is None else figure(compute(self.value))

    @property
    def sure(self) -> float:
        """The value of a figure that is known to be there; raises ValueError where it is blank."""
        if self.value is None:
            raise ValueError(f"there is no figure: {self.reason}")
        return self.value

    def per(self, other: Figure) -> Figure:
        """Return this figure divided by another, which is not zero; blank where one is blank."""
        return self.join(other, lambda own, value: own / value)

    def times(self, other: Figure) -> Figure:
        """Return this figure multiplied by another; blank where one is blank."""
        return self.join(other, lambda own, value: own * value)

    def join(self, other: Figure, compute: Callable[[float, float], float]) -> Figure:
        """Return what is computed from two figures; blank where one is, with the reason of the first."""
        if self.value is None or other.value is None:
            return self if self.value is None else other
        return figure(compute(self.value, other.value))


def figure(value: float) -> Figure:
    """Make a figure of a number; one that no number can hold is blank."""
    return Figure(value) if math.isfinite(value) else Figure(reason="it is larger than a number can be")


def blank(reason: str) -> Figure:
    """Make a figure that cannot be said."""
    return Figure(reason=reason)


def or_blank(value: float | None, reason: str) -> Figure:
    """Make a figure of a number that may be missing."""
    return blank(reason) if value is None else figure(value)


def percent(ratio: float) -> str:
    """Write a ratio for people, rounded down, so that what is short of a bound is seen to be."""
    return f"{math.floor(ratio * 1000) / 10:g} %"
