"""Declared maintenance: windows, and which node is in one (CONTRACTS §3, facts/rack.md §6)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from collector.errors import ConfigurationError
from collector.health.rack_types import Reason
from collector.health.states import Impact

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""What an id may be (CONTRACTS §5)."""
_MAXIMUM_TEXT = 1024
MAXIMUM_WINDOW_NS = 31 * 24 * 3600 * 1_000_000_000
"""Longest window: maintenance must be bounded to be excused (facts/rack.md §6); 31 days is our bound."""
_LATEST_NS = 2**63 - 1
"""Latest time that the ledger can store: a signed 64-bit number of nanoseconds, in the year 2262."""
MAXIMUM_WINDOWS = 10_000
"""Most windows that have not ended; beyond, a program declares them by mistake."""


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A declared maintenance of a rack or of some of its nodes.

    Attributes:
        id: Identity.
        rack: The rack.
        nodes: Its nodes concerned; empty for the whole rack.
        starts_ns: Begin, Unix nanoseconds.
        ends_ns: End; what is out beyond it is out without excuse.
        created_ns: When it was declared: only a window declared before its start excuses anything.
        reason: Why, in words.
        created_by: Who declared it.
    """

    id: str
    rack: str
    nodes: tuple[str, ...]
    starts_ns: int
    ends_ns: int
    created_ns: int
    reason: str = ""
    created_by: str = ""

    def excuses(self, now_ns: int) -> bool:
        """Return whether the window excuses anything now: it was declared before its start, and goes on."""
        return self.created_ns <= self.starts_ns <= now_ns < self.ends_ns

    def concerns(self, node: str) -> bool:
        """Return whether a node of the rack is among those of this window."""
        return not self.nodes or node in self.nodes


def check_window(window: MaintenanceWindow, rack_nodes: Iterable[str]) -> MaintenanceWindow:
    """Return the window, if it can be declared.

    Args:
        window: The window.
        rack_nodes: Nodes of its rack.

    Raises:
        ConfigurationError: It is not declared before its start, not bounded, or names what does not exist.
    """
    where = f"maintenance {window.id!r}"
    if not _ID.fullmatch(window.id):
        raise ConfigurationError(f"{where}: use 1 to 64 of A-Z a-z 0-9 . _ - as its id")
    if window.starts_ns < window.created_ns:
        raise ConfigurationError(f"{where}: it starts before it is declared; declare it from now on")
    if window.ends_ns <= window.starts_ns:
        raise ConfigurationError(f"{where}: it ends before it starts")
    if window.ends_ns - window.starts_ns > MAXIMUM_WINDOW_NS:
        raise ConfigurationError(f"{where}: it is longer than 31 days; declare several")
    if window.created_ns < 0 or window.ends_ns > _LATEST_NS:
        raise ConfigurationError(f"{where}: its times are no times between 1970 and 2262")
    unknown = sorted(set(window.nodes) - set(rack_nodes))
    if unknown:
        raise ConfigurationError(
            f"{where}: rack {window.rack} has no node {', '.join(unknown)[:_MAXIMUM_TEXT]}"
        )
    for name, text in (("reason", window.reason), ("created_by", window.created_by)):
        if len(text) > _MAXIMUM_TEXT:
            raise ConfigurationError(f"{where}: {name} is longer than {_MAXIMUM_TEXT} characters")
    return window


class Maintenance:
    """The windows of all racks. Keeps them in memory; the ledger keeps them over a restart."""

    def __init__(self, windows: Iterable[MaintenanceWindow] = ()) -> None:
        """Begin with windows that were declared earlier."""
        self._windows = {window.id: window for window in windows}

    def declare(self, window: MaintenanceWindow, rack_nodes: Iterable[str]) -> MaintenanceWindow:
        """Take a window in.

        Raises:
            ConfigurationError: It cannot be declared (`check_window`), or its id is in use, or there are too
                many that have not ended.
        """
        if window.id in self._windows:
            raise ConfigurationError(f"maintenance {window.id!r}: there is one of this id")
        if sum(own.ends_ns > window.created_ns for own in self._windows.values()) >= MAXIMUM_WINDOWS:
            raise ConfigurationError(f"maintenance: {MAXIMUM_WINDOWS} windows have not ended; end some")
        self._windows[window.id] = check_window(window, rack_nodes)
        return window

    def end(self, window_id: str, now_ns: int) -> MaintenanceWindow | None:
        """End a window now; one that has not begun never will, and one that has ended stays as it is.

        Returns:
            The window as it is now; None if there is none of this id.
        """
        window = self._windows.get(window_id)
        if window is None:
            return None
        ended = replace(window, ends_ns=max(window.starts_ns, min(window.ends_ns, now_ns)))
        self._windows[window_id] = ended
        return ended

    def get(self, window_id: str) -> MaintenanceWindow | None:
        """Return a window."""
        return self._windows.get(window_id)

    def windows(self, rack: str | None = None) -> tuple[MaintenanceWindow, ...]:
        """Return the windows, of one rack or of all, by their start."""
        found = (window for window in self._windows.values() if rack in (None, window.rack))
        return tuple(sorted(found, key=lambda window: (window.starts_ns, window.id)))

    def active(self, rack: str, now_ns: int) -> tuple[MaintenanceWindow, ...]:
        """Return the windows that excuse nodes of a rack now, the one that ends last first."""
        found = (own for own in self._windows.values() if own.rack == rack and own.excuses(now_ns))
        return tuple(sorted(found, key=lambda window: (-window.ends_ns, window.id)))

    def forget(self, before_ns: int) -> None:
        """Forget windows that ended before an instant."""
        self._windows = {key: own for key, own in self._windows.items() if own.ends_ns >= before_ns}


def window_of(node: str, active: Iterable[MaintenanceWindow]) -> MaintenanceWindow | None:
    """Return the first of the windows that concerns a node; None if none does."""
    return next((window for window in active if window.concerns(node)), None)


def maintenance_reason(window: MaintenanceWindow, node: str) -> Reason:
    """Return why a node is in MAINTENANCE."""
    by = f" (declared by {window.created_by})" if window.created_by else ""
    return Reason(
        check="maintenance",
        impact=Impact.AVOID,
        text=f"declared maintenance {window.id}: {window.reason or 'no reason given'}{by}",
        action="Wait for its end, or end it.",
        node=node,
        since_ns=window.starts_ns,
    )
