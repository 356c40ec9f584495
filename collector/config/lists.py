"""Lists of sections: each item has keys, or is written short as one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from collector.config.document import ListNode, MappingNode, Node
from collector.config.reading import Mistake, Section, Tree, read_section, unexpected

Item = TypeVar("Item")
Short = Callable[[Node], Item]
"""Reads an item that is not written as keys; raises ValueError."""


def section_list(
    section: Section, kind: type[Item], *, maximum: int, expects: str, short: Short[Item] | None = None
) -> Tree:
    """Make the reader of a list.

    Args:
        section: Keys of an item; its `finish` makes the items.
        kind: Type of the items.
        maximum: Most items.
        expects: What stands here, for a message: `a list such as […]`.
        short: Reads an item that is not written as keys; None where there is no such way.
    """

    def read(node: Node, path: str) -> tuple[object, list[Mistake]]:
        if not isinstance(node, ListNode):
            raise unexpected(expects, node)
        if len(node.items) > maximum:
            raise ValueError(f"{len(node.items)} items; {maximum} at most are allowed")
        items: list[Item] = []
        mistakes: list[Mistake] = []
        for item in node.items:
            try:
                made, own = _read_item(item, path)
            except ValueError as error:
                mistakes.append(Mistake(item.place, f"{path.rstrip('.')}: {error}"))
                continue
            mistakes += own
            items += [made] if isinstance(made, kind) else []
        return tuple(items), mistakes

    def _read_item(item: Node, path: str) -> tuple[object, list[Mistake]]:
        if isinstance(item, MappingNode):
            return read_section(item, section, path)
        if short is None:
            raise unexpected(f"keys ({', '.join(section.keys)})", item)
        return short(item), []

    return Tree(read)
