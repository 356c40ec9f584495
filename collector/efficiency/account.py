"""The account of a rack's energy and tokens: from polls and readings to counters, minutes and hours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.catalog.engines import MAXIMUM_MODELS, OTHER_MODEL, Role
from collector.catalog.rack import ENERGY_DOMAINS
from collector.efficiency.counting import WholeCounters
from collector.efficiency.energy import CPU, GPU, MODULE, RACK_INPUT, EnergyMeters, Portion, Reported
from collector.efficiency.idle import IdleTimes, Piece
from collector.efficiency.memory import Remembered, remember
from collector.efficiency.rollup import EnergySum, ModelSum, Rollup, add_model
from collector.efficiency.shelf import ShelfReading
from collector.efficiency.spreading import BRIDGE_NS, RollupBook
from collector.efficiency.tokens import Done, Endpoint, NodeServing
from collector.health.ledger_account import storable
from collector.health.ledger_usage import (
    StoredRollup,
    UsageUpdate,
    energy_counter,
    error_counter,
    idle_counter,
    token_counter,
)
from collector.health.rack_types import Poll
from collector.health.samples import NO_SAMPLES

MAXIMUM_GAP_SECONDS = 60.0
"""Longest time between two readings of power over which it is integrated, unless the account is told
otherwise."""

_MAXIMUM_NAME = 256
"""Longest name of a model: the longest label that a Snapshot may have."""
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class UsageNow:
    """What is known of a rack now.

    Attributes:
        power_watts: Power by domain; None unless everything that should report does.
        coverage: Share of what should report that does, by domain; None where nothing should.
        endpoints_expected: Serving endpoints that the rack should have, of the role that counts.
        endpoints_up: Those that are up and read.
        role: The role that counts; empty where there are no endpoints.
    """

    power_watts: Mapping[str, float | None]
    coverage: Mapping[str, float | None]
    endpoints_expected: int
    endpoints_up: int
    role: str


@dataclass(slots=True)
class _Node:
    """A node.

    Attributes:
        serving: Its endpoints.
        sockets: CPU sockets that were ever seen.
        stamp: Which Snapshot was taken in last.
        heard_ns: When that was.
        readable: Whether the node answers, with something new from time to time.
        fresh: Whether it has just brought a new Snapshot.
        reported: What it reports now, by domain.
        settled_ns: Until when it is known whether its endpoints rested.
    """

    serving: NodeServing
    sockets: set[str]
    settled_ns: int
    stamp: tuple[str, int] | None = None
    heard_ns: int = 0
    readable: bool = False
    fresh: bool = False
    reported: Mapping[str, Reported] = field(default_factory=dict)


class UsageAccount:
    """Energy and tokens of one rack; no I/O, and no clock of its own.

    A value counts when the Snapshot that brings it is seen, and its increase evenly over the time since the
    one before. Counters go on in the ledger; this gives their increases.
    """

    def __init__(
        self,
        rack: str,
        *,
        shelves: Sequence[str],
        modules_per_node: int | None,
        memory: Mapping[str, object] | None = None,
        rollups: Iterable[StoredRollup] = (),
        maximum_gap_seconds: float = MAXIMUM_GAP_SECONDS,
    ) -> None:
        """Take up what was known before a restart. What passed meanwhile is not counted.

        Args:
            rack: The rack.
            shelves: Names of its power shelves.
            modules_per_node: Modules of a node by the platform; None if unknown, so that those seen count.
            memory: What `export` returned.
            rollups: The rack's minutes and hours in the ledger that end later than `spreading.KEEP_NS` ago.
            maximum_gap_seconds: Longest time between two readings of power over which it is integrated, for
                which a shelf's reading holds, and after which an agent that tells nothing new counts as
                silent: three of the longer poll interval, of agents or shelves.
        """
        self.rack = rack
        self._shelves = tuple(shelves)
        self._modules_per_node = modules_per_node
        self._gap_ns = int(maximum_gap_seconds * _SECOND_NS)
        self._remembered: Remembered = remember(memory or {})
        self._models = dict.fromkeys(self._remembered.models)
        self._counters = WholeCounters()
        self._book = RollupBook(rollups)
        self._nodes: dict[str, _Node] = {}
        self._fresh_shelves: dict[str, float] = {}
        self._gpus_expected: int | None = None
        self._role = ""
        self._now_ns: int | None = None
        self._per_second = Rollup()
        self._meters = EnergyMeters(0, self._gap_ns)
        self._idle = IdleTimes(0)

    def observe(
        self,
        polls: Sequence[Poll],
        readings: Sequence[ShelfReading],
        *,
        now_ns: int,
        gpus_expected: int | None,
    ) -> None:
        """Take in what is known now. To be called about once a second.

        Args:
            polls: The rack's nodes.
            readings: Its power shelves.
            now_ns: The present, Unix nanoseconds; a clock that runs back counts as standing still.
            gpus_expected: GPUs that the rack should have; None if unknown, so that those seen count.
        """
        now = self._elapse(now_ns)
        self._gpus_expected = gpus_expected
        self._nodes = {poll.node: self._node(poll.node, now) for poll in polls}
        increases: defaultdict[int, Rollup] = defaultdict(Rollup)
        done: list[Done] = []
        for poll in polls:
            done.extend(self._take_node(poll, now, increases))
        self._role = self._find_role()
        self._take_done(done, increases)
        for starts, own in increases.items():
            self._add(own, starts, now)
        self._take_shelves(readings, now)
        self._settle_idle(now)
        self._per_second = self._accrual()
        self._begin_counters()

    def take(self) -> UsageUpdate:
        """Return what changed since the last call."""
        return UsageUpdate(self._counters.take(), self._book.take(self._now_ns or 0))

    def now(self) -> UsageNow:
        """Return what is known now."""
        expected = self._expected_units()
        reported = {domain: self._reported(domain) for domain in ENERGY_DOMAINS}
        return UsageNow(
            power_watts={
                domain: own.watts if 0 < expected[domain] <= own.powered else None
                for domain, own in reported.items()
            },
            coverage={
                domain: min(own.units, expected[domain]) / expected[domain] if expected[domain] else None
                for domain, own in reported.items()
            },
            endpoints_expected=sum(1 for _ in self._counting()),
            endpoints_up=sum(1 for node, _, own in self._counting() if node.readable and own.up),
            role=self._role,
        )

    def export(self) -> dict[str, object]:
        """Return what is to be remembered over a restart, as JSON can hold it."""
        return Remembered(
            endpoints={name: node.serving.endpoints for name, node in self._nodes.items()},
            sockets={name: node.sockets for name, node in self._nodes.items()},
            models=tuple(self._models),
        ).export()

    def _elapse(self, now_ns: int) -> int:
        """Account for the time since the last call by what held then; return the present."""
        if self._now_ns is None:
            self._meters = EnergyMeters(now_ns, self._gap_ns)
            self._idle = IdleTimes(now_ns)
            self._now_ns = now_ns
        before, now = self._now_ns, max(now_ns, self._now_ns)
        # After a longer pause nobody watched.
        if 0 < now - before <= BRIDGE_NS:
            self._book.accrue(self._per_second, before, now)
        self._now_ns = now
        return now

    def _node(self, name: str, now: int) -> _Node:
        known = self._nodes.get(name)
        if known is None:
            endpoints = self._remembered.endpoints.pop(name, {})
            sockets = set(self._remembered.sockets.pop(name, ()))
            known = _Node(NodeServing(endpoints), sockets, settled_ns=now)
        return known

    def _take_node(self, poll: Poll, now: int, increases: defaultdict[int, Rollup]) -> list[Done]:
        """Take in a node's poll; its energy goes to the increases, by their begin."""
        node, view = self._nodes[poll.node], poll.view
        node.readable = node.fresh = False
        if view is None or poll.samples is NO_SAMPLES:
            return []
        if node.stamp == (view.agent_id, view.sequence):
            node.readable = now - node.heard_ns <= self._gap_ns
            return []
        node.readable = node.fresh = True
        node.stamp, node.heard_ns = (view.agent_id, view.sequence), now
        portions, node.reported = self._meters.take_node(poll.node, poll.samples, view.observed_ns, now)
        node.sockets.update(sample.labels[0] for sample in poll.samples.of_metric("cpu_power_watts"))
        done = node.serving.take(poll.samples, poll.histograms, now, agent_id=view.agent_id)
        placements = node.serving.placements(self._role)
        for portion in portions:
            increase = increases[portion.starts_ns]
            _add_portion(increase, portion)
            if portion.domain == GPU and portion.gpu in placements:
                own = increase.models.setdefault(self._name(placements[portion.gpu]), ModelSum())
                own.gpu_joules += portion.joules
                if portion.covered:
                    own.gpu_seconds += _seconds(portion.starts_ns, now)
        return done

    def _take_done(self, done: Iterable[Done], increases: defaultdict[int, Rollup]) -> None:
        for own in done:
            if own.role == self._role:
                models = increases[own.starts_ns].models
                add_model(models.setdefault(self._name(own.model), ModelSum()), own.sums)

    def _take_shelves(self, readings: Iterable[ShelfReading], now: int) -> None:
        self._fresh_shelves = {}
        for reading in readings:
            if reading.shelf not in self._shelves:
                continue
            portion = self._meters.take_shelf(reading, now)
            if portion is not None:
                increase = Rollup()
                _add_portion(increase, portion)
                self._add(increase, portion.starts_ns, portion.ends_ns)
            read_ns, watts = reading.read_ns, reading.watts
            if read_ns is not None and watts is not None and now - read_ns <= self._gap_ns:
                self._fresh_shelves[reading.shelf] = watts

    def _add(self, increase: Rollup, starts: int, ends: int) -> None:
        """Count an increase, and spread it over its time; one of too long a time is counted alone."""
        for domain, energy in increase.energy.items():
            self._counters.add(energy_counter(domain), energy.joules * 1000)
            self._counters.add(error_counter(domain), energy.error_joules * 1000)
        for model, own in increase.models.items():
            self._counters.add(token_counter("prompt", model), own.prompt_tokens)
            self._counters.add(token_counter("generation", model), own.generation_tokens)
        if ends - starts > BRIDGE_NS:
            return
        self._book.add(increase, starts, ends)
        if increase.energy:
            joules = {domain: energy.joules for domain, energy in increase.energy.items()}
            self._idle.put(Piece(starts, ends, joules))

    def _settle_idle(self, now: int) -> None:
        """Say which times were busy, and count the energy of the others as idle."""
        serving = [node for node in self._nodes.values() if node.serving.has(self._role)]
        if not serving:
            self._idle.mark_busy(min((node.settled_ns for node in self._nodes.values()), default=now), now)
        for node in serving:
            silent = not node.readable
            if silent or (node.fresh and not node.serving.rested(self._role)):
                self._idle.mark_busy(node.settled_ns, now)
            if silent or node.fresh:
                node.settled_ns = now
        for node in self._nodes.values():
            if not node.serving.has(self._role):
                node.settled_ns = now
        for piece in self._idle.settle(min((node.settled_ns for node in serving), default=now)):
            energy = {domain: EnergySum(idle_joules=joules) for domain, joules in piece.joules.items()}
            self._book.add(Rollup(energy=energy), piece.starts_ns, piece.ends_ns)
            for domain, joules in piece.joules.items():
                self._counters.add(idle_counter(domain), joules * 1000)

    def _accrual(self) -> Rollup:
        """Return what adds up in each second from now on."""
        expected = self._expected_units()
        total = Rollup(
            watched_seconds=1.0,
            energy={domain: EnergySum(expected_seconds=units) for domain, units in expected.items() if units},
            role=self._role,
        )
        for node, name, own in self._counting():
            total.endpoints_expected_seconds += 1
            if not (node.readable and own.up):
                continue
            total.endpoints_up_seconds += 1
            unplaced = name not in node.serving.placed
            for model, load in own.models.items():
                each = total.models.setdefault(self._name(model), ModelSum())
                each.endpoint_seconds += 1
                each.waiting_seconds += bool(load.waiting)
                each.unplaced_seconds += unplaced
                each.engine_seconds[own.engine] = each.engine_seconds.get(own.engine, 0.0) + 1
                if own.at_finish:
                    each.at_finish_seconds[own.engine] = each.at_finish_seconds.get(own.engine, 0.0) + 1
        return total

    def _begin_counters(self) -> None:
        """Let counters exist before they rise, so that the first increase is one."""
        for domain in self._per_second.energy:
            for name in (energy_counter, error_counter, idle_counter):
                self._counters.add(name(domain), 0)
        for model in self._per_second.models:
            for phase in ("prompt", "generation"):
                self._counters.add(token_counter(phase, model), 0)

    def _expected_units(self) -> dict[str, int]:
        meters, modules = self._meters, self._modules_per_node
        return {
            GPU: len(meters.gpus) if self._gpus_expected is None else self._gpus_expected,
            MODULE: len(meters.modules) if modules is None else len(self._nodes) * modules,
            RACK_INPUT: len(self._shelves),
            CPU: sum(len(node.sockets) for node in self._nodes.values()),
        }

    def _reported(self, domain: str) -> Reported:
        if domain == RACK_INPUT:
            shelves = self._fresh_shelves
            return Reported(len(shelves), len(shelves), sum(shelves.values()))
        total = Reported()
        for node in self._nodes.values():
            if node.readable and (own := node.reported.get(domain)) is not None:
                total.units += own.units
                total.powered += own.powered
                total.watts += own.watts
        return total

    def _counting(self) -> Iterator[tuple[_Node, str, Endpoint]]:
        """Yield the endpoints of the role that counts."""
        for node in self._nodes.values():
            for name, own in node.serving.endpoints.items():
                if own.role == self._role:
                    yield node, name, own

    def _find_role(self) -> str:
        """Return the one role that counts: a router counts the tokens of its engines again."""
        roles = {own.role for node in self._nodes.values() for own in node.serving.endpoints.values()}
        return next((role.value for role in (Role.ENGINE, Role.ROUTER) if role.value in roles), "")

    def _name(self, model: str) -> str:
        """Return the name under which a model is summed; those beyond the bound have one together."""
        if model in self._models:
            return model
        name = storable(model, _MAXIMUM_NAME)
        if name in self._models:
            return name
        if len(self._models) >= MAXIMUM_MODELS:
            return OTHER_MODEL
        self._models[name] = None
        return name


def _add_portion(increase: Rollup, portion: Portion) -> None:
    own = increase.energy.setdefault(portion.domain, EnergySum())
    own.joules += portion.joules
    own.error_joules += portion.error_joules
    if portion.covered:
        own.covered_seconds += _seconds(portion.starts_ns, portion.ends_ns)


def _seconds(starts_ns: int, ends_ns: int) -> float:
    return (ends_ns - starts_ns) / _SECOND_NS
