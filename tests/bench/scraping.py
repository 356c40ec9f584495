"""Scrapes, timed as a Prometheus server would see them."""

from __future__ import annotations

import gzip
import http.client
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from tests.bench.errors import BenchError

# What Prometheus sends when it scrapes (its documentation, "Content negotiation").
ACCEPT_PROMETHEUS: Final = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
ACCEPT_TEXT: Final = "text/plain;version=0.0.4"
_TIMEOUT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.01


class Answer(NamedTuple):
    """An HTTP answer and how long it took, connection (where there was none yet) and transfer included."""

    body: bytes
    encoding: str
    seconds: float


class Client:
    """An HTTP client that keeps its connection, as Prometheus does, if the server keeps it."""

    def __init__(self, port: int) -> None:
        """Remember the port on 127.0.0.1."""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)

    def get(self, path: str, *, accept: str = "*/*", compressed: bool = False) -> Answer:
        """Fetch a path.

        Raises:
            BenchError: There is no answer, or it is not 200.
        """
        headers = {"Accept": accept, "Accept-Encoding": "gzip" if compressed else "identity"}
        start = time.perf_counter_ns()
        try:
            self._connection.request("GET", path, headers=headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise BenchError(f"no answer from {path}: {error}") from error
        seconds = (time.perf_counter_ns() - start) / 1e9
        if response.status != http.client.OK:
            raise BenchError(f"{path} answered {response.status}: {body[:200].decode(errors='replace')}")
        return Answer(body, response.headers.get("Content-Encoding", "identity"), seconds)

    def scrape(self) -> Answer:
        """Fetch /metrics as Prometheus does: OpenMetrics preferred, compressed.

        Raises:
            BenchError: There is no answer, or it is not compressed.
        """
        answer = self.get("/metrics", accept=ACCEPT_PROMETHEUS, compressed=True)
        if answer.encoding != "gzip":
            raise BenchError(f"/metrics came as {answer.encoding}, not gzip")
        return answer

    def exposition(self) -> str:
        """Fetch /metrics as text 0.0.4."""
        return self.get("/metrics", accept=ACCEPT_TEXT).body.decode()

    def document(self, slots_held: str = "") -> dict[str, Any]:  # Any: a JSON document
        """Fetch the Snapshot of an agent; without its table, if that is held."""
        path = f"/v1/snapshot?slots={slots_held}" if slots_held else "/v1/snapshot"
        document = json.loads(self.get(path, accept="application/json").body)
        if not isinstance(document, dict):
            raise BenchError(f"{path} is not an object")
        return document

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def wait_until(ready: Callable[[], bool], what: str, seconds: float, check: Callable[[], None]) -> None:
    """Wait for something to become true.

    Args:
        ready: Asked again and again; an answer that fails counts as not ready.
        what: For the message.
        seconds: How long at most.
        check: Called between; raises where waiting has become pointless.

    Raises:
        BenchError: It did not become true in time.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        check()
        try:
            if ready():
                return
        except BenchError:
            pass
        time.sleep(0.1)
    raise BenchError(f"{what} took more than {seconds:.0f} s")


def wait_for_new_snapshot(client: Client, slots_held: str, known: int) -> int:
    """Wait until an agent has a Snapshot after the known one, looking from 0.8 s on; give its number."""
    time.sleep(0.8)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        number = int(client.document(slots_held)["seq"])
        if number != known:
            return number
        time.sleep(_POLL_SECONDS)
    raise BenchError(f"no new Snapshot for {_TIMEOUT_SECONDS:.0f} s after number {known}")


def count_series(exposition: str) -> int:
    """Count the series of an exposition, having it parsed by prometheus_client's parser."""
    return sum(len(family.samples) for family in text_string_to_metric_families(exposition))


def uncompressed_size(answer: Answer) -> int:
    """Size in bytes of what a compressed answer holds."""
    return len(gzip.decompress(answer.body))


def percentile(values: Sequence[float], share: float) -> float:
    """Give the smallest value that at least this share of all values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
