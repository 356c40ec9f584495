"""The key `influxdb`: a server that points are written to, what is written, and the spool before it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from collector.catalog.spec import Cadence, Level
from collector.config import values
from collector.config.document import ListNode, MappingNode, Node, Scalar, show
from collector.config.reading import ConflictError, Key, Mistake, Section, Tree, describe, unexpected
from collector.config.schema import InfluxdbSetting, SpoolSetting
from collector.config.urls import http_url, split

_LEVELS = tuple(level.name.lower() for level in Level)
_CADENCES = {cadence.value: cadence for cadence in Cadence}

# Of a period: the agent has a Snapshot each 200 ms at most. 1 h: what is rarer is no time series.
_PERIOD_BOUNDS = (0.1, 3600.0)
# 4 MiB: some minutes of one node. 1 TiB: no node has more to spare for it.
_SPOOL_BYTES = (4 * 2**20, 2**40)
# 1 min: what is shorter is no spool. A year: no bucket of telemetry keeps more.
_SPOOL_AGE = (60.0, 366 * 86_400.0)
_MAXIMUM_FAMILIES = 100
_FAMILY = re.compile(r"[a-z0-9_*?]{1,64}")
_MAXIMUM_NAME = 200
"""Longest name of a bucket or an organization (chosen)."""


def _address(text: str) -> str:
    parts = split(http_url(text))
    if parts.query:
        raise ValueError(f"{show(text)}: what follows '?' cannot be kept; give org and bucket as keys")
    if parts.path.rstrip("/").endswith("/write"):
        raise ValueError(f"{show(text)}: the write path is added by itself; leave it out")
    return text.rstrip("/")


def _name(text: str) -> str:
    if not text.isprintable() or len(text) > _MAXIMUM_NAME:
        raise ValueError(f"{show(text)} is not a name: 1 to {_MAXIMUM_NAME} characters that can be printed")
    return text


def _family(text: str) -> str:
    if _FAMILY.fullmatch(text) is None:
        raise ValueError(
            f"{show(text)} is not a family: a measurement such as nvlink, or a pattern for names of metrics "
            "such as gpu_power_*"
        )
    return text


def _read_families(node: Node, path: str) -> tuple[object, list[Mistake]]:
    if not isinstance(node, ListNode) or not node.items:
        raise unexpected("a list such as [gpu, nvlink]", node)
    if len(node.items) > _MAXIMUM_FAMILIES:
        raise ValueError(f"{len(node.items)} families; {_MAXIMUM_FAMILIES} at most are allowed")
    families: list[str] = []
    mistakes: list[Mistake] = []
    for item in node.items:
        try:
            families.append(_family(_word(item)))
        except ValueError as error:
            mistakes.append(Mistake(item.place, f"{path.rstrip('.')}: {error}"))
    return tuple(families), mistakes


def _read_periods(node: Node, path: str) -> tuple[object, list[Mistake]]:
    if not isinstance(node, MappingNode):
        raise unexpected("periods such as {fast: 1s, links: 10s}", node)
    if len(node.entries) > _MAXIMUM_FAMILIES:
        raise ValueError(f"{len(node.entries)} periods; {_MAXIMUM_FAMILIES} at most are allowed")
    periods: dict[str, float] = {}
    mistakes: list[Mistake] = []
    for key, value in node.entries:
        try:
            periods[_family(key.text)] = values.duration_seconds(_word(value), *_PERIOD_BOUNDS)
        except ValueError as error:
            mistakes.append(Mistake(value.place, f"{path}{show(key.text)}: {error}"))
    return periods, mistakes


def _word(node: Node) -> str:
    if not isinstance(node, Scalar) or node.is_empty:
        raise ValueError(f"expected a word, found {describe(node)}")
    return node.text


def _finish(read: Mapping[str, object]) -> InfluxdbSetting:
    for key, example in (("url", "http://influxdb:8086"), ("bucket", "gpu")):
        if key not in read:
            raise ConflictError(key, f"is missing; write one such as {example}")
    url = read["url"]
    if "ca_file" in read and isinstance(url, str) and not url.startswith("https://"):
        raise ConflictError("ca_file", "stands beside an address of http, which has no certificate")
    periods = read.get("periods")
    chosen = periods if isinstance(periods, dict) else {}
    settings = {key: value for key, value in read.items() if key != "periods"} | {
        "periods_seconds": {key: seconds for key, seconds in chosen.items() if key in _CADENCES},
        "periods_of": tuple((key, seconds) for key, seconds in chosen.items() if key not in _CADENCES),
    }
    return msgspec.convert(settings, InfluxdbSetting)


SPOOL = Section(
    {
        "path": Key(values.absolute_path, "a path such as /var/lib/rackwatt/spool"),
        "max_bytes": Key(lambda text: values.byte_count(text, *_SPOOL_BYTES), "a size such as 512MiB"),
        "max_age": Key(lambda text: values.duration_seconds(text, *_SPOOL_AGE), "a duration such as 7d"),
    },
    lambda read: msgspec.convert(
        {"max_age_seconds" if key == "max_age" else key: value for key, value in read.items()}, SpoolSetting
    ),
)

INFLUXDB = Section(
    {
        "url": Key(_address, "an address such as http://influxdb:8086"),
        "org": Key(_name, "a name such as ops"),
        "bucket": Key(_name, "a name such as gpu"),
        "token_file": Key(values.absolute_path, "a path such as /etc/rackwatt/influx.token"),
        "ca_file": Key(values.absolute_path, "a path such as /etc/rackwatt/ca.pem"),
        "level": Key(
            lambda text: Level[values.choice(text, _LEVELS).upper()], f"one of {', '.join(_LEVELS)}"
        ),
        "families": Tree(_read_families),
        "exclude": Tree(_read_families),
        "periods": Tree(_read_periods),
        "events": Key(values.boolean, "true or false"),
        "spool": SPOOL,
    },
    _finish,
)
