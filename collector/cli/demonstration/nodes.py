"""The simulated nodes of the demo, and what stands beside them: their serving engines, and power shelves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from collector import profiles
from collector.cli.demonstration.story import Scene, Stage, fault_texts
from collector.cli.simulated_serving import has_engine, serve_engines
from collector.cli.simulation import Simulation, simulated_node
from collector.config.schema import ServingSetting
from collector.simulator import SimulatedNode
from collector.simulator.power_shelf import simulate_shelves
from collector.simulator.redfish_server import SimulatedShelfServers


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
class DemoNode:
    """A node of the demo.

    Attributes:
        rack: The rack.
        node: Its name.
        simulation: What it is.
    """

    rack: str
    node: str
    simulation: Simulation


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands beside the nodes, as it is configured for whoever reads it.

    Attributes:
        engines: The serving engine of each node that has one, by rack and node.
        shelves: Addresses of the power shelves, by rack.
    """

    engines: Mapping[tuple[str, str], ServingSetting]
    shelves: Mapping[str, tuple[str, ...]]


def cast(
    stages: Iterable[Stage], story: tuple[Scene, ...], *, speed: float, beginning: Beginning
) -> tuple[DemoNode, ...]:
    """List the nodes in the order of racks and slots, with their faults.

    Args:
        stages: The racks.
        story: What happens to their nodes.
        speed: How many times as fast the story is told.
        beginning: When the simulation began.
    """
    return tuple(
        DemoNode(
            stage.rack,
            node,
            Simulation(
                platform=stage.platform,
                rack=stage.rack,
                tray=tray,
                workload=stage.workload,
                faults=fault_texts(story, stage.rack, node, speed),
                started_at=beginning.monotonic_seconds,
                started_wall_ns=beginning.wall_ns,
            ),
        )
        for stage in stages
        for tray, node in enumerate(stage.nodes)
    )


@asynccontextmanager
async def open_surroundings(nodes: Iterable[DemoNode]) -> AsyncIterator[Surroundings]:
    """Serve engines and power shelves on ports of the loopback address while the context is open.

    The nodes are made a second time here: they tell the same story as those that the agents read.

    Args:
        nodes: The nodes.

    Raises:
        ConfigurationError: There is no free port.
    """
    made = {each: simulated_node(each.simulation) for each in nodes if _has_surroundings(each)}
    serving = {
        _path(each): (node, each.simulation.tray)
        for each, node in made.items()
        if has_engine(each.simulation)
    }
    async with AsyncExitStack() as stack:
        shelves = {rack: await _open_shelves(trays, stack) for rack, trays in _by_rack(made).items()}
        endpoints = await stack.enter_async_context(serve_engines(serving))
        engines = {
            (each.rack, each.node): ServingSetting(name=endpoint.name, url=endpoint.url, gpus=endpoint.gpus)
            for each in made
            if (endpoint := endpoints.get(_path(each))) is not None
        }
        yield Surroundings(engines, shelves)


def _has_surroundings(node: DemoNode) -> bool:
    return has_engine(node.simulation) or profiles.load(node.simulation.platform).rack is not None


def _path(node: DemoNode) -> str:
    return f"/{node.rack}/{node.node}"


def _by_rack(made: Mapping[DemoNode, SimulatedNode]) -> dict[str, list[SimulatedNode]]:
    racks: dict[str, list[SimulatedNode]] = {}
    for each, node in made.items():
        racks.setdefault(each.rack, []).append(node)
    return racks


async def _open_shelves(trays: list[SimulatedNode], stack: AsyncExitStack) -> tuple[str, ...]:
    servers = SimulatedShelfServers(simulate_shelves(trays[0].profile, trays))
    await servers.start()
    stack.push_async_callback(servers.close)
    return servers.urls
