"""The ledger: what every rack's verdict and every node's state was, over restarts (SQLite, one writer)."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from collector.health.incidents import IncidentBook
from collector.health.ledger_account import (
    DOWN,
    INCIDENTS,
    OPERATING,
    RackAccount,
    Statement,
    put_incident,
    verdict_counter,
)
from collector.health.ledger_file import lock
from collector.health.ledger_queries import LedgerQueries
from collector.health.ledger_rows import (
    SELECT_LATEST_INCIDENTS,
    SELECT_ROLLUPS,
    SELECT_WINDOWS,
    Row,
    put_window,
    read_incidents,
    read_memory,
    read_rollups,
    read_windows,
)
from collector.health.ledger_schema import (
    FORGET_BASELINE,
    KEEP_NEWEST_EVENTS,
    PRUNE,
    PRUNE_ROLLUPS,
    PUT_BASELINE,
    PUT_HEARTBEAT,
    PUT_MEMORY,
    RAISE_COUNTER,
)
from collector.health.ledger_store import LedgerStore
from collector.health.ledger_usage import (
    KeptRollups,
    StoredRollup,
    UsageCounters,
    UsageUpdate,
    usage_counters,
)
from collector.health.maintenance import MaintenanceWindow
from collector.health.rack_types import RackStatus
from collector.health.states import Verdict

_logger = logging.getLogger("rackwatt.ledger")

_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS
_FAR_BEHIND_NS = 3600 * _SECOND_NS
"""A clock that is this far behind the ledger is said to be wrong."""
_LARGEST = 2**63 - 1
"""Largest number that SQLite stores (sqlite.org/datatype3.html)."""


@dataclass(frozen=True, slots=True)
class RackCounters:
    """What was counted of a rack since its ledger was begun; never runs back.

    Attributes:
        verdict_seconds: Time of each verdict.
        node_operating_seconds: Time of nodes READY or DEGRADED, summed.
        node_down_seconds: Time of nodes FAILED, summed.
        incidents: Incidents of nodes.
    """

    verdict_seconds: Mapping[Verdict, float]
    node_operating_seconds: float
    node_down_seconds: float
    incidents: int


KEEP_DAYS = 400.0
"""How long the past is kept: a year, and a month to compare it with."""

KEEP_MINUTES_DAYS = 7.0
"""How long roll-ups of minutes are kept (chosen): a week, ten thousand of each rack; those of hours stay as
long as everything else."""
_MINUTE_SECONDS = 60
_HOUR_SECONDS = 3600


class Ledger(LedgerQueries):
    """Keeps what was of all racks: verdicts, node states, incidents, events, maintenance, energy and tokens.

    What is recorded is at once in what is read, and on disk from the next `flush` on. Counters show what
    the last flush wrote, so that they do not run back over a crash; while the disk takes nothing they go on
    all the same, as counters that stand still would lie about every rack. A disk that is full costs
    durability, not the service: it is said once, and what waits is written when there is room. A file that
    turns out damaged is set aside.

    Calls must not overlap; all but the constructor, `flush`, what begins with `keep_` or `forget_`, `close`
    and the queries are in memory only.
    """

    def __init__(
        self,
        path: Path | None,
        now_ns: int,
        *,
        maximum_gap_seconds: float = 15.0,
        keep_days: float = KEEP_DAYS,
        maximum_events: int = 1_000_000,
    ) -> None:
        """Open the ledger, or begin one.

        Args:
            path: Its file; None to keep everything in memory only.
            now_ns: The present, Unix nanoseconds.
            maximum_gap_seconds: Longest time between two records of a rack over which the earlier one is
                believed: three poll intervals (CONTRACTS §3); longer is a gap.
            keep_days: What `prune` keeps.
            maximum_events: Events that `prune` keeps.

        Raises:
            ConfigurationError: Another process writes it, it cannot be opened, or it is not a ledger of ours.
        """
        self._path = path
        self._maximum_gap_ns = int(maximum_gap_seconds * _SECOND_NS)
        self._keep_ns = int(keep_days * _DAY_NS)
        self._maximum_events = maximum_events
        self._closed = False
        self._said_behind: set[str] = set()
        self._book = IncidentBook()
        self._accounts: dict[str, RackAccount] = {}
        self._shown: dict[str, Counter[str]] = {}
        self._windows: dict[str, MaintenanceWindow] = {}
        self._baselines: dict[str, str] = {}
        self._rollups = KeptRollups()
        self._memories: dict[str, str] = {}
        self._written_memories: dict[str, str] = {}
        self._lock: BinaryIO | None = lock(path) if path is not None else None
        try:
            self._store = LedgerStore(path, now_ns, self._load, self._restate)
        except BaseException:
            self._unlock()
            raise

    @property
    def durable(self) -> bool:
        """Whether the last flush reached the disk."""
        return self._store.durable

    def record(self, status: RackStatus, memory: Mapping[str, object] | None = None) -> None:
        """Take in what was made of a rack, with the events of its nodes' polls.

        Args:
            status: Newest status.
            memory: What the rack's judge exports, to be had again after a restart; None to keep the last.
        """
        account = self._account(status.rack)
        self._say_if_behind(status, account)
        self._store.run(account.record(status), status.observed_ns)
        if memory is not None:
            self._memories[status.rack] = json.dumps(memory, sort_keys=True)

    def add_usage(self, rack: str, update: UsageUpdate, now_ns: int) -> None:
        """Take in what changed of a rack's energy and tokens; it is on disk from the next `flush` on.

        Args:
            rack: The rack.
            update: Increases of counters, and roll-ups as they are now.
            now_ns: The present, as for `record`.
        """
        counters = self._account(rack).counters
        for name, amount in update.counters.items():
            # A counter is there from its first word on, and never runs back.
            counters[name] = min(counters[name] + max(amount, 0), _LARGEST)
        self._rollups.put(rack, update.rollups)

    def flush(self, now_ns: int) -> bool:
        """Write what was recorded to the disk; return whether it is there.

        Args:
            now_ns: The present, for the name of a file that must be set aside.
        """
        changed = {
            rack: memory
            for rack, memory in self._memories.items()
            if self._written_memories.get(rack) != memory
        }
        rollups = self._rollups.statements()
        durable = self._store.commit((*_put_memories(changed), *self._totals(), *rollups), now_ns)
        if durable:
            self._written_memories.update(changed)
            self._rollups.written()
        self._shown = {rack: account.counters.copy() for rack, account in self._accounts.items()}
        return durable

    def close(self, now_ns: int) -> None:
        """Write what waits, and let the file go. What is open stays so until the next session.

        A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self.flush(now_ns)
        self._store.close()
        self._unlock()

    def prune(self, now_ns: int) -> None:
        """Forget what is older than is to be kept. To be called about once a day."""
        before = now_ns - self._keep_ns
        self._store.run(((statement, (before,)) for statement in PRUNE), now_ns)
        minutes_before = now_ns - int(KEEP_MINUTES_DAYS * _DAY_NS)
        kept = ((_MINUTE_SECONDS, minutes_before), (_HOUR_SECONDS, before))
        self._store.run(((PRUNE_ROLLUPS, own) for own in kept), now_ns)
        self._store.run(((KEEP_NEWEST_EVENTS, (self._maximum_events,)),), now_ns)
        self._windows = {key: own for key, own in self._windows.items() if own.ends_ns >= before}

    def counters(self, rack: str) -> RackCounters:
        """Return what was counted of a rack; zeros for one that was never recorded."""
        own: Counter[str] = self._shown.get(rack, Counter())
        return RackCounters(
            verdict_seconds={verdict: own[verdict_counter(verdict)] / _SECOND_NS for verdict in Verdict},
            node_operating_seconds=own[OPERATING] / _SECOND_NS,
            node_down_seconds=own[DOWN] / _SECOND_NS,
            incidents=own[INCIDENTS],
        )

    def usage(self, rack: str) -> UsageCounters:
        """Return the energy and tokens that were counted of a rack, as the last flush wrote them."""
        return usage_counters(self._shown.get(rack, {}))

    def rollups(
        self, rack: str, length_seconds: int, starts_ns: int, ends_ns: int
    ) -> tuple[StoredRollup, ...]:
        """Return the roll-ups of a length that begin in a window, in order, as they were told last."""
        rows = self._select(SELECT_ROLLUPS, rack, length=length_seconds, starts=starts_ns, ends=ends_ns)
        found = {own.starts_ns: own for own in read_rollups(rows)}
        for own in self._rollups.waiting(rack, length_seconds, starts_ns, ends_ns):
            found[own.starts_ns] = own
        return tuple(found[starts] for starts in sorted(found))

    def baselines(self) -> tuple[str, ...]:
        """Return the baselines that are kept, in the order of their ids."""
        return tuple(self._baselines[own] for own in sorted(self._baselines))

    def keep_baseline(self, identity: str, data: str, now_ns: int) -> bool:
        """Keep a baseline, or its change, on disk at once; return whether it is there.

        Args:
            identity: Its id.
            data: What it says, in the words of who wrote it.
            now_ns: The present.
        """
        self._baselines[identity] = data
        self._store.run(((PUT_BASELINE, (identity, data)),), now_ns)
        return self.flush(now_ns)

    def forget_baseline(self, identity: str, now_ns: int) -> bool:
        """Forget a baseline, on disk at once; return whether that is so."""
        self._baselines.pop(identity, None)
        self._store.run(((FORGET_BASELINE, (identity,)),), now_ns)
        return self.flush(now_ns)

    def windows(self) -> tuple[MaintenanceWindow, ...]:
        """Return the maintenance windows that are kept."""
        return tuple(self._windows.values())

    def keep_window(self, window: MaintenanceWindow, now_ns: int) -> bool:
        """Keep a maintenance window, or its change, on disk at once; return whether it is there."""
        self._windows[window.id] = window
        self._store.run((put_window(window),), now_ns)
        return self.flush(now_ns)

    def memory(self, rack: str) -> dict[str, object]:
        """Return what the rack's judge exported, with `observed_ns`, until when the rack was watched."""
        memory = read_memory(self._memories[rack]) if rack in self._memories else {}
        last_ns = self._account(rack).last_ns
        return memory if last_ns is None else {**memory, "observed_ns": last_ns}

    def _account(self, rack: str) -> RackAccount:
        account = self._accounts.get(rack)
        if account is None:
            account = RackAccount(rack, self._book, maximum_gap_ns=self._maximum_gap_ns)
            self._accounts[rack] = account
        return account

    def _say_if_behind(self, status: RackStatus, account: RackAccount) -> None:
        behind = 0 if account.last_ns is None else account.last_ns - status.observed_ns
        if behind <= _FAR_BEHIND_NS:
            self._said_behind.discard(status.rack)
        elif status.rack not in self._said_behind:
            self._said_behind.add(status.rack)
            _logger.error(
                "the clock is %.1f hours behind what the ledger has of rack %s: no time is accounted for "
                "until it has caught up; set the clock, or move %s away if the clock was wrong before",
                behind / 3600 / _SECOND_NS,
                status.rack,
                self._path,
            )

    def _load(self, connection: sqlite3.Connection) -> None:
        """Read what a session begins with."""
        ask = connection.execute
        last: dict[str, int] = dict(ask("SELECT rack, time_ns FROM heartbeats").fetchall())
        counters: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for rack, name, value in ask("SELECT rack, name, value FROM counters"):
            counters[rack][name] = value
        verdicts = dict(ask("SELECT rack, verdict FROM verdicts WHERE ends_ns IS NULL").fetchall())
        states: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for rack, node, state in ask("SELECT rack, node, state FROM node_states WHERE ends_ns IS NULL"):
            states[rack][node] = state
        self._book = IncidentBook(read_incidents(ask(SELECT_LATEST_INCIDENTS)))
        self._windows = {own.id: own for own in read_windows(ask(SELECT_WINDOWS))}
        self._baselines = dict(ask("SELECT id, data FROM baselines").fetchall())
        self._memories = dict(ask("SELECT rack, memory FROM memories").fetchall())
        self._written_memories = dict(self._memories)
        self._accounts = {
            rack: RackAccount(
                rack,
                self._book,
                maximum_gap_ns=self._maximum_gap_ns,
                counters=counters[rack],
                last_ns=last.get(rack),
                verdict=verdicts.get(rack, ""),
                states=states[rack],
            )
            for rack in sorted({*last, *counters})
        }
        self._shown = {rack: account.counters.copy() for rack, account in self._accounts.items()}

    def _restate(self, floors: Mapping[str, int]) -> Iterator[Statement]:
        """Say everything that is held in memory again, for a file that does not have it."""
        for rack, account in self._accounts.items():
            yield from account.restate(floors.get(rack, 0))
        yield from map(put_incident, self._book.latest())
        yield from map(put_window, self._windows.values())
        yield from ((PUT_BASELINE, own) for own in self._baselines.items())
        yield from self._rollups.restate()
        yield from _put_memories(self._memories)
        yield from self._totals()

    def _totals(self) -> Iterator[Statement]:
        for rack, account in self._accounts.items():
            yield from self._heartbeat(rack, account)
            for own in account.counters.items():
                yield RAISE_COUNTER, (rack, *own)

    def _heartbeat(self, rack: str, account: RackAccount | None) -> Iterator[Statement]:
        if account is not None and account.last_ns is not None:
            yield PUT_HEARTBEAT, (rack, account.last_ns)

    def _select(self, sql: str, rack: str | None, **parameters: str | int | None) -> list[Row]:
        account = None if rack is None else self._accounts.get(rack)
        now_ns = max((own.last_ns or 0 for own in self._accounts.values()), default=0)
        return self._store.select(
            sql, {"rack": rack, **parameters}, self._heartbeat(rack or "", account), now_ns
        )

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _put_memories(memories: Mapping[str, str]) -> Iterator[Statement]:
    return ((PUT_MEMORY, own) for own in memories.items())
