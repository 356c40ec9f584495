"""Writes one point to the InfluxDB of the configuration, for `rackwatt check`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from collector.cli.facts import InfluxdbFacts
from collector.cli.influxdb import AGENT_SPOOL, make_selection, make_target, spool_path
from collector.config import AgentConfiguration, can_create_directory, choose_state_directory
from collector.config.schema import InfluxdbSetting
from collector.errors import ConfigurationError
from exporters.influxdb.spool_folder import check_owner
from exporters.influxdb.target import InfluxWriter, Target, Writer

CHECK_MEASUREMENT = "rackwatt-check"


def influxdb_facts(
    configuration: AgentConfiguration,
    environ: Mapping[str, str],
    make_writer: Callable[[Target], Writer] = InfluxWriter,
) -> InfluxdbFacts | None:
    """Try what the agent would do: show the token, write a point.

    Args:
        configuration: The agent's settings.
        environ: The environment, for the folder of state.
        make_writer: Makes what writes.

    Returns:
        What came of it; None where no InfluxDB is configured.
    """
    setting = configuration.influxdb
    if setting is None:
        return None
    path = _spool_path(configuration, setting, environ)
    writable = bool(path) and can_create_directory(path)
    spool_mistake = _spool_mistake(Path(path)) if path else ""
    try:
        make_selection(setting, configuration.sampling)
        writer = make_writer(make_target(setting))
    except ConfigurationError as error:
        return InfluxdbFacts(
            setting=setting,
            mistake=str(error),
            spool_path=path,
            spool_writable=writable,
            spool_mistake=spool_mistake,
        )
    line = f"{CHECK_MEASUREMENT} ok=true {time.time_ns()}\n"
    return InfluxdbFacts(
        setting=setting,
        answer=writer.write(line.encode("ascii")),
        spool_path=path,
        spool_writable=writable,
        spool_mistake=spool_mistake,
    )


def _spool_mistake(folder: Path) -> str:
    """Say why an agent of this user would refuse a folder that is there; empty if it would not."""
    try:
        check_owner(folder, folder.stat())
    except ConfigurationError as error:
        return str(error)
    except OSError:
        return ""
    return ""


def _spool_path(
    configuration: AgentConfiguration, setting: InfluxdbSetting, environ: Mapping[str, str]
) -> str:
    if setting.spool.path is not None:
        return setting.spool.path
    try:
        state = choose_state_directory(configuration, environ)
    except ConfigurationError:
        return ""
    return str(spool_path(setting, Path(state.path), AGENT_SPOOL))
