"""For Prometheus: its targets and the rack series."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from exporters.negotiation import accepts_gzip
from exporters.prometheus import negotiate
from exporters.rest import examples
from exporters.rest.context import Own
from exporters.rest.models.discovery import TargetGroup, TargetGroups
from exporters.rest.representation import header

router = APIRouter(tags=["prometheus"])


@router.get("/sd/prometheus", responses=examples.answers(TargetGroups))
async def list_targets(request: Request, own: Own) -> Response:
    """List the expected agents as `http_sd_configs` reads them.

    Silent agents are listed, too, so that Prometheus says `up 0` of them.
    """
    return own.send(
        request,
        "targets",
        None,
        lambda _: TargetGroups(
            [
                TargetGroup(targets=[target.address], labels={"rack": target.rack, "node": target.node})
                for target in own.service.targets()
            ]
        ),
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "The rack series, as Prometheus text or, if asked for, OpenMetrics.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        }
    },
)
async def get_metrics(request: Request, own: Own) -> Response:
    """Give the rack series; rendered once an evaluation at most."""
    form = negotiate(header(request, "Accept"))
    gzip = accepts_gzip(header(request, "Accept-Encoding"))
    headers = {"Vary": "Accept, Accept-Encoding", "Content-Type": form.value}
    if gzip:
        headers["Content-Encoding"] = "gzip"
    return Response(own.exposition().body(form, gzip=gzip), headers=headers)
