"""A client that asks an application through its own door, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message


@dataclass
class Answer:
    """One HTTP answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document


async def call(
    app: ASGIApp,
    path: str,
    method: str = "GET",
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """Send a request through an application's own door."""
    route, _, query = path.partition("?")
    sent: list[Message] = []
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    given = {"host": "rack:10073", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": route,
        "raw_path": route.encode(errors="surrogateescape"),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 10073),
        "state": {},
    }
    await app(scope, receive, send)
    start = sent[0]
    return Answer(
        start["status"],
        {name.decode().lower(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


def ask(
    app: ASGIApp,
    path: str,
    method: str = "GET",
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """Send a request in an event loop of its own."""
    return asyncio.run(call(app, path, method, headers=headers, body=body))
