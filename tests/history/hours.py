"""Two hours that a Prometheus lived through: one in which nothing happened, one with the demo's faults."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from collector.simulator import ManualClock
from dashboards.catalogue import BOARDS
from tests.e2e.programs import REPOSITORY
from tests.history.__main__ import PLANS, answers_of, data_of
from tests.history.asking import Query, View, ask, queries_of
from tests.history.prometheus import Answered, Prometheus, serving
from tests.history.service import WatchedRack
from tests.history.simulate import BEGIN_SECONDS, END_SECONDS
from tests.history.tray import START_SECONDS

QUERIES: Mapping[str, Query] = {query.name: query for board in BOARDS for query in queries_of(board)}
"""Every query of every panel, by board, panel and target."""

ALL = View()
_PATIENCE_SECONDS = 300.0


class Truth:
    """The racks of a plan, simulated anew: what no code between NVML and a panel had a part in."""

    def __init__(self, name: str) -> None:
        """Begin.

        Args:
            name: Name of the plan.
        """
        plan = PLANS[name]
        clock = ManualClock(START_SECONDS)
        self.racks = {rack.name: WatchedRack(rack, plan, clock, None) for rack in plan.racks}

    @staticmethod
    def moment(time_seconds: float) -> float:
        """Return what the nodes' clock says at a Unix time."""
        return START_SECONDS + time_seconds - BEGIN_SECONDS


@dataclass
class Hour:
    """An hour.

    Attributes:
        name: Name of its plan.
        prometheus: The Prometheus that has lived through it.
        rest: Bodies of the REST interface at its end, by path.
        truth: What really happened.
    """

    name: str
    prometheus: Prometheus
    rest: Mapping[str, Mapping[str, object]]
    truth: Truth = field(init=False)

    def __post_init__(self) -> None:
        self.truth = Truth(self.name)

    def ask(self, name: str, view: View = ALL) -> tuple[Answered, ...]:
        """Ask a query of a panel."""
        return ask(QUERIES[name], view, self.prometheus)

    def value(self, name: str, view: View = ALL, **labels: str) -> float:
        """Ask a query of a panel for the newest value of the one series with these labels."""
        found = [
            each
            for each in self.ask(name, view)
            if all(each.labels.get(key) == value for key, value in labels.items())
        ]
        assert len(found) == 1, (name, labels, found)
        assert found[0].times[-1] == END_SECONDS
        return found[0].value


@contextmanager
def hours(folder: Path) -> Iterator[dict[str, Hour]]:
    """Make both hours at a time, each in a process of its own, and run a Prometheus over each.

    Args:
        folder: Where everything is written.
    """
    with ExitStack() as stack:
        made = {name: stack.enter_context(_making(name, folder)) for name in ("normal", "faults")}
        found = {}
        for name, process in made.items():
            said, _ = process.communicate(timeout=_PATIENCE_SECONDS)
            assert process.returncode == 0, said
            prometheus = stack.enter_context(serving(data_of(name, folder)))
            rest = json.loads(answers_of(name, folder).read_text("utf-8"))
            found[name] = Hour(name, prometheus, rest)
        yield found


@contextmanager
def _making(name: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.history", name, str(folder)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
