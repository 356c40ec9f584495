"""What must be remembered of a node between evaluations, and over a restart of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.health.states import NodeState

_MAXIMUM_ITEMS = 64
"""Most entries and check ids that are kept of one node: more tell nothing new."""
_MAXIMUM_TEXT = 256


@dataclass(slots=True)
class NodeMemory:
    """Memory of one node. Times are nanoseconds of Unix time; None for what is not the case.

    Attributes:
        state: Newest state; None before the first evaluation.
        since_ns: Since when it is in that state.
        boot_id: Newest boot id; empty if unknown.
        last_good_ns: Newest good poll.
        silent_since_ns: Since when no good poll is believed.
        failed_since_ns: Since when it is FAILED, the time of recovery included.
        failed_checks: Checks for which it is FAILED.
        clean_since_ns: Since when a FAILED node is clean.
        entries_ns: Its entries into FAILED within the flap window, oldest first.
        latched_since_ns: Since when it is held out.
        fabric_since_ns: Since when its fabric is in progress.
        in_maintenance: Whether it was in declared maintenance.
        cluster_uuid: Newest NVLink domain; empty if it never had one.
        clique: Newest clique; empty if it never had one.
    """

    state: NodeState | None = None
    since_ns: int = 0
    boot_id: str = ""
    last_good_ns: int | None = None
    silent_since_ns: int | None = None
    failed_since_ns: int | None = None
    failed_checks: tuple[str, ...] = ()
    clean_since_ns: int | None = None
    entries_ns: list[int] = field(default_factory=list)
    latched_since_ns: int | None = None
    fabric_since_ns: int | None = None
    in_maintenance: bool = False
    cluster_uuid: str = ""
    clique: str = ""

    def enter_failed(self, now_ns: int, window_ns: int, entries: int) -> None:
        """Begin a time of FAILED, and latch the node if it did so too often within the window."""
        self.failed_since_ns = now_ns
        self.failed_checks = ()
        self.clean_since_ns = None
        recent = [*(entry for entry in self.entries_ns if now_ns - entry < window_ns), now_ns]
        self.entries_ns = recent[-_MAXIMUM_ITEMS:]
        if len(recent) >= entries and self.latched_since_ns is None:
            self.latched_since_ns = now_ns

    def add_failed_checks(self, checks: set[str]) -> None:
        """Add what the node fails for."""
        self.failed_checks = tuple(sorted({*self.failed_checks, *checks}))[:_MAXIMUM_ITEMS]

    def leave_failed(self) -> None:
        """End a time of FAILED."""
        self.failed_since_ns = None
        self.failed_checks = ()
        self.clean_since_ns = None

    def release_latch(self) -> bool:
        """Let a latched node in again, and forget its entries; return whether it was latched."""
        latched = self.latched_since_ns is not None
        self.latched_since_ns = None
        self.entries_ns = []
        return latched

    def follow_clock(self, now_ns: int) -> None:
        """Move times that lie in the future of a clock that was stepped back to the present."""
        self.since_ns = min(self.since_ns, now_ns)
        self.entries_ns = [min(entry, now_ns) for entry in self.entries_ns]
        for name in (
            "silent_since_ns",
            "failed_since_ns",
            "clean_since_ns",
            "latched_since_ns",
            "fabric_since_ns",
        ):
            value: int | None = getattr(self, name)
            if value is not None and value > now_ns:
                setattr(self, name, now_ns)

    def export(self) -> dict[str, object]:
        """Return the memory as plain JSON values.

        `last_good_ns` is left out, as it changes with every poll: whoever restores adds the time at which the
        service last ran.
        """
        return {
            "state": self.state.value if self.state else "",
            "since_ns": self.since_ns,
            "boot_id": self.boot_id,
            "silent_since_ns": self.silent_since_ns,
            "failed_since_ns": self.failed_since_ns,
            "failed_checks": list(self.failed_checks),
            "clean_since_ns": self.clean_since_ns,
            "entries_ns": list(self.entries_ns),
            "latched_since_ns": self.latched_since_ns,
            "fabric_since_ns": self.fabric_since_ns,
            "in_maintenance": self.in_maintenance,
            "cluster_uuid": self.cluster_uuid,
            "clique": self.clique,
        }


def remember(exported: Mapping[str, object]) -> NodeMemory:
    """Return the memory that was exported; a value of another type than expected counts as not remembered."""
    return NodeMemory(
        state=_state(exported.get("state")),
        since_ns=_time(exported.get("since_ns")) or 0,
        boot_id=_text(exported.get("boot_id")),
        last_good_ns=_time(exported.get("last_good_ns")),
        silent_since_ns=_time(exported.get("silent_since_ns")),
        failed_since_ns=_time(exported.get("failed_since_ns")),
        failed_checks=tuple(filter(None, map(_text, _items(exported.get("failed_checks"))))),
        clean_since_ns=_time(exported.get("clean_since_ns")),
        entries_ns=sorted(
            time for time in map(_time, _items(exported.get("entries_ns"))) if time is not None
        ),
        latched_since_ns=_time(exported.get("latched_since_ns")),
        fabric_since_ns=_time(exported.get("fabric_since_ns")),
        in_maintenance=exported.get("in_maintenance") is True,
        cluster_uuid=_text(exported.get("cluster_uuid")),
        clique=_text(exported.get("clique")),
    )


def _state(value: object) -> NodeState | None:
    try:
        return NodeState(value)
    except ValueError:
        return None


def _time(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _text(value: object) -> str:
    return value[:_MAXIMUM_TEXT] if isinstance(value, str) else ""


def _items(value: object) -> list[object]:
    return list(value[:_MAXIMUM_ITEMS]) if isinstance(value, list) else []
