"""``python -m tests.bench.influx_sink``: a process in InfluxDB's place that takes lines, and counts them.

A process of its own, so that what unpacking and counting cost is not taken for the agent's.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.bench.processes import Program
from tests.bench.scraping import Client


class Tally:
    """What came since the first request. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = self._lines = self._sent_bytes = 0
        self._first_at: float | None = None

    def add(self, body: bytes, sent_bytes: int, at: float) -> None:
        """Count a request: its lines, and its size as it was sent."""
        with self._lock:
            self._first_at = at if self._first_at is None else self._first_at
            self._requests += 1
            self._lines += body.count(b"\n") + (body[-1:] not in (b"", b"\n"))
            self._sent_bytes += sent_bytes

    def document(self, at: float) -> dict[str, float]:
        """Say it: `requests`, `lines`, `sent_bytes`, and `seconds` since the first."""
        with self._lock:
            seconds = 0.0 if self._first_at is None else at - self._first_at
            return {
                "requests": self._requests,
                "lines": self._lines,
                "sent_bytes": self._sent_bytes,
                "seconds": seconds,
            }


def sink(port: int, folder: Path) -> Program:
    """The process that takes lines on a port of 127.0.0.1; its log goes to a folder."""
    arguments = [sys.executable, "-m", "tests.bench.influx_sink", str(port)]
    repository = str(Path(__file__).resolve().parents[2])
    return Program("the stand-in for InfluxDB", arguments, folder / "sink.log", {"PYTHONPATH": repository})


def received(port: int) -> dict[str, float]:
    """Ask the process for its `Tally.document`.

    Raises:
        BenchError: It does not answer.
    """
    client = Client(port)
    try:
        document: dict[str, float] = json.loads(client.get("/").body)
    finally:
        client.close()
    return document


def server(port: int) -> ThreadingHTTPServer:
    """Listen on a port of 127.0.0.1; `serve_forever` of it takes lines."""
    tally = Tally()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body in one packet: otherwise an acknowledgement is waited for between them.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            packed = self.headers.get("Content-Encoding") == "gzip"
            tally.add(gzip.decompress(raw) if packed else raw, len(raw), time.monotonic())
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()

        def do_GET(self) -> None:
            body = json.dumps(tally.document(time.monotonic())).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    return Server(("127.0.0.1", port), Handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Take lines until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.influx_sink", description=main.__doc__)
    parser.add_argument("port", type=int, help="where to listen, on 127.0.0.1")
    with server(parser.parse_args(argv).port) as listening:
        listening.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
