"""The sentences of a node's own reasons: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from collector.health.node_memory import NodeMemory
from collector.health.rack_types import NodeView, Poll, Reason
from collector.health.states import Impact
from collector.health.tracker_rules import TrackerRules

_SEVERITY = {Impact.FAIL: 0, Impact.AVOID: 1, Impact.WARN: 2, Impact.INFO: 3}

FABRIC_METRIC = "gpu_fabric"
"""Prefix of the metrics by which a check judges the fabric itself (CONTRACTS §2)."""


def worst_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Sort reasons by impact, keeping the order of equals."""
    return tuple(sorted(reasons, key=lambda reason: _SEVERITY[reason.impact]))


class FirstSeen:
    """Dates reasons that do not say themselves since when they hold (`since_ns` 0)."""

    def __init__(self) -> None:
        """Begin without having seen any."""
        self._seen: dict[tuple[str, str, str, str], int] = {}

    def date(self, reasons: Iterable[Reason], now_ns: int) -> tuple[Reason, ...]:
        """Return the reasons, dated; what is not among them any more begins anew when it comes again."""
        seen: dict[tuple[str, str, str, str], int] = {}
        dated = []
        for reason in reasons:
            own = reason
            if not reason.since_ns:
                key = (reason.check, reason.node, reason.gpu_uuid, reason.metric)
                seen[key] = min(self._seen.get(key, now_ns), now_ns)
                own = replace(reason, since_ns=seen[key])
            dated.append(own)
        self._seen = seen
        return tuple(dated)


def silent(node: str, poll: Poll, memory: NodeMemory, rules: TrackerRules) -> Reason:
    """Say that there was no good poll for too long."""
    said = [poll.error]
    if poll.view is not None and not poll.view.nvml_up and poll.view.reason not in poll.error:
        said.append(poll.view.reason)
    why = "; ".join(filter(None, said)) or "it was not polled yet"
    witness = "; its host answers, so that the agent is at fault" if poll.witness is False else ""
    return Reason(
        check="poll",
        impact=Impact.AVOID,
        text=f"no good poll for {rules.missed_polls} poll intervals: {why}{witness}",
        action=f"See that the agent runs and that NVML answers there: `rackwatt check` on {node}.",
        node=node,
        metric="agent_nvml_up",
        since_ns=poll.last_good_ns or memory.silent_since_ns or 0,
    )


def gone(node: str, poll: Poll, memory: NodeMemory) -> Reason:
    """Say that a second witness says that the host is gone."""
    return Reason(
        check="witness",
        impact=Impact.FAIL,
        text="its agent does not answer, and a second witness says that the host is gone",
        action="Look at its power and console through its BMC.",
        node=node,
        since_ns=poll.last_good_ns or memory.silent_since_ns or 0,
    )


def flapping(node: str, memory: NodeMemory, rules: TrackerRules) -> tuple[Reason, ...]:
    """Say that the node is held out, if it is."""
    if memory.latched_since_ns is None:
        return ()
    hours = rules.flap_window_seconds / 3600
    return (
        Reason(
            check="flapping",
            impact=Impact.AVOID,
            text=f"it failed {rules.flap_entries} times within {hours:g} hours and is held out",
            action="Inspect it; then release it: end a declared maintenance of it, or pass a verification.",
            node=node,
            threshold=rules.flap_entries,
            since_ns=memory.latched_since_ns,
        ),
    )


def recovering(node: str, memory: NodeMemory, rules: TrackerRules) -> Reason:
    """Say that the node has to be clean for a while."""
    checks = ", ".join(memory.failed_checks) or "an earlier failure"
    return Reason(
        check="recovering",
        impact=Impact.FAIL,
        text=f"it failed ({checks}) and has to be clean for {rules.clean_seconds / 60:g} minutes",
        action="Wait, or reboot it if a reboot cures the failure.",
        node=node,
        since_ns=memory.clean_since_ns or memory.failed_since_ns or 0,
    )


def fabric_in_progress(node: str, since_ns: int) -> Reason:
    """Say that the node's GPUs are still being taken into the fabric."""
    return Reason(
        check="fabric",
        impact=Impact.AVOID,
        text="its GPUs have not all completed their registration with the NVLink fabric",
        action="Wait: after a start of the driver it takes up to minutes.",
        node=node,
        metric="gpu_fabric_state",
        since_ns=since_ns,
    )


def fabric_overdue(progress: Reason, rules: TrackerRules) -> Reason:
    """Say that the registration took too long."""
    return replace(
        progress,
        impact=Impact.FAIL,
        text="its GPUs did not complete their registration with the NVLink fabric within "
        f"{rules.fabric_grace_seconds:g} s",
        action="Look at the fabric manager (NVLink switches) and at the IMEX service; then reset the GPUs.",
    )


def fabric_unknown(node: str, view: NodeView) -> tuple[Reason, ...]:
    """Say that too little is known of the fabric of a platform that has one over the rack."""
    if view.fabric_complete is None:
        text = "nothing is read of the NVLink fabric, which its platform has over the rack"
    elif view.fabric_complete and not (view.cluster_uuid and view.clique):
        text = "its GPUs do not name one NVLink domain and clique in common"
    else:
        return ()
    return (
        Reason(
            check="fabric",
            impact=Impact.AVOID,
            text=text,
            action="Look at the fabric manager and at the driver's version.",
            node=node,
            metric="gpu_fabric_state",
        ),
    )
