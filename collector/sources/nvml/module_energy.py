"""Energy of a module whose hardware counts none: its power, integrated, and how far that may be off.

The trapezoid rule takes the power between two readings for the mean of both. If it was anywhere between them
all the time, the energy of the step is off by at most half their difference times its length. That is the
bound; it is added up over the steps, so it holds for every stretch of time as well.

The bound is pessimistic. NVML's power is the mean of the last second, so over a step of 1 s the later reading
is the energy itself. Then the step is off by just the bound, up or down, and over many steps that cancels to
half the difference of the first reading and the last.

It does not hold where power leaves the range of two readings unseen: between readings more than a second
apart, and on a board without the average, whose instantaneous reading is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable

from collector.catalog.spec import Metric
from collector.model import Value
from collector.sources.nvml.answers import Answers, Key
from collector.sources.nvml.decode import to_unit
from collector.sources.nvml.fills import Fill, Remembering

_LONGEST_STEP_PERIODS = 3
"""Readings further apart than this many periods leave a gap that is not integrated: chosen."""
_LONGEST_STEP_SECONDS = 3.0
"""Up to here nothing is a gap, however fast power is read: the bound of InferenceX's measured lane (facts on
tokens, §2)."""


def mean(earlier: Value, later: Value) -> float:
    """Return the power of a step by the trapezoid rule, in watts."""
    return (earlier + later) / 2


def half_difference(earlier: Value, later: Value) -> float:
    """Return how far the mean of a step may be off if power stayed between its ends, in watts."""
    return abs(later - earlier) / 2


def longest_step_seconds(fast_seconds: float) -> float:
    """Return how far apart two readings of power may be that are integrated over.

    Args:
        fast_seconds: Period of the readings.
    """
    return max(_LONGEST_STEP_SECONDS, _LONGEST_STEP_PERIODS * fast_seconds)


class Integral(Remembering):
    """Fills a counter with an integral over the times at which a power was read.

    Over a gap it stands still: what was not read is not made up. While power is unknown, so is the counter:
    one that is shown and does not move would say that nothing is drawn.
    """

    def __init__(
        self, power: Fill, over_step: Callable[[Value, Value], float], longest_seconds: float
    ) -> None:
        """Begin at zero.

        Args:
            power: Gives the power of a sweep.
            over_step: What is integrated, from the power at both ends of a step: `mean`, `half_difference`.
            longest_seconds: Longest step; anything longer is a gap.
        """
        self._power = power
        self._over_step = over_step
        self._longest_seconds = longest_seconds
        self._joules = 0.0
        self._last: tuple[float, Value] | None = None

    def __call__(self, answers: Answers) -> Value | None:
        """Return the integral up to this sweep; None if it did not bring the power."""
        watts = self._power(answers)
        if watts is None:
            return None
        if self._last is not None:
            at, earlier = self._last
            seconds = answers.read_at - at
            if 0 < seconds <= self._longest_seconds:
                self._joules += self._over_step(earlier, watts) * seconds
        self._last = answers.read_at, watts
        return self._joules

    def take_over(self, earlier: Remembering) -> None:
        """Go on from where another integral stands, as that of the module's other GPU."""
        if isinstance(earlier, Integral):
            self._joules = earlier._joules
            self._last = earlier._last


def power_fill(metric: Metric, key: Key, multiply: int, divide: int) -> Fill:
    """Fill with a power as `scaled` does, but leave it to the power's own row to count what is wrong."""

    def fill(answers: Answers) -> Value | None:
        number = answers.numbers.get(key)
        return None if number is None else to_unit(number, metric, multiply, divide)

    return fill
