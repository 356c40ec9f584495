"""The Xids of one GPU that still matter: fatal ones until they are cured, all of them for a day."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from collector.health.xids import Severity

_NANOSECONDS = 1_000_000_000
_DAY_NS = 86_400 * _NANOSECONDS
_MAXIMUM_KEPT = 256
_BURST_NS = 60 * _NANOSECONDS
"""Lines of one fault come together, one a channel or link: what follows within a minute is the same time."""


@dataclass(frozen=True, slots=True)
class SeenXid:
    """An Xid that came.

    Attributes:
        time_ns: When, nanoseconds of Unix time.
        code: Its number.
        severity: Class of this event.
        subcode: Sub-code, or empty.
        link: The NVLink, or None.
    """

    time_ns: int
    code: int
    severity: Severity
    subcode: str = ""
    link: int | None = None


class XidMemory:
    """Xids of one GPU.

    Attributes:
        fatal: The newest fatal one that nothing has cured yet.
        fatal_since_ns: When the first of those came.
    """

    __slots__ = ("_seen", "fatal", "fatal_since_ns")

    def __init__(self) -> None:
        """Begin with none."""
        self._seen: deque[SeenXid] = deque(maxlen=_MAXIMUM_KEPT)
        self.fatal: SeenXid | None = None
        self.fatal_since_ns = 0

    def see(self, xid: SeenXid) -> None:
        """Remember an Xid."""
        self._seen.append(xid)
        if xid.severity != "fatal":
            return
        if self.fatal is None:
            self.fatal, self.fatal_since_ns = xid, xid.time_ns
            return
        self.fatal_since_ns = min(self.fatal_since_ns, xid.time_ns)
        if xid.time_ns >= self.fatal.time_ns:
            self.fatal = xid

    def amend(self, before: SeenXid, after: SeenXid) -> None:
        """Replace what was remembered of an Xid by what is known of it now."""
        kept = [xid for xid in self._seen if xid is not before]
        self._seen.clear()
        self._seen.extend(kept)
        if self.fatal is before:
            self.fatal = None
            for xid in kept:
                if xid.severity == "fatal" and xid.time_ns >= self.fatal_since_ns:
                    self.fatal = xid
        self.see(after)

    def cure(self) -> None:
        """Take the GPU as cured: it was reset, or its driver loaded anew."""
        self.fatal = None

    def cure_if_clean(self, now_ns: int, clean_seconds: float) -> None:
        """Take the GPU as cured if the last fatal Xid is long enough ago."""
        if self.fatal is not None and now_ns - self.fatal.time_ns >= clean_seconds * _NANOSECONDS:
            self.fatal = None

    def times(self, code: int, now_ns: int) -> int:
        """Count how often an Xid came within the last 24 hours; a burst counts once."""
        stamps = sorted(
            xid.time_ns for xid in self._seen if xid.code == code and now_ns - xid.time_ns < _DAY_NS
        )
        times = 0
        previous: int | None = None
        for stamp in stamps:
            if previous is None or stamp - previous >= _BURST_NS:
                times += 1
            previous = stamp
        return times

    def codes(self) -> tuple[int, ...]:
        """Return the numbers that are remembered."""
        return tuple(sorted({xid.code for xid in self._seen}))

    def severity_of(self, code: int) -> Severity:
        """Return the class of the newest event of an Xid that is remembered."""
        return next((xid.severity for xid in reversed(self._seen) if xid.code == code), "info")
