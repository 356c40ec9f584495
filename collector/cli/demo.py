"""`rackwatt demo`: a simulated compute tray to look at."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from collector.cli.arguments import checked, listen_argument

if TYPE_CHECKING:
    from collector.config import Listen

SUMMARY = "show a simulated GB300 compute tray, without any GPU"
EXAMPLES = """\
  rackwatt demo                          # http://127.0.0.1:10073/
  rackwatt demo --listen 0.0.0.0:10073   # for other machines to see

`rackwatt agent --simulate` has other platforms, workloads and faults.
"""

PLATFORM = "gb300-nvl72"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=checked(listen_argument),
        default="127.0.0.1:10073",
        help="where to serve (default: 127.0.0.1:10073)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run a simulated agent until a signal ends it."""
    from collector.startup import check_package_ownership

    check_package_ownership()

    from collector import logs
    from collector.cli.agent import named_after
    from collector.cli.compose import Plan
    from collector.cli.compose import run as run_plan
    from collector.cli.simulation import begin
    from collector.config import AgentConfiguration

    logs.setup(level="warning")
    simulation = begin(PLATFORM, rack="r01", tray=0, workload="decode", faults=())
    configuration = named_after(simulation, AgentConfiguration(listen=arguments.listen))
    return run_plan(Plan(configuration=configuration, simulation=simulation, inline=True, announce=announce))


def announce(address: Listen) -> None:
    """Print what there is to see."""
    print(welcome(address), flush=True)


def welcome(address: Listen) -> str:
    """Say what to open and what to try, with the real address."""
    from collector import profiles
    from collector.config import reachable_address

    profile = profiles.load(PLATFORM)
    url = f"http://{reachable_address(address)}"
    gpus = profile.gpus_per_node
    return f"""\
A simulated {profile.title} compute tray: {gpus} GPUs, {gpus * profile.nvlink.links_per_gpu} NVLinks.

  {url}/             what this is
  {url}/metrics      what Prometheus scrapes
  {url}/v1/snapshot  the same as a document

Try:

  curl -s {url}/metrics | grep '^rackwatt_gpu_power_watts'
  curl -s {url}/metrics | grep '^rackwatt_module_power_watts'
  curl -s -H 'Accept: application/openmetrics-text' {url}/metrics | head -20
  curl -s {url}/-/ready
  rackwatt metrics

Ctrl-C ends it."""
