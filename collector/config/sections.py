"""The keys of an agent's configuration, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from collector import logs
from collector.catalog.spec import Level
from collector.config import values
from collector.config.check_keys import CHECK_TREE, XID_TREE
from collector.config.influx_keys import INFLUXDB
from collector.config.reading import (
    ConflictError,
    Finish,
    Key,
    Mistake,
    Section,
    Tree,
    describe,
    placed,
    read_section,
)
from collector.config.schema import (
    AUTOMATIC_PLATFORM,
    AgentConfiguration,
    LogSettings,
    PrometheusSettings,
    Sampling,
)
from collector.config.serving_keys import SERVING_TREE, check_endpoints

__all__ = [
    "LOG",
    "NOT_YET",
    "PROMETHEUS",
    "SAMPLING",
    "ConflictError",
    "Finish",
    "Key",
    "Mistake",
    "Section",
    "Tree",
    "agent_section",
    "describe",
    "placed",
    "read_section",
]

# Bounds of the sampling periods. 200 ms: GPM samples lie more than 100 ms apart (nvml.h,
# nvmlGpmSampleGet), and a sweep of 8 GPUs takes up to 40 ms. 60 s: beyond it a rate over five minutes,
# as dashboards take it, rests on less than five values.
_FAST_BOUNDS = (0.2, 60.0)
_LINKS_BOUNDS = (0.2, 600.0)
_SLOW_BOUNDS = (0.2, 3600.0)
# 60 s: as for the fast cadence. 1 s: an engine renders its metrics in its own event loop.
_SERVING_BOUNDS = (1.0, 60.0)


def _duration(bounds: tuple[float, float], default: str) -> Key:
    return Key(lambda text: values.duration_seconds(text, *bounds), f"a duration such as {default}")


def _finish_sampling(read: Mapping[str, object]) -> Sampling:
    """Let defaults follow what was written, so that a slower cadence is never faster than a faster one."""
    chosen = msgspec.convert({f"{key}_seconds": value for key, value in read.items()}, dict[str, float])
    default = Sampling()
    fast = chosen.get("fast_seconds", default.fast_seconds)
    links = chosen.get("links_seconds", max(default.links_seconds, fast))
    slow = chosen.get("slow_seconds", max(default.slow_seconds, links))
    for key, seconds, than, lowest in (("links", links, "fast", fast), ("slow", slow, "links", links)):
        if seconds < lowest:
            raise ConflictError(
                key,
                f"{values.show_duration(seconds)} is shorter than sampling.{than}"
                f" ({values.show_duration(lowest)}); it must be at least as long",
            )
    serving = chosen.get("serving_seconds", default.serving_seconds)
    return Sampling(fast_seconds=fast, links_seconds=links, slow_seconds=slow, serving_seconds=serving)


def _finish_prometheus(read: Mapping[str, object]) -> PrometheusSettings:
    return msgspec.convert(read, PrometheusSettings)


def _finish_log(read: Mapping[str, object]) -> LogSettings:
    return msgspec.convert(read, LogSettings)


def _finish_agent(read: Mapping[str, object]) -> AgentConfiguration:
    configuration = msgspec.convert(read, AgentConfiguration)
    if configuration.serving:
        check_endpoints(configuration.serving)
    return configuration


def _one_of(valid: Sequence[str]) -> Key:
    return Key(lambda text: values.choice(text, valid), f"one of {', '.join(valid)}")


def _level(text: str) -> Level:
    return Level[values.choice(text, _LEVELS).upper()]


_LEVELS = tuple(level.name.lower() for level in Level)
NOT_YET = "is not supported by this version of rackwatt; remove it"
_OF_THE_RACK_SERVICE = "belongs to the rack service, `rackwatt rack`; remove it"

SAMPLING = Section(
    {
        "fast": _duration(_FAST_BOUNDS, "1s"),
        "links": _duration(_LINKS_BOUNDS, "10s"),
        "slow": _duration(_SLOW_BOUNDS, "60s"),
        "serving": _duration(_SERVING_BOUNDS, "5s"),
    },
    _finish_sampling,
)

PROMETHEUS = Section({"enabled": Key(values.boolean, "true or false")}, _finish_prometheus)

LOG = Section(
    {
        "format": _one_of(logs.FORMATS),
        "level": _one_of(logs.LEVELS),
    },
    _finish_log,
)


def agent_section(platforms: Sequence[str]) -> Section:
    """Make the table of an agent's keys.

    Args:
        platforms: Names of the profiles that `platform` can take besides `auto`.

    Returns:
        The table.
    """
    return Section(
        {
            "rack": Key(values.identifier, "a name such as r01"),
            "node": Key(values.identifier, "a name such as n03"),
            "platform": _one_of([AUTOMATIC_PLATFORM, *platforms]),
            "listen": Key(values.listen_address, "an address such as 0.0.0.0:10072"),
            "state_dir": Key(values.absolute_path, "a path such as /var/lib/rackwatt"),
            "sampling": SAMPLING,
            "level": Key(
                lambda text: Level[values.choice(text, _LEVELS).upper()], f"one of {', '.join(_LEVELS)}"
            ),
            "checks": CHECK_TREE,
            "xids": XID_TREE,
            "prometheus": PROMETHEUS,
            "influxdb": INFLUXDB,
            "serving": SERVING_TREE,
            "log": LOG,
        },
        _finish_agent,
        refused=dict.fromkeys(("web_config", "api_token_file"), NOT_YET)
        | dict.fromkeys(
            ("racks", "poll", "witness", "prometheus_url", "agent_auth", "price", "redfish_poll"),
            _OF_THE_RACK_SERVICE,
        ),
    )
