"""Errors as problem details (RFC 9457): one sentence that says what is wrong and what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from collector.errors import RackwattError

CONTENT_TYPE = "application/problem+json"

_SHOWN_CHARACTERS = 80
_SHOWN_ERRORS = 20


class FieldError(BaseModel):
    """One thing that is wrong with a request."""

    where: Annotated[str, Field(description="What of the request, such as `query.min_block`.")]
    detail: Annotated[str, Field(description="What is wrong with it.")]


class Problem(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not Found",
                    "status": 404,
                    "detail": "There is no rack 'r09'; these are watched: r01, r02.",
                    "errors": None,
                    "racks": None,
                }
            ]
        }
    )

    type: Annotated[str, Field(description="Always `about:blank`: the status says what kind it is.")] = (
        "about:blank"
    )
    title: Annotated[str, Field(description="The status in words.")]
    status: Annotated[int, Field(description="The HTTP status.", ge=400, le=599)]
    detail: Annotated[str, Field(description="What is wrong, where, and what would be right.")]
    errors: Annotated[list[FieldError] | None, Field(description="Each mistake of the request.")] = None
    racks: Annotated[list[str] | None, Field(description="Racks of which one must be named.")] = None


class ProblemError(RackwattError):
    """A request that cannot be answered.

    Attributes:
        status: HTTP status.
        detail: What is wrong, and what would be right.
        headers: Further headers of the answer.
        racks: Racks of which one must be named; None where that is not the question.
    """

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        racks: Sequence[str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.racks = None if racks is None else list(racks)


def problem_response(
    status: HTTPStatus,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldError] = (),
    racks: Sequence[str] | None = None,
) -> Response:
    """Answer an error."""
    problem = Problem(
        title=status.phrase,
        status=status.value,
        detail=printable(detail),
        errors=list(errors) or None,
        racks=None if racks is None else list(racks),
    )
    return Response(
        problem.model_dump_json(exclude_none=True),
        status_code=status.value,
        headers=dict(headers or {}),
        media_type=CONTENT_TYPE,
    )


def documented(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Describe for OpenAPI which errors a route may answer."""
    reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status.value: {"description": status.phrase, "content": {CONTENT_TYPE: reference}}
        for status in statuses
    }


WRITE_REFUSED = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""What every route that writes may answer instead."""


def shown(text: str) -> str:
    """Quote foreign text for a message: one line, printable, bounded."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
    return repr(printable(cut))


def printable(text: str) -> str:
    """Replace what UTF-8 cannot hold."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def install(app: FastAPI) -> None:
    """Answer every error of an application as a problem."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_exception)


def _on_problem(request: Request, error: Exception) -> Response:
    if not isinstance(error, ProblemError):
        raise error
    return problem_response(error.status, error.detail, headers=error.headers, racks=error.racks)


def _on_invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    errors = [
        FieldError(where=_where(entry.get("loc", ())), detail=_sentence(str(entry.get("msg", ""))))
        for entry in error.errors()[:_SHOWN_ERRORS]
    ]
    detail = "; ".join(f"{entry.where}: {entry.detail}" for entry in errors[:3]) or "the request is not valid"
    return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)


def _sentence(message: str) -> str:
    return printable(message.removeprefix("Value error, "))


def _where(location: Sequence[int | str]) -> str:
    path = ".".join(str(part) for part in location)
    return printable(path if len(path) <= _SHOWN_CHARACTERS else path[: _SHOWN_CHARACTERS - 3] + "...")


_DETAILS = {
    HTTPStatus.NOT_FOUND: "Nothing is served at this path; /openapi.json describes what is.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This path does not answer this method; the header Allow names those that"
    " it does.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("The request body is larger than this service reads."),
    HTTPStatus.BAD_REQUEST: "The request body cannot be read: send JSON in UTF-8.",
}


def _on_http_exception(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = _allowed(request)
    return problem_response(status, _DETAILS.get(status, status.phrase), headers=headers)


def _allowed(request: Request) -> str:
    """List the methods of a path; the framework names those of its first route only."""
    app: FastAPI = request.app
    methods = {
        method.upper()
        for template, operations in app.openapi()["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), request.url.path)
        for method in operations
    } or {"GET"}
    return ", ".join(sorted({*methods, "HEAD"}))
