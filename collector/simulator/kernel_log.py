"""The kernel log of a simulated node: the lines that the driver writes about its Xids.

Records have the form of /dev/kmsg (Linux, Documentation/ABI/testing/dev-kmsg), lines the form that NVIDIA's
driver gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from collector.simulator.codes import EVENT_XID
from collector.simulator.node import SimulatedNode
from collector.simulator.timekeeper import TICK_SECONDS
from collector.simulator.timeline import ScheduledEvent

_KERNEL_ERROR: Final = 3
"""Facility LOG_KERN, level LOG_ERR (syslog.h)."""
_NVLINK_WORDS: Final = (
    "{subcode}  Fatal   XC0 i0 Link {link:02d} (0x021425c6 0x00000000 0x00000000 0x00000000)"
)
_SUBCODES: Final = {149: "NETIR_LINK_EVT"}
_WORDS: Final = {
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    74: "NVLink: fatal error detected on link {link}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
}
_OTHER_WORDS: Final = "simulated"
_PROCESS: Final = "pid=4242, name=simulated, "


class SimulatedKernelLog:
    """The log as it can be read, without waiting, from its beginning."""

    def __init__(self, node: SimulatedNode, *, started_at: float, clock: Callable[[], float]) -> None:
        """Begin at the node's start.

        Args:
            node: The node.
            started_at: When the node started, seconds of the clock.
            clock: Monotonic seconds since boot.
        """
        self._lines = _records(node, started_at)
        self._clock = clock
        self._next = next(self._lines, None)

    def fileno(self) -> int | None:
        """Return None: there is nothing to wait on."""
        return None

    def read(self) -> bytes:
        """Return the next record; raises BlockingIOError if there is none yet."""
        if self._next is None or self._next[0] > self._clock():
            raise BlockingIOError
        record = self._next[1]
        self._next = next(self._lines, None)
        return record

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _records(node: SimulatedNode, started_at: float) -> Iterator[tuple[float, bytes]]:
    """Yield when each record comes, on the clock, and the record."""
    events = (event for event in node.timeline.events if event.event_type == EVENT_XID)
    for position, event in enumerate(events):
        at = started_at + event.tick * TICK_SECONDS
        # Rising over one boot of the machine, also from one simulation to the next.
        sequence = int(at * 1e6) + position
        domain, bus, device = node.identity.gpus[event.gpu].pci_bus_id.split(":")
        address = f"{domain[-4:]}:{bus}:{device[:2]}".lower()
        text = f"NVRM: Xid (PCI:{address}): {event.data}, {_words(event)}"
        yield at, f"{_KERNEL_ERROR},{sequence},{int(at * 1e6)},-;{text}\n".encode()


def _words(event: ScheduledEvent) -> str:
    if event.data in _SUBCODES and event.link is not None:
        return _NVLINK_WORDS.format(subcode=_SUBCODES[event.data], link=event.link)
    return _PROCESS + _WORDS.get(event.data, _OTHER_WORDS).format(link=event.link)
