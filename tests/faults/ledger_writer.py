"""A program that writes a ledger until it is killed: says on standard output what was flushed."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from collector.health.ledger import Ledger
from collector.health.ledger_usage import StoredRollup, UsageUpdate
from collector.health.states import Verdict
from tests.rack_builders import MINUTE, T0, SimulatedRack, nvl72


def main() -> None:
    ledger = Ledger(Path(sys.argv[1]), T0)
    rack = SimulatedRack(nvl72())
    millijoules: Counter[int] = Counter()
    for turn in range(10_000):
        if turn % 10 == 3:
            rack.fail("n01")
        if turn % 10 == 8:
            rack.mend("n01")
        ledger.record(rack.step(), rack.judge.export())
        minute = rack.now_ns // MINUTE * MINUTE
        millijoules[minute] += 7
        rollup = StoredRollup(60, minute, str(millijoules[minute]))
        ledger.add_usage("r01", UsageUpdate({"energy_mj:gpu": 7}, (rollup,)), rack.now_ns)
        if turn % 3 == 0:
            ledger.flush(rack.now_ns)
            counters = ledger.counters("r01")
            joules = ledger.usage("r01").energy_joules["gpu"]
            available = counters.verdict_seconds[Verdict.AVAILABLE]
            print(rack.now_ns, available, counters.incidents, joules, flush=True)
        time.sleep(0.001)


if __name__ == "__main__":
    main()
