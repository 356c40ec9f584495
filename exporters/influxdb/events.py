"""Events as points of the measurement `event`, each once, at the time of its record."""

from __future__ import annotations

from collections import OrderedDict
from itertools import takewhile

from collector.model import Event, Snapshot
from exporters.influxdb.escaping import string_field
from exporters.influxdb.schema import EVENT_MEASUREMENT, point_prefix

_REMEMBERED = 1000
"""Points that are remembered for telling equal ones apart: as many as an agent keeps events."""


class EventWriter:
    """Writes the events that Snapshots of one process bring.

    Two events of the same kind, GPU and time would be one point. From the second on they have the tag
    `sequence`, 1, 2, 3 …: a time that is moved by a nanosecond would be a lie, and a tag that is new with
    every event, such as its cursor, a series for each.
    """

    def __init__(self) -> None:
        """Begin with none written."""
        self._agent_id = ""
        self._cursor = 0
        self._alike: OrderedDict[tuple[str, int], int] = OrderedDict()

    def write(self, snapshot: Snapshot) -> list[str]:
        """Write the events that were not written yet, oldest first, each a line with its newline."""
        if snapshot.agent_id != self._agent_id:
            self._agent_id, self._cursor = snapshot.agent_id, 0
        # The newest stand last, and there is seldom a new one.
        unwritten = list(takewhile(lambda event: event.cursor > self._cursor, reversed(snapshot.events)))
        if unwritten:
            self._cursor = unwritten[0].cursor
        return [self._line(event, snapshot) for event in reversed(unwritten)]

    def _line(self, event: Event, snapshot: Snapshot) -> str:
        tags = (
            ("gpu", event.gpu),
            ("gpu_uuid", event.gpu_uuid),
            ("kind", event.kind),
            ("node", snapshot.node),
            ("rack", snapshot.rack),
        )
        number = self._number(point_prefix(EVENT_MEASUREMENT, tags), event.time_ns)
        start = point_prefix(EVENT_MEASUREMENT, (*tags, ("sequence", str(number) if number else "")))
        return f"{start} {','.join(_fields(event, snapshot.agent_id))} {event.time_ns}\n"

    def _number(self, start: str, time_ns: int) -> int:
        """Count the points before this one that have the same tags and time."""
        key = (start, time_ns)
        number = self._alike.pop(key, -1) + 1
        self._alike[key] = number
        if len(self._alike) > _REMEMBERED:
            self._alike.popitem(last=False)
        return number


def _fields(event: Event, agent_id: str) -> list[str]:
    integers = (("code", event.code), ("cursor", event.cursor), ("link", event.link))
    texts = (
        ("agent_id", agent_id),
        ("detail", event.detail),
        ("severity", event.severity),
        ("subcode", event.subcode),
    )
    return [
        *(f"{key}={number}i" for key, number in integers if number is not None),
        *(f"{key}={string_field(text)}" for key, text in texts if text),
    ]
