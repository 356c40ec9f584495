"""A real VictoriaMetrics (Debian's victoria-metrics) on loopback, for counts of what arrived."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.programs import PATIENCE_SECONDS, free_port, get, until

SEPARATOR = ":"
"""What stands between measurement and field, so that they can be told apart again."""


@dataclass(frozen=True)
class Stored:
    """One series.

    Attributes:
        measurement: Its measurement.
        field: Its field.
        tags: Its tags.
        values: Values by time, milliseconds of Unix time; a time that came twice stands for both.
        samples: How many samples there are, repeated ones counted.
    """

    measurement: str
    field: str
    tags: Mapping[str, str]
    values: Mapping[int, float]
    samples: int


class VictoriaMetrics:
    """A server that runs.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._port = port

    def series(self, measurement: str = "") -> list[Stored]:
        """Export everything that was written, of one measurement or of all."""
        self._get("/internal/force_flush")
        matcher = f"{measurement or '.*'}{SEPARATOR}.*"
        path = f"/api/v1/export?match[]={{__name__=~%22{matcher}%22}}&start=0"
        return [_stored(json.loads(line)) for line in self._get(path).splitlines()]

    def points(self) -> set[tuple[str, frozenset[tuple[str, str]], int]]:
        """Return the points: measurement, tags and time, however many fields each has."""
        return {
            (each.measurement, frozenset(each.tags.items()), at)
            for each in self.series()
            for at in each.values
        }

    def _get(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read().decode()
        finally:
            connection.close()
        assert response.status == 200, body
        return body


def _stored(series: Mapping[str, object]) -> Stored:
    metric, values, times = series["metric"], series["values"], series["timestamps"]
    assert isinstance(metric, dict)
    assert isinstance(values, list)
    assert isinstance(times, list)
    tags = {name: value for name, value in metric.items() if name not in {"__name__", "db"}}
    measurement, _, field = metric["__name__"].partition(SEPARATOR)
    return Stored(measurement, field, tags, dict(zip(times, values, strict=True)), len(times))


@contextmanager
def victoria_metrics(folder: Path, port: int | None = None) -> Iterator[VictoriaMetrics]:
    """Run a server; what it stored stays in the folder.

    Args:
        folder: For its data and its log.
        port: Where it listens; None for a free port.
    """
    port = port or free_port()
    command = [
        "victoria-metrics",
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-storageDataPath={folder / 'victoria-metrics'}",
        "-retentionPeriod=10y",
        f"-influxMeasurementFieldSeparator={SEPARATOR}",
        "-memory.allowedBytes=256MB",
    ]
    with (folder / "victoria-metrics.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until(lambda: _answers(port), "VictoriaMetrics answers")
        yield VictoriaMetrics(port)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def _answers(port: int) -> bool:
    try:
        return get(port, "/health").status == 200
    except OSError:
        return False
