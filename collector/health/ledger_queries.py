"""What can be asked of a ledger's past: availability, intervals, incidents and events."""

from __future__ import annotations

from abc import ABC, abstractmethod

from collector.health.availability import (
    Availability,
    IncidentCount,
    NodeInterval,
    VerdictInterval,
    compute_availability,
    node_times,
    verdict_times,
)
from collector.health.incidents import Incident
from collector.health.ledger_rows import (
    COUNT_INCIDENTS,
    SELECT_EVENTS,
    SELECT_INCIDENTS,
    SELECT_NODE_STATES,
    SELECT_VERDICTS,
    LedgerEvent,
    Row,
    read_events,
    read_incident_count,
    read_incidents,
    read_node_states,
    read_verdicts,
)

_LAST = 2**63 - 1


class LedgerQueries(ABC):
    """Answers from rows, which a ledger selects."""

    def availability(
        self, rack: str, *, starts_ns: int, ends_ns: int, slo: float, min_block: int | None = None
    ) -> Availability:
        """Compute a rack's availability over a window.

        Args:
            rack: The rack.
            starts_ns: Begin of the window, Unix nanoseconds.
            ends_ns: End of the window.
            slo: Share of time for which the rack should be available.
            min_block: Block to judge the past anew for; None for the block that was asked for at each time.
        """
        return compute_availability(
            rack=rack,
            starts_ns=starts_ns,
            ends_ns=ends_ns,
            slo=slo,
            min_block=min_block,
            verdicts=verdict_times(self.history(rack, starts_ns, ends_ns), starts_ns, ends_ns, min_block),
            nodes=node_times(self.node_history(rack, starts_ns, ends_ns), starts_ns, ends_ns),
            incidents=self._count_incidents(rack, starts_ns, ends_ns),
        )

    def history(self, rack: str, starts_ns: int, ends_ns: int) -> tuple[VerdictInterval, ...]:
        """Return the intervals of verdicts that a window touches, in order."""
        rows = self._select(SELECT_VERDICTS, rack, starts=starts_ns, ends=ends_ns)
        return tuple(own for own in read_verdicts(rows) if own.ends_ns > starts_ns)

    def node_history(
        self, rack: str, starts_ns: int, ends_ns: int, node: str | None = None
    ) -> tuple[NodeInterval, ...]:
        """Return the intervals of node states that a window touches, by node and in order."""
        rows = self._select(SELECT_NODE_STATES, rack, node=node, starts=starts_ns, ends=ends_ns)
        return tuple(read_node_states(rows))

    def incidents(
        self,
        *,
        rack: str | None = None,
        node: str | None = None,
        starts_ns: int = 0,
        ends_ns: int = _LAST,
        limit: int = 1000,
    ) -> tuple[Incident, ...]:
        """Return the incidents that a window touches, newest first."""
        rows = self._select(SELECT_INCIDENTS, rack, node=node, starts=starts_ns, ends=ends_ns, limit=limit)
        return tuple(read_incidents(rows))

    def events(
        self,
        *,
        rack: str | None = None,
        node: str | None = None,
        kind: str | None = None,
        gpu_uuid: str | None = None,
        starts_ns: int = 0,
        ends_ns: int = _LAST,
        before_id: int = _LAST,
        limit: int = 100,
    ) -> tuple[LedgerEvent, ...]:
        """Return events, newest first. The next page is what comes before the last id of this one."""
        rows = self._select(
            SELECT_EVENTS,
            rack,
            node=node,
            kind=kind,
            gpu_uuid=gpu_uuid,
            starts=starts_ns,
            ends=ends_ns,
            before=before_id,
            limit=limit,
        )
        return tuple(read_events(rows))

    def _count_incidents(self, rack: str, starts_ns: int, ends_ns: int) -> IncidentCount:
        rows = self._select(COUNT_INCIDENTS, rack, starts=starts_ns, ends=ends_ns)
        return read_incident_count(rows[0]) if rows else IncidentCount()

    @abstractmethod
    def _select(self, sql: str, rack: str | None, **parameters: str | int | None) -> list[Row]:
        """Read rows, those included that are not on disk yet."""
