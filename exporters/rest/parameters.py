"""What requests may say: names, windows, blocks, times; each checked once, each mistake a sentence."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import Path
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from exporters.rest.models.common import NAME_PATTERN
from exporters.rest.problems import ProblemError, shown

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""A name of CONTRACTS §5."""

RackName = Annotated[Name, Path(description="Name of the rack.")]
NodeName = Annotated[Name, Path(description="Name of the node.")]
GpuUuid = Annotated[Name, Path(description="UUID of the GPU, as NVML gives it.")]
BaselineId = Annotated[Name, Path(description="Id of the baseline.")]
WindowId = Annotated[Name, Path(description="Id of the maintenance window.")]

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:]{8}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})")
"""RFC 3339 §5.6, as far as its shape goes."""
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

SHORTEST_WINDOW_SECONDS = 60
LONGEST_WINDOW_SECONDS = 400 * 86_400
"""A year, and what a yearly report needs beyond it."""

LARGEST_PAGE = 1000
_LARGEST_BLOCK = 1_000_000
_LARGEST_CURSOR = 2**63 - 1
_FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_TIME = datetime(2200, 1, 1, tzinfo=UTC)


def duration_seconds(text: str) -> int:
    """Read a duration such as `30s`, `15m`, `12h` or `30d`, in seconds.

    Raises:
        ValueError: It is none.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{shown(text)} is not a duration: write a number and s, m, h or d, such as 30d")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def _duration(text: str) -> str:
    duration_seconds(text)
    return text


Duration = Annotated[
    str, AfterValidator(_duration), Field(json_schema_extra={"pattern": "^[0-9]{1,9}[smhd]$"})
]
"""A duration as it was written."""


def _window(text: str) -> str:
    if not SHORTEST_WINDOW_SECONDS <= duration_seconds(text) <= LONGEST_WINDOW_SECONDS:
        raise ValueError(f"{text} is out of bounds: 1m to 400d is allowed")
    return text


Window = Annotated[Duration, AfterValidator(_window)]
"""A window back from now, as it was written."""


class _Query(BaseModel):
    """Query parameters: one that is not known is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid")


MinBlock = Annotated[
    int | None,
    Field(
        description="Nodes that the largest block must have: 1 to the rack's expected nodes.",
        ge=1,
        le=_LARGEST_BLOCK,
    ),
]


def _written(time: object) -> object:
    """Refuse numbers: seconds or milliseconds, nothing would tell."""
    if not isinstance(time, str) or _TIME.fullmatch(time) is None:
        raise ValueError("a time is written like 2026-11-30T10:00:00Z")
    return time


def _representable(time: datetime) -> datetime:
    if not _FIRST_TIME <= time < _LAST_TIME:
        raise ValueError("the time lies outside of 1970 to 2199")
    return time


Time = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_representable)]
"""A time with its zone, such as `2026-11-30T10:00:00Z`, that nanoseconds in 64 bits can hold."""


def unix_nanoseconds(time: datetime) -> int:
    """Count from the epoch, exactly."""
    return (time - _FIRST_TIME) // timedelta(microseconds=1) * 1000


class HealthQuery(_Query):
    """Of a rack's health."""

    min_block: MinBlock = None


class AvailabilityQuery(_Query):
    """Of a rack's availability."""

    window: Annotated[
        Window,
        Field(description="How far back from now, such as `12h` or `30d`; 1m to 400d.", examples=["30d"]),
    ] = "30d"
    min_block: MinBlock = None


class EfficiencyQuery(_Query):
    """Of a rack's efficiency."""

    window: Annotated[
        Window,
        Field(description="How far back from now, such as `5m` or `30d`; 1m to 400d.", examples=["5m"]),
    ] = "5m"


class BaselinesQuery(_Query):
    """Of baselines."""

    rack: Annotated[Name | None, Field(description="Only of this rack.")] = None


class NodeQuery(_Query):
    """Of a node."""

    rack: Annotated[Name | None, Field(description="Its rack, where several have such a node.")] = None


class WindowsQuery(_Query):
    """Of declared maintenance."""

    rack: Annotated[Name | None, Field(description="Only of this rack.")] = None


class EventsQuery(_Query):
    """Of events."""

    rack: Annotated[Name | None, Field(description="Only of this rack.")] = None
    node: Annotated[Name | None, Field(description="Only of nodes of this name.")] = None
    kind: Annotated[Name | None, Field(description="Only of this kind, such as `xid`.")] = None
    gpu_uuid: Annotated[Name | None, Field(description="Only of this GPU.")] = None
    since: Annotated[Time | None, Field(description="Only what happened at or after this time.")] = None
    until: Annotated[Time | None, Field(description="Only what happened before this time.")] = None
    cursor: Annotated[
        int | None,
        Field(description="Cursor: `next` of the page before this one.", ge=0, le=_LARGEST_CURSOR),
    ] = None
    limit: Annotated[int, Field(description="Most events of a page.", ge=1, le=LARGEST_PAGE)] = 100


def check_block(min_block: int | None, nodes: int) -> None:
    """Refuse a block that a rack of so many nodes cannot have.

    Raises:
        ProblemError: 422: it lies outside 1 to the number of expected nodes.
    """
    if min_block is not None and not 1 <= min_block <= nodes:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"query.min_block: {min_block} is not between 1 and {nodes}, the expected nodes of the rack.",
        )
