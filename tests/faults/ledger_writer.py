"""A program that writes a ledger until it is killed: says on standard output what was flushed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from collector.health.ledger import Ledger
from collector.health.states import Verdict
from tests.rack_builders import T0, SimulatedRack, nvl72


def main() -> None:
    ledger = Ledger(Path(sys.argv[1]), T0)
    rack = SimulatedRack(nvl72())
    for turn in range(10_000):
        if turn % 10 == 3:
            rack.fail("n01")
        if turn % 10 == 8:
            rack.mend("n01")
        ledger.record(rack.step(), rack.judge.export())
        if turn % 3 == 0:
            ledger.flush(rack.now_ns)
            counters = ledger.counters("r01")
            print(rack.now_ns, counters.verdict_seconds[Verdict.AVAILABLE], counters.incidents, flush=True)
        time.sleep(0.001)


if __name__ == "__main__":
    main()
