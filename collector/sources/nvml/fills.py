"""How a series gets its value from a sweep's answers, and what it remembers for that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from collector.catalog.spec import Encoding, Metric
from collector.model import Value
from collector.sources.nvml.answers import OUT_OF_RANGE, UNDECODABLE, Answers, Key
from collector.sources.nvml.decode import to_unit

Fill = Callable[[Answers], Value | None]
"""Takes a sweep's answers, gives one series its value; None where nothing valid was read."""


def scaled(metric: Metric, key: Key, multiply: int, divide: int) -> Fill:
    """Fill a series from one number."""

    def fill(answers: Answers) -> Value | None:
        number = answers.numbers.get(key)
        return None if number is None else _in_unit(answers, number, metric, multiply, divide)

    return fill


def _in_unit(answers: Answers, number: Value, metric: Metric, multiply: int, divide: int) -> Value | None:
    """Convert a number; one that is physically impossible is counted and gives None."""
    value = to_unit(number, metric, multiply, divide)
    if value is None:
        answers.errors[OUT_OF_RANGE] += 1
    return value


def coded(metric: Metric, key: Key, code: int) -> Fill:
    """Fill one series of a row of codes: 1 where its code, or bit, is set."""
    codes = metric.codes
    if codes is None:
        raise TypeError(f"{metric.name} has no codes")
    known = frozenset(number for number, _ in codes.values)
    first = codes.values[0][0]

    def one_hot(answers: Answers) -> Value | None:
        number = answers.numbers.get(key)
        if number is None or number in known:
            return None if number is None else int(number == code)
        if code == first:  # counted once a reading, not once a series
            answers.errors[UNDECODABLE] += 1
        return None

    def bit(answers: Answers) -> Value | None:
        number = answers.numbers.get(key)
        return None if number is None else int(bool(int(number) & code))

    return one_hot if codes.encoding is Encoding.ONE_HOT else bit


class Remembering(ABC):
    """A fill that rests on earlier sweeps, too, and hands that on when a GPU is probed anew."""

    @abstractmethod
    def __call__(self, answers: Answers) -> Value | None:
        """Give the series its value."""

    @abstractmethod
    def take_over(self, earlier: Remembering) -> None:
        """Go on from what another fill of the same series remembers."""


class _Together(Remembering):
    """A fill from numbers that stand for something together only."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        """Begin with nothing known of what the hardware has."""
        self._keys = keys
        self._answered: set[Key] = set()

    def _known(self, answers: Answers) -> list[Value]:
        """List the numbers; none of them while one failed, or is silent that has answered before."""
        present = [key for key in self._keys if key in answers.numbers]
        self._answered.update(present)
        if len(present) < len(self._answered) or not answers.failed.isdisjoint(self._keys):
            return []
        return [answers.numbers[key] for key in present]

    def take_over(self, earlier: Remembering) -> None:
        """Take over which numbers have answered."""
        if isinstance(earlier, _Together):
            self._answered |= earlier._answered.intersection(self._keys)


class Sum(_Together):
    """Fills a series with the sum of the numbers that the hardware has.

    While one of them is unknown the sum is: without it, a counter would run back and forth again.
    """

    def __init__(self, metric: Metric, keys: tuple[Key, ...], multiply: int) -> None:
        """Prepare the sum."""
        super().__init__(keys)
        self._metric = metric
        self._multiply = multiply

    def __call__(self, answers: Answers) -> Value | None:
        """Return the sum; None if a number is unknown, or none answered."""
        numbers = self._known(answers)
        return _in_unit(answers, sum(numbers), self._metric, self._multiply, 1) if numbers else None


class Count(_Together):
    """Fills a series with how many of the numbers are not zero."""

    def __call__(self, answers: Answers) -> Value | None:
        """Return the count; None if a number is unknown, or none answered."""
        numbers = self._known(answers)
        return sum(1 for number in numbers if number) if numbers else None


class MonotoneSum(Remembering):
    """Fills a counter that is the sum of counters, any of which may restart or stop answering.

    A part that restarts goes on from what it had; one that does not answer, or with what is impossible,
    keeps its last count. So the sum never runs back, which Prometheus would take for a reset of the whole.
    """

    def __init__(self, metric: Metric, keys: tuple[Key, ...], multiply: int) -> None:
        """Begin with nothing counted."""
        self._metric = metric
        self._keys = keys
        self._multiply = multiply
        self._last: dict[Key, Value] = {}
        self._carried: Value = 0

    def __call__(self, answers: Answers) -> Value | None:
        """Return the sum; None until a part has answered."""
        for key in self._keys:
            number = answers.numbers.get(key)
            if number is None or _in_unit(answers, number, self._metric, self._multiply, 1) is None:
                continue
            last = self._last.get(key, 0)
            if number < last:
                self._carried += last
            self._last[key] = number
        if not self._last:
            return None
        total = self._carried + sum(self._last.values())
        return _in_unit(answers, total, self._metric, self._multiply, 1)

    def take_over(self, earlier: Remembering) -> None:
        """Go on from what another sum has counted, in the same unit."""
        if isinstance(earlier, MonotoneSum) and earlier._multiply == self._multiply:
            shared = {key: number for key, number in earlier._last.items() if key in self._keys}
            self._carried = earlier._carried + sum(earlier._last.values()) - sum(shared.values())
            self._last = shared


def constant(value: Value) -> Fill:
    """Fill a series with what was read once, at the start."""
    return lambda _answers: value
