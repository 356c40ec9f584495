"""Incidents of nodes: from FAILED until known to be well again (facts/rack.md §6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from collector.health.rack_types import NodeStatus
from collector.health.states import NodeState

MERGE_NS = 600 * 1_000_000_000
"""A node that fails again within 10 minutes has not had another incident (facts/rack.md §6)."""

_WELL = (NodeState.READY, NodeState.DEGRADED)


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident of a node. Its rack, node and begin identify it.

    Attributes:
        rack: The rack.
        node: The node.
        starts_ns: When the node became FAILED, Unix nanoseconds.
        ends_ns: When it was known to be well again; None while it goes on.
        check: Check for which it failed.
        text: Why, in words.
    """

    rack: str
    node: str
    starts_ns: int
    ends_ns: int | None
    check: str
    text: str


class IncidentBook:
    """Follows the incidents of all nodes.

    An incident goes on while its node is silent or in maintenance: neither says that the node is well.
    """

    def __init__(self, latest: Iterable[Incident] = ()) -> None:
        """Begin with the latest incident of each node."""
        self._latest = {(incident.rack, incident.node): incident for incident in latest}

    def observe(self, rack: str, status: NodeStatus, now_ns: int) -> tuple[Incident | None, bool]:
        """Take in the state of a node.

        Returns:
            The incident that began, went on or ended by it, as it is now, and whether it is a new one; None
            if nothing changed.
        """
        latest = self._latest.get((rack, status.node))
        if status.state is NodeState.FAILED:
            if latest is None or (latest.ends_ns is not None and now_ns - latest.ends_ns >= MERGE_NS):
                reason = status.reasons[0] if status.reasons else None
                begun = Incident(
                    rack=rack,
                    node=status.node,
                    starts_ns=now_ns,
                    ends_ns=None,
                    check=reason.check if reason else "",
                    text=reason.text if reason else "",
                )
                return self._keep(begun), True
            if latest.ends_ns is not None:
                return self._keep(replace(latest, ends_ns=None)), False
        elif status.state in _WELL and latest is not None and latest.ends_ns is None:
            return self._keep(replace(latest, ends_ns=max(now_ns, latest.starts_ns))), False
        return None, False

    def latest(self) -> tuple[Incident, ...]:
        """Return the latest incident of each node."""
        return tuple(self._latest.values())

    def _keep(self, incident: Incident) -> Incident:
        self._latest[incident.rack, incident.node] = incident
        return incident
