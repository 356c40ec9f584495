"""A rack with its ledger, driven as the rack service drives them."""

from __future__ import annotations

from pathlib import Path

from collector.health.ledger import Ledger
from collector.health.maintenance import Maintenance
from collector.health.rack_types import RackStatus
from collector.health.states import Verdict
from tests.rack_builders import DAY, SECOND, T0, SimulatedRack, nvl72

_OPENED: list[Ledger] = []


def open_ledger(path: Path | None, now_ns: int) -> Ledger:
    """Open a ledger that `close_all` closes."""
    ledger = Ledger(path, now_ns)
    _OPENED.append(ledger)
    return ledger


def let_die(ledger: Ledger) -> None:
    """End a ledger as the kernel does for a process that was killed: nothing is written any more."""
    ledger._store._connection.close()
    ledger._unlock()


def close_all() -> None:
    """Let all files go."""
    while _OPENED:
        let_die(_OPENED.pop())


class Service:
    """A rack and its ledger, as the rack service drives them."""

    def __init__(self, path: Path | None, rack: SimulatedRack | None = None, now_ns: int = T0) -> None:
        self.path = path
        self.ledger = open_ledger(path, now_ns)
        self.rack = rack or SimulatedRack(nvl72(), now_ns=now_ns)

    def run(self, seconds: float) -> RackStatus:
        """Go on for a while, with a poll every 5 s."""
        for _ in range(round(seconds / 5)):
            status = self.rack.step()
            self.ledger.record(status, self.rack.judge.export())
        self.ledger.flush(self.rack.now_ns)
        return status

    def restart(self, *, away_seconds: float = 0, clean: bool = True) -> Service:
        """End this service and return another one with the same nodes."""
        if clean:
            self.ledger.close(self.rack.now_ns)
        else:
            let_die(self.ledger)
        now_ns = self.rack.now_ns + int(away_seconds * SECOND)
        again = Service(self.path, now_ns=now_ns)
        again.rack = SimulatedRack(
            nvl72(),
            now_ns=now_ns,
            nodes=self.rack.nodes,
            exported=again.ledger.memory("r01"),
            maintenance=Maintenance(again.ledger.windows()),
        )
        return again

    def seconds(self, verdict: str) -> float:
        return self.ledger.counters("r01").verdict_seconds[Verdict(verdict)]

    def intervals(self) -> list[tuple[str, float, float]]:
        """Return the verdicts with begin and end, in seconds since T0."""
        return [
            (own.verdict.value, (own.starts_ns - T0) / SECOND, (own.ends_ns - T0) / SECOND)
            for own in self.ledger.history("r01", 0, T0 + 400 * DAY)
        ]
