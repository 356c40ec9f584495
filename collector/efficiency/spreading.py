"""Increases on their way into minutes and hours: what rose over a stretch of time rose evenly in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.efficiency.rollup import HOUR_SECONDS, MINUTE_SECONDS, Rollup, add, decode, encode
from collector.health.ledger_usage import StoredRollup

BRIDGE_NS = 600 * 1_000_000_000
"""Longest gap over which an increase is spread (chosen): ten minutes, as long as a node takes to boot."""

KEEP_NS = 900 * 1_000_000_000
"""How long minutes and hours that ended may still change (chosen): the longest bridge, and the three minutes
that it takes at most until it is known whether a time was idle, with polls a minute apart."""

LENGTHS = (MINUTE_SECONDS, HOUR_SECONDS)
_SECOND_NS = 1_000_000_000


class RollupBook:
    """The minutes and hours of a rack that may still change."""

    def __init__(self, rollups: Iterable[StoredRollup] = ()) -> None:
        """Take up what was written before a restart; what cannot be read begins anew.

        Args:
            rollups: Minutes and hours that time may still touch; others do no harm.
        """
        self._rows: dict[tuple[int, int], Rollup] = {}
        self._changed: dict[tuple[int, int], None] = {}
        self._written_ns = 0
        for own in rollups:
            if own.length_seconds in LENGTHS and own.starts_ns % (own.length_seconds * _SECOND_NS) == 0:
                try:
                    self._rows[own.length_seconds, own.starts_ns] = decode(own.data)
                except ValueError:
                    continue

    def add(self, increase: Rollup, starts_ns: int, ends_ns: int) -> None:
        """Spread an increase evenly over a stretch of time.

        Args:
            increase: All of it.
            starts_ns: Begin, Unix nanoseconds; at most `BRIDGE_NS` before the newest end.
            ends_ns: End; where it is the begin, everything belongs to that instant.
        """
        total = ends_ns - starts_ns
        for row, part in self._touched(starts_ns, ends_ns):
            add(row, increase, part / total if total else 1.0)

    def accrue(self, per_second: Rollup, starts_ns: int, ends_ns: int) -> None:
        """Add what holds for a stretch of time.

        Args:
            per_second: What adds up in each second.
            starts_ns: Begin, as for `add`.
            ends_ns: End.
        """
        for row, part in self._touched(starts_ns, ends_ns):
            add(row, per_second, part / _SECOND_NS)

    def take(self, now_ns: int) -> tuple[StoredRollup, ...]:
        """Return what changed since the last call, and forget what will not change any more.

        Args:
            now_ns: The present.
        """
        taken = tuple(StoredRollup(*key, encode(self._rows[key])) for key in self._changed)
        self._changed = {}
        self._written_ns = max(self._written_ns, now_ns - KEEP_NS)
        self._rows = {
            (length, starts): row
            for (length, starts), row in self._rows.items()
            if starts + length * _SECOND_NS > self._written_ns
        }
        return taken

    def _touched(self, starts_ns: int, ends_ns: int) -> Iterator[tuple[Rollup, int]]:
        """Yield the minutes and hours that a stretch touches, with how many nanoseconds of it are in each.

        What was forgotten stays as it was written: a new row would take its place.
        """
        for length in LENGTHS:
            length_ns = length * _SECOND_NS
            slot = starts_ns - starts_ns % length_ns
            while slot < ends_ns or slot <= starts_ns:
                if slot + length_ns > self._written_ns:
                    row = self._rows.setdefault((length, slot), Rollup())
                    self._changed[length, slot] = None
                    yield row, min(ends_ns, slot + length_ns) - max(starts_ns, slot)
                slot += length_ns
