"""Runs the demo: agents, rack service and REST interface in one process, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from collector.cli.demonstration.agents import DemoAgent, open_agents
from collector.cli.demonstration.nodes import Beginning, Surroundings, cast, open_surroundings
from collector.cli.demonstration.play import Tempo, play
from collector.cli.demonstration.story import STAGES, STORY
from collector.cli.demonstration.welcome import Places, welcome
from collector.cli.rack_compose import service_settings
from collector.cli.signals import stop_on_signals
from collector.config import Listen, RackConfiguration, RackEntry, reachable_address
from collector.config.rack_schema import AgentEntry, PriceSetting, RedfishSetting
from collector.errors import RackwattError
from collector.rack import RackService
from collector.rack.records import Records
from exporters.rest.server import RestServer
from exporters.rest.settings import RestSettings

_READY_SECONDS = 120.0
"""Longest that the racks may take to be judged; they take seconds."""
_LOOK_SECONDS = 0.1
_PRICE = PriceSetting(gpu_hour_usd=3.30, kwh_usd=0.08, pue=1.2)
"""The example of CONTRACTS §6."""


def perform(listen: Listen, speed: float) -> int:
    """Run the demo until SIGTERM or SIGINT; a second signal ends it at once.

    Args:
        listen: Where the rack service serves; its agents take ports above.
        speed: How many times as fast the story is told.

    Returns:
        Exit status 0.

    Raises:
        ConfigurationError: The address cannot be bound.
        RackwattError: The racks do not get ready.
    """
    with tempfile.TemporaryDirectory(prefix="rackwatt-") as directory:
        return asyncio.run(_perform(listen, speed, Path(directory)))


async def _perform(listen: Listen, speed: float, directory: Path) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop, asyncio.get_running_loop(), logging.getLogger("rackwatt.demo"))
    beginning = Beginning(time.monotonic(), time.time_ns())
    nodes = cast(STAGES, STORY, speed=speed, beginning=beginning)
    async with (
        open_surroundings(nodes) as surroundings,
        open_agents(nodes, listen=listen, directory=directory, engines=surroundings.engines) as agents,
    ):
        configuration = _configure(listen, agents, surroundings, directory)
        await _run(agents, configuration, Tempo(beginning.monotonic_seconds, speed), directory, stop)
    return 0


async def _run(
    agents: tuple[DemoAgent, ...],
    configuration: RackConfiguration,
    tempo: Tempo,
    directory: Path,
    stop: asyncio.Event,
) -> None:
    """Run agents and rack service, and play the story, until `stop` is set."""
    listen = configuration.listen
    running: list[asyncio.Task[None]] = []
    try:
        service = RackService(
            service_settings(configuration), Records(directory, poll_seconds=configuration.poll_seconds)
        )
        rest = RestServer(
            service,
            RestSettings(host=listen.host, port=listen.port, api_token_file=configuration.api_token_file),
        )
        try:
            # First of all, as its port may be taken.
            await rest.start()
            running += [asyncio.create_task(each.agent.run(stop)) for each in agents]
            await _until(lambda: all(each.has_data.is_set() for each in agents), stop)
            await service.start()
            await _until(lambda: _judged(service), stop)
            if not stop.is_set():
                print(_welcome(service, rest, configuration, tempo.speed), flush=True)
            servers = {(each.rack, each.node): each.http for each in agents}
            await play(STORY, tempo, service, servers, stop)
        finally:
            await rest.close()
            await service.close()
    finally:
        stop.set()
        await asyncio.gather(*running)


def _configure(
    listen: Listen, agents: Iterable[DemoAgent], surroundings: Surroundings, directory: Path
) -> RackConfiguration:
    """Configure the rack service as a file would, with a token for writes."""
    token_file = directory / "api.token"
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_hex(16), encoding="ascii")
    return RackConfiguration(
        racks={
            stage.rack: RackEntry(
                platform=stage.platform,
                agents=tuple(
                    AgentEntry(each.node, reachable_address(Listen(listen.host, each.http.port)))
                    for each in agents
                    if each.rack == stage.rack
                ),
                redfish=tuple(RedfishSetting(url=url) for url in surroundings.shelves.get(stage.rack, ())),
            )
            for stage in STAGES
        },
        listen=listen,
        price=_PRICE,
        api_token_file=str(token_file),
    )


async def _until(ready: Callable[[], bool], stop: asyncio.Event) -> None:
    """Wait until something is ready, or the demo is to end."""
    deadline = time.monotonic() + _READY_SECONDS
    while not ready() and not stop.is_set():
        if time.monotonic() > deadline:
            raise RackwattError(
                f"the simulated racks did not get ready within {_READY_SECONDS:.0f} s; "
                "this machine has too little time for them"
            )
        await asyncio.sleep(_LOOK_SECONDS)


def _judged(service: RackService) -> bool:
    """Tell whether every agent was polled well, and the racks were judged by that."""
    return service.ready() and all(
        node.poll.last_good_ns is not None for status in service.racks() for node in status.nodes
    )


def _welcome(service: RackService, rest: RestServer, configuration: RackConfiguration, speed: float) -> str:
    first = configuration.racks[STAGES[0].rack].agents[0].address
    places = Places(
        rack_service=str(Listen(first.host, rest.port)),
        first_agent=str(first),
        token_file=configuration.api_token_file or "",
    )
    return welcome(STAGES, STORY, statuses=service.racks(), places=places, speed=speed)
