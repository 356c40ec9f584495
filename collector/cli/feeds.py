"""Makes what an agent reads beside its GPUs: serving engines, and the power of Grace CPUs."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from collector.catalog.spec import Level
from collector.cli.simulation import Simulation, open_simulated_sensors
from collector.config import AgentConfiguration
from collector.config.schema import ServingSetting
from collector.protocols import Feed
from collector.sources.serving.endpoint import ServingEndpoint
from collector.token_file import TokenFile

if TYPE_CHECKING:
    from collector.schedule import Schedule

_GRACE_MACHINE = "aarch64"
"""What Linux calls the architecture of a Grace CPU (uname -m)."""

_PATIENCE = 0.8
"""Part of the period that a scrape may take, so that it ends before the next; chosen."""


@asynccontextmanager
async def open_feeds(
    configuration: AgentConfiguration, simulation: Simulation | None
) -> AsyncIterator[tuple[Feed, ...]]:
    """Make an agent's feeds, and end what they run on when the context is left.

    Args:
        configuration: The agent's settings.
        simulation: The node that stands in for hardware, or None.

    Raises:
        ConfigurationError: A token file cannot be used, or a simulated engine cannot be served.
    """
    endpoints = tuple(serving_endpoint(setting) for setting in configuration.serving)
    # What stands in for engines, too, is loaded with a simulation only.
    if simulation is not None and not endpoints:
        from collector.cli.simulated_serving import simulated_endpoints

        async with (
            simulated_endpoints(simulation) as simulated,
            _open(configuration, simulation, simulated) as feeds,
        ):
            yield feeds
        return
    async with _open(configuration, simulation, endpoints) as feeds:
        yield feeds


def serving_endpoint(setting: ServingSetting) -> ServingEndpoint:
    """Make an endpoint of its setting.

    Raises:
        ConfigurationError: The token file cannot be used.
    """
    return ServingEndpoint(
        name=setting.name,
        url=setting.url,
        engine=setting.engine,
        role=setting.role,
        gpus=setting.gpus,
        ca_file=setting.ca_file,
        token=TokenFile(setting.token_file).token if setting.token_file is not None else None,
    )


@asynccontextmanager
async def _open(
    configuration: AgentConfiguration, simulation: Simulation | None, endpoints: Sequence[ServingEndpoint]
) -> AsyncIterator[tuple[Feed, ...]]:
    has_grace = configuration.level >= Level.STANDARD and (
        simulation is not None or platform.machine() == _GRACE_MACHINE
    )
    if not endpoints and not has_grace:
        yield ()
        return
    # Here, as APScheduler costs megabytes that an agent without feeds need not have.
    from collector.schedule import Schedule

    schedule = Schedule()
    feeds: list[Feed] = []
    if endpoints:
        feeds.append(_serving_feed(configuration, endpoints, schedule))
    if has_grace:
        from collector.sources.host.hwmon import HwmonFeed

        tree = open_simulated_sensors(simulation) if simulation is not None else None
        feeds.append(HwmonFeed(schedule, tree))
    schedule.start()
    try:
        yield tuple(feeds)
    finally:
        await schedule.close()


def _serving_feed(
    configuration: AgentConfiguration, endpoints: Sequence[ServingEndpoint], schedule: Schedule
) -> Feed:
    # Here, as prometheus_client costs 1.4 MiB that an agent without engines need not have.
    from collector.sources.serving.feed import ServingFeed
    from collector.sources.serving.fetch import TIMEOUT_SECONDS, Fetcher
    from collector.sources.serving.normalize import Normalizer

    period_seconds = configuration.sampling.serving_seconds
    return ServingFeed(
        endpoints,
        fetcher=Fetcher(timeout_seconds=min(TIMEOUT_SECONDS, _PATIENCE * period_seconds)),
        make_reader=Normalizer,
        schedule=schedule,
        period_seconds=period_seconds,
        level=configuration.level,
    )
