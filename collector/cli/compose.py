"""Puts the parts of an agent together from its settings, and runs it until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from collector.agent import Agent, Naming
from collector.cli import reader as reader_command
from collector.cli.feeds import open_feeds
from collector.cli.signals import stop_on_signals
from collector.cli.simulation import Simulation, open_simulated, open_simulated_log
from collector.config import AgentConfiguration, Listen, choose_state_directory
from collector.config.schema import AUTOMATIC_PLATFORM
from collector.control import SOCKET_NAME, ControlSocket
from collector.deadlines import Deadlines
from collector.health.evaluate import Checker
from collector.health.xids import XidOverride, load_catalogue
from collector.identity import describe_host
from collector.model import Snapshot
from collector.protocols import Exporter, Feed, KernelLog, Source
from collector.readings import GpuIdentity
from collector.release import ReleaseSwitch
from collector.sources.host import kmsg
from collector.sources.inline import InlineSource
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from collector.sources.process import ReaderProcess
from collector.state import StateStore
from exporters.agent_http import AgentHttpExporter

_logger = logging.getLogger("rackwatt.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run.

    Attributes:
        configuration: The agent's settings.
        simulation: The node that stands in for hardware, or None.
        inline: Whether the reader runs within the agent's process.
        announce: Called once, with the address where the agent serves, when there is a Snapshot with data.
    """

    configuration: AgentConfiguration
    simulation: Simulation | None = None
    inline: bool = False
    announce: Callable[[Listen], None]


def reader_options(
    configuration: AgentConfiguration, known_gpus: tuple[GpuIdentity, ...] = ()
) -> ReaderOptions:
    """Tell a reader how to read.

    Args:
        configuration: The agent's settings.
        known_gpus: GPUs that were seen before.

    Returns:
        The reader's options, with every platform that it may recognize.
    """
    from collector import profiles

    known = [profiles.load(name) for name in profiles.names()]
    platform = configuration.platform if configuration.platform != AUTOMATIC_PLATFORM else ""
    return ReaderOptions(
        fast_seconds=configuration.sampling.fast_seconds,
        links_seconds=configuration.sampling.links_seconds,
        slow_seconds=configuration.sampling.slow_seconds,
        level=configuration.level.name.lower(),
        known_gpus=known_gpus,
        platforms={
            profile.gpu.product_name: PlatformHint(profile.name, profile.gpus_per_node) for profile in known
        },
        platform=platform,
        gpus_expected=profiles.load(platform).gpus_per_node if platform else None,
    )


class Announcement:
    """An Exporter that says once that the agent serves data, and where."""

    def __init__(self, http: AgentHttpExporter, host: str, announce: Callable[[Listen], None]) -> None:
        """Wait for the first Snapshot with data.

        Args:
            http: What serves; asked for its port.
            host: Where it serves.
            announce: Takes the address.
        """
        self._http = http
        self._host = host
        self._announce: Callable[[Listen], None] | None = announce

    @property
    def address(self) -> Listen:
        """Where the agent serves."""
        return Listen(self._host, self._http.port)

    def publish(self, snapshot: Snapshot) -> None:
        """Announce with the first Snapshot that has data of the GPUs."""
        if self._announce is not None and snapshot.nvml_up and snapshot.ages_seconds.get("fast") is not None:
            announce, self._announce = self._announce, None
            announce(self.address)

    async def start(self) -> None:
        """Say where the agent listens."""
        _logger.info("listening", extra={"address": str(self.address)})

    async def close(self) -> None:
        """Do nothing: nothing is held."""


def make_source(plan: Plan, store: StateStore) -> Source:
    """Make what reads the GPUs.

    Args:
        plan: What is to be run.
        store: Knows the GPUs that were seen before.

    Returns:
        A reader in a process of its own, or within this one.
    """
    configuration, simulation = plan.configuration, plan.simulation
    fast_seconds = configuration.sampling.fast_seconds

    def options() -> ReaderOptions:
        return reader_options(configuration, store.state.gpus)

    if not plan.inline:
        command = reader_command.command(simulation)
        return ReaderProcess(command, options, Deadlines.for_period(fast_seconds))
    # Only here, as pynvml costs the agent megabytes that its reader process needs alone.
    from collector.sources.nvml.library import open_library
    from collector.sources.nvml.reader import NvmlReader

    opener = open_library if simulation is None else lambda: open_simulated(simulation)
    return InlineSource(NvmlReader(opener, options()), fast_seconds)


def make_kernel_log(plan: Plan) -> KernelLog:
    """Make what follows the kernel log: of this machine, or of the simulated node."""
    simulation = plan.simulation
    if simulation is None:
        return kmsg.KernelLog()
    return kmsg.KernelLog(lambda: open_simulated_log(simulation))


def make_checker(configuration: AgentConfiguration) -> Checker:
    """Make what judges the node, with the thresholds and Xids of the configuration."""
    overrides = {
        number: XidOverride(severity=setting.severity, repeat=setting.repeat)
        for number, setting in configuration.xids.items()
    }
    return Checker(configuration.checks, load_catalogue().overridden(overrides))


def run(plan: Plan) -> int:
    """Run an agent until SIGTERM or SIGINT; a second signal ends it at once.

    Args:
        plan: What is to be run.

    Returns:
        Exit status 0.

    Raises:
        ConfigurationError: The agent cannot run as it is configured.
    """
    with ExitStack() as stack:
        return asyncio.run(_run(plan, _state_directory(plan, stack)))


def _state_directory(plan: Plan, stack: ExitStack) -> Path:
    """Choose where state is kept: for a simulation in a folder that goes away with it."""
    if plan.simulation is not None and plan.configuration.state_dir is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rackwatt-")))
    state = choose_state_directory(plan.configuration, os.environ)
    _logger.info("state is kept in %s", state.path, extra={"reason": state.reason})
    return Path(state.path)


async def _run(plan: Plan, state_directory: Path) -> int:
    configuration = plan.configuration
    stop = asyncio.Event()
    stop_on_signals(stop, asyncio.get_running_loop(), _logger)
    written, said = _influxdb(plan, state_directory)
    async with open_feeds(configuration, plan.simulation) as feeds:
        store = StateStore(state_directory)
        source = make_source(plan, store)
        agent = Agent(
            source,
            [*_exporters(plan), *written],
            naming=Naming(configuration.rack, configuration.node),
            host=describe_host(simulated=plan.simulation is not None),
            store=store,
            deadlines=Deadlines.for_period(configuration.sampling.fast_seconds),
            feeds=(*feeds, *said),
            kernel_log=make_kernel_log(plan),
            control=ControlSocket(state_directory / SOCKET_NAME, ReleaseSwitch(source)),
            checker=make_checker(configuration),
        )
        await agent.run(stop)
    _logger.info("stopped")
    return 0


def _influxdb(plan: Plan, state_directory: Path) -> tuple[list[Exporter], list[Feed]]:
    """Make what writes to InfluxDB, and what it says of itself; nothing unless it is configured."""
    setting = plan.configuration.influxdb
    if setting is None:
        return [], []
    # Here, as nobody else needs it.
    from collector.cli.influxdb import AGENT_SPOOL, make_exporter, spool_path
    from exporters.influxdb.feed import InfluxdbFeed

    path = spool_path(setting, state_directory, AGENT_SPOOL)
    exporter = make_exporter(setting, path, plan.configuration.sampling)
    return [exporter], [InfluxdbFeed(exporter)]


def _exporters(plan: Plan) -> list[Exporter]:
    if not plan.configuration.prometheus.enabled:
        _logger.warning("prometheus is disabled in the configuration: nothing is served")
        return []
    listen = plan.configuration.listen
    http = AgentHttpExporter(listen.host, listen.port)
    return [http, Announcement(http, listen.host, plan.announce)]
