"""The series of a rack service: one Snapshot over all of its racks, for the same renderer as an agent's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.catalog.rack import (
    DOMAIN_STATES,
    ENERGY_DOMAINS,
    GPU_STATES,
    NODE_STATES,
    RACK,
    RACK_CHECKS,
    VERDICTS,
)
from collector.catalog.spec import Metric
from collector.efficiency.account import UsageNow
from collector.efficiency.price import Price
from collector.health.gpu_counts import expected_gpus, expected_gpus_of
from collector.health.ledger import RackCounters
from collector.health.ledger_usage import UsageCounters
from collector.health.rack_types import ExpectedRack, RackStatus
from collector.health.states import GpuState, NodeState, Verdict
from collector.model import Series, SeriesTable, Snapshot, Value

NO_PRICE = Price()
_RACK_CHECKS = frozenset(RACK_CHECKS)
_Key = tuple[Metric, str, tuple[str, ...]]
Row = tuple[tuple[str, ...], Value | None]
"""Values of the labels after `rack`, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackState:
    """All that is known of one rack.

    Attributes:
        expected: The rack as it is declared.
        status: Its newest status.
        price: What things cost.
        counters: What the ledger has counted; None until it was read.
        used: Energy and tokens that the ledger has counted; None until it was read.
        usage: Power and endpoints now; None where they cannot be said.
    """

    expected: ExpectedRack
    status: RackStatus
    price: Price = NO_PRICE
    counters: RackCounters | None = None
    used: UsageCounters | None = None
    usage: UsageNow | None = None


@dataclass(frozen=True, slots=True)
class _Subject:
    """All that the rows of one rack derive from."""

    state: RackState
    faults: Mapping[tuple[str, str, str], int]

    @property
    def expected(self) -> ExpectedRack:
        return self.state.expected

    @property
    def status(self) -> RackStatus:
        return self.state.status

    @property
    def counters(self) -> RackCounters | None:
        return self.state.counters


class RackSeries:
    """Makes Snapshots; the table stays the same object while the same series are there."""

    def __init__(self, service_id: str) -> None:
        """Begin without having seen a fault.

        Args:
            service_id: Identity of this process.
        """
        self._service_id = service_id
        self._sequence = 0
        self._keys: list[_Key] = []
        self._table = SeriesTable(())
        self._faults: dict[str, dict[tuple[str, str, str], int]] = {}

    def snapshot(self, racks: Iterable[RackState], now_ns: int) -> Snapshot:
        """Make the Snapshot of all racks.

        Args:
            racks: What is known of each; a rack that was not judged yet is left out, and has no series.
            now_ns: The present.
        """
        subjects = [_Subject(rack, self._faults_of(rack.status)) for rack in racks]
        keys: list[_Key] = []
        values: list[Value | None] = []
        for metric, read in _READERS:
            for subject in subjects:
                for labels, value in read(subject):
                    keys.append((metric, subject.status.rack, labels))
                    values.append(value)
        if keys != self._keys:
            self._keys = keys
            self._table = SeriesTable(tuple(Series(metric, (rack, *labels)) for metric, rack, labels in keys))
        self._sequence += 1
        return Snapshot(
            rack="",
            node="",
            agent_id=self._service_id,
            boot_id="",
            sequence=self._sequence,
            time_ns=now_ns,
            table=self._table,
            values=tuple(values),
            ages_seconds={},
            nvml_up=True,
        )

    def _faults_of(self, status: RackStatus) -> Mapping[tuple[str, str, str], int]:
        """Return what the service finds, 1 each, and what it found since it was started, 0 each."""
        faults = self._faults.setdefault(status.rack, {})
        for key in faults:
            faults[key] = 0
        reasons = [*status.reasons, *(reason for node in status.nodes for reason in node.reasons)]
        for reason in reasons:
            if reason.check in _RACK_CHECKS:
                faults[reason.check, reason.impact.value, reason.node] = 1
        return faults


def _gpu_rows(subject: _Subject) -> Iterator[Row]:
    """Count GPUs by state: those of a node of which nothing is known, or that are missing, are UNKNOWN."""
    states: Counter[str] = Counter()
    for node in subject.status.nodes:
        view = node.poll.view
        believed = view is not None and node.state is not NodeState.UNKNOWN and not node.poll.error
        seen = [gpu.state for gpu in view.gpus] if view is not None and believed else []
        states.update(state.value for state in seen)
        missing = (expected_gpus_of(node, subject.expected.gpus_per_node) or 0) - len(seen)
        states[GpuState.UNKNOWN.value] += max(0, missing)
    return (((state,), states[state]) for state in GPU_STATES)


def _one_hot(words: Sequence[str], word: str, *labels: str) -> Iterator[Row]:
    return (((*labels, each), int(each == word)) for each in words)


def _node_rows(subject: _Subject) -> Iterator[Row]:
    states = Counter(node.state.value for node in subject.status.nodes)
    return (((state,), states[state]) for state in NODE_STATES)


def _node_state_rows(subject: _Subject) -> Iterator[Row]:
    for node in subject.status.nodes:
        yield from _one_hot(NODE_STATES, node.state.value, node.node)


def _domain_state_rows(subject: _Subject) -> Iterator[Row]:
    for domain in subject.status.domains:
        yield from _one_hot(DOMAIN_STATES, domain.state.value, domain.cluster_uuid, domain.clique)


def _verdict_second_rows(subject: _Subject) -> Iterator[Row]:
    counters = subject.counters
    return (
        ((verdict,), None if counters is None else counters.verdict_seconds.get(Verdict(verdict), 0.0))
        for verdict in VERDICTS
    )


def _maintained(subject: _Subject) -> int:
    return int(any(node.state is NodeState.MAINTENANCE for node in subject.status.nodes))


def _single(read: Callable[[_Subject], Value | None]) -> Callable[[_Subject], Iterable[Row]]:
    return lambda subject: (((), read(subject)),)


def _counter(read: Callable[[RackCounters], Value]) -> Callable[[_Subject], Iterable[Row]]:
    return _single(lambda subject: None if subject.counters is None else read(subject.counters))


def _by_domain(read: Callable[[UsageNow], Mapping[str, float | None]]) -> Callable[[_Subject], Iterable[Row]]:
    def rows(subject: _Subject) -> Iterator[Row]:
        if (usage := subject.state.usage) is not None:
            known = read(usage)
            yield from (((domain,), known.get(domain)) for domain in ENERGY_DOMAINS)

    return rows


def _used(read: Callable[[UsageCounters], Mapping[str, float]]) -> Callable[[_Subject], Iterable[Row]]:
    def rows(subject: _Subject) -> Iterator[Row]:
        if (used := subject.state.used) is not None:
            known = read(used)
            yield from (((domain,), known[domain]) for domain in ENERGY_DOMAINS if domain in known)

    return rows


def _token_rows(subject: _Subject) -> Iterable[Row]:
    used = subject.state.used
    return sorted(used.tokens.items()) if used is not None else ()


def _endpoints(read: Callable[[UsageNow], int]) -> Callable[[_Subject], Iterable[Row]]:
    return _single(lambda subject: None if subject.state.usage is None else read(subject.state.usage))


def _price(read: Callable[[Price], float | None]) -> Callable[[_Subject], Iterable[Row]]:
    return _single(lambda subject: read(subject.state.price))


def _includes_energy(price: Price) -> int | None:
    # Of no price there is nothing to say.
    return None if price.gpu_hour_usd is None else int(price.gpu_hour_includes_energy)


_READ: Mapping[str, Callable[[_Subject], Iterable[Row]]] = {
    "rack_nodes_expected": _single(lambda subject: len(subject.expected.nodes)),
    "rack_nodes": _node_rows,
    "rack_gpus_expected": _single(
        lambda subject: expected_gpus(subject.status.nodes, subject.expected.gpus_per_node)
    ),
    "rack_gpus": _gpu_rows,
    "rack_nodes_schedulable": _single(lambda subject: sum(node.schedulable for node in subject.status.nodes)),
    "rack_largest_block_nodes": _single(lambda subject: subject.status.largest_block),
    "rack_min_block_nodes": _single(lambda subject: subject.status.min_block),
    "rack_node_state": _node_state_rows,
    "rack_verdict": lambda subject: _one_hot(VERDICTS, subject.status.verdict.value),
    "rack_domain_state": _domain_state_rows,
    "rack_maintenance_active": _single(_maintained),
    "rack_check_failed": lambda subject: subject.faults.items(),
    "rack_verdict_seconds_total": _verdict_second_rows,
    "rack_node_operating_seconds_total": _counter(lambda counters: counters.node_operating_seconds),
    "rack_node_down_seconds_total": _counter(lambda counters: counters.node_down_seconds),
    "rack_incidents_total": _counter(lambda counters: counters.incidents),
    "rack_slo_ratio": _single(lambda subject: subject.expected.slo),
    "rack_energy_joules_total": _used(lambda used: used.energy_joules),
    "rack_energy_error_joules_total": _used(lambda used: used.energy_error_joules),
    "rack_idle_energy_joules_total": _used(lambda used: used.idle_joules),
    "rack_power_watts": _by_domain(lambda usage: usage.power_watts),
    "rack_energy_coverage_ratio": _by_domain(lambda usage: usage.coverage),
    "rack_llm_endpoints_expected": _endpoints(lambda usage: usage.endpoints_expected),
    "rack_llm_endpoints_up": _endpoints(lambda usage: usage.endpoints_up),
    "rack_llm_tokens_total": _token_rows,
    "rack_gpu_hour_usd": _price(lambda price: price.gpu_hour_usd),
    "rack_gpu_hour_includes_energy": _price(_includes_energy),
    "rack_electricity_usd_per_kwh": _price(lambda price: price.kwh_usd),
    "rack_pue_ratio": _price(lambda price: price.pue),
}
_READERS: tuple[tuple[Metric, Callable[[_Subject], Iterable[Row]]], ...] = tuple(
    (metric, _READ[metric.name]) for metric in RACK
)
