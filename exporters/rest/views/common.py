"""Times, texts and reasons as bodies write them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from collector.catalog.spec import PREFIX
from collector.health.rack_types import Reason
from exporters.rest.models.common import ReasonBody

SECOND_NS = 1_000_000_000
_MILLISECOND_NS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_NS = 253_402_300_799_999_999_999
"""End of the year 9999, beyond which RFC 3339 has no words."""


def moment(time_ns: int | None) -> str | None:
    """Write Unix nanoseconds as RFC 3339 in UTC with milliseconds; None for no time, and for 0."""
    if time_ns is None or not 0 < time_ns <= _LAST_NS:
        return None
    return sure_moment(time_ns)


def sure_moment(time_ns: int) -> str:
    """Write a time that is there."""
    seconds, rest = divmod(time_ns, SECOND_NS)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest // _MILLISECOND_NS:03d}Z"


def or_none(text: str) -> str | None:
    """Make an empty text the absence that it stands for."""
    return text or None


def exposed(metric: str) -> str | None:
    """Name a metric as Prometheus does."""
    return PREFIX + metric if metric else None


def reasons(found: Iterable[Reason]) -> list[ReasonBody]:
    """Write reasons, in their order."""
    return [
        ReasonBody(
            check=reason.check,
            impact=reason.impact.value,
            text=reason.text,
            action=reason.action,
            node=or_none(reason.node),
            gpu_uuid=or_none(reason.gpu_uuid),
            metric=exposed(reason.metric),
            value=reason.value,
            threshold=reason.threshold,
            since=moment(reason.since_ns),
        )
        for reason in found
    ]
