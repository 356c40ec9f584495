"""Energy and tokens in the ledger: roll-ups as opaque text, counters as whole numbers. Runs no SQL."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from collector.health.ledger_account import Statement, storable
from collector.health.ledger_schema import PUT_ROLLUP

_logger = logging.getLogger("rackwatt.ledger")

MAXIMUM_WAITING = 20_000
"""Roll-ups that wait for a disk (chosen): some 40 MB, for one rack two weeks of minutes."""

_HELD = 20
"""Newest roll-ups of each rack and length that are held in memory for a file that is begun anew (chosen):
more minutes than those that may still change."""

_ENERGY = "energy_mj"
_ERROR = "energy_error_mj"
_IDLE = "idle_energy_mj"
_TOKENS = "tokens"
_MILLI = 1000


def energy_counter(domain: str) -> str:
    """Return the name under which the energy of a domain is counted, in millijoules."""
    return f"{_ENERGY}:{domain}"


def error_counter(domain: str) -> str:
    """Return the name under which the possible error of that energy is counted, in millijoules."""
    return f"{_ERROR}:{domain}"


def idle_counter(domain: str) -> str:
    """Return the name under which the idle part of that energy is counted, in millijoules."""
    return f"{_IDLE}:{domain}"


def token_counter(phase: str, model: str) -> str:
    """Return the name under which the tokens of a model are counted; the model may hold any text."""
    return f"{_TOKENS}:{phase}:{model}"


@dataclass(frozen=True, slots=True)
class StoredRollup:
    """A roll-up of a rack as the ledger keeps it.

    Attributes:
        length_seconds: Its length: a minute or an hour.
        starts_ns: Its begin, Unix nanoseconds.
        data: What it says, in the words of who wrote it.
    """

    length_seconds: int
    starts_ns: int
    data: str


@dataclass(frozen=True, slots=True)
class UsageUpdate:
    """What changed of a rack's energy and tokens.

    Attributes:
        counters: Increases by name; a new counter is there with its first one, even if that is 0.
        rollups: Roll-ups that changed, as they are now.
    """

    counters: Mapping[str, int] = field(default_factory=dict)
    rollups: tuple[StoredRollup, ...] = ()

    def followed_by(self, later: UsageUpdate) -> UsageUpdate:
        """Return one update that says what this and a later one say."""
        counters = dict(self.counters)
        for name, amount in later.counters.items():
            counters[name] = counters.get(name, 0) + amount
        newest = {(own.length_seconds, own.starts_ns): own for own in (*self.rollups, *later.rollups)}
        return UsageUpdate(counters, tuple(newest.values()))


@dataclass(frozen=True, slots=True)
class UsageCounters:
    """Energy and tokens of a rack since its ledger was begun; never run back. What never was is absent.

    Attributes:
        energy_joules: Energy by domain.
        energy_error_joules: How far it may be off.
        idle_joules: The part spent without a request.
        tokens: Tokens by model and phase.
    """

    energy_joules: Mapping[str, float] = field(default_factory=dict)
    energy_error_joules: Mapping[str, float] = field(default_factory=dict)
    idle_joules: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[tuple[str, str], float] = field(default_factory=dict)


def usage_counters(counters: Mapping[str, int]) -> UsageCounters:
    """Find energy and tokens among a rack's counters."""
    joules: dict[str, dict[str, float]] = {_ENERGY: {}, _ERROR: {}, _IDLE: {}}
    tokens = {}
    for name, value in counters.items():
        kind, _, rest = name.partition(":")
        if kind in joules:
            joules[kind][rest] = value / _MILLI
        elif kind == _TOKENS:
            phase, _, model = rest.partition(":")
            tokens[model, phase] = float(value)
    return UsageCounters(joules[_ENERGY], joules[_ERROR], joules[_IDLE], tokens)


_Key = tuple[str, int, int]
"""Rack, length and begin."""


class KeptRollups:
    """Roll-ups on their way to the disk, and the newest of them all.

    One that changes each second is written once a flush: what waits is kept by its key.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._waiting: dict[_Key, str] = {}
        self._held: dict[tuple[str, int], dict[int, str]] = {}
        self._said = False

    def put(self, rack: str, rollups: Iterable[StoredRollup]) -> None:
        """Take in what changed; where too many wait for the disk, the oldest are lost."""
        for own in rollups:
            data = storable(own.data, len(own.data))
            self._waiting[rack, own.length_seconds, own.starts_ns] = data
            held = self._held.setdefault((rack, own.length_seconds), {})
            held[own.starts_ns] = data
            if len(held) > _HELD:
                del held[min(held)]
        while len(self._waiting) > MAXIMUM_WAITING:
            del self._waiting[next(iter(self._waiting))]
            if not self._said:
                self._said = True
                _logger.error("the disk has not taken the ledger for long; its oldest roll-ups are lost")

    def statements(self) -> tuple[Statement, ...]:
        """Return what writes everything that waits."""
        return tuple(_put(key, data) for key, data in self._waiting.items())

    def written(self) -> None:
        """Note that it is on the disk."""
        self._waiting = {}
        self._said = False

    def restate(self) -> Iterator[Statement]:
        """Say again what is held, for a file that does not have it."""
        for (rack, length), held in self._held.items():
            for starts_ns, data in held.items():
                yield _put((rack, length, starts_ns), data)
        yield from self.statements()

    def waiting(self, rack: str, length_seconds: int, starts_ns: int, ends_ns: int) -> Iterator[StoredRollup]:
        """Yield what waits of a rack and begins in a window."""
        for (own, length, starts), data in self._waiting.items():
            if own == rack and length == length_seconds and starts_ns <= starts < ends_ns:
                yield StoredRollup(length, starts, data)


def _put(key: _Key, data: str) -> Statement:
    return PUT_ROLLUP, (*key, data)
