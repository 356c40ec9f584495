"""The judge of one rack: polls in, RackStatus out (CONTRACTS §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from collector.health.domains import clique_of, count, declared_cliques, judge_domains, lay_out
from collector.health.maintenance import Maintenance, MaintenanceWindow, maintenance_reason, window_of
from collector.health.node_reasons import FirstSeen, worst_first
from collector.health.node_tracker import NodeTracker
from collector.health.rack_rules import RULE_CHECKS, compare_nodes, unexpected_nodes
from collector.health.rack_types import (
    DomainStatus,
    ExpectedRack,
    NodeView,
    Poll,
    RackStatus,
    Reason,
)
from collector.health.sameness import essence
from collector.health.states import Impact, NodeState, Verdict
from collector.health.tracker_rules import TrackerRules
from collector.health.verdict import check_min_block, default_min_block, judge_rack, largest_block


def verdict_for(status: RackStatus, min_block: int) -> Verdict:
    """Return the verdict that a rack would have for another block.

    Raises:
        ConfigurationError: The block lies outside 1 to the number of expected nodes.
    """
    return judge_rack(status.cliques, check_min_block(min_block, len(status.nodes)))


def min_block_of(expected: ExpectedRack) -> int:
    """Return the block that a rack must offer: the configured one, else the default.

    Raises:
        ConfigurationError: The configured one lies outside 1 to the number of expected nodes.
    """
    if expected.min_block is not None:
        return check_min_block(expected.min_block, len(expected.nodes))
    return default_min_block(
        nodes=len(expected.nodes),
        largest_clique=max(map(len, declared_cliques(expected).values())),
        rack_wide_fabric=expected.rack_wide_fabric,
    )


class RackJudge:
    """Follows the nodes of one rack and judges it.

    Attributes:
        expected: The rack as it is declared.
        min_block: Block of nodes that it must offer.
    """

    def __init__(
        self,
        expected: ExpectedRack,
        *,
        maintenance: Maintenance | None = None,
        rules: TrackerRules | None = None,
        exported: Mapping[str, object] | None = None,
    ) -> None:
        """Begin with nothing known, or with what `export` gave.

        Args:
            expected: The rack as it is declared.
            maintenance: Declared maintenance of all racks; None for none ever.
            rules: Times and counts; GPUs of a node and whether a fabric is required come from `expected`.
            exported: What the judge of this rack exported before the service was restarted, with
                `observed_ns`, the time at which it last ran (as `Ledger.memory` returns it).

        Raises:
            ConfigurationError: The minimum block cannot be had.
        """
        self._maintenance = maintenance or Maintenance()
        self._base_rules = rules or TrackerRules()
        self._trackers: dict[str, NodeTracker] = {}
        self._essence: object = None
        self._first_seen = FirstSeen()
        memory = exported or {}
        self._generation = _whole(memory.get("generation"))
        self._verdict = _verdict(memory.get("verdict"))
        self._since_ns = _whole(memory.get("since_ns"))
        self.redeclare(expected, exported=memory)

    def redeclare(self, expected: ExpectedRack, *, exported: Mapping[str, object] | None = None) -> None:
        """Take over another declaration of the rack, keeping what is known of nodes that stay.

        Raises:
            ConfigurationError: The minimum block cannot be had.
        """
        self.min_block = min_block_of(expected)
        self.expected = expected
        rules = replace(
            self._base_rules,
            # Where no platform is declared, a fabric is required only of those who report one.
            fabric_required=expected.rack_wide_fabric and expected.platform != "",
            gpus_expected=expected.gpus_per_node,
        )
        memories = _node_memories(exported or {})
        trackers = {}
        for node in expected.nodes:
            known = self._trackers.get(node)
            if known and known.rules == rules:
                trackers[node] = known
            else:
                trackers[node] = NodeTracker(node, rules, known.export() if known else memories.get(node))
        self._trackers = trackers

    def evaluate(self, polls: Iterable[Poll], now_ns: int, *, frozen: bool = False) -> RackStatus:
        """Judge the rack.

        Args:
            polls: What the poller knows of each node, in any order; a node without a poll is not polled yet.
            now_ns: The present, Unix nanoseconds.
            frozen: Whether the mass-failure guard holds draining back.
        """
        by_node = {poll.node: poll for poll in polls}
        views: dict[str, NodeView] = {}
        for node, tracker in self._trackers.items():
            view = tracker.observe(by_node.get(node) or Poll(node=node, address=""), now_ns)
            if view is not None:
                views[node] = view
        last = {node: own.last_clique for node, own in self._trackers.items()}
        layout = lay_out(self.expected, views, {node: own for node, own in last.items() if own})
        findings = compare_nodes(self.expected, views)
        windows = self._maintenance.active(self.expected.rack, now_ns)
        nodes = tuple(
            replace(
                tracker.judge(
                    now_ns,
                    maintenance=_maintained(node, windows),
                    rack_findings=findings.get(node, ()),
                ),
                clique=clique_of(layout, node),
            )
            for node, tracker in self._trackers.items()
        )
        cliques = count(layout, nodes)
        verdict = judge_rack(cliques, self.min_block)
        domains = judge_domains(layout, {node.node: node for node in nodes}, views)
        unexpected = unexpected_nodes(self.expected, by_node)
        domains, unexpected = self._date(domains, unexpected, now_ns)
        since_ns = self._since(verdict, now_ns)
        status = RackStatus(
            rack=self.expected.rack,
            verdict=verdict,
            since_ns=since_ns,
            min_block=self.min_block,
            largest_block=largest_block(cliques),
            observed_ns=now_ns,
            generation=0,
            nodes=nodes,
            domains=domains,
            reasons=(),
            frozen=frozen,
            cliques=cliques,
        )
        status = replace(
            status,
            reasons=_rack_reasons(status, unexpected),
        )
        return self._numbered(status)

    def release_latch(self, node: str) -> bool:
        """Let a latched node in again, as after a repair or a passed verification.

        Returns:
            Whether there is such a node, and it was latched.
        """
        tracker = self._trackers.get(node)
        return tracker is not None and tracker.release_latch()

    def export(self) -> dict[str, object]:
        """Return what must outlive the service, as plain JSON values."""
        return {
            "generation": self._generation,
            "verdict": self._verdict.value if self._verdict else "",
            "since_ns": self._since_ns,
            "nodes": {node: tracker.export() for node, tracker in self._trackers.items()},
        }

    def _date(
        self, domains: tuple[DomainStatus, ...], unexpected: tuple[Reason, ...], now_ns: int
    ) -> tuple[tuple[DomainStatus, ...], tuple[Reason, ...]]:
        """Say since when a split holds, and a node that nobody declared is polled."""
        undated = [*_split(domains), *unexpected]
        dated = dict(zip(undated, self._first_seen.date(undated, now_ns), strict=True))
        return (
            tuple(
                replace(domain, reasons=tuple(dated.get(own, own) for own in domain.reasons))
                for domain in domains
            ),
            tuple(dated[own] for own in unexpected),
        )

    def _since(self, verdict: Verdict, now_ns: int) -> int:
        """Return since when a verdict holds; while first polls are on their way, nothing is concluded."""
        if verdict is self._verdict:
            return min(self._since_ns, now_ns)
        if self._verdict is None or all(tracker.heard for tracker in self._trackers.values()):
            self._verdict, self._since_ns = verdict, now_ns
        return now_ns

    def _numbered(self, status: RackStatus) -> RackStatus:
        """Give a status its generation: the next one if anything but times and values changed."""
        now = essence(status)
        if now != self._essence:
            self._essence = now
            self._generation += 1
        return replace(status, generation=self._generation)


def _maintained(node: str, windows: Iterable[MaintenanceWindow]) -> Reason | None:
    window = window_of(node, windows)
    return None if window is None else maintenance_reason(window, node)


def _node_memories(exported: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Return what was exported of each node; one that was not silent was good when the service last ran."""
    nodes = exported.get("nodes")
    if not isinstance(nodes, dict):
        return {}
    observed = exported.get("observed_ns")
    return {
        node: {"last_good_ns": observed if own.get("silent_since_ns") is None else None, **own}
        for node, own in nodes.items()
        if isinstance(own, dict)
    }


def _whole(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _verdict(value: object) -> Verdict | None:
    try:
        return Verdict(value)
    except ValueError:
        return None


def _rack_reasons(status: RackStatus, unexpected: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Collect the rack's reasons: what costs the block, then what the rules over several nodes found."""
    found = [own for node in status.nodes for own in node.reasons if own.check in RULE_CHECKS]
    ordered = worst_first([*_split(status.domains), *found, *unexpected])
    if status.verdict is Verdict.AVAILABLE:
        return ordered
    costing = [
        reason
        for node in status.nodes
        if not node.schedulable
        for reason in node.reasons
        if reason.impact.unschedulable and reason.check not in RULE_CHECKS
    ]
    return (_block_reason(status), *worst_first([*costing, *ordered]))


def _split(domains: tuple[DomainStatus, ...]) -> list[Reason]:
    return [reason for domain in domains for reason in domain.reasons if reason.check == "split_domain"]


def _block_reason(status: RackStatus) -> Reason:
    """Say in one sentence why the block cannot be had."""
    out = {
        state: [node.node for node in status.nodes if node.state is state and not node.schedulable]
        for state in (NodeState.FAILED, NodeState.DEGRADED, NodeState.UNKNOWN, NodeState.MAINTENANCE)
    }
    counts = ", ".join(f"{len(nodes)} {state.value}" for state, nodes in out.items() if nodes)
    return Reason(
        check="block",
        impact=Impact.FAIL if status.verdict is Verdict.UNAVAILABLE else Impact.AVOID,
        text=f"the largest block has {status.largest_block} of the {status.min_block} nodes that it must have"
        + (f"; out: {counts}" if counts else ""),
        action="See the nodes' own reasons.",
        metric="rack_largest_block_nodes",
        value=status.largest_block,
        threshold=status.min_block,
        since_ns=status.since_ns,
    )
