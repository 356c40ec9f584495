"""What a power shelf says: the rack's input power."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShelfReading:
    """The newest word of one power shelf.

    Attributes:
        shelf: Its name: the host of its address, as configured.
        read_ns: When its power was read last, nanoseconds of Unix time by our clock; None if never.
        watts: Input power of all its power supplies then; None if never read.
        error: Why the newest reading brought nothing, in words; empty if it did. An old reading stays in
            `watts`, and its age tells how far it is to be believed.
    """

    shelf: str
    read_ns: int | None = None
    watts: float | None = None
    error: str = "not read yet"
