"""Asks VictoriaMetrics what every panel asks, and takes the time."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dashboards.catalogue import BOARDS
from dashboards.dashboard import Board
from dashboards.identities import BoardId
from tests.bench.dashboards_data import DAYS, END_SECONDS, NODE, Template, flush, lines, load, templates
from tests.bench.errors import BenchError
from tests.bench.measuring import progress
from tests.bench.processes import Program
from tests.bench.subjects import free_port
from tests.history.asking import Query, View, ask, queries_of
from tests.history.blocks import PromtoolError
from tests.history.prometheus import Prometheus, QueryError

REPEATS: Final = 5
STEP_SECONDS: Final = 600
"""Distance of points: a week over the thousand pixels of a wide panel."""
RANGE_SECONDS: Final = DAYS * 86_400
START_SECONDS: Final = 60.0
FIRST_RACK: Final = "r01"


@dataclass(frozen=True, slots=True)
class Look:
    """A board as somebody opens it.

    Attributes:
        name: What the table calls it.
        board: Which.
        chosen: Values of variables; the rest is at All.
    """

    name: str
    board: BoardId
    chosen: Mapping[str, str]


ONE_RACK: Final = {"rack": FIRST_RACK}
LOOKS: Final[tuple[Look, ...]] = (
    Look("fleet, all racks", BoardId.FLEET, {}),
    Look("tokens per watt, all racks", BoardId.EFFICIENCY, {}),
    Look("rack availability, one rack", BoardId.RACK, ONE_RACK),
    Look("NVLink fabric, one rack", BoardId.NVLINK, ONE_RACK),
    Look("node and GPU, one node", BoardId.NODE, {**ONE_RACK, "node": NODE}),
    Look("rack availability, all racks", BoardId.RACK, {}),
)


@dataclass(frozen=True, slots=True)
class Timing:
    """A panel's time.

    Attributes:
        panel: Its key.
        seconds: Median of the sums over its queries.
        series: Series that they answer.
    """

    panel: str
    seconds: float
    series: int


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured with so many racks.

    Attributes:
        racks: How many.
        series: How many series there are.
        sent_bytes: What was imported, as text.
        load_seconds: How long that took.
        timings: Of each look, its panels.
    """

    racks: int
    series: int
    sent_bytes: int
    load_seconds: float
    timings: Mapping[str, tuple[Timing, ...]]


def measure_dashboards(growth: Iterable[int]) -> tuple[Load, ...]:
    """Measure with each number of racks.

    Raises:
        BenchError: It cannot be measured.
    """
    loads = []
    try:
        with tempfile.TemporaryDirectory(prefix="rackwatt-bench-") as name:
            progress("simulating a rack, for its series")
            found = templates(Path(name))
        for racks in growth:
            with tempfile.TemporaryDirectory(prefix="rackwatt-bench-") as name:
                loads.append(measure_boards(found, racks, Path(name)))
    except (QueryError, PromtoolError) as error:
        raise BenchError(str(error)) from error
    return tuple(loads)


def measure_boards(found: tuple[Template, ...], racks: int, folder: Path) -> Load:
    """Fill a VictoriaMetrics with a week of so many racks, and open every board.

    Args:
        found: Series of one rack.
        racks: How many racks.
        folder: Where it keeps its data.

    Raises:
        BenchError: It does not start, or refuses something.
    """
    names = [f"r{number:02d}" for number in range(1, racks + 1)]
    with _serving(folder) as port:
        progress(f"a week of {racks} racks")
        started = time.monotonic()
        of_one = [each for each in found if not _is_of_agent(each)]
        sent = load(port, lines(found, names[0]))
        for name in names[1:]:
            sent += load(port, lines(of_one, name))
        flush(port)
        taken = time.monotonic() - started
        prometheus = Prometheus(port)
        progress(f"every panel over {DAYS} days of {racks} racks")
        boards = {board.identity: board for board in BOARDS}
        timings = {look.name: tuple(_look(look, boards[look.board], prometheus)) for look in LOOKS}
    return Load(racks, len(found) + (racks - 1) * len(of_one), sent, taken, timings)


def _is_of_agent(each: Template) -> bool:
    name = each.labels["__name__"]
    return ":" not in name and not name.startswith("rackwatt_rack_") and name != "up"


def _look(look: Look, board: Board, prometheus: Prometheus) -> Iterator[Timing]:
    view = View(look.chosen, END_SECONDS, RANGE_SECONDS, STEP_SECONDS)
    panels: dict[str, list[Query]] = {}
    for query in queries_of(board):
        panels.setdefault(query.panel.key, []).append(query)
    for key, queries in panels.items():
        taken = []
        series = 0
        for _ in range(REPEATS):
            started = time.perf_counter()
            series = sum(len(ask(query, view, prometheus)) for query in queries)
            taken.append(time.perf_counter() - started)
        yield Timing(key, statistics.median(taken), series)


@contextmanager
def _serving(folder: Path) -> Iterator[int]:
    port = free_port()
    command = [
        "victoria-metrics",
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=100y",
        # Every query is computed, as when somebody opens a board for the first time.
        "-search.disableCache",
        "-search.latencyOffset=0s",
        "-import.maxLineLen=10000000",
    ]
    with Program("victoria-metrics", command, folder / "victoria-metrics.log", {}) as program:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and "started VictoriaMetrics" not in program.output():
            program.check_alive()
            time.sleep(0.1)
        yield port
