"""Fields of a point, prepared: each knows of which values of a Snapshot it is made, and how to write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from collector.model import HistogramSample, Value
from exporters.influxdb.escaping import string_field, tag_text
from exporters.prometheus_histograms import bound_text

Values = Sequence[Value | None]

_GREATEST_INTEGER = 2**63 - 1
"""InfluxDB's integers have 64 bits and a sign."""


def integer_text(value: Value) -> str | None:
    """Write an integer field; None for what is no whole number of 64 bits: rounding would make it another."""
    whole = int(value) if math.isfinite(value) else None
    return f"{whole}i" if whole == value and abs(value) <= _GREATEST_INTEGER else None


def float_text(value: Value) -> str | None:
    """Write a float field, never without a decimal or an exponent; None for NaN and the infinities."""
    return repr(float(value)) if math.isfinite(value) else None


class Field(Protocol):
    """A field of one point."""

    def write(self, values: Values) -> str | None:
        """Write `key=value` from a Snapshot's values; None where there is nothing to say."""


class IntegerField:
    """An integer."""

    __slots__ = ("_index", "_key")

    def __init__(self, key: str, index: int) -> None:
        """Prepare one.

        Args:
            key: Its name.
            index: Place of its value.
        """
        self._key = tag_text(key) + "="
        self._index = index

    def write(self, values: Values) -> str | None:
        """Write the value."""
        value = values[self._index]
        if value is None:
            return None
        text = integer_text(value)
        return None if text is None else self._key + text


class FloatField:
    """A float."""

    __slots__ = ("_index", "_key")

    def __init__(self, key: str, index: int) -> None:
        """Prepare one.

        Args:
            key: Its name.
            index: Place of its value.
        """
        self._key = tag_text(key) + "="
        self._index = index

    def write(self, values: Values) -> str | None:
        """Write the value."""
        value = values[self._index]
        if value is None:
            return None
        text = float_text(value)
        return None if text is None else self._key + text


class FlagField:
    """A boolean: true if one of its values is."""

    __slots__ = ("_false", "_indices", "_true")

    def __init__(self, key: str, indices: Sequence[int]) -> None:
        """Prepare one.

        Args:
            key: Its name.
            indices: Places of its values; several where one check is known with several impacts.
        """
        self._true = tag_text(key) + "=true"
        self._false = tag_text(key) + "=false"
        self._indices = tuple(indices)

    def write(self, values: Values) -> str | None:
        """Write whether one is true."""
        known = [value for index in self._indices if (value := values[index]) is not None]
        if not known:
            return None
        return self._true if any(known) else self._false


class WordField:
    """A string: the word of the one value that is 1, in upper case."""

    __slots__ = ("_choices",)

    def __init__(self, key: str, choices: Sequence[tuple[int, str]]) -> None:
        """Prepare one.

        Args:
            key: Its name.
            choices: Places of values, and the word for each.
        """
        name = tag_text(key) + "="
        self._choices = tuple((index, name + string_field(word.upper())) for index, word in choices)

    def write(self, values: Values) -> str | None:
        """Write the word; None where no state, or more than one, is said to hold."""
        held = [text for index, text in self._choices if values[index]]
        return held[0] if len(held) == 1 else None


class TextsField:
    """Strings that stay the same: the texts of an INFO series. What has no text is left out."""

    __slots__ = ("_index", "_text")

    def __init__(self, key: str, index: int, texts: Sequence[tuple[str, str]]) -> None:
        """Prepare one.

        Args:
            key: What their names begin with.
            index: Place of the value that says whether they hold.
            texts: Names and texts.
        """
        self._index = index
        self._text = ",".join(
            f"{tag_text(f'{key}_{name}')}={string_field(text)}" for name, text in texts if text
        )

    def write(self, values: Values) -> str | None:
        """Write all of them while they hold."""
        return self._text or None if values[self._index] else None


class HistogramFields:
    """Floats: how many observations were at most each bound (`_le_`), their sum and their count.

    The bucket without an upper bound is the count, and has no field of its own.
    """

    __slots__ = ("_keys",)

    def __init__(self, key: str, bounds: Sequence[float]) -> None:
        """Prepare them.

        Args:
            key: What their names begin with.
            bounds: Upper bounds, written as Prometheus has them in `le`.
        """
        names = (*(f"le_{bound_text(bound)}" for bound in bounds), "count", "sum")
        self._keys = tuple(tag_text(f"{key}_{name}") + "=" for name in names)

    def write(self, sample: HistogramSample) -> str:
        """Write the numbers of a histogram of these bounds, all of them finite."""
        numbers = (*sample.counts, sample.sum)
        return ",".join(f"{key}{float(number)!r}" for key, number in zip(self._keys, numbers, strict=True))
