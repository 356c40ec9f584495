"""What of a RackStatus makes it another one: everything but times and values."""

from __future__ import annotations

from collections.abc import Iterable

from collector.health.rack_types import DomainStatus, NodeStatus, NodeView, RackStatus, Reason
from collector.model import CheckResult

Essence = tuple[object, ...]
"""Nested tuples, and mappings of texts; to be compared, not hashed."""


def essence(status: RackStatus) -> Essence:
    """Return what two statuses must have in common to be of one generation."""
    return (
        status.rack,
        status.verdict,
        status.min_block,
        status.largest_block,
        status.frozen,
        status.cliques,
        tuple(map(_node, status.nodes)),
        tuple(map(_domain, status.domains)),
        _reasons(status.reasons),
    )


def _node(node: NodeStatus) -> Essence:
    view = node.poll.view
    return (
        node.node,
        node.state,
        node.schedulable,
        node.clique,
        node.latched,
        node.poll.address,
        node.poll.error == "",
        node.poll.witness,
        None if view is None else _view(view),
        _reasons(node.reasons),
    )


def _view(view: NodeView) -> Essence:
    return (
        view.rack,
        view.node,
        view.agent_id,
        view.boot_id,
        view.nvml_up,
        view.identity,
        view.gpus_expected,
        view.cluster_uuid,
        view.clique,
        view.fabric_complete,
        view.chassis_serial,
        view.slot,
        view.tray,
        tuple(map(_check, view.checks)),
        tuple(
            (gpu.uuid, gpu.index, gpu.up, gpu.state, gpu.texts, tuple(map(_check, gpu.checks)))
            for gpu in view.gpus
        ),
    )


def _check(check: CheckResult) -> Essence:
    return (check.check, check.impact, check.failed, check.gpu_uuid, check.threshold)


def _domain(domain: DomainStatus) -> Essence:
    return (
        domain.cluster_uuid,
        domain.clique,
        domain.state,
        domain.expected,
        domain.members,
        domain.schedulable,
        _reasons(domain.reasons),
    )


def _reasons(reasons: Iterable[Reason]) -> Essence:
    # The text may carry a value, so it does not count.
    return tuple(
        (reason.check, reason.impact, reason.node, reason.gpu_uuid, reason.metric, reason.threshold)
        for reason in reasons
    )
