"""YAML as a tree that remembers where everything stands, so that each mistake can name its place.

Values stay text until the schema reads them: YAML 1.1 would turn `rack: 07` into 7 and `no` into False.
Refused, because no configuration needs it: anchors and aliases, tags, repeated keys, several documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import yaml

from collector.errors import ConfigurationError

MAX_BYTES = 1024 * 1024
"""Largest file that is read; a real one has a few hundred bytes."""

_MAX_DEPTH = 16
_MAX_NODES = 20_000

_MARK = "\ufeff"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Line and column in a file, both counted from 1."""

    line: int
    column: int


START = Place(1, 1)


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, as written.

    Attributes:
        text: The text without quotes.
        place: Where it begins.
        quoted: Whether it stood in quotes, or in a block of text.
    """

    text: str
    place: Place
    quoted: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written here, in one of the ways of YAML."""
        return not self.quoted and self.text in {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys with their values, in the order of the file; each key stands once."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place


Node = Scalar | ListNode | MappingNode


def show(text: str) -> str:
    """Quote foreign text for a message: one line, printable, bounded."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def error_at(name: str, place: Place, text: str) -> ConfigurationError:
    """Make the error for a place in a file, as editors understand it: `FILE:LINE:COLUMN: text`."""
    return ConfigurationError(f"{name}:{place.line}:{place.column}: {text}")


def parse_document(data: bytes, name: str) -> MappingNode:
    """Parse a configuration file into a tree.

    Args:
        data: Content of the file.
        name: Name of the file, for messages.

    Returns:
        The top mapping; an empty one if the file holds nothing but comments.

    Raises:
        ConfigurationError: The content is too large, no UTF-8, no YAML, or uses what is refused here.
    """
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"{name}: larger than {MAX_BYTES // 1024} KiB; is this the right file?")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise error_at(
            name, _place_after(before), f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None
    return _Builder(text.removeprefix(_MARK), name).build()


def _place_after(text: str) -> Place:
    line_start = text.rfind("\n") + 1
    return Place(text.count("\n") + 1, len(text) - line_start + 1)


class _Mark(Protocol):
    """What PyYAML's two kinds of marks have in common."""

    line: int
    column: int


def _place_of(mark: _Mark | None) -> Place:
    return Place(mark.line + 1, mark.column + 1) if mark else START


def _place(event: yaml.Event) -> Place:
    return _place_of(event.start_mark)


def _events(loader: yaml.SafeLoader) -> Iterator[yaml.Event]:
    event: yaml.Event
    while loader.check_event():
        event = loader.get_event()  # type: ignore[no-untyped-call]  # PyYAML's stubs leave it out
        yield event


class _Builder:
    """Builds the tree from PyYAML's events; its own composer would recurse without bound."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._nodes = 0
        self._events: Iterator[yaml.Event] = iter(())

    def build(self) -> MappingNode:
        try:
            loader = yaml.SafeLoader(self._text)
            self._events = _events(loader)
            return self._document()
        except yaml.reader.ReaderError as error:
            place = _place_after(self._text[: error.position])
            code = error.character if isinstance(error.character, int) else ord(error.character)
            raise error_at(
                self._name, place, f"the character U+{code:04X} is not allowed in YAML; remove it"
            ) from None
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from None
        except (ValueError, OverflowError):
            # PyYAML lets these escape from numbers in a %YAML line and from "\U..." beyond Unicode.
            raise error_at(
                self._name,
                _place_of(loader.get_mark()),
                "not valid YAML: a number or an escape such as \\UFFFFFFFF is out of range",
            ) from None

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> ConfigurationError:
        place = _place_of(error.problem_mark or error.context_mark)
        reason = (error.problem or error.context or "cannot be parsed").replace("\n", " ")
        hint = "; indent with spaces" if r"'\t'" in reason else ""
        return error_at(self._name, place, f"not valid YAML: {reason}{hint}")

    def _document(self) -> MappingNode:
        root: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise error_at(self._name, _place(event), "a second document begins; only one is allowed")
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, 0)
        if root is None or (isinstance(root, Scalar) and root.is_empty):
            return MappingNode((), START)
        if not isinstance(root, MappingNode):
            raise error_at(self._name, root.place, "expected keys and values, such as 'rack: r01'")
        return root

    def _node(self, event: yaml.Event, depth: int) -> Node:
        self._refuse(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, _place(event), quoted=event.style is not None)
        if isinstance(event, yaml.SequenceStartEvent):
            return ListNode(tuple(self._items(depth)), _place(event))
        return MappingNode(tuple(self._entries(depth)), _place(event))

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _entries(self, depth: int) -> Iterator[tuple[Scalar, Node]]:
        seen: dict[str, Place] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise error_at(self._name, key.place, "a key must be a plain word")
            if key.text in seen:
                raise error_at(
                    self._name,
                    key.place,
                    f"the key {show(key.text)} is repeated; it stands on line {seen[key.text].line} already",
                )
            seen[key.text] = key.place
            yield key, self._node(next(self._events), depth + 1)

    def _refuse(self, event: yaml.Event, depth: int) -> None:
        self._nodes += 1
        problem = _unsupported(event)
        if problem is None and depth > _MAX_DEPTH:
            problem = f"nested deeper than {_MAX_DEPTH} levels"
        if problem is None and self._nodes > _MAX_NODES:
            problem = f"more than {_MAX_NODES} values; is this the right file?"
        if problem is not None:
            raise error_at(self._name, _place(event), problem)


def _unsupported(event: yaml.Event) -> str | None:
    """Say which part of YAML an event uses that no configuration needs."""
    if isinstance(event, yaml.AliasEvent):
        return f"the alias {show(f'*{event.anchor}')} is not supported; write the value out"
    if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
        return None
    if event.anchor is not None:
        return f"the anchor {show(f'&{event.anchor}')} is not supported; write the value out"
    if event.tag is not None:
        return f"the tag {show(event.tag.replace('tag:yaml.org,2002:', '!!'))} is not supported; remove it"
    return None
