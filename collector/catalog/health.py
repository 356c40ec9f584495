"""The checks of a node as series."""

from __future__ import annotations

from collector.catalog.checks import GPU_CHECKS, NODE_CHECKS, Check
from collector.catalog.spec import Cadence, Entity, Kind, Level, Metric, ValueType, derived

_LABELS = ("check", "impact")


def _check_failed(entity: Entity, checks: tuple[Check, ...], text: str) -> Metric:
    return Metric(
        name=f"{entity.value}_check_failed",
        kind=Kind.STATE,
        value_type=ValueType.INT,
        entity=entity,
        level=Level.CORE,
        cadence=Cadence.AGENT,
        help=text,
        maximum=1,
        info_labels=_LABELS,
        parts=derived(*(check.id for check in checks)),
    )


HEALTH = (
    _check_failed(
        Entity.GPU,
        GPU_CHECKS,
        "1 while the check of the GPU fails, 0 while it passes; absent while it cannot be evaluated.",
    ),
    _check_failed(
        Entity.NODE,
        NODE_CHECKS,
        "1 while the check of the node fails, 0 while it passes; absent while it cannot be evaluated.",
    ),
)
