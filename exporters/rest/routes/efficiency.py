"""How many tokens every joule buys, from the ledger."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from exporters.rest import examples
from exporters.rest.context import Own
from exporters.rest.models.efficiency import EfficiencyBody
from exporters.rest.parameters import EfficiencyQuery, RackName, duration_seconds
from exporters.rest.problems import ProblemError, documented
from exporters.rest.views import efficiency as views

router = APIRouter(tags=["efficiency"])


@router.get(
    "/v1/racks/{rack}/efficiency",
    responses=examples.answers(EfficiencyBody)
    | documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def get_efficiency(
    request: Request, own: Own, rack: RackName, query: Annotated[EfficiencyQuery, Query()]
) -> Response:
    """Tell what tokens took: joules, kilowatt-hours, dollars, by power domain and model.

    Every figure is a ratio of sums over the window. One that cannot be said is null, and `blank` beside it
    says why.
    """
    status = own.rack(rack)
    found = await own.ledger(own.service.efficiency(rack, duration_seconds(query.window)))
    if found is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"Nothing is recorded of rack {rack}.")
    return own.send_new(request, views.efficiency(own.envelope(status), found, query.window))
