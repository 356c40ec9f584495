"""``python -m tests.bench``: measures the agent over the NVML double, without and with serving engines,
nvitop-exporter beside it; the rack service over a thousand played agents; what writing to InfluxDB costs;
and the queries of the dashboards over a week.

It is not a test, for its figures depend on the machine. What is promised is asserted all the same:
the exit status is 1 where one is not kept, 2 where the measurement could not be made.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.abi.double.build import BuildError, build
from tests.bench import dashboards_report, rack_report, report, spool_report, subjects
from tests.bench.dashboards_measuring import measure_dashboards
from tests.bench.draining import measure_drain
from tests.bench.errors import BenchError
from tests.bench.measuring import measure, progress
from tests.bench.rack_measuring import measure_racks
from tests.bench.rendering import compare
from tests.bench.sending import measure_sending
from tests.bench.serving_engines import Page
from tests.bench.spooling import measure_spool

MINIMUM_SECONDS: Final = 60.0
MINIMUM_SCRAPES: Final = 60
MINIMUM_REQUESTS: Final = 1000

Table = tuple[str, list[str]]
"""A table in Markdown, and the promises that were not kept."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    scripts = Path(sys.executable).parent
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure the agent over a no-op NVML of 8 GPUs with 18 links, without and with 8 serving"
        " endpoints, beside nvitop-exporter; the rack service over 18, 180 and 1,000 played agents; what"
        " writing to InfluxDB costs; and the queries of the dashboards over a week of 1 and 55 racks.",
        epilog="The tables go to standard output, progress to standard error.",
    )
    parser.add_argument(
        "--subject", choices=(*SUBJECTS, "all"), default="all", help="what to measure (default all)"
    )
    parser.add_argument(
        "--seconds", type=float, default=MINIMUM_SECONDS, help="of processor time (default 60)"
    )
    parser.add_argument("--scrapes", type=int, default=MINIMUM_SCRAPES, help="to time (default 60)")
    parser.add_argument(
        "--requests", type=int, default=MINIMUM_REQUESTS, help="for a rack's health to time (default 1000)"
    )
    parser.add_argument("--agent", type=Path, default=scripts / "rackwatt", help="the rackwatt command")
    parser.add_argument(
        "--peer", type=Path, default=scripts / subjects.PEER, help="the nvitop-exporter command"
    )
    parser.add_argument("--no-peer", action="store_true", help="measure the agent only")
    parser.add_argument("--no-assert", action="store_true", help="exit with 0 whatever the figures are")
    parser.add_argument(
        "--update-readme", type=Path, metavar="FILE", help="put the tables between its markers"
    )
    options = parser.parse_args(argv)
    if options.update_readme is not None and options.subject != "all":
        parser.error("--update-readme needs --subject all: the tables of all stand between its markers")
    return options


def run_racks(options: argparse.Namespace) -> rack_report.RackResults:
    """Measure the rack service."""
    loads = tuple(
        measure_racks(options.agent, agents, options.seconds, options.requests)
        for agents in rack_report.GROWTH
    )
    return rack_report.RackResults(loads, report.processor_name(), report.today())


def run_agent(options: argparse.Namespace) -> report.Results:
    """Measure the agent, and the other exporter."""
    with tempfile.TemporaryDirectory(prefix="rackwatt-bench-") as name:
        folder = Path(name)
        progress("building the NVML double")
        library = build(folder)
        subject = subjects.agent(options.agent, library, folder)
        other = None if options.no_peer else subjects.peer(options.peer, library, folder)
        agent, capture = measure(subject, options.seconds, options.scrapes)
        assert capture is not None  # an agent numbers its Snapshots
        progress("rendering, beside generate_latest")
        rendering = compare(capture)
        serving = run_serving(options, library, folder)
        peer = None if other is None else measure(other, options.seconds, options.scrapes)[0]
    return report.Results(agent, rendering, peer, report.processor_name(), report.today(), serving)


def run_serving(options: argparse.Namespace, library: Path, folder: Path) -> report.Serving:
    """Measure the agent while it scrapes serving engines."""
    own = folder / "serving"
    own.mkdir()
    engines, ports = subjects.serving_engines(own)
    with engines:
        subject = subjects.agent(options.agent, library, own, ports)
        agent, _ = measure(subject, options.seconds, options.scrapes)
        engines.check_alive()
    return report.Serving(agent, len(ports), Page().lines)


def agent_subject(options: argparse.Namespace) -> Table:
    """Measure the agent beside the other exporter."""
    results = run_agent(options)
    return report.markdown(results), report.broken_bounds(results)


def rack_subject(options: argparse.Namespace) -> Table:
    """Measure the rack service."""
    results = run_racks(options)
    return rack_report.markdown(results), rack_report.broken_bounds(results)


def spool_subject(options: argparse.Namespace) -> Table:
    """Measure lines, spool and sender for InfluxDB."""
    results = spool_report.SpoolResults(
        measure_spool(),
        measure_sending(options.agent, options.seconds),
        measure_drain(),
        report.processor_name(),
        report.today(),
    )
    return spool_report.markdown(results), spool_report.broken_bounds(results)


def dashboards_subject(options: argparse.Namespace) -> Table:
    """Measure the queries of the dashboards."""
    del options
    loads = measure_dashboards(dashboards_report.RACKS)
    results = dashboards_report.DashboardResults(loads, report.processor_name(), report.today())
    return dashboards_report.markdown(results), dashboards_report.broken_bounds(results)


SUBJECTS: Mapping[str, Callable[[argparse.Namespace], Table]] = {
    "agent": agent_subject,
    "rack": rack_subject,
    "spool": spool_subject,
    "dashboards": dashboards_subject,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and judge.

    Returns:
        0 if all promises were kept (or need not be), 1 if not, 2 if it could not be measured.
    """
    options = arguments(argv)
    tables: list[str] = []
    broken: list[str] = []
    try:
        for name, measure_subject in SUBJECTS.items():
            if options.subject in (name, "all"):
                table, own = measure_subject(options)
                tables.append(table)
                broken += own
        print("\n".join(tables), end="")
        if options.update_readme is not None:
            old = options.update_readme.read_text(encoding="utf-8")
            options.update_readme.write_text(
                report.put_between_markers(old, "\n".join(tables)), encoding="utf-8"
            )
    except (BenchError, BuildError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if options.no_assert:
        return 0
    broken += too_short(options)
    for line in broken:
        print(f"bench: not kept: {line}", file=sys.stderr)
    return 1 if broken else 0


def too_short(options: argparse.Namespace) -> list[str]:
    """Say what was measured for too short a time to be judged."""
    minima = [("seconds", options.seconds, MINIMUM_SECONDS)]
    if options.subject in ("agent", "all"):
        minima.append(("scrapes", options.scrapes, MINIMUM_SCRAPES))
    if options.subject in ("rack", "all"):
        minima.append(("requests", options.requests, MINIMUM_REQUESTS))
    return [f"too short to judge: needs {least:.0f} {name}" for name, value, least in minima if value < least]


if __name__ == "__main__":
    sys.exit(main())
