"""What happened on the node: NVML's incidents and the kernel log's Xids, each once, as events."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from collector.accounts import Accounts
from collector.health.evaluate import Checker
from collector.health.kernel_log import PciAddress, XidLine, pci_address, show_address
from collector.health.xid_join import Told, XidJoin
from collector.health.xid_memory import SeenXid
from collector.model import Event
from collector.readings import GpuIdentity, Incident, KernelRecord

_MAXIMUM_EVENTS = 1000
_HOLD_NS = 1_500_000_000
"""How long an Xid that NVML brought waits for its line in the kernel log before it is shown. Whoever asks by
cursor sees an event once, so it must be whole by then; the line comes within the log's polling period."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A GPU, as events name it."""

    index: str
    uuid: str


_NO_GPU = _Gpu("", "")


class EventLog:
    """The newest events of a node; tells accounts and checks of them, too."""

    def __init__(self, accounts: Accounts, checker: Checker) -> None:
        """Begin with none.

        Args:
            accounts: Count the Xids.
            checker: Judges by them.
        """
        self._accounts = accounts
        self._checker = checker
        self._events: deque[Event] = deque(maxlen=_MAXIMUM_EVENTS)
        self._cursor = 0
        self._held_until_ns: dict[int, int] = {}
        self._join = XidJoin()
        self._by_uuid: Mapping[str, _Gpu] = {}
        self._by_address: Mapping[PciAddress, _Gpu] = {}

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return tuple(self._events)

    def settled(self, now_ns: int) -> tuple[Event, ...]:
        """Return the events up to the first that still waits for its line in the kernel log.

        Args:
            now_ns: The present, nanoseconds of Unix time.
        """
        self._held_until_ns = {
            cursor: until_ns for cursor, until_ns in self._held_until_ns.items() if now_ns < until_ns
        }
        first_held = min(self._held_until_ns, default=self._cursor + 1)
        return tuple(event for event in self._events if event.cursor < first_held)

    def know(self, gpus: tuple[GpuIdentity, ...]) -> None:
        """Take over which GPUs there are, the missing ones included."""
        self._by_uuid = {gpu.uuid: _Gpu(str(gpu.index), gpu.uuid) for gpu in gpus}
        addresses = {gpu.uuid: pci_address(gpu.texts.get("pci_bus_id", "")) for gpu in gpus}
        self._by_address = {
            address: self._by_uuid[uuid] for uuid, address in addresses.items() if address is not None
        }

    def note(self, incident: Incident) -> bool:
        """Take in what NVML told.

        Returns:
            Whether there are new series: an Xid that was not seen on its GPU before.
        """
        gpu = self._by_uuid.get(incident.gpu_uuid, _Gpu("", incident.gpu_uuid))
        if incident.kind != "xid" or incident.code is None:
            if incident.kind == "gpu_returned":
                self._checker.see_return(gpu.uuid)
            self._append(Event(0, incident.time_ns, incident.kind, gpu.uuid, gpu.index, incident.code))
            return False
        if gpu.uuid and self._join.match_nvml(gpu.uuid, incident.code, incident.time_ns) is not None:
            return False
        line = XidLine((0, 0, 0), incident.code)
        told, new_series = self._first(gpu, self._seen(line, incident.time_ns), "")
        if gpu.uuid:
            self._join.wait_for_kernel(gpu.uuid, told)
            self._held_until_ns[told.cursor] = incident.time_ns + _HOLD_NS
        return new_series

    def note_line(self, line: XidLine, record: KernelRecord, *, counted: bool) -> bool:
        """Take in an Xid of the kernel log.

        Args:
            line: What it says.
            record: Where it stands.
            counted: Whether an agent before this one, in the same boot, has counted it already: then it is
                known for the checks alone.

        Returns:
            Whether there are new series.
        """
        gpu = self._by_address.get(line.address, _NO_GPU)
        seen = self._seen(line, record.time_ns)
        if counted:
            if gpu.uuid:
                self._checker.see_xid(gpu.uuid, seen)
            return False
        told = self._join.match_kernel(gpu.uuid, line.code, record.time_ns) if gpu.uuid else None
        if told is not None:
            self._amend(gpu, told, seen, line.detail)
            return False
        detail = line.detail if gpu.uuid else f"PCI {show_address(line.address)}: {line.detail}"
        told, new_series = self._first(gpu, seen, detail)
        if gpu.uuid:
            self._join.wait_for_nvml(gpu.uuid, told)
        return new_series

    def _seen(self, line: XidLine, time_ns: int) -> SeenXid:
        severity = self._checker.catalogue.find(line.code).severity_of(line.subcode, line.word)
        return SeenXid(time_ns, line.code, severity, line.subcode, line.link)

    def _first(self, gpu: _Gpu, seen: SeenXid, detail: str) -> tuple[Told, bool]:
        """Take in an Xid of which nobody has told before."""
        event = Event(0, seen.time_ns, "xid", gpu.uuid, gpu.index, seen.code)
        self._append(_described(event, seen, detail))
        new_series = False
        if gpu.uuid:
            self._checker.see_xid(gpu.uuid, seen)
            new_series = self._accounts.see_xid(gpu.index, gpu.uuid, seen.code, seen.time_ns)
        return Told(self._cursor, seen), new_series

    def _amend(self, gpu: _Gpu, told: Told, seen: SeenXid, detail: str) -> None:
        """Add what the kernel log says to the event that NVML brought first."""
        self._held_until_ns.pop(told.cursor, None)
        self._checker.amend_xid(gpu.uuid, told.seen, seen)
        for position, event in enumerate(self._events):
            if event.cursor == told.cursor:
                self._events[position] = replace(_described(event, seen, detail), time_ns=seen.time_ns)

    def _append(self, event: Event) -> None:
        self._cursor += 1
        self._events.append(replace(event, cursor=self._cursor))


def _described(event: Event, seen: SeenXid, detail: str) -> Event:
    return replace(event, severity=seen.severity, subcode=seen.subcode, link=seen.link, detail=detail)
