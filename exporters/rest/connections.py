"""Connections that strangers cannot exhaust: bounded in number, and in every kind of waiting.

uvicorn itself waits for ever for a request that never comes, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping
from http import HTTPStatus

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from exporters.rest.problems import CONTENT_TYPE, problem_response
from exporters.rest.settings import ConnectionLimits


class _Phase(enum.Enum):
    """What a connection waits for: a next request, the rest of a request, or that an answer is read."""

    IDLE = "idle"
    RECEIVING = "receiving"
    ANSWERING = "answering"


class BoundedProtocol(H11Protocol):
    """An HTTP/1.1 connection with a deadline in each phase; `bounded` makes it for given limits."""

    limits = ConnectionLimits()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Begin as uvicorn does; it calls this for each connection."""
        super().__init__(config, server_state, app_state, _loop)
        self._phase = _Phase.RECEIVING
        self._since = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._seconds: Mapping[_Phase, float] = {
            _Phase.IDLE: self.limits.idle_seconds,
            _Phase.RECEIVING: self.limits.request_seconds,
            _Phase.ANSWERING: self.limits.answer_seconds,
        }

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Admit the connection; where there are too many, end the one that is missed least."""
        super().connection_made(transport)
        self._enter(_Phase.RECEIVING)
        if len(self.connections) > self.limits.connections:
            bounded = [entry for entry in self.connections if isinstance(entry, BoundedProtocol)]
            min(bounded, key=lambda connection: connection.eviction_rank).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a request begins, and when it is complete."""
        if self._settled:
            self._enter(_Phase.RECEIVING)
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            self.drop()  # Nothing that HTTP knows can be answered any more.
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request.
        if self._phase is _Phase.RECEIVING and cycle is not None and not cycle.more_body:
            self._enter(_Phase.ANSWERING)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or larger than this server reads, as a problem."""
        response = problem_response(
            HTTPStatus.BAD_REQUEST, "The request is not HTTP, or larger than this server reads."
        )
        headers = [("Content-Type", CONTENT_TYPE), ("Cache-Control", "no-store"), ("Connection", "close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def eviction_rank(self) -> tuple[bool, bool, float]:
        """Sorts connections by how little is lost if they end: idle ones, then unfinished requests."""
        answering = self._phase is _Phase.ANSWERING and not self._settled
        return answering, self._phase is _Phase.RECEIVING, self._since

    def drop(self) -> None:
        """End the connection at once, whatever is still unsent."""
        self.connections.discard(self)
        self.transport.abort()

    @property
    def _settled(self) -> bool:
        """Whether a request was answered, and the answer has left for the network."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request.
        answered = cycle is not None and cycle.response_complete
        return answered and self._phase is not _Phase.RECEIVING and not self.transport.get_write_buffer_size()

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self.loop.time()
        self._arm(self._seconds[phase])

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        remaining = self._seconds[_Phase.IDLE] - self._seconds[_Phase.ANSWERING]
        if self._phase is _Phase.ANSWERING and self._settled and remaining > 0:
            self._phase = _Phase.IDLE
            self._arm(remaining)
        else:
            self.drop()


def bounded(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """Make the kind of connection that keeps these limits."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})
