"""What opening a dashboard costs whoever answers its queries, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.dashboards_data import DAYS, NODE, POINT_SECONDS
from tests.bench.dashboards_measuring import LOOKS, REPEATS, STEP_SECONDS, Load, Timing
from tests.bench.report import Bound

RACKS: Final = (1, 55)
"""55 racks are a thousand agents, as in the measurement of the rack service."""


@dataclass(frozen=True)
class DashboardResults:
    """All that a run measured of the dashboards, by rising number of racks."""

    loads: tuple[Load, ...]
    processor: str
    day: str

    @property
    def most(self) -> Load:
        """The greatest load: the one that is judged."""
        return self.loads[-1]


def worst(timings: Sequence[Timing]) -> Timing:
    """Return the slowest panel."""
    return max(timings, key=lambda each: each.seconds)


def _slowest(results: DashboardResults) -> float:
    return max(worst(timings).seconds for timings in results.most.timings.values())


def _slowest_board(results: DashboardResults) -> float:
    return max(sum(each.seconds for each in timings) for timings in results.most.timings.values())


BOUNDS: Final[tuple[Bound[DashboardResults], ...]] = (
    Bound("racks of one store", lambda r: r.most.racks, 55, "{:,.0f}", is_minimum=True),
    Bound("slowest panel over a week", _slowest, 3, "{:.2f} s"),
    Bound("slowest board over a week, all panels one after another", _slowest_board, 10, "{:.2f} s"),
)
"""What somebody on call waits for without doubting that it comes (chosen). A browser asks for panels as they
come into view, several at a time."""


def markdown(results: DashboardResults) -> str:
    """What the boards promise, and how their cost grows."""
    first, most = results.loads[0], results.most
    parts = [
        f"Every panel of every dashboard over {DAYS} days of recorded series, a point each "
        f"{POINT_SECONDS // 60} minutes, in VictoriaMetrics without its cache; {STEP_SECONDS // 60} minutes "
        f"between two points of a drawing. The rack series of a simulated GB300 NVL72, once and "
        f"{most.racks} times; of one node ({NODE}) also what its agent says.",
        "",
        "| | Measured | Bound | Kept |",
        "|---|--:|--:|---|",
        *(bound.row(results) for bound in BOUNDS),
        "",
        f"| A board opened | panels | median panel, ms: {first.racks} rack | {most.racks} racks | "
        f"worst, ms: {first.racks} rack | {most.racks} racks | which | all panels, "
        f"{most.racks} : {first.racks} |",
        "|---|--:|--:|--:|--:|--:|---|--:|",
        *(_row(look.name, first, most) for look in LOOKS),
        "",
        f"{results.processor}; {results.day}. {most.series:,} series with {most.racks} racks, of which "
        f"{most.sent_bytes / 1e9:.1f} GB of text were imported in {most.load_seconds:.0f} s. A panel's time "
        f"is the median of {REPEATS} of all its queries one after another, HTTP and JSON included.",
    ]
    return "\n".join(parts) + "\n"


def _row(name: str, first: Load, most: Load) -> str:
    before, after = first.timings[name], most.timings[name]
    slowest = worst(after)
    ratio = _total(after) / _total(before)
    cells = (
        name,
        str(len(after)),
        _milliseconds(_median(before)),
        _milliseconds(_median(after)),
        _milliseconds(worst(before).seconds),
        _milliseconds(slowest.seconds),
        f"`{slowest.panel}`",
        f"**{ratio:.1f}**",
    )
    return f"| {' | '.join(cells)} |"


def _total(timings: Sequence[Timing]) -> float:
    return sum(each.seconds for each in timings)


def _median(timings: Sequence[Timing]) -> float:
    return statistics.median(each.seconds for each in timings)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f}"


def broken_bounds(results: DashboardResults) -> list[str]:
    """One line for each promise that was not kept."""
    return [bound.complaint(results) for bound in BOUNDS if not bound.holds(results)]
