"""A reader of line protocol after its specification, written apart from what writes it.

https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/: a backslash escapes comma, equals
sign and space in keys and tags, quote and backslash in strings; anywhere else it stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FieldValue = int | float | bool | str


@dataclass(frozen=True)
class Point:
    """One point."""

    measurement: str
    tags: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, FieldValue], ...]
    time_ns: int

    @property
    def labels(self) -> dict[str, str]:
        """Its tags by name."""
        return dict(self.tags)


class NotLineProtocolError(ValueError):
    """What was read is no line protocol."""


def parse(payload: bytes) -> list[Point]:
    """Read a payload, each line of which ends with a newline."""
    text = payload.decode("utf-8")
    if text and not text.endswith("\n"):
        raise NotLineProtocolError("the last line has no newline")
    return [_Line(line).point() for line in text.split("\n")[:-1]]


class _Line:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def point(self) -> Point:
        measurement = self._name(", ")
        tags = tuple(self._tags())
        self._take(" ")
        fields = tuple(self._fields())
        self._take(" ")
        time_ns = int(self._text[self._at :])
        for names in ([name for name, _ in tags], [name for name, _ in fields]):
            if len(set(names)) != len(names) or not all(names):
                raise NotLineProtocolError(f"a key twice, or empty: {self._text!r}")
        if not measurement or not fields or not all(value for _, value in tags):
            raise NotLineProtocolError(f"something is empty: {self._text!r}")
        return Point(measurement, tags, fields, time_ns)

    def _tags(self) -> Iterator[tuple[str, str]]:
        while self._next() == ",":
            self._take(",")
            name = self._name("=, ")
            self._take("=")
            yield name, self._name("=, ")

    def _fields(self) -> Iterator[tuple[str, FieldValue]]:
        while True:
            name = self._name("=, ")
            self._take("=")
            yield name, self._value()
            if self._next() != ",":
                return
            self._take(",")

    def _value(self) -> FieldValue:
        if self._next() == '"':
            return self._string()
        word = self._name(", ")
        if word in {"true", "false"}:
            return word == "true"
        if word.endswith("i"):
            number = int(word[:-1])
            if not -(2**63) <= number < 2**63:
                raise NotLineProtocolError(f"{word} has more than 64 bits")
            return number
        if not set(word) & set(".e"):
            raise NotLineProtocolError(f"{word!r} may be taken for an integer")
        return float(word)

    def _string(self) -> str:
        self._take('"')
        found = []
        while (character := self._next()) != '"':
            self._at += 1
            if character == "\\" and self._next() in {'"', "\\"}:
                character = self._next()
                self._at += 1
            found.append(character)
        self._take('"')
        return "".join(found)

    def _name(self, ends: str) -> str:
        found = []
        while self._at < len(self._text) and self._text[self._at] not in ends:
            character = self._text[self._at]
            self._at += 1
            if character == "\\" and self._next() in {",", "=", " "}:
                character = self._next()
                self._at += 1
            found.append(character)
        return "".join(found)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise NotLineProtocolError(f"the line ends too early: {self._text!r}")
        return self._text[self._at]

    def _take(self, character: str) -> None:
        if self._next() != character:
            raise NotLineProtocolError(f"no {character!r} at {self._at}: {self._text!r}")
        self._at += 1
