"""The states of everything, in the words that REST, metrics and dashboards share (CONTRACTS §3)."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from collector.model import CheckResult


class Impact(enum.Enum):
    """What a failed check means for the use of its subject, from harmless to fatal."""

    INFO = "info"
    WARN = "warn"
    AVOID = "avoid"
    FAIL = "fail"

    @property
    def unschedulable(self) -> bool:
        """Whether it takes a node out of the schedulable set."""
        return self in (Impact.AVOID, Impact.FAIL)


class GpuState(enum.Enum):
    """State of a GPU."""

    OK = "OK"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class NodeState(enum.Enum):
    """State of a node."""

    READY = "READY"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    MAINTENANCE = "MAINTENANCE"
    UNKNOWN = "UNKNOWN"


class DomainState(enum.Enum):
    """State of an NVLink domain."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    SPLIT = "SPLIT"
    UNHEALTHY = "UNHEALTHY"
    UNKNOWN = "UNKNOWN"


class Verdict(enum.Enum):
    """Whether a rack can be used as the unit that jobs need."""

    AVAILABLE = "AVAILABLE"
    UNAVAILABLE = "UNAVAILABLE"
    MAINTENANCE = "MAINTENANCE"
    UNKNOWN = "UNKNOWN"


def impact_of(word: str) -> Impact:
    """Read an impact; one that a newer agent has and this version does not know is not harmless: AVOID."""
    return _IMPACTS.get(word, Impact.AVOID)


def state_of_checks(checks: Iterable[CheckResult]) -> GpuState:
    """Return the state of a GPU, or of a whole node, from its checks that did not pass.

    A check that could not be evaluated makes the state UNKNOWN if its failure would take the node out of the
    schedulable set. One of impact `warn` counts as failed: not knowing it cannot do more than its failure.
    """
    failed: set[Impact] = set()
    unknown = False
    for check in checks:
        impact = impact_of(check.impact)
        if check.failed or impact is Impact.WARN:
            failed.add(impact)
        elif impact.unschedulable:
            unknown = True
    if Impact.FAIL in failed:
        return GpuState.FAILED
    if unknown:
        return GpuState.UNKNOWN
    return GpuState.DEGRADED if failed & {Impact.AVOID, Impact.WARN} else GpuState.OK


_IMPACTS = {impact.value: impact for impact in Impact}
