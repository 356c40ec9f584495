"""`rackwatt demo`: two simulated racks to look at, with agents and a rack service."""

from __future__ import annotations

import argparse
import math

from collector.cli.arguments import checked, listen_argument

SUMMARY = "show a simulated GB300 NVL72 rack and a rack service that judges it, without any GPU"
EXAMPLES = """\
  rackwatt demo                          # http://127.0.0.1:10073/
  rackwatt demo --listen 0.0.0.0:10073   # for other machines to see
  rackwatt demo --speed 4                # what happens, four times as fast

`rackwatt agent --simulate` has other platforms, workloads and faults.
"""

_SPEED_BOUNDS = (0.1, 8.0)
"""Above, an agent would not be silent for long enough to become UNKNOWN (15 s, CONTRACTS §3)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=checked(listen_argument),
        default="127.0.0.1:10073",
        help="where the rack service serves; agents take the next ports (default: 127.0.0.1:10073)",
    )
    parser.add_argument(
        "--speed",
        metavar="FACTOR",
        type=checked(_speed),
        default=1.0,
        help="how many times as fast the story is told (default: 1)",
    )


def _speed(text: str) -> float:
    lowest, highest = _SPEED_BOUNDS
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not lowest <= speed <= highest:
        raise ValueError(f"{text!r} is not a number from {lowest:g} to {highest:g}, such as 2")
    return speed


def run(arguments: argparse.Namespace) -> int:
    """Run simulated racks until a signal ends them."""
    from collector.startup import check_package_ownership

    check_package_ownership()

    from collector import logs
    from collector.cli.demonstration.stage import perform

    # The story goes wrong on purpose: what agents and rack service would warn of stands in their answers.
    logs.setup(level="error")
    return perform(arguments.listen, arguments.speed)
