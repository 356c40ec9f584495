"""Tables of keys, and the reader that walks a document along them.

All mistakes of a file are found in one go, each with its own place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.config import values
from collector.config.document import ListNode, MappingNode, Node, Place, Scalar, show

Finish = Callable[[Mapping[str, object]], object]
"""Makes a section's settings from the values that were written; raises ConflictError."""


class ConflictError(ValueError):
    """Values of a section that are right alone and wrong together.

    Attributes:
        key: Key whose value is to be changed.
    """

    def __init__(self, key: str, message: str) -> None:
        """Keep the key beside the sentence."""
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class Key:
    """A key with one value.

    Attributes:
        read: Makes the value from the text; raises ValueError with what is wrong and what would be right.
        expects: What stands here, for whoever wrote a list or nothing at all.
    """

    read: Callable[[str], object]
    expects: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A key whose value is a list, or has keys that people choose themselves.

    Attributes:
        read: Makes the value from what was written and the keys that lead there, with a dot after each; gives
            the value, None if there are mistakes, and the mistakes.
    """

    read: Callable[[Node, str], tuple[object, list[Mistake]]]


@dataclass(frozen=True, slots=True)
class Section:
    """Keys that stand together.

    Attributes:
        keys: Keys and sections by the name that is written.
        finish: Makes the settings from the values that were written.
        refused: Keys that are known and not available, with the reason.
    """

    keys: Mapping[str, Key | Section | Tree]
    finish: Finish
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One thing that is wrong in a document, ordered by its place."""

    place: Place
    text: str


def read_section(node: MappingNode, section: Section, path: str = "") -> tuple[object, list[Mistake]]:
    """Read a mapping along a table.

    Args:
        node: What was written.
        section: What may be written.
        path: Keys that lead here, with a dot after each.

    Returns:
        The settings, None if there are mistakes; and the mistakes.
    """
    read: dict[str, object] = {}
    mistakes: list[Mistake] = []
    for key, value in node.entries:
        try:
            mistakes += _read_entry(key, value, section, path, read)
        except ValueError as error:
            mistakes.append(Mistake(value.place, f"{path}{key.text}: {error}"))
    if mistakes:
        return None, mistakes
    try:
        return section.finish(read), []
    except ConflictError as error:
        place = next((value.place for key, value in node.entries if key.text == error.key), node.place)
        return None, [Mistake(place, f"{path}{error.key}: {error}")]


def _read_entry(
    key: Scalar, value: Node, section: Section, path: str, read: dict[str, object]
) -> list[Mistake]:
    """Read one key with its value into `read`; raises ValueError for what is wrong with the value."""
    if key.text in section.refused:
        return [Mistake(key.place, f"{path}{key.text}: {section.refused[key.text]}")]
    entry = section.keys.get(key.text)
    if entry is None:
        written = key.text if values.IDENTIFIER.fullmatch(key.text) else show(key.text)
        return [Mistake(key.place, f"{path}{written}: unknown key; {values.nearest(key.text, section.keys)}")]
    if isinstance(entry, Key):
        read[key.text] = entry.read(_text(value, entry.expects))
        return []
    if isinstance(entry, Tree):
        read[key.text], mistakes = entry.read(value, f"{path}{key.text}.")
        return mistakes
    if isinstance(value, MappingNode):
        read[key.text], mistakes = read_section(value, entry, f"{path}{key.text}.")
        return mistakes
    raise ValueError(f"expected keys ({', '.join(entry.keys)}), found {describe(value)}")


def _text(value: Node, expects: str) -> str:
    if not isinstance(value, Scalar) or value.is_empty:
        raise ValueError(f"expected {expects}, found {describe(value)}")
    return value.text


def unexpected(expected: str, found: Node) -> ValueError:
    """Make the error for a list where a text stands, and the like."""
    return ValueError(f"expected {expected}, found {describe(found)}")


def describe(value: Node) -> str:
    """Say what was written, for a message."""
    if isinstance(value, ListNode):
        return "a list"
    if isinstance(value, MappingNode):
        return "keys"
    return "nothing" if value.is_empty else show(value.text)


def placed(mistakes: Sequence[Mistake], name: str) -> Iterator[str]:
    """Write mistakes one a line, in the order of the file, each with its place."""
    for mistake in sorted(mistakes):
        yield f"{name}:{mistake.place.line}:{mistake.place.column}: {mistake.text}"
