"""How long silence is borne (DESIGN §3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Limits on the silence of a reader, in seconds.

    Attributes:
        stale: From then on the data count as stale and this is said.
        withhold: From then on values are not served any more.
        restart: Then the reader is ended and started anew.
        startup: Time that a reader may take until its first message.
    """

    stale: float = 2.0
    withhold: float = 5.0
    restart: float = 10.0
    startup: float = 60.0

    @classmethod
    def for_period(cls, fast_seconds: float) -> Deadlines:
        """Return the limits for a fast cadence: the usual ones, longer where it is slower than 1 s."""
        slowness = max(1.0, fast_seconds)
        usual = cls()
        return cls(
            stale=usual.stale * slowness,
            withhold=usual.withhold * slowness,
            restart=usual.restart * slowness,
            startup=usual.startup + fast_seconds,
        )
