"""What the agents of a rack say: Snapshots of simulated trays, recorded once, told in each rack's words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from collector import profiles
from collector.assembly import Assembly
from collector.deadlines import Deadlines
from collector.identity import Host, Names
from collector.model import Snapshot
from collector.readings import Layout
from collector.simulator import ManualClock, SimulatedNode, parse_fault
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from exporters.snapshot import DocumentFormat, DocumentWriter, rfc3339

PLATFORM: Final = "gb300-nvl72"
TRAYS: Final = 18
FAULT: Final = "link_down:gpu=1,link=7,start=10"
FAULTY_TRAY: Final = 3
FAULTY_RACKS: Final = 5
"""Every fifth rack has a tray with a failed link, so that verdicts have reasons to tell."""

_WARM_SECONDS: Final = 65
"""Every cadence has been read by then; the slowest is 60 s (CONTRACTS §6)."""
_RECORDED_SECONDS: Final = 12
_RACK_DIGITS: Final = 4


@dataclass(frozen=True)
class Recording:
    """Snapshots of one tray, a second apart, in MessagePack.

    Attributes:
        names: What is to be told differently in each rack: UUIDs of GPUs and NVLink domain, chassis serial.
        slots: The series table.
        series: How many series it has.
        values: The values, second by second.
        checks: The checks that failed.
        events: The events.
        identity: Texts that describe the node.
    """

    names: tuple[bytes, ...]
    slots: bytes
    series: int
    values: tuple[msgspec.Raw, ...]
    checks: bytes
    events: bytes
    identity: msgspec.Raw

    def in_rack(self, encoded: bytes, rack: int) -> msgspec.Raw:
        """Tell something with the names of a rack: their last digits are its number."""
        if rack:
            for name in self.names:
                encoded = encoded.replace(name, name[:-_RACK_DIGITS] + b"%0*d" % (_RACK_DIGITS, rack))
        return msgspec.Raw(encoded)


@lru_cache
def recording(tray: int, *, faulty: bool) -> Recording:
    """Record a tray; the simulated minute takes about a second."""
    clock = ManualClock(1000.0)
    # What is recorded ends now, so that nothing lies in the future.
    began_ns = time.time_ns() - (_WARM_SECONDS + _RECORDED_SECONDS) * 1_000_000_000

    def wall_ns() -> int:
        return began_ns + int((clock() - 1000.0) * 1e9)

    profile = profiles.load(PLATFORM)
    node = SimulatedNode(
        profile,
        tray=tray,
        faults=[parse_fault(FAULT)] if faulty else [],
        clock=clock,
        sleep=clock.sleep,
        wall_clock_ns=wall_ns,
    )
    hint = PlatformHint(profile.name, profile.gpus_per_node)
    reader = NvmlReader(
        lambda: NvmlLibrary(node.library),
        ReaderOptions(platforms={profile.gpu.product_name: hint}),
        monotonic=clock,
        wall_ns=wall_ns,
    )
    host = Host(
        f"node-{tray}", "00000000-0000-4000-8000-000000000000", "6.8.0", "0.1.0", "agent", simulated=True
    )
    assembly = Assembly(Names("r", "n"), host, Deadlines(), monotonic=clock, wall_ns=wall_ns)
    snapshots: list[Snapshot] = []
    for _ in range(_WARM_SECONDS + _RECORDED_SECONDS):
        clock.advance(1.0)
        for message in reader.step(clock()):
            if isinstance(message, Layout):
                assembly.apply_layout(message)
            else:
                assembly.apply_reading(message)
        snapshots.append(assembly.snapshot(0))
    last, kept = snapshots[-1], snapshots[_WARM_SECONDS:]
    document = msgspec.msgpack.decode(
        DocumentWriter().write(last, DocumentFormat.MESSAGEPACK), type=dict[str, msgspec.Raw]
    )
    if any(each.table is not last.table for each in kept):
        raise AssertionError("the table of a simulated tray changes although all cadences were read")
    return Recording(
        names=tuple(
            {
                text.encode()
                for entry in last.table.series
                if entry.metric.name == "gpu_info"
                for text in (entry.labels[1], *_info_texts(entry.labels, entry.metric.label_names))
            }
        ),
        slots=bytes(document["slots"]),
        series=len(last.table.series),
        values=tuple(msgspec.Raw(msgspec.msgpack.encode(each.values)) for each in kept),
        checks=bytes(document["checks"]),
        events=bytes(document["events"]),
        identity=document["identity"].copy(),
    )


def _info_texts(labels: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        text for name, text in zip(names, labels, strict=True) if name in ("cluster_uuid", "chassis_serial")
    )


class FakeAgent:
    """An agent that says what was recorded, in the words of its own rack."""

    def __init__(self, rack: int, tray: int) -> None:
        """Take its place.

        Args:
            rack: Number of the rack, from 0.
            tray: Number of the tray, from 0.
        """
        self.rack = rack
        self.tray = tray
        faulty = rack % FAULTY_RACKS == FAULTY_RACKS - 1 and tray == FAULTY_TRAY
        self._recording = own = recording(tray, faulty=faulty)
        self._digest = f"{rack:08x}{tray:08x}"
        # Seconds do not begin at the same moment everywhere.
        self._phase = (rack * TRAYS + tray) * 0.618 % 1.0
        self._fixed = {
            "schema": 1,
            "rack": rack_name(rack),
            "node": node_name(tray),
            "agent_id": f"agent-{rack}-{tray}",
            "boot_id": f"boot-{rack}-{tray}",
            "nvml_up": True,
            "reason": "",
            "identity": own.identity,
            "slots_hash": self._digest,
            "histograms": [],
            "checks": own.in_rack(own.checks, rack),
        }
        self._events = own.in_rack(own.events, rack)
        self._newest = _newest(own.events)

    @property
    def series(self) -> int:
        """How many series it has."""
        return self._recording.series

    def answer(self, now: float, wall_ns: int, slots_held: bytes, after: bytes) -> bytes:
        """Write the document of this moment.

        Args:
            now: Monotonic time in seconds.
            wall_ns: Unix time in nanoseconds.
            slots_held: Digest of the table that the caller holds.
            after: Newest event that the caller knows.
        """
        own = self._recording
        sequence, age = divmod(now + self._phase, 1.0)
        time_ns = wall_ns - int(age * 1e9)
        document = self._fixed | {
            "seq": int(sequence),
            "observed_at": rfc3339(time_ns),
            "time_ns": time_ns,
            "age_seconds": {
                "fast": round(age, 3),
                "links": round(age + 4.0, 3),
                "slow": round(age + 30.0, 3),
            },
            "values": own.values[int(sequence) % len(own.values)],
            "events": self._events if int(after) < self._newest else {"next": self._newest, "items": []},
        }
        if slots_held != self._digest.encode():
            document["slots"] = own.in_rack(own.slots, self.rack)
        return msgspec.msgpack.encode(document)


class _Events(msgspec.Struct):
    next: int


def _newest(events: bytes) -> int:
    return msgspec.msgpack.decode(events, type=_Events).next


def rack_name(rack: int) -> str:
    """Name of a rack, by its number from 0."""
    return f"r{rack + 1:02d}"


def node_name(tray: int) -> str:
    """Name of a tray's node, by its number from 0."""
    return f"n{tray + 1:02d}"
