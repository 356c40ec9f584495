"""One agent as a rack service knows it: what it said last, whether it can be believed, what to ask next.

No network and no clock here: the poller brings both.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import UnsetType

from collector.health.rack_types import NodeView, Poll
from collector.health.samples import NO_SAMPLES, Samples
from collector.model import Event, HistogramSample
from collector.sources.peers.document import Document, PeerError
from collector.sources.peers.table import PeerTable, read_table
from collector.sources.peers.view import event, histograms, node_view

GOOD_AGE_SECONDS = 5.0
"""Oldest fast data of a good poll (CONTRACTS §3)."""

CLOCK_SECONDS = 86_400
"""How far an agent's clock may be from ours, in either direction, before what it says is refused: a day. A
host without its real-time clock says 1970; one in a wrong time zone is 14 hours off at most."""

MAXIMUM_PENDING_EVENTS = 10_000
"""Events that one agent may have waiting for the next evaluation, at most a second away."""

_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where the agent of an expected node is to be found.

    Attributes:
        rack: Rack to which the node is expected to belong.
        node: Name of the node.
        host: Host name or IP address, without brackets.
        port: TCP port of the agent.
    """

    rack: str
    node: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as in a URL: `n01:10072`, `[fd00::1]:10072`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Answered(enum.Enum):
    """What became of an answer."""

    TAKEN = "taken"
    ASK_AGAIN = "ask_again"
    """Taken as far as it goes; what is missing comes with the next query."""


class Peer:
    """The newest state of one agent.

    Attributes:
        address: Where it is.
        error: Why the newest poll was not good, in words; empty if it was.
        view: Newest Snapshot that could be used; None if there never was one.
        last_good_ns: When the last good poll was; None if never.
        polled: Whether a poll has ended since the start, good or not.
    """

    def __init__(self, address: PeerAddress) -> None:
        """Begin without knowing anything of the agent."""
        self.address = address
        self.error = "not polled yet"
        self.polled = False
        self.view: NodeView | None = None
        self.last_good_ns: int | None = None
        self._table: PeerTable | None = None
        self._samples = NO_SAMPLES
        self._histograms: tuple[HistogramSample, ...] = ()
        self._cursor = 0
        self._agent_id = ""
        self._sequence = -1
        self._sequence_since = 0.0
        self._events: list[Event] = []

    def query(self) -> str:
        """Return the query string that asks for what is not known yet."""
        # Both are digits and letters, checked when they came.
        after = f"after={self._cursor}"
        return after if self._table is None else f"{after}&slots={self._table.digest}"

    def take(
        self,
        document: Document,
        *,
        monotonic: float,
        wall_ns: int,
        claim: Callable[[str], str] = lambda _: "",
    ) -> Answered:
        """Take over an answer.

        Args:
            document: The answer, decoded.
            monotonic: Now, in seconds of the monotonic clock.
            wall_ns: Now, in nanoseconds of Unix time.
            claim: Notes that this node's agent has an `agent_id`; returns the address that has it already, or
                nothing.

        Returns:
            ASK_AGAIN if the next query brings what is missing; nothing is concluded then.

        Raises:
            PeerError: The answer cannot be believed; nothing of it was taken.
        """
        self._check_names(document)
        _check_clock(document.time_ns, wall_ns)
        if other := claim(document.agent_id):
            raise PeerError(f"the same agent answers at {other}, too; every node needs an address of its own")
        if document.agent_id != self._agent_id and self._begin_anew(document.agent_id):
            return Answered.ASK_AGAIN
        table = self._table_for(document)
        if table is None:
            return Answered.ASK_AGAIN
        if len(document.values) != len(table):
            self._table = None
            raise PeerError(f"the Snapshot has {len(document.values)} values for {len(table)} series")
        taken = histograms(document.histograms)
        self._table = table
        age = self._fast_age(document, monotonic)
        self.view = node_view(document, table, age)
        self._samples = Samples(table.samples, document.values)
        self._histograms = taken
        self._take_events(document, wall_ns)
        self.error = self._why_not_good(document, age)
        if not self.error:
            self.last_good_ns = wall_ns
        return Answered.TAKEN

    def fail(self, reason: str) -> None:
        """Note that a poll brought nothing that could be used."""
        self.error = reason
        self._samples = NO_SAMPLES
        self._histograms = ()

    def poll(self, witness: bool | None, *, with_events: bool = True) -> Poll:
        """Return what is known.

        Args:
            witness: What a second witness says of the host.
            with_events: Whether to hand over the events that are new since this was last asked; else they
                stay for the next time.
        """
        events: tuple[Event, ...] = ()
        if with_events and self._events:
            events, self._events = tuple(self._events), []
        return Poll(
            node=self.address.node,
            address=self.address.authority,
            view=self.view,
            last_good_ns=self.last_good_ns,
            error=self.error,
            witness=witness,
            samples=self._samples,
            histograms=self._histograms,
            events=events,
        )

    def _begin_anew(self, agent_id: str) -> bool:
        """Note that the agent was restarted; tell whether the answer leaves out events of its new stream."""
        cursor, self._cursor = self._cursor, 0
        self._agent_id, self._sequence = agent_id, -1
        return cursor != 0

    def _check_names(self, document: Document) -> None:
        for what, said, expected in (
            ("rack", document.rack, self.address.rack),
            ("node", document.node, self.address.node),
        ):
            if said != expected:
                raise PeerError(
                    f"the agent says that its {what} is {said!r}, but {expected!r} is expected at "
                    f"{self.address.authority}; correct the agent's configuration or the rack service's"
                )

    def _table_for(self, document: Document) -> PeerTable | None:
        """Return the table of an answer: the one it brings, or the one that is held; None to ask for it."""
        if not isinstance(document.slots, UnsetType):
            return read_table(document.slots_hash, document.slots)
        if self._table is None or self._table.digest != document.slots_hash:
            self._table = None
        return self._table

    def _fast_age(self, document: Document, monotonic: float) -> float | None:
        """Return the age of the fast data; a Snapshot that is answered again and again grows old."""
        if document.seq != self._sequence:
            self._sequence, self._sequence_since = document.seq, monotonic
        age = document.age_seconds.get("fast")
        return None if age is None else max(age, monotonic - self._sequence_since)

    def _take_events(self, document: Document, wall_ns: int) -> None:
        """Queue what is new and possible; what does not fit is asked for again by its cursor."""
        latest_ns = wall_ns + CLOCK_SECONDS * _NANOSECONDS
        for item in document.events.items:
            if item.cursor <= self._cursor:
                continue
            if len(self._events) >= MAXIMUM_PENDING_EVENTS:
                return
            self._cursor = item.cursor
            if 0 < item.time_ns <= latest_ns:
                self._events.append(event(item))

    def _why_not_good(self, document: Document, age: float | None) -> str:
        if not document.nvml_up:
            return document.reason or "the agent cannot read the GPUs through NVML"
        if age is None:
            return "the agent has not read the GPUs yet"
        if age > GOOD_AGE_SECONDS:
            return f"the fast data are {age:.1f} s old; {GOOD_AGE_SECONDS:.0f} s at most are good"
        return ""


def _check_clock(time_ns: int, wall_ns: int) -> None:
    off = (time_ns - wall_ns) / _NANOSECONDS
    if abs(off) > CLOCK_SECONDS:
        raise PeerError(
            f"the agent's clock says {_date(time_ns)}, {abs(off) / 86_400:.1f} days "
            f"{'ahead of' if off > 0 else 'behind'} ours; set the clock of its host"
        )


def _date(time_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ns // _NANOSECONDS, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return f"{time_ns} ns"
