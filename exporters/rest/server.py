"""Serves the REST interface with uvicorn, within the event loop of the rack service."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from collector.errors import ConfigurationError
from exporters.listening import why_not_listening
from exporters.rest.app import create_app
from exporters.rest.connections import BoundedProtocol, bounded
from exporters.rest.protocol import RackAnswers
from exporters.rest.settings import RestSettings

_logger = logging.getLogger("rackwatt.rest")

_DRAIN_SECONDS = 1
"""What answers under way get when the server closes."""
_CLOSE_SECONDS = 3.0


class _Server(uvicorn.Server):
    """A uvicorn server that says when it serves, and leaves signals to its host."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class RestServer:
    """The REST interface on a port; started and closed within a running event loop."""

    def __init__(self, service: RackAnswers, settings: RestSettings) -> None:
        """Prepare to serve; nothing is bound before `start`.

        Args:
            service: What answers.
            settings: Where to listen, and what is allowed.

        Raises:
            ConfigurationError: The token file cannot be used.
        """
        self._settings = settings
        self._app: ASGIApp = create_app(service, settings)
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._port = settings.port

    @property
    def port(self) -> int:
        """The bound port; before `start` the configured one."""
        return self._port

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._server.server_state.connections) if self._server else 0

    async def start(self) -> None:
        """Bind the address and accept connections.

        Raises:
            ConfigurationError: The address cannot be bound.
        """
        if self._task is not None:
            return
        sockets = await _bind(self._settings)
        self._port = sockets[0].getsockname()[1]
        server = _Server(_config(self._app, self._settings))
        self._server = server
        self._task = asyncio.create_task(server.serve(sockets=sockets), name="rest")
        serving = asyncio.create_task(server.serving.wait())
        await asyncio.wait({serving, self._task}, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        if self._task.done():
            await self._task

    async def close(self) -> None:
        """Stop listening and end every connection, within 3 s."""
        server, task = self._server, self._task
        self._server = self._task = None
        if server is None or task is None:
            return
        server.should_exit = True
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await task
        except TimeoutError:
            _logger.warning("the REST server did not end within %.0f s and is left behind", _CLOSE_SECONDS)
        for connection in list(server.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.drop()


def _config(app: ASGIApp, settings: RestSettings) -> uvicorn.Config:
    limits = settings.limits
    return uvicorn.Config(
        app,
        http=bounded(limits),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",  # What strangers send is not worth a line each.
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=limits.backlog,
        # The connection keeps its own deadlines; uvicorn's must not come first.
        timeout_keep_alive=int(limits.idle_seconds) + 1,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        h11_max_incomplete_event_size=limits.header_bytes,
    )


_Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


async def _bind(settings: RestSettings) -> list[socket.socket]:
    host, port = settings.host, settings.port
    sockets: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(_listening((family, kind, protocol), address, settings.limits.backlog))
    except OSError as error:
        for bound in sockets:
            bound.close()
        raise ConfigurationError(why_not_listening(host, port, error)) from error
    return sockets


def _listening(kind: tuple[int, int, int], address: _Address, backlog: int) -> socket.socket:
    own = socket.socket(*kind)
    try:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if own.family == socket.AF_INET6:
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        own.setblocking(False)
        own.bind(address)
        own.listen(backlog)
    except OSError:
        own.close()
        raise
    return own
