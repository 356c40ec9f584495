"""What was: availability and events, from the ledger."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from exporters.rest import examples
from exporters.rest.context import Own
from exporters.rest.models.history import AvailabilityBody, EventsBody
from exporters.rest.parameters import (
    AvailabilityQuery,
    EventsQuery,
    RackName,
    check_block,
    duration_seconds,
    unix_nanoseconds,
)
from exporters.rest.problems import ProblemError, documented
from exporters.rest.protocol import LATEST_NS
from exporters.rest.views import history as views

router = APIRouter(tags=["history"])


@router.get(
    "/v1/racks/{rack}/availability",
    responses=examples.answers(AvailabilityBody)
    | documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def get_availability(
    request: Request, own: Own, rack: RackName, query: Annotated[AvailabilityQuery, Query()]
) -> Response:
    """Tell for how much of a window the rack was available, and how much of it is known."""
    status = own.rack(rack)
    check_block(query.min_block, len(status.nodes))
    found = await own.ledger(own.service.availability(rack, duration_seconds(query.window), query.min_block))
    if found is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"Nothing is recorded of rack {rack}.")
    return own.send_new(request, views.availability(own.envelope(status), found, query.window))


@router.get(
    "/v1/events",
    responses=examples.answers(EventsBody)
    | documented(HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def list_events(request: Request, own: Own, query: Annotated[EventsQuery, Query()]) -> Response:
    """List events, newest first, a page at a time.

    Ids rise in the order of recording, which may differ from the order of what happened. What is recorded
    while one goes through the pages does not shift them.
    """
    found = await own.ledger(
        own.service.events(
            after=query.cursor,
            limit=query.limit + 1,  # One more than asked for tells whether there is another page.
            rack=query.rack,
            node=query.node,
            kind=query.kind,
            gpu_uuid=query.gpu_uuid,
            since_ns=0 if query.since is None else unix_nanoseconds(query.since),
            until_ns=LATEST_NS if query.until is None else unix_nanoseconds(query.until),
        )
    )
    page, more = found[: query.limit], len(found) > query.limit
    return own.send_new(request, views.events(own.envelope(), page, more=more))
