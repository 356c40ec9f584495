"""When a rack was idle, and the energy that it took then.

Whether a time was idle is known only when every node with an endpoint has spoken after it; so long, energy
waits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_KEEP_NS = 900 * 1_000_000_000
"""How long busy times are kept (chosen): longer than the longest bridge of a gap."""


class Piece(NamedTuple):
    """Energy of a stretch of time.

    Attributes:
        starts_ns: Begin.
        ends_ns: End.
        joules: Energy by domain.
    """

    starts_ns: int
    ends_ns: int
    joules: Mapping[str, float]


class IdleTimes:
    """Tells the busy from the idle; what is not said to be busy is idle once it is settled."""

    def __init__(self, starts_ns: int) -> None:
        """Begin to watch; the time before counts as busy.

        Args:
            starts_ns: The present.
        """
        self._begins: list[int] = [0]
        self._ends: list[int] = [starts_ns]
        self._waiting: list[Piece] = []

    def mark_busy(self, starts_ns: int, now_ns: int) -> None:
        """Say that a stretch of time until now was not idle.

        Args:
            starts_ns: Its begin.
            now_ns: The present; never before what was marked last.
        """
        while self._ends and self._ends[-1] >= starts_ns:
            starts_ns = min(starts_ns, self._begins.pop())
            self._ends.pop()
        self._begins.append(starts_ns)
        self._ends.append(now_ns)

    def put(self, piece: Piece) -> None:
        """Take in energy, to be told apart later."""
        self._waiting.append(piece)

    def settle(self, until_ns: int) -> Iterator[Piece]:
        """Yield the idle parts of the energy until a time until which everything is known."""
        waiting, self._waiting = self._waiting, []
        for piece in waiting:
            if piece.ends_ns > until_ns:
                self._waiting.append(piece)
            else:
                yield from self._idle_parts(piece)
        self._forget(until_ns)

    def _idle_parts(self, piece: Piece) -> Iterator[Piece]:
        total = piece.ends_ns - piece.starts_ns
        at = piece.starts_ns
        place = bisect_right(self._ends, at)
        while total and at < piece.ends_ns:
            begins = self._begins[place] if place < len(self._begins) else piece.ends_ns
            ends = min(begins, piece.ends_ns)
            if ends > at:
                share = (ends - at) / total
                yield Piece(at, ends, {domain: own * share for domain, own in piece.joules.items()})
            at = self._ends[place] if place < len(self._ends) else piece.ends_ns
            place += 1

    def _forget(self, until_ns: int) -> None:
        place = bisect_right(self._ends, until_ns - _KEEP_NS)
        if place > 1:
            # All of it counts as busy from then on; nothing asks for it any more.
            self._begins[:place] = [0]
            self._ends[:place] = [self._ends[place - 1]]
