"""One node, one GPU."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from collector.rack.answers import AmbiguousNameError
from exporters.rest import examples
from exporters.rest.context import Own
from exporters.rest.models.nodes import GpuBody, NodeBody
from exporters.rest.parameters import GpuUuid, NodeName, NodeQuery
from exporters.rest.problems import ProblemError, documented, shown
from exporters.rest.views import nodes as views

router = APIRouter(tags=["nodes"])


@router.get(
    "/v1/nodes/{node}",
    responses=examples.answers(NodeBody)
    | documented(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
)
async def get_node(
    request: Request, own: Own, node: NodeName, query: Annotated[NodeQuery, Query()]
) -> Response:
    """Show a node: its state and why, and what its agent said last.

    Where several racks have a node of this name, the answer is 409 and names them; ask again with `rack`.
    """
    try:
        found = own.service.node(node, query.rack)
    except AmbiguousNameError as error:
        detail = f"Several racks have a node {shown(node)}: add `?rack=` and one of {', '.join(error.racks)}."
        raise ProblemError(HTTPStatus.CONFLICT, detail, racks=error.racks) from None
    if found is None:
        where = f" in rack {shown(query.rack)}" if query.rack else ""
        raise ProblemError(HTTPStatus.NOT_FOUND, f"There is no node {shown(node)}{where}.")
    return own.send(
        request,
        ("node", found.rack.rack, node),
        found.rack,
        lambda envelope: NodeBody(**dict(envelope), **dict(views.node(found.rack.rack, found.status))),
    )


@router.get(
    "/v1/gpus/{gpu_uuid}",
    responses=examples.answers(GpuBody) | documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY),
)
async def get_gpu(request: Request, own: Own, gpu_uuid: GpuUuid) -> Response:
    """Show a GPU: where it answers, else where it was last seen."""
    found = own.service.gpu(gpu_uuid)
    if found is None:
        detail = f"There is no GPU {shown(gpu_uuid)}; `/v1/racks/RACK/nodes` lists those that are known."
        raise ProblemError(HTTPStatus.NOT_FOUND, detail)
    return own.send(request, ("gpu", gpu_uuid), found.rack, lambda envelope: views.gpu(envelope, found))
