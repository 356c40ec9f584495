"""A batch on its way through refusals: halves of halves, until what a server does not take stands alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

MAXIMUM_REFUSALS = 128
"""How often a batch may be refused before pieces are set aside as they are: some 10 bad lines of 5,000 are
found one by one (chosen; one costs 25 requests, facts on reliability, §1)."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Lines that a server does not take.

    Attributes:
        lines: The lines, without newline.
        words: What the server said.
        cause: One of `REJECT_CAUSES` of the catalogue.
    """

    lines: tuple[bytes, ...]
    words: str
    cause: str


class Pieces:
    """What is left of a batch, the largest piece first, and what was rejected of it.

    Attributes:
        refusals: How often a piece was refused.
        accepted: Lines that the server has.
        rejected: What it does not take.

    A payload is split at its newlines: no line of ours holds another (exporters.influxdb.escaping).
    """

    def __init__(self, payload: bytes) -> None:
        """Begin with the whole.

        Args:
            payload: The lines, each with its newline.
        """
        self._payload = payload
        self._pieces: deque[tuple[bytes, ...]] = deque()
        self._whole: bool = bool(payload)
        self.refusals = 0
        self.accepted = 0
        self.rejected: list[Rejected] = []

    @property
    def left(self) -> bool:
        """Whether anything is to be sent."""
        return self._whole or bool(self._pieces)

    @property
    def begun(self) -> bool:
        """Whether it was split, or a part of it was decided."""
        return not self._whole

    @property
    def points(self) -> int:
        """Lines of the foremost piece."""
        return self._payload.count(b"\n") if self._whole else len(self._pieces[0])

    def body(self) -> bytes:
        """Return the foremost piece."""
        if self._whole:
            return self._payload
        return b"".join(line + b"\n" for line in self._pieces[0])

    def written(self) -> None:
        """The server has the foremost piece."""
        self.accepted += self.points
        self._pop()

    def refused(self, words: str, cause: str) -> None:
        """The server does not take the foremost piece: split it, or reject the line that it is."""
        self.refusals += 1
        lines = self._pop()
        if len(lines) == 1 or self.refusals > MAXIMUM_REFUSALS:
            self.rejected.append(Rejected(lines, words, cause))
            return
        middle = len(lines) // 2
        self._pieces += [lines[:middle], lines[middle:]]

    def cut(self, maximum_bytes: int) -> None:
        """Cut what is larger than a bound into pieces that are not; a single line stays whole.

        Args:
            maximum_bytes: Most bytes of a piece.
        """
        if self._whole and len(self._payload) > maximum_bytes:
            self._pieces.append(self._pop())
        self._pieces = deque(part for piece in self._pieces for part in _cut(piece, maximum_bytes))

    def set_aside(self, words: str, cause: str) -> None:
        """Reject the foremost piece as it is."""
        self.rejected.append(Rejected(self._pop(), words, cause))

    def _pop(self) -> tuple[bytes, ...]:
        if not self._whole:
            return self._pieces.popleft()
        self._whole = False
        return tuple(self._payload.removesuffix(b"\n").split(b"\n"))


def _cut(lines: tuple[bytes, ...], maximum_bytes: int) -> Iterator[tuple[bytes, ...]]:
    begin, size = 0, 0
    for place, line in enumerate(lines):
        size += len(line) + 1
        if size > maximum_bytes and place > begin:
            yield lines[begin:place]
            begin, size = place, len(line) + 1
    yield lines[begin:]
