"""What line protocol and spool promise, and what they cost, as Markdown."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final

from tests.bench.report import Bound
from tests.bench.spooling import PLATFORM, SECONDS, Spooling


@dataclass(frozen=True)
class SpoolResults:
    """All that a run measured of the spool."""

    spool: Spooling
    processor: str
    day: str


BOUNDS: Final[tuple[Bound[SpoolResults], ...]] = (
    Bound("lines and spool, processor", lambda r: r.spool.cpu_percent, 0.5, "{:.3f} % of a core"),
    Bound(
        "spool after 30 minutes without a server", lambda r: r.spool.half_an_hour_bytes / 1e6, 12, "{:.1f} MB"
    ),
    Bound(
        "lines a second through the spool",
        lambda r: r.spool.lines_per_second,
        1000,
        "{:,.0f}",
        is_minimum=True,
    ),
)
"""An agent may cost half a percent of a core, and a folder in /var 12 MB (both chosen). 8 GPUs with 18 links
make 24 lines a second, and after an outage five times as many are sent; 1,000 leave room for slower disks."""


def markdown(results: SpoolResults) -> str:
    """What lines and spool promise, and what a point costs."""
    spool = results.spool
    parts = [
        f"Line protocol and spool over {spool.seconds:,} s of a simulated {PLATFORM}: {spool.points:,} "
        "lines, each Snapshot synchronized to the disk by itself. What sends them is not in these figures.",
        "",
        "| | Measured | Bound | Kept |",
        "|---|--:|--:|---|",
        *(bound.row(results) for bound in BOUNDS),
        "",
        "| A point | |",
        "|---|--:|",
        f"| bytes of its line | {spool.raw_bytes / spool.points:,.0f} |",
        f"| bytes on the disk | {spool.bytes_per_point:,.0f} |",
        f"| processor for its line, µs | {spool.writing_seconds / spool.points * 1e6:.1f} |",
        f"| faster than influxdb_client's `Point`, times | {spool.peer_ratio:.1f} |",
        "",
        f"{results.processor}; Python {platform.python_version()}; {results.day}.",
    ]
    return "\n".join(parts) + "\n"


def broken_bounds(results: SpoolResults) -> list[str]:
    """One line for each promise that was not kept."""
    broken = [bound.complaint(results) for bound in BOUNDS if not bound.holds(results)]
    if results.spool.seconds < SECONDS:
        broken.append(f"too short to judge: needs {SECONDS} s of Snapshots")
    return broken
