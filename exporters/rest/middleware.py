"""What every answer has in common: safe headers, HEAD beside GET, and a sentence instead of a stack trace."""

from __future__ import annotations

import logging
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exporters.rest.problems import problem_response

_logger = logging.getLogger("rackwatt.rest")

_COMMON_HEADERS = {
    "Server": "rackwatt",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A body that is no page loads and runs nothing, whatever a browser takes it for (CSP level 3).
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
"""Headers of an answer that does not say otherwise."""


class Edge:
    """Stands between the server and the application."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"
        # RFC 9110 §9.3.2: HEAD is GET without the content; FastAPI's routes know GET only.
        inner = {**scope, "method": "GET"} if head else scope
        started = False

        async def edged(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _COMMON_HEADERS.items():
                    headers.setdefault(name, value)
            elif head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._app(inner, receive, edged)
        except Exception:
            _logger.exception("cannot answer %s %r", scope["method"], scope["path"])
            if started:
                raise  # The server ends the connection, which tells the client that something is missing.
            response = problem_response(
                HTTPStatus.INTERNAL_SERVER_ERROR, "The rack service failed to answer; its log says why."
            )
            await response(inner, receive, edged)
