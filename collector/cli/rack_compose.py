"""Puts a rack service together from its settings, and runs it until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from collector import profiles
from collector.cli.influxdb import RACK_SPOOL, keep_publishing, make_exporter, spool_path
from collector.cli.rack_process import allow_open_files, spare_what_lasts
from collector.cli.signals import stop_on_signals
from collector.config import Listen, RackConfiguration, RackEntry, choose_state_directory
from collector.config.rack_schema import PriceSetting, RedfishSetting
from collector.efficiency.price import Price
from collector.health.rack_types import ExpectedRack
from collector.rack import RackService, RackServiceSettings
from collector.rack.records import Records
from collector.sources.peers import PeerAddress
from collector.sources.redfish import BmcTarget, RedfishTarget, default_name
from collector.token_file import TokenFile
from exporters.influxdb.exporter import InfluxdbExporter
from exporters.rest.server import RestServer
from exporters.rest.settings import RestSettings

_logger = logging.getLogger("rackwatt.rack")


def service_settings(configuration: RackConfiguration) -> RackServiceSettings:
    """Make a rack service's settings.

    Args:
        configuration: What was configured.

    Raises:
        ConfigurationError: The token file cannot be used.
    """
    token_file = configuration.agent_auth.bearer_token_file
    racks = configuration.racks
    return RackServiceSettings(
        racks=tuple(expected_rack(name, entry) for name, entry in racks.items()),
        agents=tuple(
            PeerAddress(name, agent.node, agent.address.host, agent.address.port)
            for name, entry in racks.items()
            for agent in entry.agents
        ),
        poll_seconds=configuration.poll_seconds,
        witness_port=configuration.witness_port,
        token=TokenFile(token_file).token if token_file is not None else None,
        prices={name: _price(entry.price.over(configuration.price)) for name, entry in racks.items()},
        shelves={name: tuple(map(_redfish, entry.redfish)) for name, entry in racks.items()},
        redfish_seconds=configuration.redfish_poll_seconds,
        bmcs=tuple(
            BmcTarget(rack=name, node=agent.node, redfish=_redfish(agent.bmc), system=agent.bmc.system or "")
            for name, entry in racks.items()
            for agent in entry.agents
            if agent.bmc is not None
        ),
    )


def _price(setting: PriceSetting) -> Price:
    return Price(
        gpu_hour_usd=setting.gpu_hour_usd,
        kwh_usd=setting.kwh_usd,
        pue=setting.pue,
        gpu_hour_includes_energy=setting.gpu_hour_includes_energy is not False,
    )


def _redfish(setting: RedfishSetting) -> RedfishTarget:
    password_file = setting.password_file
    return RedfishTarget(
        name=default_name(setting.url),
        url=setting.url,
        user=setting.user or "",
        password=TokenFile(password_file).token if password_file is not None else None,
        ca_file=setting.ca_file,
    )


def expected_rack(name: str, entry: RackEntry) -> ExpectedRack:
    """Declare a rack, with what its platform's profile adds."""
    profile = profiles.load(entry.platform)
    return ExpectedRack(
        rack=name,
        platform=entry.platform,
        nodes=tuple(agent.node for agent in entry.agents),
        cliques=entry.cliques,
        min_block=entry.min_block,
        slo=entry.slo,
        gpus_per_node=profile.gpus_per_node,
        modules_per_node=profile.gpus_per_node // profile.module.gpus if profile.module is not None else 0,
        rack_wide_fabric=profile.fabric.cluster_wide,
    )


def run(configuration: RackConfiguration, announce: Callable[[Listen], None]) -> int:
    """Run a rack service until SIGTERM or SIGINT; a second signal ends it at once.

    Args:
        configuration: Its settings.
        announce: Called once, with the address where it serves.

    Returns:
        Exit status 0.

    Raises:
        ConfigurationError: It cannot run as it is configured.
    """
    state = choose_state_directory(configuration, os.environ)
    _logger.info("the ledger is kept in %s", state.path, extra={"reason": state.reason})
    return asyncio.run(_run(configuration, Path(state.path), announce))


async def _run(configuration: RackConfiguration, directory: Path, announce: Callable[[Listen], None]) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop, asyncio.get_running_loop(), _logger)
    settings = service_settings(configuration)
    allow_open_files(len(settings.agents))
    service = RackService(settings, Records(directory, poll_seconds=configuration.poll_seconds))
    listen = configuration.listen
    rest = RestServer(
        service,
        RestSettings(host=listen.host, port=listen.port, api_token_file=configuration.api_token_file),
    )
    exporter = _influxdb(configuration, directory)
    publishing: asyncio.Task[None] | None = None
    sparing = asyncio.create_task(spare_what_lasts(service.why_not_ready), name="spare what lasts")
    try:
        await service.start()
        if exporter is not None:
            await exporter.start()
            publishing = asyncio.create_task(
                keep_publishing(service.snapshot, exporter), name="publish to InfluxDB"
            )
        await rest.start()
        announce(Listen(listen.host, rest.port))
        await stop.wait()
    finally:
        sparing.cancel()
        if publishing is not None:
            publishing.cancel()
        await rest.close()
        if exporter is not None:
            await exporter.close()
        await service.close()
    _logger.info("stopped")
    return 0


def _influxdb(configuration: RackConfiguration, directory: Path) -> InfluxdbExporter | None:
    setting = configuration.influxdb
    return None if setting is None else make_exporter(setting, spool_path(setting, directory, RACK_SPOOL))
