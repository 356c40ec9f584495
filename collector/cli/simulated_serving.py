"""The serving engine of a simulated node, served over HTTP, so that an agent reads it like a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from collector.cli.simulation import Simulation, simulated_node
from collector.simulator import SimulatedNode, find_workload
from collector.simulator.serving import SimulatedEngine, dialect_of_tray
from collector.simulator.serving.server import SimulatedEngineServer
from collector.sources.serving.endpoint import ServingEndpoint

ENDPOINT_NAME = "decode-0"
"""What the endpoint of a simulated node is called, as in the configuration of CONTRACTS §6."""


def has_engine(simulation: Simulation) -> bool:
    """Tell whether the workload of a simulated node is that of a serving engine."""
    return find_workload(simulation.workload).has_engine


@asynccontextmanager
async def simulated_endpoints(simulation: Simulation | None) -> AsyncIterator[tuple[ServingEndpoint, ...]]:
    """Serve the engine of a simulated node on a port of the loopback address while the context is open.

    Args:
        simulation: The node; None for hardware.

    Yields:
        What the node's agent is to scrape; nothing for hardware, or where the workload has no engine.

    Raises:
        ConfigurationError: There is no free port.
    """
    if simulation is None or not has_engine(simulation):
        yield ()
        return
    node = simulated_node(simulation)
    async with serve_engines({"": (node, simulation.tray)}) as endpoints:
        yield (endpoints[""],)


@asynccontextmanager
async def serve_engines(
    nodes: Mapping[str, tuple[SimulatedNode, int]],
) -> AsyncIterator[Mapping[str, ServingEndpoint]]:
    """Serve one engine a node, all on one port of the loopback address, while the context is open.

    Args:
        nodes: Node and tray by what stands before `/metrics` in the path of its engine.

    Yields:
        What is to be scraped, by the same.

    Raises:
        ConfigurationError: There is no free port.
    """
    engines = {prefix: SimulatedEngine(node, dialect_of_tray(tray)) for prefix, (node, tray) in nodes.items()}
    server = SimulatedEngineServer(engines)
    await server.start()
    try:
        yield {prefix: _endpoint(server.url(prefix), engine.gpus) for prefix, engine in engines.items()}
    finally:
        await server.close()


def _endpoint(url: str, gpus: Iterable[int]) -> ServingEndpoint:
    return ServingEndpoint(name=ENDPOINT_NAME, url=url, gpus=tuple(gpus))
