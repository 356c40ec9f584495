"""``python -m tests.bench``: measures the agent over the NVML double, and nvitop-exporter beside it.

It is not a test, for its figures depend on the machine. The agent's promises are asserted all the same:
the exit status is 1 where one is not kept, 2 where the measurement could not be made.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.abi.double.build import BuildError, build
from tests.bench import report, subjects
from tests.bench.errors import BenchError
from tests.bench.measuring import measure, progress
from tests.bench.rendering import compare

MINIMUM_SECONDS: Final = 60.0
MINIMUM_SCRAPES: Final = 60


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    scripts = Path(sys.executable).parent
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure the agent over a no-op NVML of 8 GPUs with 18 links, beside nvitop-exporter.",
        epilog="The tables go to standard output, progress to standard error.",
    )
    parser.add_argument(
        "--seconds", type=float, default=MINIMUM_SECONDS, help="of processor time (default 60)"
    )
    parser.add_argument("--scrapes", type=int, default=MINIMUM_SCRAPES, help="to time (default 60)")
    parser.add_argument("--agent", type=Path, default=scripts / "rackwatt", help="the rackwatt command")
    parser.add_argument(
        "--peer", type=Path, default=scripts / subjects.PEER, help="the nvitop-exporter command"
    )
    parser.add_argument("--no-peer", action="store_true", help="measure the agent only")
    parser.add_argument("--no-assert", action="store_true", help="exit with 0 whatever the figures are")
    parser.add_argument(
        "--update-readme", type=Path, metavar="FILE", help="put the tables between its markers"
    )
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> report.Results:
    """Measure."""
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
        peer = None if other is None else measure(other, options.seconds, options.scrapes)[0]
    return report.Results(agent, rendering, peer, report.processor_name(), report.today())


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and judge.

    Returns:
        0 if all promises were kept (or need not be), 1 if not, 2 if it could not be measured.
    """
    options = arguments(argv)
    try:
        results = run(options)
        tables = report.markdown(results)
        print(tables, end="")
        if options.update_readme is not None:
            old = options.update_readme.read_text(encoding="utf-8")
            options.update_readme.write_text(report.put_between_markers(old, tables), encoding="utf-8")
    except (BenchError, BuildError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if options.no_assert:
        return 0
    broken = report.broken_bounds(results)
    if options.seconds < MINIMUM_SECONDS or options.scrapes < MINIMUM_SCRAPES:
        broken.append(f"too short to judge: needs {MINIMUM_SECONDS:.0f} s and {MINIMUM_SCRAPES} scrapes")
    for line in broken:
        print(f"bench: not kept: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
