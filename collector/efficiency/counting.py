"""Increases of counters that others keep, and counters of our own, in whole numbers."""

from __future__ import annotations

import math
from typing import NamedTuple


class Increase(NamedTuple):
    """By how much a counter rose.

    Attributes:
        amount: The increase, as far as it is known.
        whole: False where the counter began anew: what it counted before that is not known.
    """

    amount: float
    whole: bool


def increase(before: float, after: float, maximum: float) -> Increase | None:
    """Tell by how much a counter rose between two readings.

    A counter that fell began anew, so that its new value is an increase.

    Args:
        before: Earlier value.
        after: Later value.
        maximum: Largest increase that is physically possible in the time between.

    Returns:
        The increase; None if it is impossible, so that nothing is known of the time between.
    """
    whole = after >= before
    amount = after - before if whole else after
    return Increase(amount, whole) if 0 <= amount <= maximum else None


class WholeCounters:
    """Adds fractions up, and gives them out as whole numbers; what is left over is carried on."""

    def __init__(self) -> None:
        """Begin without a counter."""
        self._parts: dict[str, float] = {}
        self._unsaid: dict[str, None] = {}

    def add(self, name: str, amount: float) -> None:
        """Add to a counter, which begins to exist with it.

        Args:
            name: The counter.
            amount: What is added, not negative.
        """
        if name not in self._parts:
            self._parts[name] = 0.0
            self._unsaid[name] = None
        if amount > 0:
            self._parts[name] += amount
            self._unsaid[name] = None

    def take(self) -> dict[str, int]:
        """Return the whole increases of the counters that are new, or rose, since the last call."""
        taken = {}
        for name in self._unsaid:
            taken[name] = whole = math.floor(self._parts[name])
            self._parts[name] -= whole
        self._unsaid = {}
        return taken
