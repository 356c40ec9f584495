"""What the REST interface needs of the rack service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from collector.efficiency.answer import Efficiency
from collector.efficiency.baseline import Baseline
from collector.health.availability import Availability
from collector.health.ledger_rows import LedgerEvent
from collector.health.maintenance import MaintenanceWindow
from collector.health.rack_types import DomainStatus, ExpectedRack, RackStatus
from collector.model import Snapshot
from collector.rack.answers import GpuFound, NodeFound, Target

LATEST_NS = 2**63 - 1
"""End of time, as the ledger has it."""


class Present(Protocol):
    """What is known now; answered from memory, at once. Times are nanoseconds of Unix time."""

    @property
    def generation(self) -> int:
        """Rises with every change of anything but times and values."""

    @property
    def observed_ns(self) -> int:
        """When the racks were evaluated last; 0 before the first time."""

    @property
    def stale_after_seconds(self) -> float:
        """Age from which on an answer is not to be relied upon."""

    def why_not_ready(self) -> str:
        """Say why the answers are not complete yet; empty if they are."""

    def racks(self) -> tuple[RackStatus, ...]:
        """Return the newest status of every rack, in the order of declaration."""

    def rack(self, name: str) -> RackStatus | None:
        """Return the newest status of a rack; None if there is none of this name."""

    def expected(self, name: str) -> ExpectedRack | None:
        """Return a rack as it is declared; None if there is none of this name."""

    def node(self, name: str, rack: str | None = None) -> NodeFound | None:
        """Find a node; raises AmbiguousNameError where several racks have one of this name."""

    def gpu(self, gpu_uuid: str) -> GpuFound | None:
        """Find a GPU by its UUID."""

    def domains(self) -> tuple[tuple[str, DomainStatus], ...]:
        """Return every NVLink domain, or clique of one, with the name of its rack."""

    def targets(self) -> tuple[Target, ...]:
        """Return every expected agent, whether it answers or not."""

    def snapshot(self) -> Snapshot:
        """Return the series of all racks; the same object until they are evaluated again."""


class Past(Protocol):
    """What was, from the ledger, which may have to wait for a disk."""

    async def availability(
        self, rack: str, window_seconds: float, min_block: int | None = None
    ) -> Availability | None:
        """Compute a rack's availability until now; None if there is no such rack."""

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
        until_ns: int = LATEST_NS,
    ) -> tuple[LedgerEvent, ...]:
        """Return events, newest first: those of ids below `after`, from `since_ns` on, before `until_ns`."""


class Planned(Protocol):
    """Declared maintenance."""

    def maintenance_windows(self, rack: str | None = None) -> tuple[MaintenanceWindow, ...]:
        """Return the windows, of one rack or of all, by their start; those that have ended, too."""

    def maintenance_window(self, window_id: str) -> MaintenanceWindow | None:
        """Return a window; None if there is none of this id."""

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
        """Declare maintenance; raises ConfigurationError where it cannot be declared like this."""

    async def end_maintenance(self, window_id: str) -> MaintenanceWindow | None:
        """End a window now; None if there is none of this id."""


class Measured(Protocol):
    """What tokens took, from the ledger, and the baselines that were recorded of it."""

    async def efficiency(self, rack: str, window_seconds: float) -> Efficiency | None:
        """Compute a rack's efficiency over the whole minutes until now; None if there is no such rack."""

    async def baselines(self, rack: str | None = None) -> tuple[Baseline, ...]:
        """Return the baselines, of one rack or of all, newest first."""

    async def record_baseline(
        self, rack: str, *, window_seconds: float, model: str | None, note: str, created_by: str
    ) -> tuple[Baseline, ...]:
        """Record what a rack did; raises ConfigurationError where that is no baseline, and says why."""

    async def forget_baseline(self, baseline_id: str) -> Baseline | None:
        """Forget a baseline, and return what it was; None if there is none of this id."""


class RackAnswers(Present, Past, Planned, Measured, Protocol):
    """A rack service, as the REST interface sees it."""
