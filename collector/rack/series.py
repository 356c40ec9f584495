"""The series of a rack service: one Snapshot over all of its racks, for the same renderer as an agent's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.catalog.rack import (
    DOMAIN_STATES,
    GPU_STATES,
    NODE_STATES,
    RACK,
    RACK_CHECKS,
    VERDICTS,
)
from collector.catalog.spec import Metric
from collector.health.gpu_counts import expected_gpus, expected_gpus_of
from collector.health.ledger import RackCounters
from collector.health.rack_types import ExpectedRack, RackStatus
from collector.health.states import GpuState, NodeState, Verdict
from collector.model import Series, SeriesTable, Snapshot, Value

_RACK_CHECKS = frozenset(RACK_CHECKS)
_Key = tuple[Metric, str, tuple[str, ...]]
Row = tuple[tuple[str, ...], Value | None]
"""Values of the labels after `rack`, and the value."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """All that the rows of one rack derive from."""

    expected: ExpectedRack
    status: RackStatus
    counters: RackCounters | None
    faults: Mapping[tuple[str, str, str], int]


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

    def snapshot(
        self,
        expected: Iterable[ExpectedRack],
        statuses: Mapping[str, RackStatus],
        counters: Mapping[str, RackCounters],
        now_ns: int,
    ) -> Snapshot:
        """Make the Snapshot of all racks.

        Args:
            expected: The racks as they are declared.
            statuses: The newest status by rack; a rack without one has no series yet.
            counters: What the ledger has added up, by rack.
            now_ns: The present.
        """
        subjects = [
            _Subject(rack, statuses[rack.rack], counters.get(rack.rack), self._faults_of(statuses[rack.rack]))
            for rack in expected
            if rack.rack in statuses
        ]
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
}
_READ_LATER = tuple(metric.name for metric in RACK if metric.name not in _READ)
_READ = {**_READ, **dict.fromkeys(_READ_LATER, lambda subject: ())}
_READERS: tuple[tuple[Metric, Callable[[_Subject], Iterable[Row]]], ...] = tuple(
    (metric, _READ[metric.name]) for metric in RACK
)
