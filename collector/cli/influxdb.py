"""Puts the exporter to InfluxDB together from its settings, for an agent and for a rack service."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from collector.catalog.spec import Cadence
from collector.config.schema import InfluxdbSetting, Sampling
from collector.errors import ConfigurationError
from collector.model import Snapshot
from collector.token_file import TokenFile
from exporters.influxdb.exporter import InfluxdbExporter, SpoolSettings
from exporters.influxdb.selection import DEFAULT_PERIODS_SECONDS, LONGEST_PERIOD_SECONDS, Selection
from exporters.influxdb.target import InfluxWriter, Target

_logger = logging.getLogger("rackwatt.influxdb")

AGENT_SPOOL = "spool"
RACK_SPOOL = "rack-spool"
"""Names of the spools in the folder of state, one for each writer, as both may run on one machine."""

_PUBLISH_SECONDS = 1.0
"""How often a rack service is asked for its Snapshot; it judges its racks as often."""


def spool_path(setting: InfluxdbSetting, state_directory: Path, name: str) -> Path:
    """Say where a spool lies.

    Args:
        setting: What was configured.
        state_directory: Folder of state.
        name: Name of the spool in it, unless a path is configured.
    """
    return Path(setting.spool.path) if setting.spool.path is not None else state_directory / name


def make_target(setting: InfluxdbSetting) -> Target:
    """Say where to write.

    Raises:
        ConfigurationError: The token file or the file of the certificate authority cannot be used.
    """
    if setting.ca_file is not None:
        _check_authority(setting.ca_file)
    return Target(
        url=setting.url,
        bucket=setting.bucket,
        org=setting.org,
        token=TokenFile(setting.token_file).token if setting.token_file is not None else None,
        ca_file=setting.ca_file,
    )


def make_selection(setting: InfluxdbSetting, sampling: Sampling | None = None) -> Selection:
    """Say what is written, and how often.

    Args:
        setting: What was configured.
        sampling: How often an agent reads: by default nothing is written more often; None for a rack service.

    Raises:
        ConfigurationError: A family names nothing that is measured.
    """
    try:
        return Selection(
            level=setting.level,
            families=setting.families,
            excluded=setting.exclude,
            periods_seconds=_default_periods(sampling or Sampling())
            | {Cadence(cadence): seconds for cadence, seconds in setting.periods_seconds.items()},
            periods_of=setting.periods_of,
            events=setting.events,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"influxdb: {error}") from None


def _default_periods(sampling: Sampling) -> dict[Cadence, float]:
    read = {
        Cadence.FAST: sampling.fast_seconds,
        Cadence.LINKS: sampling.links_seconds,
        Cadence.SLOW: sampling.slow_seconds,
        Cadence.SERVING: sampling.serving_seconds,
    }
    return {
        cadence: min(max(DEFAULT_PERIODS_SECONDS[cadence], seconds), LONGEST_PERIOD_SECONDS)
        for cadence, seconds in read.items()
    }


def make_exporter(setting: InfluxdbSetting, path: Path, sampling: Sampling | None = None) -> InfluxdbExporter:
    """Make the exporter.

    Args:
        setting: What was configured.
        path: Where its spool lies.
        sampling: How often an agent reads; None for a rack service.

    Raises:
        ConfigurationError: A file cannot be used, or a family names nothing that is measured.
    """
    return InfluxdbExporter(
        InfluxWriter(make_target(setting)),
        SpoolSettings(
            path=path,
            maximum_bytes=setting.spool.max_bytes,
            maximum_age_seconds=setting.spool.max_age_seconds,
        ),
        make_selection(setting, sampling),
    )


async def keep_publishing(snapshot: Callable[[], Snapshot], exporter: InfluxdbExporter) -> None:
    """Publish what a rack service says of its racks, each Snapshot once, until cancelled."""
    last: Snapshot | None = None
    failing = False
    while True:
        try:
            newest = snapshot()
            if newest is not last:
                exporter.publish(newest)
                last = newest
        except Exception:
            if not failing:
                _logger.exception("the racks' series cannot be written; it is tried again")
            failing = True
        else:
            failing = False
        await asyncio.sleep(_PUBLISH_SECONDS)


def _check_authority(path: str) -> None:
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        # An SSLError is an OSError, too; its own words say little of the file.
        reason = "holds no certificate in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigurationError(f"{path}: {reason}") from None
