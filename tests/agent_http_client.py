"""A running AgentHttpExporter, a clock that tests drive, and a client that speaks raw HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from collector.model import Snapshot
from exporters.agent_http import AgentHttpExporter
from exporters.http_server import Limits

PATIENCE_SECONDS = 20.0
"""What no test needs: beyond it something hangs."""


@dataclass
class Clock:
    """A monotonic clock that stands still until it is moved."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@asynccontextmanager
async def serving(
    snapshot: Snapshot | None = None, *, clock: Clock | None = None, limits: Limits | None = None
) -> AsyncIterator[AgentHttpExporter]:
    """Run an exporter on a free port of 127.0.0.1, with a Snapshot published if given."""
    exporter = AgentHttpExporter("127.0.0.1", 0, limits=limits, monotonic=clock or Clock())
    await exporter.start()
    try:
        if snapshot is not None:
            exporter.publish(snapshot)
        yield exporter
    finally:
        await exporter.close()


class Client:
    """One connection; closed at the end of its `async with`."""

    def __init__(self, exporter: AgentHttpExporter) -> None:
        self._port = exporter.port

    async def __aenter__(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Send a request and read its answer; underscores in header names stand for hyphens."""
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send(
            "\r\n".join([f"{method} {path} HTTP/1.1", "Host: node:10072", *lines, "", ""]).encode()
        )
        return await self.answer(body=method != "HEAD")

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, body: bool = True) -> Answer:
        """Read one answer with a Content-Length."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        content = await self.reader.readexactly(int(headers["content-length"])) if body else b""
        return Answer(int(head[0].split(" ")[1]), headers, content)

    async def ended(self) -> bool:
        """Wait until the server ends the connection; what it still sends is thrown away."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        return True


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario in an event loop of its own, which it must finish in time."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await scenario()

    asyncio.run(bounded())
