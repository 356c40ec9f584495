"""The Xid catalogue: what an Xid means for its GPU, and what to do about it. The rows stand in xids.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Literal

import msgspec

Severity = Literal["fatal", "warn", "app", "info"]
"""Class of an Xid: fatal fails its GPU; the others never do, and but for info count when they repeat."""

SEVERITIES: tuple[Severity, ...] = ("fatal", "warn", "app", "info")
"""Every class, worst first."""

_FATAL_WORDS: Mapping[str, Severity] = {"Fatal": "fatal", "Nonfatal": "info"}
"""What the kernel log says of an NVLink 5 event."""

_ACTIONS: Mapping[str, str] = {
    "CHECK_APP": "look at the application",
    "CHECK_UVM": "restart the application; reset the GPU if it uses unified memory",
    "CONTACT_SUPPORT": "ask NVIDIA's support",
    "IGNORE": "",
    "INVESTIGATE_LINK_SI": "look at link, cable and peer",
    "INVESTIGATE_SW": "look at driver and software versions",
    "NONE": "",
    "RESET_GPU": "reset the GPU",
    "RESTART_APP": "restart the application",
    "RESTART_BM": "reboot the node",
    "RESTART_FM": "restart the fabric manager",
    "RESTART_VM": "restart the virtual machine",
    "WORKFLOW_NVLINK5_ERR": "reset the GPU if the driver asks for it",
    "WORKFLOW_NVLINK_ERR": "reset the GPU and look at link and peer",
    "WORKFLOW_XID_13": "look at the application; run diagnostics if it comes on one GPU alone",
    "WORKFLOW_XID_31": "look at the application; run diagnostics if it comes on one GPU alone",
    "WORKFLOW_XID_45": "follow the Xid that came with it",
    "WORKFLOW_XID_48": "reset the GPU; drain it first if Xid 63 or 64 came with it",
    "XID_137_FLOW": "look at the application that uses peer memory",
}
"""NVIDIA's resolution buckets (Xid catalogue, "Resolution Bucket") in words; empty for nothing to do."""


class Subcode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of NVLink 5 that reports under an Xid of 144 to 150.

    Attributes:
        name: As in the kernel log, such as `NETIR_LINK_EVT`.
        severity: Class of all its events; None where the kernel log says it of each.
        note: What is peculiar.
    """

    name: str
    severity: Severity | None = None
    note: str = ""


class Xid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row.

    Attributes:
        number: The Xid.
        name: What happened, in words.
        severity: Its class, or `by_subcode` where each event has its own.
        immediate: NVIDIA's bucket for what to do at once.
        investigate: NVIDIA's bucket for what to do then.
        unnamed: Class of an event of a `by_subcode` row of which nothing more is known.
        repeat: Times in 24 hours from which on it counts; 0 never; None: as the check has it.
        note: What is peculiar.
        subcodes: Sub-codes that are known.
    """

    number: int
    name: str
    severity: Severity | Literal["by_subcode"]
    immediate: str
    investigate: str
    unnamed: Severity = "warn"
    repeat: int | None = None
    note: str = ""
    subcodes: tuple[Subcode, ...] = ()

    @property
    def action(self) -> str:
        """What to do, in words."""
        words = (_ACTIONS[bucket] for bucket in dict.fromkeys((self.immediate, self.investigate)))
        return "; then ".join(word for word in words if word) or "nothing; watch whether it repeats"

    def severity_of(self, subcode: str, word: str) -> Severity:
        """Give the class of one event.

        Args:
            subcode: Sub-code of the kernel log, or empty.
            word: `Fatal`, `Nonfatal`, or empty where only NVML told.
        """
        if self.severity != "by_subcode":
            return self.severity
        fixed = next((each.severity for each in self.subcodes if each.name == subcode), None)
        return fixed or _FATAL_WORDS.get(word, self.unnamed)


class XidOverride(msgspec.Struct, frozen=True):
    """What the configuration changes of a row; None leaves it.

    Attributes:
        severity: Class of every event of it, whatever its sub-code.
        repeat: Times in 24 hours from which on it counts; 0 never.
    """

    severity: Severity | None = None
    repeat: int | None = None


class XidCatalogue:
    """The rows by number."""

    def __init__(self, rows: Mapping[int, Xid]) -> None:
        """Keep the rows."""
        self.rows = rows

    def find(self, number: int) -> Xid:
        """Return the row of an Xid; one that the catalogue lacks counts as of the hardware: warn."""
        return self.rows.get(number) or Xid(
            number=number,
            name="not in the catalogue",
            severity="warn",
            immediate="CONTACT_SUPPORT",
            investigate="CONTACT_SUPPORT",
        )

    def overridden(self, overrides: Mapping[int, XidOverride]) -> XidCatalogue:
        """Make a catalogue with what the configuration changes."""
        changed = {
            number: msgspec.structs.replace(
                row := self.find(number),
                severity=override.severity or row.severity,
                repeat=row.repeat if override.repeat is None else override.repeat,
            )
            for number, override in overrides.items()
        }
        return XidCatalogue({**self.rows, **changed})


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    catalogue: str
    severities: str
    xid: tuple[Xid, ...]


def load_catalogue() -> XidCatalogue:
    """Read the catalogue that comes with rackwatt."""
    text = resources.files("collector.health").joinpath("xids.toml").read_text(encoding="utf-8")
    file = msgspec.convert(tomllib.loads(text), _File)
    return XidCatalogue({row.number: row for row in file.xid})
