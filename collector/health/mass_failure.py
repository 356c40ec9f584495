"""The guard against draining a fleet because its monitoring failed (facts/rack.md §6, "Mass failure")."""

from __future__ import annotations

from collections.abc import Iterable

from collector.health.rack_types import RackStatus
from collector.health.states import Verdict

_BAD = (Verdict.UNAVAILABLE, Verdict.UNKNOWN)


class MassFailureGuard:
    """Freezes draining when more than half of the racks turn bad at once.

    A rack turns bad when its verdict becomes UNAVAILABLE or UNKNOWN; a first sight is no change. Draining
    stays frozen until at most half of the racks are bad, or somebody who looked says `release`.

    Attributes:
        frozen: Whether draining is held back.
    """

    def __init__(self, *, minimum_racks: int = 4, share: float = 0.5, window_seconds: float = 300.0) -> None:
        """Begin without a rack.

        Args:
            minimum_racks: Racks from which on the guard acts (facts/rack.md §6: four, so that one
                rack out of a few is not a mass).
            share: Share of racks that must be exceeded.
            window_seconds: Within what time they must turn.
        """
        self._minimum_racks = minimum_racks
        self._share = share
        self._window_ns = int(window_seconds * 1e9)
        self._verdicts: dict[str, Verdict] = {}
        self._turned_ns: dict[str, int] = {}
        self.frozen = False

    def update(self, statuses: Iterable[RackStatus], now_ns: int) -> bool:
        """Take in how the racks are now; return whether draining is held back.

        Args:
            statuses: Newest status of every rack; one that is not among them any more is forgotten.
            now_ns: The present.
        """
        verdicts = {status.rack: status.verdict for status in statuses}
        for rack, verdict in verdicts.items():
            before = self._verdicts.get(rack)
            if before is not None and before is not verdict and verdict in _BAD:
                self._turned_ns[rack] = now_ns
        self._turned_ns = {
            rack: turned
            for rack, turned in self._turned_ns.items()
            if rack in verdicts and abs(now_ns - turned) <= self._window_ns
        }
        self._verdicts = verdicts
        if len(verdicts) < self._minimum_racks:
            self.frozen = False
        elif len(self._turned_ns) > self._share * len(verdicts):
            self.frozen = True
        elif sum(verdict in _BAD for verdict in verdicts.values()) <= self._share * len(verdicts):
            self.frozen = False
        return self.frozen

    def release(self) -> None:
        """Let draining go on, as after somebody looked."""
        self.frozen = False
        self._turned_ns = {}
