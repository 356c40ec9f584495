"""Declared maintenance as bodies."""

from __future__ import annotations

from collector.health.maintenance import MaintenanceWindow
from exporters.rest.models.maintenance import WindowPart
from exporters.rest.views.common import or_none, sure_moment


def window(declared: MaintenanceWindow, now_ns: int) -> WindowPart:
    """Write a window.

    Args:
        declared: The window.
        now_ns: The present, Unix nanoseconds.
    """
    return WindowPart(
        id=declared.id,
        rack=declared.rack,
        nodes=list(declared.nodes),
        starts_at=sure_moment(declared.starts_ns),
        ends_at=sure_moment(declared.ends_ns),
        declared_at=sure_moment(declared.created_ns),
        reason=or_none(declared.reason),
        created_by=or_none(declared.created_by),
        active=declared.starts_ns <= now_ns < declared.ends_ns,
    )
