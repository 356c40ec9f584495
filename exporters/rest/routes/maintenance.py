"""Declared maintenance: listed by everybody, written by who has the token."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from collector.errors import ConfigurationError
from collector.health.maintenance import MaintenanceWindow
from exporters.rest import examples
from exporters.rest.authentication import admitted
from exporters.rest.context import Context, Own
from exporters.rest.models.maintenance import WindowBody, WindowPart, WindowRequest, WindowsBody
from exporters.rest.parameters import WindowId, WindowsQuery, duration_seconds, unix_nanoseconds
from exporters.rest.problems import WRITE_REFUSED, ProblemError, documented, shown
from exporters.rest.views import maintenance as views
from exporters.rest.views.common import SECOND_NS

router = APIRouter(tags=["maintenance"])

_MAY_COUNT = " What was asked for may count already: see /v1/maintenance before you try again."


@router.get(
    "/v1/maintenance",
    responses=examples.answers(WindowsBody)
    | documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY),
)
async def list_windows(request: Request, own: Own, query: Annotated[WindowsQuery, Query()]) -> Response:
    """List declared maintenance by its start; what has ended, too, as long as it is kept."""
    status = own.rack(query.rack) if query.rack else None
    windows = [_part(own, each) for each in own.service.maintenance_windows(query.rack)]
    return own.send_new(request, WindowsBody(**dict(own.envelope(status)), windows=windows))


@router.get(
    "/v1/maintenance/{window_id}",
    responses=examples.answers(WindowBody)
    | documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY),
)
async def get_window(request: Request, own: Own, window_id: WindowId) -> Response:
    """Show one declared maintenance."""
    found = own.service.maintenance_window(window_id)
    if found is None:
        raise _missing(window_id)
    return _send(request, own, found)


@router.post(
    "/v1/maintenance",
    status_code=HTTPStatus.CREATED,
    dependencies=[Depends(admitted)],
    responses=examples.answers(WindowBody, HTTPStatus.CREATED, "Declared; Location names it.")
    | WRITE_REFUSED,
)
async def declare(request: Request, own: Own, wanted: WindowRequest) -> Response:
    """Declare maintenance of a rack, or of some of its nodes.

    It counts from the next evaluation on. It cannot begin in the past, and lasts 31 days at most.
    """
    own.rack(wanted.rack)
    starts_ns = None if wanted.starts_at is None else unix_nanoseconds(wanted.starts_at)
    try:
        window = await own.ledger(
            own.service.create_maintenance(
                wanted.rack,
                ends_ns=_end_of(wanted, own.wall_ns() if starts_ns is None else starts_ns),
                starts_ns=starts_ns,
                nodes=wanted.nodes,
                reason=wanted.reason,
                created_by=wanted.created_by,
            ),
            hint=_MAY_COUNT,
        )
    except ConfigurationError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from None
    response = _send(request, own, window, status=HTTPStatus.CREATED)
    response.headers["Location"] = f"/v1/maintenance/{window.id}"
    return response


@router.delete(
    "/v1/maintenance/{window_id}",
    dependencies=[Depends(admitted)],
    responses=examples.answers(WindowBody, description="Ended, as it is now.") | WRITE_REFUSED,
)
async def end(request: Request, own: Own, window_id: WindowId) -> Response:
    """End declared maintenance now; one that has not begun never will. It stays listed."""
    found = await own.ledger(own.service.end_maintenance(window_id), hint=_MAY_COUNT)
    if found is None:
        raise _missing(window_id)
    return _send(request, own, found)


def _send(request: Request, own: Context, window: MaintenanceWindow, *, status: int = 200) -> Response:
    body = WindowBody(
        **dict(own.envelope(own.service.rack(window.rack))),
        **dict(_part(own, window)),
    )
    return own.send_new(request, body, status=status)


def _part(own: Context, window: MaintenanceWindow) -> WindowPart:
    """Write a window as of its rack's last evaluation, which its beginning and its end bring about."""
    status = own.service.rack(window.rack)
    return views.window(window, own.service.observed_ns if status is None else status.observed_ns)


def _end_of(wanted: WindowRequest, starts_ns: int) -> int:
    if wanted.ends_at is not None:
        return unix_nanoseconds(wanted.ends_at)
    return starts_ns + duration_seconds(wanted.duration or "") * SECOND_NS


def _missing(window_id: str) -> ProblemError:
    detail = f"There is no maintenance {shown(window_id)}; `/v1/maintenance` lists those that are known."
    return ProblemError(HTTPStatus.NOT_FOUND, detail)
