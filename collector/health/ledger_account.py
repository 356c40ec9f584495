"""What the ledger keeps in memory of one rack: its open intervals and its counters. Yields SQL, runs none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from collector.health.availability import OPERATING_STATES
from collector.health.incidents import Incident, IncidentBook
from collector.health.ledger_schema import (
    ADD_EVENT,
    CLOSE_NODE_STATE,
    CLOSE_VERDICT,
    OPEN_NODE_STATE,
    OPEN_VERDICT,
    PUT_INCIDENT,
)
from collector.health.rack_types import NodeStatus, RackStatus
from collector.health.states import NodeState, Verdict
from collector.health.verdict import CliqueCount
from collector.model import Event

Statement = tuple[str, tuple[str | int | None, ...]]
"""SQL and its parameters."""

OPERATING = "node_operating"
DOWN = "node_down"
INCIDENTS = "incidents"

_LARGEST = 2**63 - 1
"""Largest number that SQLite stores (sqlite.org/datatype3.html)."""
_MAXIMUM_TEXT = 1024
_MAXIMUM_WORD = 128


def verdict_counter(verdict: Verdict) -> str:
    """Return the name under which the time of a verdict is counted, in nanoseconds."""
    return f"verdict_{verdict.value}"


@dataclass(frozen=True, slots=True)
class _OpenVerdict:
    verdict: Verdict
    min_block: int
    cliques: str
    starts_ns: int


@dataclass(frozen=True, slots=True)
class _OpenState:
    state: NodeState
    starts_ns: int


class RackAccount:
    """Open intervals and counters of one rack.

    Attributes:
        counters: Nanoseconds by verdict, of operating and of down nodes; number of incidents.
        last_ns: Until when everything is accounted for; None if nothing ever was.
    """

    def __init__(
        self,
        rack: str,
        book: IncidentBook,
        *,
        maximum_gap_ns: int,
        counters: Mapping[str, int] | None = None,
        last_ns: int | None = None,
        verdict: str = "",
        states: Mapping[str, str] | None = None,
    ) -> None:
        """Begin a session.

        Args:
            rack: The rack.
            book: Incidents of all racks.
            maximum_gap_ns: Longest time between two records over which the earlier one is believed.
            counters: What was counted in earlier sessions.
            last_ns: Until when earlier sessions accounted for.
            verdict: Verdict that the last session ended with; empty if there was none.
            states: State of each node that the last session ended with.
        """
        self.counters: Counter[str] = Counter(counters or {})
        self.last_ns = last_ns
        self._rack = rack
        self._book = book
        self._maximum_gap_ns = maximum_gap_ns
        self._session = False
        self._open: _OpenVerdict | None = None
        self._states: dict[str, _OpenState] = {}
        self._said_verdict = verdict
        self._said_states = dict(states or {})
        self._said_latched: dict[str, bool] = {}

    def record(self, status: RackStatus) -> Iterator[Statement]:
        """Account for the time since the last record by what it said, and take in what holds from now on.

        Time that was not watched, before the first record of a session or beyond the longest gap, is
        accounted for by nothing. A clock that is behind the last record counts as standing still, so that no
        interval is negative and none overlaps another.
        """
        now = status.observed_ns if self.last_ns is None else max(status.observed_ns, self.last_ns)
        if self._session and self.last_ns is not None:
            if now - self.last_ns > self._maximum_gap_ns:
                yield from self._close_all(self.last_ns)
            else:
                self._count(now - self.last_ns)
        yield from self._record_verdict(status, now)
        yield from self._record_nodes(status, now)
        self.last_ns, self._session = now, True

    def restate(self, floor_ns: int) -> Iterator[Statement]:
        """Say again what is open, for a file that does not have it.

        Args:
            floor_ns: Until when the file accounts for the rack already; 0 for a new file.
        """
        if self._open is not None:
            own = self._open
            starts = max(own.starts_ns, floor_ns)
            yield OPEN_VERDICT, (self._rack, starts, own.verdict.value, own.min_block, own.cliques)
        for node, state in self._states.items():
            yield OPEN_NODE_STATE, (self._rack, node, max(state.starts_ns, floor_ns), state.state.value)

    def _count(self, elapsed_ns: int) -> None:
        if self._open is not None:
            self.counters[verdict_counter(self._open.verdict)] += elapsed_ns
        for own in self._states.values():
            if own.state in OPERATING_STATES:
                self.counters[OPERATING] += elapsed_ns
            elif own.state is NodeState.FAILED:
                self.counters[DOWN] += elapsed_ns

    def _close_all(self, at_ns: int) -> Iterator[Statement]:
        yield CLOSE_VERDICT, (at_ns, self._rack)
        for node in self._states:
            yield CLOSE_NODE_STATE, (at_ns, self._rack, node)
        self._open = None
        self._states = {}

    def _record_verdict(self, status: RackStatus, now: int) -> Iterator[Statement]:
        cliques = write_cliques(status.cliques.values())
        opened = _OpenVerdict(status.verdict, status.min_block, cliques, now)
        before = self._open
        if before is None or (before.verdict, before.min_block, before.cliques) != (
            opened.verdict,
            opened.min_block,
            opened.cliques,
        ):
            yield CLOSE_VERDICT, (now, self._rack)
            yield OPEN_VERDICT, (self._rack, now, status.verdict.value, status.min_block, cliques)
            self._open = opened
        if self._said_verdict not in ("", status.verdict.value):
            why = f": {status.reasons[0].text}" if status.reasons else ""
            yield self._own_event("verdict", "", now, f"{self._said_verdict} → {status.verdict.value}{why}")
        self._said_verdict = status.verdict.value

    def _record_nodes(self, status: RackStatus, now: int) -> Iterator[Statement]:
        for node in status.nodes:
            before = self._states.get(node.node)
            if before is None or before.state is not node.state:
                yield CLOSE_NODE_STATE, (now, self._rack, node.node)
                yield OPEN_NODE_STATE, (self._rack, node.node, now, node.state.value)
                self._states[node.node] = _OpenState(node.state, now)
            yield from self._record_incident(node, now)
            yield from self._record_events(node, now)
        for gone in self._states.keys() - {node.node for node in status.nodes}:
            yield CLOSE_NODE_STATE, (now, self._rack, gone)
            del self._states[gone]

    def _record_incident(self, node: NodeStatus, now: int) -> Iterator[Statement]:
        incident, new = self._book.observe(self._rack, node, now)
        if incident is not None:
            self.counters[INCIDENTS] += new
            yield put_incident(incident)

    def _record_events(self, node: NodeStatus, now: int) -> Iterator[Statement]:
        for event in node.poll.events:
            yield from _agent_event(self._rack, node.node, event)
        said = self._said_states.get(node.node, "")
        if said not in ("", node.state.value):
            why = f": {node.reasons[0].text}" if node.reasons else ""
            yield self._own_event("node_state", node.node, now, f"{said} → {node.state.value}{why}")
        self._said_states[node.node] = node.state.value
        if node.latched and self._said_latched.get(node.node) is False:
            yield self._own_event("latched", node.node, now, "held out: it failed too often")
        self._said_latched[node.node] = node.latched

    def _own_event(self, kind: str, node: str, time_ns: int, text: str) -> Statement:
        return ADD_EVENT, (self._rack, node, time_ns, kind, "", "", None, storable(text, _MAXIMUM_TEXT))


def _agent_event(rack: str, node: str, event: Event) -> Iterator[Statement]:
    if 0 <= event.time_ns <= _LARGEST:
        code = event.code if event.code is not None and abs(event.code) <= _LARGEST else None
        words = (storable(word, _MAXIMUM_WORD) for word in (event.kind, event.gpu_uuid, event.gpu))
        yield ADD_EVENT, (rack, node, event.time_ns, *words, code, storable(in_words(event), _MAXIMUM_TEXT))


def in_words(event: Event) -> str:
    """Say what the kernel log told of an event beyond its number; empty if it told nothing."""
    link = f"on link {event.link}" if event.link is not None else ""
    what = " ".join(part for part in (event.severity, event.subcode, link) if part)
    return ": ".join(part for part in (what, event.detail) if part)


def put_incident(incident: Incident) -> Statement:
    """Return what writes an incident."""
    own = incident
    text = storable(own.text, _MAXIMUM_TEXT)
    check = storable(own.check, _MAXIMUM_WORD)
    return PUT_INCIDENT, (own.rack, own.node, own.starts_ns, own.ends_ns, check, text)


def storable(text: str, length: int) -> str:
    """Return a text as SQLite can store it: bounded, without NUL and lone surrogates."""
    bounded = text[:length].replace("\x00", "�")
    return bounded.encode("utf-8", errors="replace").decode("utf-8")


def write_cliques(cliques: Iterable[CliqueCount]) -> str:
    """Write counts so that equal ones have equal text."""
    return json.dumps(sorted([own.schedulable, own.unknown, own.maintenance] for own in cliques))


def read_cliques(text: str) -> tuple[CliqueCount, ...]:
    """Read counts.

    Raises:
        ValueError: The text is none that `write_cliques` wrote.
    """
    read = json.loads(text)
    if not isinstance(read, list):
        raise ValueError(f"{text!r} is no list")  # noqa: TRY004 - one error for every damaged text
    cliques = []
    for numbers in read:
        if not (isinstance(numbers, list) and len(numbers) == 3 and all(type(own) is int for own in numbers)):
            raise ValueError(f"{numbers!r} are not three whole numbers")
        cliques.append(CliqueCount(*numbers))
    return tuple(cliques)
