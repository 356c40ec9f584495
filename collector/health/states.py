"""The states of everything, in the words that REST, metrics and dashboards share (CONTRACTS §3)."""

from __future__ import annotations

import enum
from collections.abc import Iterable


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


def gpu_state(failed: Iterable[Impact], *, unknown: bool) -> GpuState:
    """Return the state of a GPU from its checks.

    Args:
        failed: Impacts of the checks that failed.
        unknown: Whether a check that the hardware supports could not be evaluated.
    """
    impacts = set(failed)
    if Impact.FAIL in impacts:
        return GpuState.FAILED
    if unknown:
        return GpuState.UNKNOWN
    if impacts & {Impact.AVOID, Impact.WARN}:
        return GpuState.DEGRADED
    return GpuState.OK
