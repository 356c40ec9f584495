"""A real Prometheus over a folder of blocks, on loopback, that scrapes nothing."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from tests.e2e.programs import free_port, running

LOOKBACK = "35s"
"""How long a value holds. A scraped series ends at once when its target falls silent; one from blocks does
not, and would be believed for 5 minutes. Every rule is evaluated each 30 s here."""
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answered:
    """One series of an answer.

    Attributes:
        labels: Its labels, its name as `__name__`.
        times: Unix seconds of its values.
        values: Its values.
    """

    labels: dict[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """The newest value."""
        return self.values[-1]


class QueryError(Exception):
    """Prometheus cannot answer a query; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Where a Prometheus listens."""

    port: int

    def at(self, expression: str, time_seconds: float) -> tuple[Answered, ...]:
        """Evaluate a query at a moment."""
        data = self._ask("query", {"query": expression, "time": time_seconds}, expression)
        if data["resultType"] == "scalar":
            return (_answered({}, [data["result"]]),)
        return tuple(_answered(each["metric"], [each["value"]]) for each in data["result"])

    def between(
        self, expression: str, begin_seconds: float, end_seconds: float, step_seconds: float
    ) -> tuple[Answered, ...]:
        """Evaluate a query at each step of a time range."""
        asked = {"query": expression, "start": begin_seconds, "end": end_seconds, "step": step_seconds}
        data = self._ask("query_range", asked, expression)
        return tuple(_answered(each["metric"], each["values"]) for each in data["result"])

    def label_values(self, label: str, selector: str, begin_seconds: float, end_seconds: float) -> list[str]:
        """List the values of a label, as Grafana's `label_values` does."""
        asked = {"match[]": selector, "start": begin_seconds, "end": end_seconds}
        found = self._request("GET", f"/api/v1/label/{label}/values?{urlencode(asked)}", selector)
        return list(found)

    def _ask(self, path: str, asked: dict[str, object], expression: str):  # type: ignore[no-untyped-def]  # JSON
        return self._request("POST", f"/api/v1/{path}", expression, urlencode(asked))

    def _request(self, method: str, path: str, what: str, body: str | None = None):  # type: ignore[no-untyped-def]  # JSON
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_SECONDS)
        try:
            headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
            connection.request(method, path, body, headers)
            document = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if document["status"] != "success":
            raise QueryError(f"{document.get('error')}: {what}")
        return document["data"]


def _answered(labels: dict[str, str], values: list[tuple[float, str]]) -> Answered:
    return Answered(
        labels, tuple(float(time) for time, _ in values), tuple(float(value) for _, value in values)
    )


@contextmanager
def serving(data: Path, *, lookback: str = LOOKBACK) -> Iterator[Prometheus]:
    """Run a Prometheus over blocks.

    Args:
        data: Their folder.
        lookback: How long a value holds.
    """
    port = free_port()
    settings = data.parent / f"{data.name}.yaml"
    settings.write_text("global: {}\n", "utf-8")
    command = [
        "prometheus",
        f"--config.file={settings}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--query.lookback-delta={lookback}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, data.parent / f"{data.name}.log") as program:
        program.wait_for("Server is ready to receive web requests")
        yield Prometheus(port)
        program.process.terminate()
        assert program.wait() == 0, program.output
