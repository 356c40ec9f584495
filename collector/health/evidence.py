"""From a Snapshot's flat vector to what judges see: each GPU's values, and what is remembered of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.catalog import BY_NAME
from collector.catalog.spec import Entity
from collector.health.check_spec import Cell, Cells, GpuEvidence
from collector.health.rises import Rise
from collector.health.xid_memory import XidMemory
from collector.model import Series, SeriesTable, Value

RISING = (
    ("gpu_ecc_uncorrected_total", ""),
    ("gpu_nvlink_errors_total", ""),
    ("gpu_pcie_replays_total", ""),
    ("nvlink_errors_total", ""),
    ("nvlink_recoveries_total", "failed"),
)
"""Counters whose growth is judged, with the value of their own label."""

_SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake")
_WAITING = ("not_started", "in_progress")
_LONGEST_WINDOW_SECONDS = 600.0
_MINUTE_NS = 60_000_000_000
_KEPT_MINUTES = 32
_INFO_LABELS = BY_NAME["gpu_info"].info_labels
_INFO_KEYS = len(Entity.GPU.keys)


@dataclass(slots=True)
class GpuMemory:
    """What is remembered of a GPU from one Snapshot to the next.

    Attributes:
        xids: Its Xids.
        rises: Growth of its counters, by metric, label and link.
        slow_minutes: Minutes of Unix time in which hardware held its clocks down.
        waiting_since_ns: Since when its fabric registration goes on; None while it does not.
        energy_joules: Last reading of its energy counter, which begins anew with a reset or a driver load.
    """

    xids: XidMemory = field(default_factory=XidMemory)
    rises: dict[tuple[str, str, str], Rise] = field(default_factory=dict)
    slow_minutes: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT_MINUTES))
    waiting_since_ns: int | None = None
    energy_joules: Value | None = None

    def update(self, gpu: GpuEvidence, now_ns: int, clean_seconds: float) -> None:
        """Take in the newest values."""
        cells = gpu.cells
        for metric, label in RISING:
            if cells.has(metric, label):
                self._rise(metric, label, "").read(cells.get(metric, label), now_ns)
        for link, own in gpu.links.items():
            for metric, label in RISING:
                if own.has(metric, label):
                    self._rise(metric, label, link).read(own.get(metric, label), now_ns)
        minute = now_ns // _MINUTE_NS
        slow = any(cells.get("gpu_clock_event_active", reason) for reason in _SLOWDOWNS)
        if slow and (not self.slow_minutes or self.slow_minutes[-1] != minute):
            self.slow_minutes.append(minute)
        self._update_waiting(cells, now_ns)
        self._update_cure(cells, now_ns, clean_seconds)

    def _rise(self, metric: str, label: str, link: str) -> Rise:
        key = (metric, label, link)
        rise = self.rises.get(key)
        if rise is None:
            rise = self.rises[key] = Rise()
        return rise

    def _update_waiting(self, cells: Cells, now_ns: int) -> None:
        states = [cells.get("gpu_fabric_state", state) for state in _WAITING]
        if any(states):
            self.waiting_since_ns = now_ns if self.waiting_since_ns is None else self.waiting_since_ns
        elif None not in states:
            self.waiting_since_ns = None

    def _update_cure(self, cells: Cells, now_ns: int, clean_seconds: float) -> None:
        """See a reset or driver load by the energy counter, or ten clean minutes with nothing asked for."""
        energy = cells.get("gpu_energy_joules_total")
        if energy is not None:
            if self.energy_joules is not None and energy < self.energy_joules:
                self.xids.cure()
            self.energy_joules = energy
        if cells.get("gpu_recovery_action", "none") == 1:
            self.xids.cure_if_clean(now_ns, clean_seconds)


@dataclass(slots=True)
class _GpuPlaces:
    index: str
    uuid: str
    texts: Mapping[str, str] = field(default_factory=dict)
    cells: dict[Cell, int] = field(default_factory=dict)
    links: dict[str, dict[Cell, int]] = field(default_factory=dict)


class Places:
    """Where the values of each GPU and of the node stand; made once a table."""

    def __init__(self, table: SeriesTable) -> None:
        """Sort the series of a table by what they are about."""
        self.table = table
        self._gpus: dict[str, _GpuPlaces] = {}
        self._node: dict[Cell, int] = {}
        for position, series in enumerate(table.series):
            self._place(position, series)

    def _place(self, position: int, series: Series) -> None:
        metric, labels = series.metric, series.labels
        own = labels[-1] if metric.label else ""
        if metric.entity is Entity.NODE:
            self._node[metric.name, own] = position
        if metric.entity not in (Entity.GPU, Entity.NVLINK):
            return
        index, uuid = labels[:2]
        gpu = self._gpus.setdefault(uuid, _GpuPlaces(index, uuid))
        if metric.entity is Entity.NVLINK:
            gpu.links.setdefault(labels[2], {})[metric.name, own] = position
            return
        gpu.cells[metric.name, own] = position
        if metric.name == "gpu_info":
            gpu.texts = dict(zip(_INFO_LABELS, labels[_INFO_KEYS:], strict=True))

    def uuids(self) -> tuple[str, ...]:
        """Return the GPUs of which anything is known."""
        return tuple(self._gpus)

    def node(self, values: Sequence[Value | None]) -> Cells:
        """Return the node's own values."""
        return Cells(self._node, values)

    def gpus(
        self, values: Sequence[Value | None], memories: Mapping[str, GpuMemory]
    ) -> Iterator[GpuEvidence]:
        """Yield what is known of each GPU that stands in the table with its presence."""
        for uuid, places in self._gpus.items():
            if ("gpu_up", "") not in places.cells:
                continue
            memory = memories[uuid]
            yield GpuEvidence(
                index=places.index,
                uuid=uuid,
                texts=places.texts,
                cells=Cells(places.cells, values),
                links={link: Cells(cells, values) for link, cells in places.links.items()},
                rises=memory.rises,
                xids=memory.xids,
                slow_minutes=memory.slow_minutes,
                waiting_since_ns=memory.waiting_since_ns,
            )
