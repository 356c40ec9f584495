"""The agents of the demo: each watches a simulated node and serves on a port of its own, in one process."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from collector.agent import Agent, Naming
from collector.cli.compose import Announcement, Plan, make_checker, make_source
from collector.cli.demonstration.nodes import DemoNode
from collector.cli.feeds import open_feeds
from collector.cli.simulation import open_simulated_log
from collector.config import AgentConfiguration, Listen
from collector.config.schema import ServingSetting
from collector.deadlines import Deadlines
from collector.errors import ConfigurationError
from collector.identity import describe_host
from collector.protocols import Feed
from collector.sources.host.kmsg import KernelLog
from collector.state import StateStore
from exporters.agent_http import AgentHttpExporter

_PORTS_TRIED = 1000
"""Ports that are tried for the agents before it is given up."""
_LOG_SECONDS = 0.2
"""How often a simulated kernel log is looked at: as on hardware, its lines are there before NVML's events."""


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


@asynccontextmanager
async def open_agents(
    nodes: Iterable[DemoNode],
    *,
    listen: Listen,
    directory: Path,
    engines: Mapping[tuple[str, str], ServingSetting],
) -> AsyncIterator[tuple[DemoAgent, ...]]:
    """Make an agent a node and bind its port: the free ones above the rack service's.

    Args:
        nodes: The nodes.
        listen: Where the rack service listens; with port 0 the system chooses every port.
        directory: Where the agents keep their state.
        engines: The serving engine of a node, by rack and node.

    Raises:
        ConfigurationError: The address cannot be bound, or there are no free ports.
    """
    opened: list[DemoAgent] = []
    port = listen.port
    async with AsyncExitStack() as stack:
        for node in nodes:
            http = await _bind_next(listen.host, port)
            stack.push_async_callback(http.close)
            port = http.port if listen.port else 0
            engine = engines.get((node.rack, node.node))
            configuration = AgentConfiguration(
                rack=node.rack,
                node=node.node,
                listen=Listen(listen.host, http.port),
                platform=node.simulation.platform,
                serving=(engine,) if engine is not None else (),
            )
            feeds = await stack.enter_async_context(open_feeds(configuration, node.simulation))
            opened.append(_assemble(node, configuration, http, feeds, directory))
        yield tuple(opened)


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
    node: DemoNode,
    configuration: AgentConfiguration,
    http: AgentHttpExporter,
    feeds: Sequence[Feed],
    directory: Path,
) -> DemoAgent:
    simulation = node.simulation
    has_data = asyncio.Event()
    plan = Plan(
        configuration=configuration, simulation=simulation, inline=True, announce=lambda _: has_data.set()
    )
    store = StateStore(directory / f"{node.rack}-{node.node}")
    agent = Agent(
        make_source(plan, store),
        [http, Announcement(http, configuration.listen.host, plan.announce)],
        naming=Naming(node.rack, node.node),
        host=describe_host(simulated=True),
        store=store,
        deadlines=Deadlines.for_period(configuration.sampling.fast_seconds),
        feeds=feeds,
        kernel_log=KernelLog(lambda: open_simulated_log(simulation), poll_seconds=_LOG_SECONDS),
        checker=make_checker(configuration),
    )
    return DemoAgent(node.rack, node.node, http, agent, has_data)
