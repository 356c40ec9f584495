"""A rack service that answers with the literals of `tests/rest_literals.py`, and with what tests change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from collector.efficiency.answer import Efficiency
from collector.efficiency.baseline import Baseline
from collector.efficiency.baselines import take_baselines
from collector.efficiency.compute import compute_efficiency
from collector.efficiency.figure import figure
from collector.efficiency.fleet import FleetModel
from collector.efficiency.price import Price
from collector.efficiency.rollup import Rollup
from collector.health.availability import Availability
from collector.health.ledger_rows import LedgerEvent
from collector.health.maintenance import Maintenance, MaintenanceWindow
from collector.health.rack_types import DomainStatus, ExpectedRack, RackStatus
from collector.model import Snapshot
from collector.profiles import references
from collector.rack.answers import GpuFound, NodeFound, Target, find_gpu, find_node
from tests.efficiency_literals import ENDS_NS, MODEL, PRICE, STARTS_NS, USAGE, baseline, model, rollup
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
    # 64 of 72 GPUs serve the model, 8 do nothing.
    rollups: dict[str, Rollup] = field(
        default_factory=lambda: {"r01": rollup({MODEL: model(gpus=64, gpu_watts=76_800.0)}), "h01": Rollup()}
    )
    known_baselines: dict[str, Baseline] = field(default_factory=lambda: {"b-1": baseline()})
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

    async def efficiency(self, rack: str, window_seconds: float) -> Efficiency | None:
        await asyncio.sleep(self.ledger_seconds)
        if rack not in self.rollups:
            return None
        # Two racks write 10,000 tokens/s together; the baseline of one is 10,100.
        two_racks = FleetModel(
            generation_tokens=figure(3_000_000.0), racks=figure(2.0), saturation_ratio=figure(0.75)
        )
        usage = replace(USAGE, rack="h01", platform="hgx-h100", gpus=24, shelves_configured=False)
        return compute_efficiency(
            self.rollups[rack],
            USAGE if rack == "r01" else usage,
            starts_ns=STARTS_NS,
            ends_ns=ENDS_NS,
            price=PRICE if rack == "r01" else Price(),
            references=references.load(),
            baselines=self.known_baselines.values(),
            fleet={MODEL: two_racks},
        )

    async def baselines(self, rack: str | None = None) -> tuple[Baseline, ...]:
        await asyncio.sleep(self.ledger_seconds)
        found = [each for each in self.known_baselines.values() if rack in (None, each.rack)]
        return tuple(sorted(found, key=lambda each: each.recorded_ns, reverse=True))

    async def record_baseline(
        self, rack: str, *, window_seconds: float, model: str | None, note: str, created_by: str
    ) -> tuple[Baseline, ...]:
        measured = await self.efficiency(rack, window_seconds)
        assert measured is not None
        self.declared += 1
        recorded = take_baselines(
            measured,
            model,
            recorded_ns=NOW_NS,
            note=note,
            created_by=created_by,
            make_id=lambda: f"b-new{self.declared}",
        )
        self.known_baselines |= {each.id: each for each in recorded}
        return recorded

    async def forget_baseline(self, baseline_id: str) -> Baseline | None:
        return self.known_baselines.pop(baseline_id, None)

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
