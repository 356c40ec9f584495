"""How a series gets its value from a sweep's answers: pure functions over numbers."""

from __future__ import annotations

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
        if number is None:
            return None
        value = to_unit(number, metric, multiply, divide)
        if value is None:
            answers.errors[OUT_OF_RANGE] += 1
        return value

    return fill


def summed(metric: Metric, keys: tuple[Key, ...], multiply: int) -> Fill:
    """Fill a series with the sum of the numbers that answered now."""

    def fill(answers: Answers) -> Value | None:
        numbers = [answers.numbers[key] for key in keys if key in answers.numbers]
        return to_unit(sum(numbers), metric, multiply, 1) if numbers else None

    return fill


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


class MonotoneSum:
    """Fills a counter that is the sum of counters, any of which may restart or stop answering.

    A part that restarts goes on from what it had; one that does not answer keeps its last count. So the
    sum never runs back, which Prometheus would take for a reset of the whole.
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
            if number is None:
                continue
            last = self._last.get(key, 0)
            if number < last:
                self._carried += last
            self._last[key] = number
        if not self._last:
            return None
        return to_unit(self._carried + sum(self._last.values()), self._metric, self._multiply, 1)


def constant(value: Value) -> Fill:
    """Fill a series with what was read once, at the start."""
    return lambda _answers: value


def counted(keys: tuple[Key, ...]) -> Fill:
    """Fill a series with how many of the numbers are not zero; None if none answered."""

    def fill(answers: Answers) -> Value | None:
        numbers = [answers.numbers[key] for key in keys if key in answers.numbers]
        return sum(1 for number in numbers if number) if numbers else None

    return fill
