"""Sums of counters that restart and fall silent one by one, as an engine's ranks do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Key = tuple[bytes, bytes]
"""A part: its group, whose parts add, and its rank, of which those of one group tell the same."""

Vector = tuple[float, ...]
"""Counts of one part: a single one, or a histogram's with its sum last."""

MAXIMUM_PARTS = 1000
"""Parts beyond which those that fell silent are summed up and forgotten: chosen. A rack has 72 ranks."""


@dataclass(slots=True)
class _Part:
    last: Vector
    carried: Vector

    @property
    def total(self) -> Vector:
        return _add(self.last, self.carried)


class RankSum:
    """A counter that is the sum of its parts' counters and does not fall while one of them goes on.

    A part that restarts goes on from what it had, and one that does not answer keeps its last count:
    Prometheus takes every fall for a reset of the whole, and would count all that the others have once more.
    Only when every part that has counted anything fell, the engine has restarted, and the sum begins anew.
    """

    def __init__(self, compared: int = 1) -> None:
        """Begin with nothing counted.

        Args:
            compared: How many of a vector's counts tell a restart; the sum of a histogram does not.
        """
        self._compared = compared
        self._parts: dict[Key, _Part] = {}
        self._forgotten: Vector | None = None
        self._answering: set[bytes] = set()

    @property
    def size(self) -> int:
        """How many counts of parts are remembered."""
        return sum(len(part.last) for part in self._parts.values())

    def end_round(self, *, forget: bool) -> None:
        """Note that an answer was read to its end.

        Args:
            forget: Whether to sum up and forget the parts that it did not have.
        """
        if forget:
            self._forget(self._answering)
        self._answering = set()

    def update(self, counts: Mapping[Key, Vector]) -> Vector:
        """Take the counts of those parts that answered, and return the sum.

        Args:
            counts: At least one part, all of one length for ever.

        Returns:
            Sum over groups, each of which counts once, as its furthest rank has it.
        """
        self._answering = {group for group, _ in counts}
        counting = {key for key, part in self._parts.items() if any(part.last)}
        fallen = {key for key in counting if key in counts and self._fell(self._parts[key].last, counts[key])}
        if fallen and fallen == counting:
            self._parts.clear()
            self._forgotten = None
        for key, count in counts.items():
            part = self._parts.get(key)
            if part is None:
                self._parts[key] = _Part(count, (0.0,) * len(count))
                continue
            if key in fallen:
                part.carried = part.total
            part.last = count
        if len(self._parts) > MAXIMUM_PARTS:
            self._forget(self._answering)
        return self._total()

    def _fell(self, last: Vector, count: Vector) -> bool:
        return any(new < old for new, old in zip(count[: self._compared], last, strict=False))

    def _forget(self, answering: set[bytes]) -> None:
        """Sum up the groups that did not answer, so that changing labels do not grow without bound."""
        silent = {key: part for key, part in self._parts.items() if key[0] not in answering}
        for total in _furthest(silent).values():
            self._forgotten = total if self._forgotten is None else _add(self._forgotten, total)
        for key in silent:
            del self._parts[key]

    def _total(self) -> Vector:
        totals = list(_furthest(self._parts).values())
        if self._forgotten is not None:
            totals.append(self._forgotten)
        return tuple(map(sum, zip(*totals, strict=True)))


def _furthest(parts: Mapping[Key, _Part]) -> dict[bytes, Vector]:
    """Return each group's total: of ranks that tell the same, the one that has counted most."""
    groups: dict[bytes, Vector] = {}
    for (group, _), part in parts.items():
        total = part.total
        groups[group] = tuple(map(max, groups[group], total)) if group in groups else total
    return groups


def _add(first: Vector, second: Vector) -> Vector:
    return tuple(map(float.__add__, first, second))
