"""Events and availability as bodies."""

from __future__ import annotations

from collector.health.availability import Availability
from collector.health.ledger_rows import LedgerEvent
from exporters.rest.models import history as bodies
from exporters.rest.models.common import Envelope
from exporters.rest.views.common import or_none, sure_moment

_HOUR_SECONDS = 3600.0


def availability(envelope: Envelope, found: Availability, window: str) -> bodies.AvailabilityBody:
    """Write the availability of a rack over a window."""
    return bodies.AvailabilityBody(
        **dict(envelope),
        rack=found.rack,
        window=window,
        starts_at=sure_moment(found.starts_ns),
        ends_at=sure_moment(found.ends_ns),
        min_block=found.min_block,
        slo=found.slo,
        low=found.low,
        point=found.point,
        high=found.high,
        coverage=found.coverage,
        insufficient_data=found.insufficient_data,
        available_s=found.available_seconds,
        unavailable_s=found.unavailable_seconds,
        unknown_s=found.unknown_seconds,
        uncovered_s=found.uncovered_seconds,
        excused_s=found.excused_seconds,
        budget_s=found.budget_seconds,
        budget_used=found.budget_used,
        incidents=found.incidents,
        open_incidents=found.open_incidents,
        mtbf_h=_hours(found.mtbf_seconds),
        mttr_h=_hours(found.mttr_seconds),
    )


def events(envelope: Envelope, page: tuple[LedgerEvent, ...], *, more: bool) -> bodies.EventsBody:
    """Write a page of events.

    Args:
        envelope: Envelope of the body.
        page: The events.
        more: Whether there are older ones.
    """
    return bodies.EventsBody(
        **dict(envelope),
        events=[_event(event) for event in page],
        next=str(page[-1].id) if page and more else None,
    )


def _event(event: LedgerEvent) -> bodies.EventBody:
    return bodies.EventBody(
        id=str(event.id),
        at=sure_moment(event.time_ns),
        rack=event.rack,
        node=or_none(event.node),
        gpu_uuid=or_none(event.gpu_uuid),
        gpu=or_none(event.gpu),
        kind=event.kind,
        code=event.code,
        text=or_none(event.text),
    )


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / _HOUR_SECONDS
