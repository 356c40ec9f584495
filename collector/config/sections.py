"""The keys of a configuration as tables, and the reader that walks a document along them.

All mistakes of a file are found in one go, each with its own place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from collector import logs
from collector.catalog.spec import Level
from collector.config import values
from collector.config.document import ListNode, MappingNode, Node, Place, Scalar, show
from collector.config.schema import (
    AUTOMATIC_PLATFORM,
    AgentConfiguration,
    LogSettings,
    PrometheusSettings,
    Sampling,
)

Finish = Callable[[Mapping[str, object]], object]
"""Makes a section's settings from the values that were written; raises ConflictError."""


class ConflictError(ValueError):
    """Values of a section that are right alone and wrong together.

    Attributes:
        key: Key whose value is to be changed.
    """

    def __init__(self, key: str, message: str) -> None:
        """Keep the key beside the sentence."""
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class Key:
    """A key with one value.

    Attributes:
        read: Makes the value from the text; raises ValueError with what is wrong and what would be right.
        expects: What stands here, for whoever wrote a list or nothing at all.
    """

    read: Callable[[str], object]
    expects: str


@dataclass(frozen=True, slots=True)
class Section:
    """Keys that stand together.

    Attributes:
        keys: Keys and sections by the name that is written.
        finish: Makes the settings from the values that were written.
        refused: Keys that are known and not available, with the reason.
    """

    keys: Mapping[str, Key | Section]
    finish: Finish
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One thing that is wrong in a document, ordered by its place."""

    place: Place
    text: str


def read_section(node: MappingNode, section: Section, path: str = "") -> tuple[object, list[Mistake]]:
    """Read a mapping along a table.

    Args:
        node: What was written.
        section: What may be written.
        path: Keys that lead here, with a dot after each.

    Returns:
        The settings, None if there are mistakes; and the mistakes.
    """
    read: dict[str, object] = {}
    mistakes: list[Mistake] = []
    for key, value in node.entries:
        try:
            mistakes += _read_entry(key, value, section, path, read)
        except ValueError as error:
            mistakes.append(Mistake(value.place, f"{path}{key.text}: {error}"))
    if mistakes:
        return None, mistakes
    try:
        return section.finish(read), []
    except ConflictError as error:
        place = next((value.place for key, value in node.entries if key.text == error.key), node.place)
        return None, [Mistake(place, f"{path}{error.key}: {error}")]


def _read_entry(
    key: Scalar, value: Node, section: Section, path: str, read: dict[str, object]
) -> list[Mistake]:
    """Read one key with its value into `read`; raises ValueError for what is wrong with the value."""
    if key.text in section.refused:
        return [Mistake(key.place, f"{path}{key.text}: {section.refused[key.text]}")]
    entry = section.keys.get(key.text)
    if entry is None:
        written = key.text if values.IDENTIFIER.fullmatch(key.text) else show(key.text)
        return [Mistake(key.place, f"{path}{written}: unknown key; {values.nearest(key.text, section.keys)}")]
    if isinstance(entry, Key):
        read[key.text] = entry.read(_text(value, entry.expects))
        return []
    if isinstance(value, MappingNode):
        read[key.text], mistakes = read_section(value, entry, f"{path}{key.text}.")
        return mistakes
    raise ValueError(f"expected keys ({', '.join(entry.keys)}), found {_describe(value)}")


def _text(value: Node, expects: str) -> str:
    if not isinstance(value, Scalar) or value.is_empty:
        raise ValueError(f"expected {expects}, found {_describe(value)}")
    return value.text


def _describe(value: Node) -> str:
    if isinstance(value, ListNode):
        return "a list"
    if isinstance(value, MappingNode):
        return "keys"
    return "nothing" if value.is_empty else show(value.text)


# Bounds of the sampling periods. 200 ms: GPM samples lie more than 100 ms apart (nvml.h,
# nvmlGpmSampleGet), and a sweep of 8 GPUs takes up to 40 ms. 60 s: beyond it a rate over five minutes,
# as dashboards take it, rests on less than five values.
_FAST_BOUNDS = (0.2, 60.0)
_LINKS_BOUNDS = (0.2, 600.0)
_SLOW_BOUNDS = (0.2, 3600.0)


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
    return Sampling(fast_seconds=fast, links_seconds=links, slow_seconds=slow)


def _finish_prometheus(read: Mapping[str, object]) -> PrometheusSettings:
    return msgspec.convert(read, PrometheusSettings)


def _finish_log(read: Mapping[str, object]) -> LogSettings:
    return msgspec.convert(read, LogSettings)


def _finish_agent(read: Mapping[str, object]) -> AgentConfiguration:
    return msgspec.convert(read, AgentConfiguration)


def _one_of(valid: Sequence[str]) -> Key:
    return Key(lambda text: values.choice(text, valid), f"one of {', '.join(valid)}")


def _level(text: str) -> Level:
    return Level[values.choice(text, _LEVELS).upper()]


_LEVELS = tuple(level.name.lower() for level in Level)
_NOT_YET = "is not supported by this version of rackwatt; remove it"
_OF_THE_RACK_SERVICE = "belongs to the rack service, which this version of rackwatt does not have; remove it"

SAMPLING = Section(
    {
        "fast": _duration(_FAST_BOUNDS, "1s"),
        "links": _duration(_LINKS_BOUNDS, "10s"),
        "slow": _duration(_SLOW_BOUNDS, "60s"),
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
            "prometheus": PROMETHEUS,
            "log": LOG,
        },
        _finish_agent,
        refused=dict.fromkeys(("checks", "influxdb", "serving", "web_config", "api_token_file"), _NOT_YET)
        | dict.fromkeys(
            ("racks", "poll", "witness", "prometheus_url", "agent_auth", "price"), _OF_THE_RACK_SERVICE
        ),
    )


def placed(mistakes: Sequence[Mistake], name: str) -> Iterator[str]:
    """Write mistakes one a line, in the order of the file, each with its place."""
    for mistake in sorted(mistakes):
        yield f"{name}:{mistake.place.line}:{mistake.place.column}: {mistake.text}"
