"""What is read from the ledger, as data. A row that cannot be read counts as not recorded, and is said."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collector.health.availability import IncidentCount, NodeInterval, VerdictInterval
from collector.health.incidents import Incident
from collector.health.ledger_account import Statement, read_cliques, storable
from collector.health.ledger_schema import PUT_WINDOW
from collector.health.ledger_usage import StoredRollup
from collector.health.maintenance import MaintenanceWindow
from collector.health.states import NodeState, Verdict

_logger = logging.getLogger("rackwatt.ledger")

_MAXIMUM_TEXT = 1024

# Intervals of a rack do not overlap, so the one that holds at the begin of a window is the last before it.
SELECT_VERDICTS = """
    SELECT rack, verdict, min_block, cliques, starts_ns, coalesce(ends_ns,
        (SELECT time_ns FROM heartbeats WHERE heartbeats.rack = verdicts.rack), starts_ns) FROM verdicts
    WHERE rack = :rack AND starts_ns < :ends AND starts_ns >= coalesce(
        (SELECT max(starts_ns) FROM verdicts WHERE rack = :rack AND starts_ns <= :starts), 0)
    ORDER BY starts_ns
"""
SELECT_NODE_STATES = """
    SELECT rack, node, state, starts_ns, coalesce(ends_ns,
        (SELECT time_ns FROM heartbeats WHERE heartbeats.rack = node_states.rack), starts_ns)
    FROM node_states
    WHERE rack = :rack AND starts_ns < :ends AND (ends_ns IS NULL OR ends_ns > :starts)
        AND (:node IS NULL OR node = :node)
    ORDER BY node, starts_ns
"""
SELECT_INCIDENTS = """
    SELECT rack, node, starts_ns, ends_ns, check_id, text FROM incidents
    WHERE (:rack IS NULL OR rack = :rack) AND (:node IS NULL OR node = :node)
        AND starts_ns < :ends AND (ends_ns IS NULL OR ends_ns >= :starts)
    ORDER BY starts_ns DESC, rack, node LIMIT :limit
"""
SELECT_LATEST_INCIDENTS = """
    SELECT rack, node, starts_ns, ends_ns, check_id, text FROM incidents AS own
    WHERE starts_ns = (SELECT max(starts_ns) FROM incidents WHERE rack = own.rack AND node = own.node)
"""
COUNT_INCIDENTS = """
    SELECT count(*) FILTER (WHERE starts_ns >= :starts AND starts_ns < :ends),
        count(*) FILTER (WHERE ends_ns >= :starts AND ends_ns < :ends),
        count(*) FILTER (WHERE starts_ns < :ends AND (ends_ns IS NULL OR ends_ns >= :ends))
    FROM incidents WHERE rack = :rack
"""
SELECT_EVENTS = """
    SELECT id, rack, node, time_ns, kind, gpu_uuid, gpu, code, text FROM events
    WHERE id < :before AND (:rack IS NULL OR rack = :rack) AND (:node IS NULL OR node = :node)
        AND (:kind IS NULL OR kind = :kind) AND (:gpu_uuid IS NULL OR gpu_uuid = :gpu_uuid)
        AND time_ns >= :starts AND time_ns < :ends
    ORDER BY id DESC LIMIT :limit
"""
SELECT_WINDOWS = """
    SELECT id, rack, nodes, starts_ns, ends_ns, created_ns, reason, created_by FROM maintenance
"""
SELECT_ROLLUPS = """
    SELECT length_seconds, starts_ns, data FROM rollups
    WHERE rack = :rack AND length_seconds = :length AND starts_ns >= :starts AND starts_ns < :ends
"""

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """Something that happened.

    Attributes:
        id: Number in the order of recording.
        rack: The rack.
        node: The node; empty for the rack as a whole.
        time_ns: When it happened, Unix nanoseconds.
        kind: What it is: an agent's (`xid`, `gpu_lost` …), or `verdict`, `node_state`, `latched`.
        gpu_uuid: The GPU, or empty.
        gpu: Its index for display, or empty.
        code: Number of the Xid; None for other kinds.
        text: In words, or empty.
    """

    id: int
    rack: str
    node: str
    time_ns: int
    kind: str
    gpu_uuid: str
    gpu: str
    code: int | None
    text: str


def _skipped(what: str, error: Exception) -> None:
    _logger.warning("the ledger has %s that cannot be read and counts as not recorded: %s", what, error)


def read_verdicts(rows: Iterable[Row]) -> Iterator[VerdictInterval]:
    """Read rows of SELECT_VERDICTS."""
    for row in rows:
        try:
            rack, verdict, min_block, cliques, starts_ns, ends_ns = row
            yield VerdictInterval(
                rack=_text(rack),
                verdict=Verdict(verdict),
                min_block=_number(min_block),
                cliques=read_cliques(_text(cliques)),
                starts_ns=_number(starts_ns),
                ends_ns=_number(ends_ns),
            )
        except ValueError as error:
            _skipped("an interval of a verdict", error)


def read_node_states(rows: Iterable[Row]) -> Iterator[NodeInterval]:
    """Read rows of SELECT_NODE_STATES."""
    for row in rows:
        try:
            rack, node, state, starts_ns, ends_ns = row
            yield NodeInterval(
                rack=_text(rack),
                node=_text(node),
                state=NodeState(state),
                starts_ns=_number(starts_ns),
                ends_ns=_number(ends_ns),
            )
        except ValueError as error:
            _skipped("an interval of a node's state", error)


def read_incidents(rows: Iterable[Row]) -> Iterator[Incident]:
    """Read rows of SELECT_INCIDENTS."""
    for row in rows:
        try:
            rack, node, starts_ns, ends_ns, check, text = row
            yield Incident(
                rack=_text(rack),
                node=_text(node),
                starts_ns=_number(starts_ns),
                ends_ns=None if ends_ns is None else _number(ends_ns),
                check=_text(check),
                text=_text(text),
            )
        except ValueError as error:
            _skipped("an incident", error)


def read_incident_count(row: Row) -> IncidentCount:
    """Read the row of COUNT_INCIDENTS."""
    begun, closed, still_open = map(_number, row)
    return IncidentCount(begun, closed, still_open)


def read_events(rows: Iterable[Row]) -> Iterator[LedgerEvent]:
    """Read rows of SELECT_EVENTS."""
    for row in rows:
        try:
            number, rack, node, time_ns, kind, gpu_uuid, gpu, code, text = row
            yield LedgerEvent(
                id=_number(number),
                rack=_text(rack),
                node=_text(node),
                time_ns=_number(time_ns),
                kind=_text(kind),
                gpu_uuid=_text(gpu_uuid),
                gpu=_text(gpu),
                code=None if code is None else _number(code),
                text=_text(text),
            )
        except ValueError as error:
            _skipped("an event", error)


def read_windows(rows: Iterable[Row]) -> Iterator[MaintenanceWindow]:
    """Read rows of SELECT_WINDOWS."""
    for row in rows:
        try:
            own, rack, nodes, starts_ns, ends_ns, created_ns, reason, created_by = row
            yield MaintenanceWindow(
                id=_text(own),
                rack=_text(rack),
                nodes=_names(_text(nodes)),
                starts_ns=_number(starts_ns),
                ends_ns=_number(ends_ns),
                created_ns=_number(created_ns),
                reason=_text(reason),
                created_by=_text(created_by),
            )
        except ValueError as error:
            _skipped("a maintenance window", error)


def read_rollups(rows: Iterable[Row]) -> Iterator[StoredRollup]:
    """Read rows of SELECT_ROLLUPS."""
    for row in rows:
        try:
            length_seconds, starts_ns, data = row
            yield StoredRollup(_number(length_seconds), _number(starts_ns), _text(data))
        except ValueError as error:
            _skipped("a roll-up", error)


def put_window(window: MaintenanceWindow) -> Statement:
    """Return what writes a window."""
    own = window
    reason, created_by = (storable(text, _MAXIMUM_TEXT) for text in (own.reason, own.created_by))
    times = (own.starts_ns, own.ends_ns, own.created_ns)
    return PUT_WINDOW, (own.id, own.rack, json.dumps(own.nodes), *times, reason, created_by)


def read_memory(text: str) -> dict[str, object]:
    """Read what a judge exported; empty if it cannot be read."""
    try:
        memory = json.loads(text)
    except ValueError as error:
        _skipped("the memory of a rack", error)
        return {}
    return memory if isinstance(memory, dict) else {}


def _names(text: str) -> tuple[str, ...]:
    names = json.loads(text)
    if not isinstance(names, list):
        raise ValueError(f"{text!r} is no list")  # noqa: TRY004 - one error for every damaged row
    return tuple(map(_text, names))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")  # noqa: TRY004 - one error for every damaged row
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")  # noqa: TRY004 - one error for every damaged row
    return value
