"""Racks: all, one, its health, its nodes; NVLink domains."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from exporters.rest import examples
from exporters.rest.context import Own
from exporters.rest.models.nodes import NodesBody
from exporters.rest.models.racks import DomainsBody, HealthBody, RackBody, RacksBody
from exporters.rest.parameters import HealthQuery, RackName, check_block
from exporters.rest.problems import documented
from exporters.rest.views import nodes as node_views
from exporters.rest.views import racks as views

router = APIRouter(tags=["racks"])

_ONE = documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY)


@router.get("/v1/racks", responses=examples.answers(RacksBody))
async def list_racks(request: Request, own: Own) -> Response:
    """List all racks with their verdicts."""
    service = own.service

    return own.send(
        request,
        "racks",
        None,
        lambda envelope: RacksBody(
            **dict(envelope),
            racks=[views.summary(status, service.expected(status.rack)) for status in service.racks()],
        ),
    )


@router.get("/v1/racks/{rack}", responses=examples.answers(RackBody) | _ONE)
async def get_rack(request: Request, own: Own, rack: RackName) -> Response:
    """Show a rack with its nodes, domains and reasons in short."""
    status = own.rack(rack)
    return own.send(
        request,
        ("rack", rack),
        status,
        lambda envelope: views.rack(envelope, status, own.service.expected(rack)),
    )


@router.get("/v1/racks/{rack}/health", responses=examples.answers(HealthBody) | _ONE)
async def get_health(
    request: Request, own: Own, rack: RackName, query: Annotated[HealthQuery, Query()]
) -> Response:
    """Tell schedulers and drain controllers what can be used, what not, why, and what to do.

    A rack that is not available is a good answer, too: the status is 200.
    """
    status = own.rack(rack)
    check_block(query.min_block, len(status.nodes))
    return own.send(
        request,
        ("health", rack, query.min_block),
        status,
        lambda envelope: views.health(envelope, status, own.service.expected(rack), query.min_block),
    )


@router.get("/v1/racks/{rack}/nodes", responses=examples.answers(NodesBody) | _ONE)
async def list_nodes(request: Request, own: Own, rack: RackName) -> Response:
    """List the nodes of a rack with their reasons and GPUs."""
    status = own.rack(rack)
    return own.send(
        request,
        ("nodes", rack),
        status,
        lambda envelope: NodesBody(
            **dict(envelope), rack=rack, nodes=[node_views.node(rack, node) for node in status.nodes]
        ),
    )


@router.get("/v1/domains", responses=examples.answers(DomainsBody))
async def list_domains(request: Request, own: Own) -> Response:
    """List the NVLink domains of all racks, clique by clique."""
    return own.send(
        request,
        "domains",
        None,
        lambda envelope: DomainsBody(
            **dict(envelope), domains=[views.domain(rack, domain) for rack, domain in own.service.domains()]
        ),
    )
