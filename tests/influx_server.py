"""A small HTTP server in InfluxDB's place that does as it is told: any status, stalls, broken answers.

It keeps what it acknowledged as a database would: one point for each series and time, the last write counts.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HANG = -1
"""As a status: read the request, and never answer."""
BREAK = -2
"""As a status: read the request, and close the connection."""
TRICKLE = -3
"""As a status: answer a byte at a time, without end."""


@dataclass(frozen=True)
class Request:
    """What came.

    Attributes:
        path: Path of the address.
        query: Its parameters.
        headers: Headers, names in lower case.
        raw: The body as it came.
        lines: Its lines, without newline.
        at: When, on the monotonic clock.
    """

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw: bytes
    lines: tuple[bytes, ...]
    at: float


@dataclass(frozen=True)
class Reply:
    """What is answered.

    Attributes:
        status: HTTP status, or HANG, BREAK, TRICKLE.
        body: Body of the answer.
        headers: Further headers.
        keeps: Lines of the request that are written nevertheless; None for all of them with a 2xx, else none.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    keeps: tuple[bytes, ...] | None = None


OK = Reply(204)

Answer = Callable[[Request], Reply]


def failing(status: int, words: str = "", **headers: str) -> Reply:
    """Answer as InfluxDB does: words in JSON."""
    body = f'{{"code":"error","message":"{words}"}}'.encode() if words else b""
    return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def refusing(*poison: bytes, status: int = 400) -> Answer:
    """Refuse what holds a poisonous line: all of it with a 400, but for that line with a 422."""

    def answer(request: Request) -> Reply:
        bad = [line for line in request.lines if any(each in line for each in poison)]
        if not bad:
            return OK
        good = tuple(line for line in request.lines if line not in bad) if status == 422 else ()
        reply = failing(status, f"unable to parse {bad[0].decode(errors='replace')[:40]}".replace('"', "'"))
        return Reply(reply.status, reply.body, reply.headers, good)

    return answer


def split_line(line: bytes) -> tuple[bytes, int, bytes]:
    """Take a line apart: its series, its time, its fields."""
    rest, _, time_ns = line.rpartition(b" ")
    at = 0
    while (at := rest.index(b" ", at)) and rest[at - 1 : at] == b"\\":
        at += 1
    return rest[:at], int(time_ns), rest[at + 1 :]


class InfluxServer:
    """The server while it runs.

    Attributes:
        answer: What decides how a request is answered; may be replaced at any time.
        requests: What came, in order.
        points: What was acknowledged: fields by series and time.
        writes: How many lines were acknowledged, repetitions counted.
    """

    def __init__(self, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.answer: Answer = lambda _: OK
        self.requests: list[Request] = []
        self.points: dict[tuple[bytes, int], bytes] = {}
        self.writes = 0
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body in one packet: otherwise an acknowledgement is waited for between them.
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                outer._serve(self)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def process_request(self, request: object, client_address: object) -> None:
                assert isinstance(request, socket.socket)
                outer._connections.append(request)
                super().process_request(request, client_address)

            def handle_error(self, request: object, client_address: object) -> None:
                """Say nothing of clients that went away."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        self.scheme = "http"
        if context is not None:
            self.scheme = "https"
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[bytes]:
        """Lines of all requests, in order."""
        return [line for request in list(self.requests) for line in request.lines]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(length)
        body = gzip.decompress(raw) if handler.headers.get("Content-Encoding") == "gzip" else raw
        parts = urlsplit(handler.path)
        request = Request(
            path=parts.path,
            query={name: values[0] for name, values in parse_qs(parts.query).items()},
            headers={name.lower(): value for name, value in handler.headers.items()},
            raw=raw,
            lines=tuple(line for line in body.split(b"\n") if line),
            at=time.monotonic(),
        )
        with self._lock:
            self.requests.append(request)
            reply = self.answer(request)
            kept = reply.keeps
            if kept is None:
                kept = request.lines if 200 <= reply.status < 300 else ()
            for line in kept:
                series, time_ns, fields = split_line(line)
                self.points[series, time_ns] = fields
            self.writes += len(kept)
        if reply.status < 0:
            self._misbehave(handler, reply.status)
            return
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if reply.status != 204:
            handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        if reply.status != 204:
            handler.wfile.write(reply.body)

    def _misbehave(self, handler: BaseHTTPRequestHandler, how: int) -> None:
        handler.close_connection = True
        if how == HANG:
            self.closing.wait(120)
        if how == TRICKLE:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            with suppress(OSError):
                for _ in range(1200):
                    if self.closing.wait(0.1):
                        break
                    handler.wfile.write(b"X: y\r\n")
                    handler.wfile.flush()

    def close(self) -> None:
        """Stop, and end every connection."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        self._thread.join(5)


@contextmanager
def influx_server(
    answer: Answer | None = None, *, port: int = 0, context: ssl.SSLContext | None = None
) -> Iterator[InfluxServer]:
    """Run a server on 127.0.0.1."""
    server = InfluxServer(port, context)
    if answer is not None:
        server.answer = answer
    try:
        yield server
    finally:
        server.close()


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that takes connections as far as the system does, and never reads."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        port: int = listener.getsockname()[1]
        yield port
