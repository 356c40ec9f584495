"""A real InfluxDB 1.x (Debian's influxdb) on loopback, for what only a server can tell of line protocol."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.e2e.programs import free_port

_PATIENCE_SECONDS = 60.0
DATABASE = "test"


class Influxd:
    """A server that runs.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._port = port

    def write(self, payload: bytes) -> tuple[int, str]:
        """Write lines; return status and body of the answer."""
        return self._post(f"/write?db={DATABASE}&precision=ns", payload)

    def query(self, text: str) -> list[dict[str, Any]]:
        """Ask by InfluxQL; return the series of the one result. Any: JSON."""
        words = urllib.parse.urlencode({"db": DATABASE, "q": text, "epoch": "ns"})
        status, body = self._post("/query", words.encode())
        assert status == HTTPStatus.OK, body
        (result,) = json.loads(body)["results"]
        assert "error" not in result, result
        series: list[dict[str, Any]] = result.get("series", [])
        return series

    def rows(self, text: str) -> list[dict[str, Any]]:
        """Ask by InfluxQL; return the rows of all series, by column."""
        return [
            dict(zip(series["columns"], row, strict=True)) | series.get("tags", {})
            for series in self.query(text)
            for row in series["values"]
        ]

    def _post(self, path: str, body: bytes) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_SECONDS)
        try:
            headers = {"Content-Type": "application/x-www-form-urlencoded"} if path == "/query" else {}
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


@contextmanager
def influxd(folder: Path) -> Iterator[Influxd]:
    """Run a server with its data in a folder, and a database."""
    port, rpc = free_port(), free_port()
    configuration = folder / "influxd.conf"
    configuration.write_text(
        f"""
reporting-enabled = false
bind-address = "127.0.0.1:{rpc}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
[monitor]
  store-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
""",
        "utf-8",
    )
    log = folder / "influxd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["influxd", "-config", str(configuration)],
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        server = Influxd(port)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                server.query(f"CREATE DATABASE {DATABASE}")
                break
            except OSError:
                running = process.poll() is None and time.monotonic() < deadline
                assert running, log.read_text("utf-8")
                time.sleep(0.05)
        yield server
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(_PATIENCE_SECONDS)
