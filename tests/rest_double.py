"""A rack service that answers with the literals of `tests/rest_literals.py`, and with what tests change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from collector.health.availability import Availability
from collector.health.ledger_rows import LedgerEvent
from collector.health.maintenance import Maintenance, MaintenanceWindow
from collector.health.rack_types import DomainStatus, ExpectedRack, RackStatus
from collector.model import Snapshot
from collector.rack.answers import GpuFound, NodeFound, Target, find_gpu, find_node
from tests.exporter_snapshots import EMPTY
from tests.rest_literals import NODES, NOW_NS, SECOND_NS, WINDOW, make_events, make_h01, make_r01


@dataclass
class ServiceDouble:
    """Answers what it is told to; counts how often the series were made."""

    statuses: dict[str, RackStatus] = field(default_factory=lambda: {"r01": make_r01(), "h01": make_h01()})
    known_events: tuple[LedgerEvent, ...] = field(default_factory=make_events)
    not_ready: str = ""
    newest: Snapshot = EMPTY
    maintenance: Maintenance = field(default_factory=lambda: Maintenance([WINDOW]))
    declared: int = 0
    ledger_seconds: float = 0.0

    stale_after_seconds: float = 15.0

    @property
    def generation(self) -> int:
        return sum(status.generation for status in self.statuses.values())

    @property
    def observed_ns(self) -> int:
        return min((status.observed_ns for status in self.statuses.values()), default=0)

    def evaluate_again(self, seconds: float = 1.0, **changes: object) -> None:
        """Evaluate r01 a little later, with what changed."""
        own = self.statuses["r01"]
        later = own.observed_ns + int(seconds * SECOND_NS)
        self.statuses["r01"] = replace(own, observed_ns=later, **changes)  # type: ignore[arg-type]  # as in fields
        self.statuses["h01"] = replace(self.statuses["h01"], observed_ns=later)

    def why_not_ready(self) -> str:
        return self.not_ready

    def racks(self) -> tuple[RackStatus, ...]:
        return tuple(self.statuses.values())

    def rack(self, name: str) -> RackStatus | None:
        return self.statuses.get(name)

    def expected(self, name: str) -> ExpectedRack | None:
        return {
            "r01": ExpectedRack("r01", "gb300-nvl72", NODES, gpus_per_node=4),
            "h01": ExpectedRack("h01", "hgx-h100", NODES[:3], gpus_per_node=8, rack_wide_fabric=False),
        }.get(name)

    def node(self, name: str, rack: str | None = None) -> NodeFound | None:
        return find_node(self.statuses, name, rack)

    def gpu(self, gpu_uuid: str) -> GpuFound | None:
        return find_gpu(self.statuses.values(), gpu_uuid)

    def domains(self) -> tuple[tuple[str, DomainStatus], ...]:
        return tuple((status.rack, domain) for status in self.racks() for domain in status.domains)

    def targets(self) -> tuple[Target, ...]:
        return (Target("n01:10072", "r01", "n01"), Target("[fd00::7]:10072", "r01", "n07"))

    def snapshot(self) -> Snapshot:
        return self.newest

    async def availability(
        self, rack: str, window_seconds: float, min_block: int | None = None
    ) -> Availability | None:
        await asyncio.sleep(self.ledger_seconds)
        if rack not in self.statuses:
            return None
        # 99 h available, 1 h not, of 100 h: 0.99; budget of 1 % of 100 h is one hour, all of it used.
        return Availability(
            rack=rack,
            starts_ns=NOW_NS - int(window_seconds) * SECOND_NS,
            ends_ns=NOW_NS,
            min_block=min_block,
            slo=0.99,
            available_seconds=356_400.0,
            unavailable_seconds=3600.0,
            excused_seconds=7200.0,
            unknown_seconds=0.0,
            uncovered_seconds=0.0,
            low=0.99,
            point=0.99,
            high=0.99,
            coverage=1.0,
            insufficient_data=False,
            budget_seconds=3600.0,
            budget_used=1.0,
            incidents=2,
            open_incidents=1,
            node_operating_seconds=6_480_000.0,
            node_down_seconds=7200.0,
            mtbf_seconds=3_240_000.0,
            mttr_seconds=None,
        )

    async def events(
        self,
        *,
        after: int | None = None,
        limit: int = 100,
        rack: str | None = None,
        node: str | None = None,
        kind: str | None = None,
        gpu_uuid: str | None = None,
        since_ns: int = 0,
        until_ns: int = 2**63 - 1,
    ) -> tuple[LedgerEvent, ...]:
        await asyncio.sleep(self.ledger_seconds)
        found = [
            event
            for event in self.known_events
            if (after is None or event.id < after)
            and rack in (None, event.rack)
            and node in (None, event.node)
            and kind in (None, event.kind)
            and gpu_uuid in (None, event.gpu_uuid)
            and since_ns <= event.time_ns < until_ns
        ]
        return tuple(found[:limit])

    def maintenance_windows(self, rack: str | None = None) -> tuple[MaintenanceWindow, ...]:
        return self.maintenance.windows(rack)

    def maintenance_window(self, window_id: str) -> MaintenanceWindow | None:
        return self.maintenance.get(window_id)

    async def create_maintenance(
        self,
        rack: str,
        *,
        ends_ns: int,
        starts_ns: int | None = None,
        nodes: Iterable[str] = (),
        reason: str = "",
        created_by: str = "",
    ) -> MaintenanceWindow:
        self.declared += 1
        window = MaintenanceWindow(
            id=f"m-new{self.declared}",
            rack=rack,
            nodes=tuple(nodes),
            starts_ns=NOW_NS if starts_ns is None else starts_ns,
            ends_ns=ends_ns,
            created_ns=NOW_NS,
            reason=reason,
            created_by=created_by,
        )
        return self.maintenance.declare(window, [node.node for node in self.statuses[rack].nodes])

    async def end_maintenance(self, window_id: str) -> MaintenanceWindow | None:
        return self.maintenance.end(window_id, NOW_NS)
