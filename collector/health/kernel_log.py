"""Xid lines of the NVIDIA driver in the kernel log.

Forms, as the open kernel modules and NVIDIA's Xid documentation show them:

    NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.
    NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 …)
    NVRM: Xid (PCI:0000:00:1e): 145, pid=4, name=<unknown>, RLW_SRC_TRACK Nonfatal XC 1 i 2 Link 17 [0x1]

A process chooses its name, so what stands behind it is not to be trusted beyond that one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAXIMUM_DETAIL = 200
_LINE = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.[0-7])?"
    r"(?: GPU-I:[0-9a-fA-F]{1,4})?\): ([0-9]{1,5})(?![0-9])(?:,\s*(.*))?",
    re.ASCII | re.DOTALL,
)
_NVLINK = re.compile(
    r"(?:pid=.{0,16}?, name=.{0,64}?, )?([A-Z][A-Z0-9_]{1,40})\s+(Fatal|Nonfatal)"
    r"\s+XC ?[0-9]{1,3}\s+i ?[0-9]{1,3}(?:\s+Link ([0-9]{1,3})\b)?",
    re.ASCII,
)
_NVLINK_CODES = range(144, 151)
"""Xids of NVLink 5, whose lines tell sub-code, severity and link (Xid catalogue, 144 to 150)."""
_BUS_ID = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.[0-7])?", re.ASCII)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

PciAddress = tuple[int, int, int]
"""Domain, bus and device."""


@dataclass(frozen=True, slots=True)
class XidLine:
    """What one line says.

    Attributes:
        address: The GPU on the PCI bus.
        code: The Xid.
        subcode: Sub-code of an NVLink 5 event, or empty.
        word: `Fatal`, `Nonfatal`, or empty.
        link: The NVLink, or None.
        detail: The rest of the line: bounded, printable, of the driver and of processes.
    """

    address: PciAddress
    code: int
    subcode: str = ""
    word: str = ""
    link: int | None = None
    detail: str = ""


def parse_xid(text: str) -> XidLine | None:
    """Read a message of the kernel log; None if it is no Xid."""
    match = _LINE.match(text)
    if match is None:
        return None
    domain, bus, device, code, rest = match.groups()
    detail = _CONTROL_CHARACTERS.sub("\ufffd", rest or "").strip()[:_MAXIMUM_DETAIL]
    line = XidLine((int(domain, 16), int(bus, 16), int(device, 16)), int(code), detail=detail)
    nvlink = _NVLINK.match(detail) if line.code in _NVLINK_CODES else None
    if nvlink is None:
        return line
    subcode, word, link = nvlink.groups()
    return XidLine(line.address, line.code, subcode, word, None if link is None else int(link), detail)


def pci_address(bus_id: str) -> PciAddress | None:
    """Read a bus id as NVML writes it, such as `00000000:3B:00.0`; None if it is none."""
    match = _BUS_ID.fullmatch(bus_id)
    return None if match is None else (int(match[1], 16), int(match[2], 16), int(match[3], 16))


def show_address(address: PciAddress) -> str:
    """Write an address as the kernel log does: `0000:3b:00`."""
    domain, bus, device = address
    return f"{domain:04x}:{bus:02x}:{device:02x}"
