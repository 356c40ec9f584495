"""An HTTP server that strangers cannot exhaust: bounded connections, requests, answers and waiting.

It serves what is in memory, so a handler never waits; whatever takes long is the client, and is dropped.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import msgspec
from aiohttp import web

logger = logging.getLogger("rackwatt.http")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_COMMON_HEADERS = {
    "Server": "rackwatt",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
_DRAIN_SECONDS = 0.5
"""What answers under way get when the server closes; aiohttp waits for it twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one server spends on its clients.

    Attributes:
        connections: Open connections; one more closes the one that has waited longest for a request.
        request_seconds: Time that a client has to send its request.
        answer_seconds: Time that a client has to read its answer.
        idle_seconds: Time that a connection is kept for a next request.
        line_bytes: Longest request line, and longest header.
        headers: Most headers of a request.
    """

    connections: int = 64
    request_seconds: float = 10.0
    answer_seconds: float = 10.0
    idle_seconds: float = 75.0
    line_bytes: int = 4096
    headers: int = 64


def respond(
    body: bytes, content_type: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Make an answer that is neither cached nor sniffed, with extra headers if given."""
    every = {**_COMMON_HEADERS, "Content-Type": content_type, **(headers or {})}
    return web.Response(status=status, body=body, headers=every)


def sentence(text: str, *, status: int = 200) -> web.Response:
    """Answer one sentence of plain text."""
    return respond(f"{text}\n".encode(errors="replace"), "text/plain; charset=utf-8", status=status)


def problem(status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None) -> web.Response:
    """Answer an error as RFC 9457 has it."""
    document = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    body = msgspec.json.encode(document)
    return respond(body, "application/problem+json", status=status.value, headers=headers)


class _Phase(enum.Enum):
    """What a connection waits for: a next request, the rest of a request, or that an answer is read."""

    IDLE = "idle"
    RECEIVING = "receiving"
    ANSWERING = "answering"


class _Connection(web.RequestHandler):
    """A connection that knows since when it waits, and for what."""

    __slots__ = ("_phase", "_since", "_wire")

    _phase: _Phase
    _since: float
    _wire: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        # An asyncio server hands out sockets' transports only, and aiohttp forgets its own on closing.
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the type for mypy
        self._wire = transport
        self._enter(_Phase.RECEIVING)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note when a next request begins."""
        self.settle()
        if self._phase is _Phase.IDLE:
            self._enter(_Phase.RECEIVING)
        super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer an error without echoing the client, and without a traceback in the log for its mistakes."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            logger.error("cannot answer %s %s", request.method, request.path, exc_info=exc)
            detail = "The agent failed to answer; its log says why."
        else:
            logger.debug("malformed request: %s", type(exc).__name__)
            detail = "The request is not HTTP, or larger than this server reads."
        if request.writer.output_size > 0:
            raise ConnectionError("part of another answer was already sent")
        response = problem(HTTPStatus(status), detail)
        response.force_close()
        return response

    def begin_answer(self) -> None:
        """Note that a complete request is being answered."""
        self._enter(_Phase.ANSWERING)

    def settle(self) -> None:
        """Become idle once nothing of the answer is left to send, counted from when the answer began."""
        if self._phase is _Phase.ANSWERING and self._wire.get_write_buffer_size() == 0:
            self._phase = _Phase.IDLE

    def waits_too_long(self, limits: Mapping[_Phase, float]) -> bool:
        """Tell whether the present phase has lasted beyond its limit in seconds."""
        return self._loop.time() - self._since >= limits[self._phase]

    @property
    def open(self) -> bool:
        """Whether the connection counts as one."""
        return not self._wire.is_closing()

    @property
    def eviction_rank(self) -> tuple[bool, bool, float]:
        """Sorts connections by how little is lost if they end: idle ones, then unfinished requests."""
        return self._phase is _Phase.ANSWERING, self._phase is _Phase.RECEIVING, self._since

    def drop(self) -> None:
        """End the connection at once, whatever is still unsent."""
        self._wire.abort()

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self._loop.time()


class _Guard(web.Server):
    """Makes connections, keeps their number, and drops those that wait too long."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        super().__init__(self._answer)
        self._handler = handler
        self._limits = limits
        self._seconds = {
            _Phase.IDLE: limits.idle_seconds,
            _Phase.RECEIVING: limits.request_seconds,
            _Phase.ANSWERING: limits.answer_seconds,
        }
        self._sweep_every = min(1.0, *(seconds / 4 for seconds in self._seconds.values()))
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> web.RequestHandler:
        """Make the protocol of one connection."""
        return _Connection(
            self,
            loop=self._loop,
            logger=logger,
            access_log=None,  # type: ignore[arg-type]  # aiohttp tests it for truth, but names it a Logger
            lingering_time=0,  # A body is never read, so nothing is gained by waiting for its end.
            read_bufsize=self._limits.line_bytes,
            max_line_size=self._limits.line_bytes,
            max_field_size=self._limits.line_bytes,
            max_headers=self._limits.headers,
        )

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Admit a connection; where there are too many, end the one that is missed least."""
        super().connection_made(handler, transport)
        candidates = self.open_connections()
        if len(candidates) > self._limits.connections:
            for connection in candidates:
                connection.settle()
            min(candidates, key=lambda connection: connection.eviction_rank).drop()
        if self._timer is None:
            self._timer = self._loop.call_later(self._sweep_every, self._sweep)

    async def finish(self) -> None:
        """Let answers under way end for a moment, then end every connection."""
        if self._timer is not None:
            self._timer.cancel()
        connections = self.open_connections()
        self.pre_shutdown()
        await self.shutdown(timeout=_DRAIN_SECONDS)
        for connection in connections:
            connection.drop()

    def open_connections(self) -> list[_Connection]:
        """List the connections that are open."""
        return [entry for entry in self.connections if isinstance(entry, _Connection) and entry.open]

    def _sweep(self) -> None:
        connections = self.open_connections()
        for connection in connections:
            connection.settle()
            if connection.waits_too_long(self._seconds):
                connection.drop()
        self._timer = self._loop.call_later(self._sweep_every, self._sweep) if connections else None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if isinstance(request.protocol, _Connection):
            request.protocol.begin_answer()
        if request.body_exists:
            response: web.StreamResponse = problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Requests to this server carry no body."
            )
            response.force_close()
            return response
        return await self._handler(request)


class BoundedServer:
    """A listening server; made and closed within a running event loop."""

    def __init__(self, guard: _Guard, listener: asyncio.Server) -> None:
        self._guard = guard
        self._listener = listener

    @classmethod
    async def listen(cls, host: str, port: int, handler: Handler, limits: Limits) -> BoundedServer:
        """Bind and accept connections.

        Raises:
            OSError: The address cannot be bound.
        """
        guard = _Guard(handler, limits)
        loop = asyncio.get_running_loop()
        return cls(guard, await loop.create_server(guard, host, port))

    @property
    def port(self) -> int:
        """Port that is bound; of several sockets the first one's."""
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Accept no more, let answers under way end for a moment, and end every connection: 2 s at most."""
        self._listener.close()
        await self._guard.finish()
