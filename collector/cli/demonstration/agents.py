"""The agents of the demo: each watches a simulated node and serves on a port of its own, in one process."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from collector.agent import Agent, Naming
from collector.cli.compose import Announcement, Plan, make_checker, make_source
from collector.cli.demonstration.story import Scene, Stage, fault_texts
from collector.cli.simulation import Simulation, open_simulated_log
from collector.config import AgentConfiguration, Listen
from collector.deadlines import Deadlines
from collector.errors import ConfigurationError
from collector.identity import describe_host
from collector.sources.host.kmsg import KernelLog
from collector.state import StateStore
from exporters.agent_http import AgentHttpExporter

_PORTS_TRIED = 1000
"""Ports that are tried for the agents before it is given up."""
_LOG_SECONDS = 0.2
"""How often a simulated kernel log is looked at: as on hardware, its lines are there before NVML's events."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """When the simulation began: all nodes live in one time.

    Attributes:
        monotonic_seconds: On the monotonic clock.
        wall_ns: The same moment, nanoseconds of Unix time.
    """

    monotonic_seconds: float
    wall_ns: int


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """A simulated node and its agent.

    Attributes:
        rack: The rack.
        node: The node.
        http: What serves; its port is bound.
        agent: The agent; not running yet.
        has_data: Set once it serves data of its GPUs.
    """

    rack: str
    node: str
    http: AgentHttpExporter
    agent: Agent
    has_data: asyncio.Event


_PORTS_THAT_BROWSERS_BLOCK = frozenset({10080})
"""Browsers refuse to open Amanda's port (WHATWG Fetch, "bad port"); the only one near the demo's own."""


async def open_agents(
    stages: Iterable[Stage],
    story: tuple[Scene, ...],
    *,
    listen: Listen,
    speed: float,
    beginning: Beginning,
    directory: Path,
) -> tuple[DemoAgent, ...]:
    """Make an agent a node and bind its port: the free ones above the rack service's.

    Args:
        stages: The racks.
        story: What happens to their nodes.
        listen: Where the rack service listens; with port 0 the system chooses every port.
        speed: How many times as fast the story is told.
        beginning: When the simulation began.
        directory: Where the agents keep their state.

    Raises:
        ConfigurationError: The address cannot be bound, or there are no free ports.
    """
    opened: list[DemoAgent] = []
    port = listen.port
    try:
        for stage in stages:
            for tray, node in enumerate(stage.nodes):
                http = await _bind_next(listen.host, port)
                port = http.port if listen.port else 0
                simulation = Simulation(
                    platform=stage.platform,
                    rack=stage.rack,
                    tray=tray,
                    workload=stage.workload,
                    faults=fault_texts(story, stage.rack, node, speed),
                    started_at=beginning.monotonic_seconds,
                    started_wall_ns=beginning.wall_ns,
                )
                opened.append(_assemble(simulation, node, Listen(listen.host, http.port), http, directory))
    except BaseException:
        await close_ports(opened)
        raise
    return tuple(opened)


async def close_ports(agents: Iterable[DemoAgent]) -> None:
    """Let go of the ports of agents that never ran."""
    for each in agents:
        await each.http.close()


async def _bind_next(host: str, port: int) -> AgentHttpExporter:
    """Bind the next free port above one; with port 0 any free port."""
    candidates = range(port + 1, min(port + 1 + _PORTS_TRIED, 65536)) if port else (0,)
    for candidate in candidates:
        if candidate in _PORTS_THAT_BROWSERS_BLOCK:
            continue
        http = AgentHttpExporter(host, candidate)
        try:
            await http.start()
        except ConfigurationError as error:
            if not (isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE):
                raise
        else:
            return http
    raise ConfigurationError(f"no free port for an agent above {host}:{port}; listen on a lower port")


def _assemble(
    simulation: Simulation, node: str, listen: Listen, http: AgentHttpExporter, directory: Path
) -> DemoAgent:
    configuration = AgentConfiguration(
        rack=simulation.rack, node=node, listen=listen, platform=simulation.platform
    )
    has_data = asyncio.Event()
    plan = Plan(
        configuration=configuration, simulation=simulation, inline=True, announce=lambda _: has_data.set()
    )
    store = StateStore(directory / f"{simulation.rack}-{node}")
    agent = Agent(
        make_source(plan, store),
        [http, Announcement(http, listen.host, plan.announce)],
        naming=Naming(simulation.rack, node),
        host=describe_host(simulated=True),
        store=store,
        deadlines=Deadlines.for_period(configuration.sampling.fast_seconds),
        kernel_log=KernelLog(lambda: open_simulated_log(simulation), poll_seconds=_LOG_SECONDS),
        checker=make_checker(configuration),
    )
    return DemoAgent(simulation.rack, node, http, agent, has_data)
