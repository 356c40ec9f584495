"""The text of a metrics endpoint: what is wanted of it is picked out cheaply, and only that is parsed.

A real answer of vLLM has about 1,000 lines, of which some 150 are wanted. The parser of prometheus_client
takes about 15 µs a line, so one regular expression leaves the rest out before. The text format 0.0.4 and
OpenMetrics 1.0.0 are read: lines of samples are the same in both, as far as they are wanted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from collector.sources.serving.endpoint import ScrapeError

MAXIMUM_SERIES = 20_000
"""Most wanted series of an answer. One of vLLM with 8 data-parallel ranks has some 1,200: chosen."""

MAXIMUM_LINE_BYTES = 4096
"""Longest wanted line. The parser's time grows with the square of a line's length: chosen."""

MAXIMUM_QUOTES = 128
"""Most quotation marks in a wanted line, two a label. Engines have ten labels at most: chosen."""

MAXIMUM_WANTED_BYTES = 4 * 1024 * 1024
"""Most bytes of all wanted lines. `MAXIMUM_SERIES` of 200 bytes each are that: chosen."""

_CHECKED_LINES = 1000
"""Lines that are looked at to tell what an answer is that no engine gives: chosen."""

# White space is taken possessively: a line of megabytes of it would be gone through again and again, and a
# regular expression holds the interpreter, in whatever thread it runs.
_COMMENT = rb"#[ \t]++(?:TYPE|HELP)[ \t]++"
# A sample: a name and labels, or labels that hold the name in quotes, and a value.
_SAMPLE = re.compile(rb"[ \t]*+(?:[A-Za-z_:][A-Za-z0-9_:]*+[ \t]*+(?:\{.*\})?|\{.*\})[ \t]*+[-+0-9.A-Za-z]+")
_OF_NO_SAMPLE = re.compile(rb"[ \t\r]*+(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of an exposition.

    Attributes:
        name: Its name, with suffix.
        labels: Its labels.
        value: Its value; it may be no finite number.
    """

    name: str
    labels: Mapping[str, str]
    value: float


class Wanted:
    """Picks the samples of some names out of expositions."""

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare to look for the names; each is that of a series, with suffix."""
        choices = b"|".join(re.escape(name.encode()) for name in sorted(names))
        self._pattern = re.compile(rb"^[ \t]*+(?:" + choices + rb")(?=[ \t{])[^\n]*+", re.MULTILINE)

    def samples(self, body: bytes) -> list[Sample]:
        """Parse the wanted lines.

        Args:
            body: An exposition, bounded before.

        Returns:
            The samples, in the order of the text.

        Raises:
            ScrapeError: `too_large` where a bound is broken, `malformed` where a wanted line is no sample.
        """
        parse = _parser()
        samples: list[Sample] = []
        total = 0
        for match in self._pattern.finditer(body):
            line = match.group()
            total += len(line)
            if len(samples) == MAXIMUM_SERIES or total > MAXIMUM_WANTED_BYTES:
                raise ScrapeError(
                    "too_large",
                    f"the answer has more than {MAXIMUM_SERIES} series, or {MAXIMUM_WANTED_BYTES} bytes of "
                    "series, that are wanted of an engine",
                )
            if len(line) > MAXIMUM_LINE_BYTES or line.count(b'"') > MAXIMUM_QUOTES:
                raise ScrapeError(
                    "too_large",
                    f"{_place(body, match.start(), line)}: expected at most {MAXIMUM_LINE_BYTES} bytes and "
                    f"{MAXIMUM_QUOTES // 2} labels",
                )
            try:
                samples.append(parse(line.decode("utf-8", errors="replace")))
            # What the parser raises on text that is none of its format.
            except (ValueError, LookupError, ArithmeticError, StopIteration):
                raise ScrapeError(
                    "malformed",
                    f"{_place(body, match.start(), line)}: expected a name, labels in braces, and a number",
                ) from None
        return samples


def mentions(beginnings: Iterable[str]) -> re.Pattern[bytes]:
    """Make a pattern that finds a metric whose name has one of the beginnings.

    TYPE and HELP lines count: they stand there before a metric has a first series.
    """
    choices = b"|".join(re.escape(beginning.encode()) for beginning in beginnings)
    return re.compile(rb"^[ \t]*+(?:" + _COMMENT + rb")?(?:" + choices + rb")", re.MULTILINE)


def helps(name: str, word: str) -> re.Pattern[bytes]:
    """Make a pattern that finds the HELP line of a counter where it has the word."""
    family = re.escape(name.removesuffix("_total").encode())
    text = rb"[^\n]*" + re.escape(word.encode())
    return re.compile(rb"^[ \t]*+#[ \t]++HELP[ \t]++" + family + rb"(?:_total)?[ \t]" + text, re.MULTILINE)


def check_text(body: bytes) -> None:
    """Tell what is wrong with an answer that is no exposition at all.

    Args:
        body: The answer, bounded before.

    Raises:
        ScrapeError: `malformed`, with the first line that belongs in no exposition.
    """
    start = 0
    for _ in range(_CHECKED_LINES):
        end = body.find(b"\n", start)
        line = body[start : min(len(body) if end < 0 else end, start + MAXIMUM_LINE_BYTES)]
        if not _OF_NO_SAMPLE.match(line) and not _SAMPLE.match(line):
            raise ScrapeError(
                "malformed",
                f"{_place(body, start, line)}: expected the text of Prometheus or OpenMetrics",
            )
        if end < 0:
            return
        start = end + 1


def _place(body: bytes, start: int, line: bytes) -> str:
    """Name a line by number, with a bounded part of it."""
    number = body.count(b"\n", 0, start) + 1
    return f"line {number} ({len(line)} bytes) begins with {line[:80]!r}"


def _parser() -> Callable[[str], Sample]:
    # Here, because it weighs 1.4 MiB, and most agents have no serving endpoint to read.
    from prometheus_client.parser import text_string_to_metric_families

    def parse(line: str) -> Sample:
        (found,) = next(iter(text_string_to_metric_families(line))).samples
        return Sample(found.name, found.labels, float(found.value))

    return parse
