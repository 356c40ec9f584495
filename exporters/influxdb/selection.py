"""What is written to a sink, and how often."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from statistics import median

from collector.catalog import ALL
from collector.catalog.rack import RACK
from collector.catalog.spec import Cadence, Level, Metric
from collector.errors import ConfigurationError
from exporters.influxdb.schema import measurement_of

DEFAULT_PERIODS_SECONDS: Mapping[Cadence, float] = {
    Cadence.FAST: 1.0,
    Cadence.LINKS: 10.0,
    Cadence.SLOW: 60.0,
    Cadence.EVENT: 10.0,
    Cadence.AGENT: 10.0,
    Cadence.SERVING: 5.0,
    Cadence.HOST: 5.0,
}
"""How often rows of a cadence are written: as often as they are read; checks and what the agent says of
itself, which change seldom, each 10 s (chosen). Events themselves are written at once."""

SHORTEST_PERIOD_SECONDS = 0.1
LONGEST_PERIOD_SECONDS = 3600.0
"""Bounds of a period (chosen)."""

_ROWS = (*ALL, *RACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows a sink gets, and how often.

    A family is named by a measurement (`nvlink`) or by a pattern for names of metrics without prefix
    (`gpu_power_*`), in which `*` stands for any characters and `?` for one.

    Attributes:
        level: Up to which level rows are written; what the agent itself does not read is not written either.
        families: What is written.
        excluded: What of it is not.
        periods_seconds: How often rows of each cadence are written; one that is missing has its default.
        periods_of: Families with a period of their own, in seconds; the first that fits counts.
        events: Whether events are written.

    Raises:
        ConfigurationError: A family names nothing that is measured, or a period is out of bounds.
    """

    level: Level = Level.FULL
    families: tuple[str, ...] = ("*",)
    excluded: tuple[str, ...] = ()
    periods_seconds: Mapping[Cadence, float] = field(default_factory=dict)
    periods_of: tuple[tuple[str, float], ...] = ()
    events: bool = True

    def __post_init__(self) -> None:
        for pattern in (*self.families, *self.excluded, *(pattern for pattern, _ in self.periods_of)):
            if not any(_fits(metric, pattern) for metric in _ROWS):
                raise ConfigurationError(
                    f"family {pattern!r} names nothing that is measured; write a measurement such as "
                    "nvlink, or a pattern for names such as gpu_power_*"
                )
        for seconds in (*self.periods_seconds.values(), *(seconds for _, seconds in self.periods_of)):
            if not SHORTEST_PERIOD_SECONDS <= seconds <= LONGEST_PERIOD_SECONDS:
                raise ConfigurationError(
                    f"a period of {seconds:g} s is out of bounds; {SHORTEST_PERIOD_SECONDS:g} s to "
                    f"{LONGEST_PERIOD_SECONDS:g} s is allowed"
                )

    def includes(self, metric: Metric) -> bool:
        """Tell whether a row is written."""
        return (
            metric.level <= self.level
            and any(_fits(metric, pattern) for pattern in self.families)
            and not any(_fits(metric, pattern) for pattern in self.excluded)
        )

    def period_seconds(self, metric: Metric) -> float:
        """Return how often a row is written."""
        for pattern, seconds in self.periods_of:
            if _fits(metric, pattern):
                return seconds
        return self.periods_seconds.get(metric.cadence, DEFAULT_PERIODS_SECONDS[metric.cadence])


def _fits(metric: Metric, pattern: str) -> bool:
    return pattern == measurement_of(metric) or fnmatchcase(metric.name, pattern)


_INTERVALS = 9
"""Intervals between Snapshots of which the median is taken: few enough to follow a change (chosen)."""


@dataclass(slots=True)
class _Written:
    """When a period was due last, and how many Snapshots came since."""

    time_ns: int
    snapshots: int = 0


class DueTimes:
    """Says which periods are due, Snapshot by Snapshot.

    Snapshots are counted: where they come each second, each of them has what is due each second, and every
    tenth what is due each 10 s. So one that comes late, and the next that follows close behind, both count,
    which they would not by their times. After a gap everything that missed its time is due at once.
    """

    def __init__(self) -> None:
        """Begin with everything due."""
        self._previous_ns: int | None = None
        self._intervals_ns: deque[int] = deque(maxlen=_INTERVALS)
        self._written: dict[float, _Written] = {}

    def due(self, periods_seconds: frozenset[float], now_ns: int) -> frozenset[float]:
        """Say what is due with a Snapshot, which then counts as written.

        Args:
            periods_seconds: The periods that there are.
            now_ns: When the Snapshot was taken.
        """
        if self._previous_ns is not None:
            self._intervals_ns.append(now_ns - self._previous_ns)
        self._previous_ns = now_ns
        for written in self._written.values():
            written.snapshots += 1
        interval_ns = max(1.0, median(self._intervals_ns)) if self._intervals_ns else 1.0
        due = frozenset(period for period in periods_seconds if self._is_due(period, now_ns, interval_ns))
        self._written.update((period, _Written(now_ns)) for period in due)
        return due

    def _is_due(self, period_seconds: float, now_ns: int, interval_ns: float) -> bool:
        written = self._written.get(period_seconds)
        if written is None:
            return True
        period_ns = period_seconds * 1e9
        is_counted = written.snapshots >= round(period_ns / interval_ns)
        return is_counted or now_ns - written.time_ns >= period_ns + interval_ns / 2
