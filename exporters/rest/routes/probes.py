"""Whether the service itself lives and may be relied upon."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from exporters.rest.context import Own

router = APIRouter(tags=["probes"], default_response_class=PlainTextResponse)


@router.get("/-/healthy", responses={200: {"description": "The service lives."}})
async def healthy() -> Response:
    """Answer as long as the event loop lives."""
    return PlainTextResponse("The rack service is alive.\n")


@router.get(
    "/-/ready",
    responses={
        200: {"description": "Every agent had its chance since the start, so verdicts count."},
        503: {"description": "Not yet, and why.", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def ready(own: Own) -> Response:
    """Tell whether verdicts count yet. An unhealthy rack does not make the service unready."""
    reason = own.service.why_not_ready()
    if reason:
        return PlainTextResponse(f"Not ready: {reason}\n", status_code=HTTPStatus.SERVICE_UNAVAILABLE)
    return PlainTextResponse("Ready: every agent was asked.\n")
