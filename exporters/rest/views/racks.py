"""Racks, their health and their domains as bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import urlencode

from collector.health.gpu_counts import expected_gpus
from collector.health.rack_judge import verdict_for
from collector.health.rack_types import DomainStatus, ExpectedRack, NodeStatus, RackStatus, Reason
from collector.health.states import GpuState, NodeState, Verdict
from collector.health.verdict import CliqueCount
from exporters.rest.models import racks as bodies
from exporters.rest.models.common import Envelope
from exporters.rest.views.common import SECOND_NS, moment, or_none, reasons, sure_moment

_LOOK_BACK_NS = 600 * SECOND_NS
"""How long before a state its events are looked for: what a node tells first, it need not fail by at once."""

_WORKING = (NodeState.READY, NodeState.DEGRADED)
_USABLE = (GpuState.OK, GpuState.DEGRADED)

_AVOID_ORDER = {
    NodeState.FAILED: 0,
    NodeState.DEGRADED: 1,
    NodeState.UNKNOWN: 2,
    NodeState.MAINTENANCE: 3,
    NodeState.READY: 4,
}
_DRAIN: Mapping[NodeState, Literal["immediate", "when_idle", "none"]] = {
    NodeState.FAILED: "immediate",
    NodeState.DEGRADED: "when_idle",
    NodeState.READY: "when_idle",
    NodeState.UNKNOWN: "none",
    NodeState.MAINTENANCE: "none",
}


def summary(status: RackStatus, expected: ExpectedRack | None) -> bodies.RackSummary:
    """Write a rack in short."""
    return bodies.RackSummary(
        rack=status.rack,
        platform=or_none(expected.platform) if expected else None,
        verdict=status.verdict.value,
        sentence=sentence(status, status.min_block, status.verdict),
        since=moment(status.since_ns),
        min_block=status.min_block,
        largest_block=status.largest_block,
        counts=counts(status, expected),
        frozen=status.frozen,
    )


def rack(envelope: Envelope, status: RackStatus, expected: ExpectedRack | None) -> bodies.RackBody:
    """Write a rack with its nodes, domains and reasons."""
    path = f"/v1/racks/{status.rack}"
    return bodies.RackBody(
        **dict(envelope),
        **dict(summary(status, expected)),
        nodes=[_node(node) for node in status.nodes],
        domains=[domain(status.rack, each) for each in status.domains],
        reasons=reasons(status.reasons),
        links={
            "health": f"{path}/health",
            "availability": f"{path}/availability",
            "nodes": f"{path}/nodes",
            "events": "/v1/events?" + urlencode({"rack": status.rack}),
            "maintenance": "/v1/maintenance?" + urlencode({"rack": status.rack}),
        },
    )


def health(
    envelope: Envelope, status: RackStatus, expected: ExpectedRack | None, min_block: int | None
) -> bodies.HealthBody:
    """Write what schedulers and drain controllers need.

    Args:
        envelope: Envelope of the body.
        status: The rack.
        expected: The rack as it is declared.
        min_block: Block that was asked for; None for the rack's own.

    Raises:
        ConfigurationError: The block lies outside 1 to the number of expected nodes.
    """
    own = min_block is None or min_block == status.min_block
    block = status.min_block if min_block is None else min_block
    verdict = status.verdict if own else verdict_for(status, block)
    best = _best_clique(status.cliques)
    return bodies.HealthBody(
        **dict(envelope),
        rack=status.rack,
        verdict=verdict.value,
        sentence=sentence(status, block, verdict),
        since=moment(status.since_ns) if own else None,
        min_block=block,
        counts=counts(status, expected),
        largest_block=_largest_block(status, best),
        segments=_segments(len(status.nodes), [each.schedulable for each in status.cliques.values()]),
        schedulable=[node.node for node in status.nodes if node.schedulable],
        avoid=_avoid(status),
        drain_budget=_drain_budget(status, best, block),
        frozen=status.frozen,
        reasons=reasons(_why(status)),
    )


def domain(rack_name: str, status: DomainStatus) -> bodies.DomainBody:
    """Write a domain, or a clique of it."""
    return bodies.DomainBody(
        rack=rack_name,
        cluster_uuid=or_none(status.cluster_uuid),
        clique=or_none(status.clique),
        state=status.state.value,
        expected=list(status.expected),
        members=list(status.members),
        schedulable=list(status.schedulable),
        reasons=reasons(status.reasons),
    )


def sentence(status: RackStatus, min_block: int, verdict: Verdict) -> str:
    """Say a verdict in one sentence."""
    have = (
        f"the largest block has {status.largest_block} of {len(status.nodes)} nodes and must have {min_block}"
    )
    unknown = _count(status, NodeState.UNKNOWN)
    return {
        Verdict.AVAILABLE: f"{status.rack} is available: {have}.",
        Verdict.UNAVAILABLE: f"{status.rack} is not available: {have}.",
        Verdict.MAINTENANCE: f"{status.rack} is in maintenance: {have}; with those in maintenance it would.",
        Verdict.UNKNOWN: f"{status.rack} may be available or not: {have}; of {unknown} nothing is known.",
    }[verdict]


def counts(status: RackStatus, expected: ExpectedRack | None) -> bodies.Counts:
    """Count nodes by state, and GPUs."""
    per_node = expected.gpus_per_node if expected else None
    return bodies.Counts(
        expected=len(status.nodes),
        ready=_count(status, NodeState.READY),
        degraded=_count(status, NodeState.DEGRADED),
        failed=_count(status, NodeState.FAILED),
        maintenance=_count(status, NodeState.MAINTENANCE),
        unknown=_count(status, NodeState.UNKNOWN),
        gpus_usable=sum(map(_usable_gpus, status.nodes)),
        gpus_expected=expected_gpus(status.nodes, per_node),
    )


def _count(status: RackStatus, state: NodeState) -> int:
    return sum(node.state is state for node in status.nodes)


def _usable_gpus(node: NodeStatus) -> int:
    if node.state not in _WORKING or node.poll.view is None:
        return 0
    return sum(gpu.up and gpu.state in _USABLE for gpu in node.poll.view.gpus)


def _node(node: NodeStatus) -> bodies.NodeSummary:
    view = node.poll.view
    return bodies.NodeSummary(
        node=node.node,
        state=node.state.value,
        schedulable=node.schedulable,
        since=moment(node.since_ns),
        slot=view.slot if view else None,
        tray=view.tray if view else None,
    )


def _best_clique(cliques: Mapping[str, CliqueCount]) -> str | None:
    """Name the clique with the most schedulable nodes; the first of equals."""
    return max(cliques, key=lambda key: cliques[key].schedulable, default=None)


def _largest_block(status: RackStatus, best: str | None) -> bodies.LargestBlock:
    # A clique that was found is keyed `cluster_uuid.clique`; else by its declared name, or the rack's.
    found = next((each for each in status.domains if f"{each.cluster_uuid}.{each.clique}" == best), None)
    declared = best if any(each.clique == best for each in status.domains) else None
    return bodies.LargestBlock(
        domain=or_none(found.cluster_uuid) if found else None,
        clique=or_none(found.clique) if found else declared,
        nodes=status.largest_block,
        segments=_segments(len(status.nodes), [status.largest_block]),
    )


def _segments(nodes: int, blocks: Iterable[int]) -> dict[str, int]:
    """Count segments by size, powers of two down from the largest that the rack could have."""
    held = list(blocks)
    sizes = [1 << exponent for exponent in reversed(range(nodes.bit_length()))]
    return {str(size): sum(block // size for block in held) for size in sizes}


def _drain_budget(status: RackStatus, best: str | None, min_block: int) -> bodies.DrainBudget:
    # A node whose clique is not known may belong to this one, so it counts as missing here.
    expected = sum(node.clique in (best, "") for node in status.nodes)
    used = expected - status.largest_block
    return bodies.DrainBudget(
        max_unavailable=max(0, expected - min_block),
        used=used,
        allow=not status.frozen and status.largest_block > min_block,
    )


def _avoid(status: RackStatus) -> list[bodies.AvoidedNode]:
    out = sorted(
        (node for node in status.nodes if not node.schedulable), key=lambda node: _AVOID_ORDER[node.state]
    )
    return [_avoided(status.rack, node) for node in out]


def _avoided(rack_name: str, node: NodeStatus) -> bodies.AvoidedNode:
    first = next((reason for reason in node.reasons if reason.impact.unschedulable), None)
    return bodies.AvoidedNode(
        node=node.node,
        state=node.state.value,
        action=first.action if first else "See the node's own reasons.",
        since=moment(node.since_ns),
        reason=first.check if first else None,
        text=first.text if first else None,
        evidence=_evidence(rack_name, node, first),
        drain=_DRAIN[node.state],
    )


def _evidence(rack_name: str, node: NodeStatus, reason: Reason | None) -> list[str]:
    query = {"rack": rack_name, "node": node.node}
    if node.since_ns > _LOOK_BACK_NS:
        query["since"] = sure_moment(node.since_ns - _LOOK_BACK_NS)
    events = "/v1/events?" + urlencode(query, safe=":")
    return [events, f"/v1/gpus/{reason.gpu_uuid}"] if reason and reason.gpu_uuid else [events]


def _why(status: RackStatus) -> tuple[Reason, ...]:
    """Give the rack's reasons, then those of nodes that it does not repeat while it is available."""
    known = set(map(_identity, status.reasons))
    rest = (reason for node in status.nodes for reason in node.reasons if _identity(reason) not in known)
    return (*status.reasons, *sorted(rest, key=lambda reason: _IMPACT_ORDER[reason.impact.value]))


_IMPACT_ORDER = {"fail": 0, "avoid": 1, "warn": 2, "info": 3}


def _identity(reason: Reason) -> tuple[str, str, str, str]:
    return reason.check, reason.node, reason.gpu_uuid, reason.text
