"""One-rack baselines: listed by everybody, written by who has the token."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from collector.errors import ConfigurationError
from exporters.rest import examples
from exporters.rest.authentication import admitted
from exporters.rest.context import Own
from exporters.rest.models.baselines import BaselineBody, BaselineRequest, BaselinesBody
from exporters.rest.parameters import BaselineId, BaselinesQuery, duration_seconds
from exporters.rest.problems import WRITE_REFUSED, ProblemError, documented, shown
from exporters.rest.views import baselines as views

router = APIRouter(tags=["efficiency"])

_MAY_COUNT = " What was asked for may be done already: see /v1/baselines before you try again."


@router.get(
    "/v1/baselines",
    responses=examples.answers(BaselinesBody)
    | documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def list_baselines(request: Request, own: Own, query: Annotated[BaselinesQuery, Query()]) -> Response:
    """List what single racks did under full load, newest first: what scaling efficiency is held against."""
    status = own.rack(query.rack) if query.rack else None
    found = await own.ledger(own.service.baselines(query.rack))
    body = BaselinesBody(**dict(own.envelope(status)), baselines=[views.baseline(each) for each in found])
    return own.send_new(request, body)


@router.post(
    "/v1/baselines",
    status_code=HTTPStatus.CREATED,
    dependencies=[Depends(admitted)],
    responses=examples.answers(BaselinesBody, HTTPStatus.CREATED, "Recorded, one a model.") | WRITE_REFUSED,
)
async def record_baseline(request: Request, own: Own, wanted: BaselineRequest) -> Response:
    """Record what a rack did over the window until now as the baseline of its model.

    Refused where a figure is blank or the rack was not saturated: the answer says why.
    """
    status = own.rack(wanted.rack)
    try:
        recorded = await own.ledger(
            own.service.record_baseline(
                wanted.rack,
                window_seconds=duration_seconds(wanted.window),
                model=wanted.model,
                note=wanted.note,
                created_by=wanted.created_by,
            ),
            hint=_MAY_COUNT,
        )
    except ConfigurationError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from None
    body = BaselinesBody(**dict(own.envelope(status)), baselines=[views.baseline(each) for each in recorded])
    return own.send_new(request, body, status=HTTPStatus.CREATED)


@router.delete(
    "/v1/baselines/{baseline_id}",
    dependencies=[Depends(admitted)],
    responses=examples.answers(BaselineBody, description="Forgotten; this is what it was.") | WRITE_REFUSED,
)
async def forget_baseline(request: Request, own: Own, baseline_id: BaselineId) -> Response:
    """Forget a baseline; the newest one that is left of its model and platform counts from then on."""
    found = await own.ledger(own.service.forget_baseline(baseline_id), hint=_MAY_COUNT)
    if found is None:
        detail = f"There is no baseline {shown(baseline_id)}; `/v1/baselines` lists those that there are."
        raise ProblemError(HTTPStatus.NOT_FOUND, detail)
    envelope = own.envelope(own.service.rack(found.rack))
    return own.send_new(request, BaselineBody(**dict(envelope), **dict(views.baseline(found))))
