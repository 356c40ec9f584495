"""`rackwatt agent`: watches the GPUs of this node."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from collector.cli.arguments import checked, listen_argument

if TYPE_CHECKING:
    from collector.cli.simulation import Simulation
    from collector.config import AgentConfiguration, Listen

SUMMARY = "watch the GPUs of this node and serve what was read to Prometheus"
EXAMPLES = """\
  rackwatt agent                                   # http://HOST:10072/metrics
  rackwatt agent --config /etc/rackwatt/agent.yaml
  rackwatt agent --listen 127.0.0.1:9100 --log-format json
  rackwatt agent --simulate gb300-nvl72 --tray 3   # node n04 of a simulated rack, without any GPU
  rackwatt agent --simulate hgx-h100 --workload training \\
      --fault gpu_lost:gpu=2,start=30,duration=60 --fault link_down:gpu=0,link=4,start=10

configuration: --config, else the file that RACKWATT_CONFIG names, else /etc/rackwatt/agent.yaml if it
exists, else defaults. SIGTERM or Ctrl-C ends the agent; a second one ends it at once.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--config", metavar="FILE", help="configuration file (YAML)")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=checked(listen_argument),
        help="where to serve; goes before the configuration (default: 0.0.0.0:10072)",
    )
    parser.add_argument("--log-format", choices=("human", "json"), help="default: human")
    parser.add_argument(
        "--inline",
        action="store_true",
        help="read within the agent's own process, where a driver call that hangs cannot be ended",
    )
    simulation = parser.add_argument_group("simulation, without any GPU")
    simulation.add_argument(
        "--simulate",
        metavar="PLATFORM",
        help="gb300-nvl72, gb200-nvl72, hgx-b200, hgx-h200 or hgx-h100",
    )
    simulation.add_argument(
        "--tray",
        metavar="N",
        type=int,
        help="which compute tray, from 0; it is called n01, n02 ... (default: 0)",
    )
    simulation.add_argument(
        "--workload",
        metavar="NAME",
        help="idle, prefill, decode or training (default: decode); idle and decode have a serving engine",
    )
    simulation.add_argument(
        "--fault",
        metavar="SPEC",
        action="append",
        default=[],
        help="KIND:NAME=VALUE,... with gpu, link, code, start and duration in seconds; may be repeated."
        " Kinds: gpu_lost, link_down, call_hangs, xid, ecc_uncorrectable, thermal_slowdown, driver_unloaded,"
        " engine_restart",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the agent until a signal ends it."""
    from collector.startup import check_package_ownership

    check_package_ownership()

    import logging
    import os

    import msgspec

    from collector import logs, profiles
    from collector.cli.compose import Plan
    from collector.cli.compose import run as run_plan
    from collector.config import load_agent

    loaded = load_agent(arguments.config, os.environ, profiles.names())
    configuration = loaded.configuration
    listen: Listen | None = arguments.listen
    if listen is not None:
        configuration = msgspec.structs.replace(configuration, listen=listen)
    simulation = simulation_of(arguments, configuration)
    if simulation is not None:
        configuration = named_after(simulation, configuration)
    logs.setup(arguments.log_format or configuration.log.format, configuration.log.level)
    logger = logging.getLogger("rackwatt.agent")
    logger.info("starting", extra={"configuration": loaded.origin})

    def announce(address: Listen) -> None:
        logger.info("serving", extra={"url": f"http://{address}/metrics"})

    return run_plan(
        Plan(configuration=configuration, simulation=simulation, inline=arguments.inline, announce=announce)
    )


def simulation_of(arguments: argparse.Namespace, configuration: AgentConfiguration) -> Simulation | None:
    """Begin the simulation that the arguments ask for.

    Args:
        arguments: As parsed.
        configuration: The settings, for the rack's name.

    Returns:
        The simulation, or None where hardware is to be read.

    Raises:
        ConfigurationError: An argument needs `--simulate`, or what it asks for does not exist.
    """
    from collector.cli.simulation import begin
    from collector.errors import ConfigurationError

    if arguments.simulate is None:
        for option in ("tray", "workload", "fault"):
            if getattr(arguments, option) not in (None, []):
                raise ConfigurationError(f"--{option} needs --simulate PLATFORM")
        return None
    return begin(
        arguments.simulate,
        rack=configuration.rack or "r01",
        tray=arguments.tray or 0,
        workload=arguments.workload or "decode",
        faults=tuple(arguments.fault),
    )


def named_after(simulation: Simulation, configuration: AgentConfiguration) -> AgentConfiguration:
    """Name rack and node after a simulated tray where nothing else names them (CONTRACTS §6)."""
    import msgspec

    return msgspec.structs.replace(
        configuration,
        rack=configuration.rack or simulation.rack,
        node=configuration.node or f"n{simulation.tray + 1:02d}",
    )
