"""Writes what an engine counted as Prometheus text, as the client library of the engines writes it.

Of its own, so that what rackwatt reads was not written by the library that its tests read with. What does not
change is laid out once; a scrape fills in the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from collector.simulator.serving.progress import Pace, Tally
from collector.simulator.serving.spread import Spread

Labels = tuple[tuple[str, str], ...]
Read = Callable[[Tally], float | None]
"""Takes a number from a tally; None while the engine does not show the series yet."""

_EXPONENT_DIGITS = 6
"""From a million on the client library writes exponents, as Go does (prometheus_client, floatToGoString)."""


class FamilyKind(StrEnum):
    """Kinds of metrics, in the words of the text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a family.

    Attributes:
        suffix: What follows the family's name: nothing, `_bucket`, `_sum` or `_count`.
        labels: Its labels.
        read: Its number.
    """

    suffix: str
    labels: Labels
    read: Read


@dataclass(frozen=True, slots=True)
class Family:
    """A metric of one rank.

    Attributes:
        name: Its name in the text, of a counter with `_total`.
        help: Its text.
        kind: Its kind.
        lines: Its lines.
    """

    name: str
    help: str
    kind: FamilyKind
    lines: tuple[Line, ...]


def counter(name: str, text: str, labels: Labels, read: Read) -> Family:
    """Describe a counter with one series."""
    return Family(name, text, FamilyKind.COUNTER, (Line("", labels, read),))


def gauge(name: str, text: str, labels: Labels, read: Read) -> Family:
    """Describe a gauge with one series."""
    return Family(name, text, FamilyKind.GAUGE, (Line("", labels, read),))


def counter_by(name: str, text: str, labels: Labels, label: str, reads: Mapping[str, Read]) -> Family:
    """Describe a counter with one series for each value of a label."""
    lines = tuple(Line("", (*labels, (label, value)), read) for value, read in reads.items())
    return Family(name, text, FamilyKind.COUNTER, lines)


def histogram(
    name: str, text: str, labels: Labels, bounds: Sequence[float], spread: Spread, count: Read
) -> Family:
    """Describe a histogram whose observations spread over its buckets as given.

    Args:
        name: Its name.
        text: Its text.
        labels: Its labels.
        bounds: Finite upper bounds, rising.
        spread: How the observations spread.
        count: Their number; whole.
    """
    shares = (*spread.shares(bounds), 1.0)
    buckets = tuple(
        Line("_bucket", (*labels, ("le", bound)), _whole_share(count, share))
        for bound, share in zip((*map(write_number, bounds), "+Inf"), shares, strict=True)
    )
    lines = (*buckets, Line("_count", labels, count), Line("_sum", labels, _times(count, spread.mean)))
    return Family(name, text, FamilyKind.HISTOGRAM, lines)


def _whole_share(count: Read, share: float) -> Read:
    """Round down, so that shares of a growing number never fall."""

    def read(tally: Tally) -> float | None:
        number = count(tally)
        return None if number is None else int(number * share)

    return read


def _times(count: Read, factor: float) -> Read:
    def read(tally: Tally) -> float | None:
        number = count(tally)
        return None if number is None else number * factor

    return read


def with_created(family: Family) -> tuple[Family, ...]:
    """Add to a counter or histogram the gauge that says when it began, as the client library does."""
    if family.kind is FamilyKind.GAUGE:
        return (family,)
    bare = [line for line in family.lines if line.suffix in ("", "_count")]
    lines = tuple(Line("", line.labels, lambda tally: tally.began_unix_seconds) for line in bare)
    name = family.name.removesuffix("_total") if family.kind is FamilyKind.COUNTER else family.name
    return family, Family(f"{name}_created", family.help, FamilyKind.GAUGE, lines)


class Page:
    """The text of an engine with one or more ranks.

    Args:
        families: The same families of each rank, in the same order.
    """

    def __init__(self, families: Sequence[Sequence[Family]]) -> None:
        self._lines: list[tuple[str, int, Read]] = []
        for each_of_ranks in zip(*families, strict=True):
            family = each_of_ranks[0]
            comment = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
            for rank, of_rank in enumerate(each_of_ranks):
                for line in of_rank.lines:
                    self._lines.append(
                        (f"{comment}{family.name}{line.suffix}{_braces(line.labels)} ", rank, line.read)
                    )
                    comment = ""

    def text(self, tallies: Sequence[Tally]) -> str:
        """Write the page.

        Args:
            tallies: What each rank has counted.
        """
        numbers = ((prefix, read(tallies[rank])) for prefix, rank, read in self._lines)
        return "".join(f"{prefix}{write_number(value)}\n" for prefix, value in numbers if value is not None)


def write_number(value: float) -> str:
    """Write a number that is not negative as the client library does: `3.0`, `0.85`, `1.2345678e+07`."""
    text = repr(float(value))
    whole, point, rest = text.partition(".")
    if not point or len(whole) <= _EXPONENT_DIGITS:
        return text
    digits = f"{whole[0]}.{whole[1:]}{rest}".rstrip("0").rstrip(".")
    return f"{digits}e+{len(whole) - 1:02d}"


def escape(text: str) -> str:
    r"""Write the value of a label: backslash, quote and line feed get a backslash."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _braces(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{escape(value)}"' for name, value in sorted(labels))
    return f"{{{pairs}}}" if pairs else ""


Families = Callable[[Pace, int], tuple[Family, ...]]
"""Describes what one rank of an engine shows, by its pace and number."""
