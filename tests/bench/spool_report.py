"""What writing to InfluxDB promises, and what it costs, as Markdown: lines, spool, sender, and a backlog."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final

from tests.bench.draining import Drain
from tests.bench.report import MIB, Bound, most_memory
from tests.bench.sending import Sending
from tests.bench.spooling import PLATFORM, SECONDS, Spooling


@dataclass(frozen=True)
class SpoolResults:
    """All that a run measured of lines, spool and sender."""

    spool: Spooling
    sending: Sending
    drain: Drain
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
    Bound(
        "lines, spool and sender, processor added", lambda r: r.sending.cpu_percent, 0.5, "{:.2f} % of a core"
    ),
    Bound(
        "backlog of 30 minutes, gone after the server's return", lambda r: r.drain.seconds, 600, "{:,.0f} s"
    ),
)
"""Writing to InfluxDB may cost an agent half a percent of a core, and a folder in /var 12 MB (both chosen).
8 GPUs with 18 links make 24 lines a second, and after an outage five times as many are sent; 1,000 leave room
for slower disks. A backlog shrinks by four seconds in each second then: after a wait of 60 s at the most,
half an hour and that minute are gone in 465 s, and 600 s leave room for what varies."""


def markdown(results: SpoolResults) -> str:
    """What is promised, what a point costs, what an agent costs, and how a backlog went."""
    spool, sending = results.spool, results.sending
    parts = [
        f"Line protocol and spool over {spool.seconds:,} s of a simulated {PLATFORM}: {spool.points:,} "
        "lines, each Snapshot synchronized to the disk by itself. What is added, the sender included, is the "
        f"difference of two agents over {sending.without.seconds:.0f} s each, one of which writes to a "
        "server on the same machine that takes everything.",
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
        *_with_sender(sending),
        "",
        *_backlog(results.drain),
        "",
        f"{results.processor}; Python {platform.python_version()}; {results.day}.",
    ]
    return "\n".join(parts) + "\n"


def _with_sender(sending: Sending) -> list[str]:
    """What the agent costs without and with InfluxDB."""
    without, beside = sending.without, sending.beside
    rows: list[tuple[str, float, float, str]] = [
        ("series", without.series, beside.series, "{:,.0f}"),
        ("processor, % of a core", without.cpu_percent, beside.cpu_percent, "{:.2f}"),
        ("memory, MiB", most_memory(without) / MIB, most_memory(beside) / MIB, "{:.1f}"),
    ]
    what = (
        f"{sending.lines_per_second:.0f} lines a second to InfluxDB, "
        f"{sending.bytes_per_second / 1000:.1f} kB in {sending.requests_per_second:.1f} requests"
    )
    return [
        f"| Writing {what} | added | without | with |",
        "|---|--:|--:|--:|",
        *(
            f"| {name} | **{form.format(after - before)}** | {form.format(before)} | {form.format(after)} |"
            for name, before, after, form in rows
        ),
    ]


def _backlog(drain: Drain) -> list[str]:
    """How a backlog went, on a clock that is driven."""
    return [
        f"| A backlog after {drain.outage_seconds:,} s without a server, while new lines come | |",
        "|---|--:|",
        f"| lines that waited | {drain.points:,} |",
        f"| their bytes on the disk | {drain.disk_bytes:,} |",
        f"| seconds until the first were sent, the longest waits drawn | {drain.waited_seconds:,.0f} |",
        f"| seconds until nothing waited | {drain.seconds:,.0f} |",
        f"| lines sent in that time | {drain.points_sent:,} |",
        f"| requests | {drain.requests:,} |",
    ]


def broken_bounds(results: SpoolResults) -> list[str]:
    """One line for each promise that was not kept."""
    broken = [bound.complaint(results) for bound in BOUNDS if not bound.holds(results)]
    if results.spool.seconds < SECONDS:
        broken.append(f"too short to judge: needs {SECONDS} s of Snapshots")
    if results.drain.outage_seconds < SECONDS:
        broken.append(f"too short to judge: needs an outage of {SECONDS} s")
    return broken
