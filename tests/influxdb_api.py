"""A small server that answers as InfluxDB 2 does where tokens are made and points written.

Paths, fields and statuses are those of docs.influxdata.com/influxdb/v2/api: "List buckets", "Create an
authorization", "Write data". Whoever shows no token that it knows is answered 401; whoever may not do what he
asks for, 403.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ADMINISTRATOR = "everything"
"""What the token of the set-up may do."""
ORGANIZATION_ID = "a1b2c3d4e5f60718"
BUCKET_ID = "0011223344556677"


@dataclass(frozen=True)
class Write:
    """A write that was taken.

    Attributes:
        token: The token that was shown.
        query: Its parameters.
        lines: Its lines.
    """

    token: str
    query: dict[str, str]
    lines: tuple[bytes, ...]


class InfluxdbApi:
    """The server while it runs.

    Attributes:
        rights: What each token may do: ADMINISTRATOR, `read` or `write`.
        asked: Bodies of the authorizations that were asked for.
        writes: What was written, in order.
    """

    def __init__(self, port: int, admin_token: str, organization: str, bucket: str) -> None:
        self.rights = {admin_token: ADMINISTRATOR}
        self.asked: list[dict[str, Any]] = []
        self.writes: list[Write] = []
        self._organization = organization
        self._bucket = bucket
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self) -> None:
                outer._answer(self, b"")

            def do_POST(self) -> None:
                outer._answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _answer(self, handler: BaseHTTPRequestHandler, raw: bytes) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        token = handler.headers.get("Authorization", "").removeprefix("Token ")
        status: int
        body: dict[str, Any] | None
        with self._lock:
            right = self.rights.get(token)
            if right is None:
                status, body = 401, _error("unauthorized", "unauthorized access")
            elif parts.path == "/api/v2/buckets":
                status, body = 200, self._buckets(right, query)
            elif parts.path == "/api/v2/authorizations" and handler.command == "POST":
                status, body = self._authorize(right, json.loads(raw))
            elif parts.path == "/api/v2/write" and handler.command == "POST":
                status, body = self._write(right, token, query, raw, handler.headers.get("Content-Encoding"))
            else:
                status, body = 404, _error("not found", "path not found")
        content = json.dumps(body).encode() if body is not None else b""
        handler.send_response(status)
        if status != 204:
            handler.send_header("Content-Type", "application/json; charset=utf-8")
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if status != 204:
            handler.wfile.write(content)

    def _buckets(self, right: str, query: dict[str, str]) -> dict[str, Any]:
        own = {"id": BUCKET_ID, "orgID": ORGANIZATION_ID, "type": "user", "name": self._bucket}
        fits = query.get("name", self._bucket) == self._bucket
        fits &= query.get("org", self._organization) == self._organization
        # A token that may only write sees no bucket.
        return {"buckets": [own] if fits and right != "write" else []}

    def _authorize(self, right: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if right != ADMINISTRATOR:
            return 403, _error("forbidden", "insufficient permissions")
        self.asked.append(asked)
        (permission,) = asked["permissions"]
        token = f"token-{len(self.asked)}-to-{permission['action']}=="
        self.rights[token] = permission["action"]
        return 201, {**asked, "id": f"{len(self.asked):016x}", "status": "active", "token": token}

    def _write(
        self, right: str, token: str, query: dict[str, str], raw: bytes, encoding: str | None
    ) -> tuple[int, dict[str, Any] | None]:
        if right == "read":
            return 403, _error("forbidden", "insufficient permissions for write")
        if (query.get("org"), query.get("bucket")) != (self._organization, self._bucket):
            return 404, _error("not found", "bucket not found")
        body = gzip.decompress(raw) if encoding == "gzip" else raw
        self.writes.append(Write(token, query, tuple(line for line in body.split(b"\n") if line)))
        return 204, None


def _error(code: str, message: str) -> dict[str, Any]:
    return {"code": code, "message": message}


@contextmanager
def influxdb_api(admin_token: str, *, organization: str, bucket: str, port: int = 0) -> Iterator[InfluxdbApi]:
    """Run the server on 127.0.0.1."""
    server = InfluxdbApi(port, admin_token, organization, bucket)
    try:
        yield server
    finally:
        server.close()
