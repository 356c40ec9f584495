"""Paths of CONTRACTS §5 that are promised and not there yet: each says so."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from exporters.rest.context import Own
from exporters.rest.parameters import RackName
from exporters.rest.problems import ProblemError

router = APIRouter(include_in_schema=False)

_LATER = "{} comes with a later version of rackwatt; this one does not have it."


@router.get("/v1/racks/{rack}/verification")
async def get_verification(own: Own, rack: RackName) -> Response:
    """Answer that verification comes later."""
    own.rack(rack)
    raise ProblemError(HTTPStatus.NOT_FOUND, _LATER.format("Verification"))


@router.get("/v1/topology")
async def get_topology() -> Response:
    """Answer that the topology comes later."""
    raise ProblemError(HTTPStatus.NOT_FOUND, _LATER.format("The topology for schedulers"))
