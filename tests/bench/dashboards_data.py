"""Recorded series of many racks: those of one simulated rack, many times over, for a week."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dashboards.catalogue import BOARDS
from dashboards.panels import DataPanel
from dashboards.recorded import RECORDED_BY_NAME
from tests.bench.errors import BenchError
from tests.history import blocks
from tests.history.plans import ONE_RACK
from tests.history.prometheus import Answered, serving
from tests.history.simulate import BEGIN_SECONDS, simulate

DAYS: Final = 7
POINT_SECONDS: Final = 300
POINTS: Final = DAYS * 86_400 // POINT_SECONDS + 1
NODE: Final = "n01"
"""The node of which there are the agent's own series, too, so that its board has what it shows."""
END_SECONDS: Final = BEGIN_SECONDS
"""Unix time of the newest point."""

_PATTERNS: Final = 16
"""Ways in which values move (chosen): enough that neighbours differ."""
_MOVES: Final = 0.05
"""How far values move about their mean (chosen)."""
_COUNTERS: Final = ("_total", "_bucket", "_count", "_sum")
_APART_SECONDS: Final = 60
_PATIENCE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Template:
    """A series of the simulated rack.

    Attributes:
        labels: Its labels, its name as `__name__`.
        value: Its newest value.
        rises: By how much it rises a second; 0 for what is no counter.
    """

    labels: Mapping[str, str]
    value: float
    rises: float


def asked_names() -> frozenset[str]:
    """Return the names of recorded series that boards ask for."""
    asked = " ".join(
        target.expr
        for board in BOARDS
        for section in board.sections
        for panel in section.panels
        if isinstance(panel, DataPanel)
        for target in panel.targets
    )
    return frozenset(name for name in RECORDED_BY_NAME if name in asked)


def templates(folder: Path) -> tuple[Template, ...]:
    """Simulate a rack for some minutes, and return its recorded series, its rack series, and a node's own."""
    history = simulate(ONE_RACK, folder)
    end, data = BEGIN_SECONDS + ONE_RACK.seconds, folder / "data"
    blocks.fill(history.file, data, BEGIN_SECONDS, end)
    history.file.unlink()
    selectors = (
        f'{{__name__=~"{"|".join(sorted(asked_names()))}"}}',
        '{__name__=~"rackwatt_rack_.+"}',
        '{__name__=~"rackwatt_.+",__name__!~"rackwatt_rack_.+",node="' + NODE + '"}',
        "up",
    )
    found: list[Template] = []
    with serving(data) as prometheus:
        for selector in selectors:
            earlier = {_key(each): each.value for each in prometheus.at(selector, end - _APART_SECONDS)}
            for each in prometheus.at(selector, end):
                counts = each.labels["__name__"].endswith(_COUNTERS)
                rose = each.value - earlier.get(_key(each), each.value) if counts else 0.0
                found.append(Template(each.labels, each.value, max(0.0, rose / _APART_SECONDS)))
    return tuple(found)


def _key(each: Answered) -> frozenset[tuple[str, str]]:
    return frozenset(each.labels.items())


def lines(found: Iterable[Template], rack: str) -> Iterator[bytes]:
    """Write the series of one rack, each as a line that VictoriaMetrics imports."""
    begin = END_SECONDS - (POINTS - 1) * POINT_SECONDS
    times = ",".join(str((begin + point * POINT_SECONDS) * 1000) for point in range(POINTS))
    for place, each in enumerate(found):
        labels = {name: _of_rack(name, value, rack) for name, value in each.labels.items()}
        head = json.dumps({"metric": labels})[:-1]
        yield f'{head},"values":[{_values(each, place)}],"timestamps":[{times}]}}\n'.encode()


def _of_rack(name: str, value: str, rack: str) -> str:
    if name == "rack":
        return rack
    # What is unique in the world is unique in the fleet.
    return f"{value}-{rack}" if name in ("gpu_uuid", "cluster_uuid", "instance", "module") else value


def _values(each: Template, place: int) -> str:
    if each.rises:
        start = max(0.0, each.value)
        step = each.rises * POINT_SECONDS
        return ",".join(f"{start + step * point:.6g}" for point in range(POINTS))
    if each.value in (0.0, 1.0):
        return ",".join([f"{each.value:g}"] * POINTS)
    pattern = place % _PATTERNS
    return ",".join(
        f"{each.value * (1 + _MOVES * math.sin(point * 0.1 + pattern)):.5g}" for point in range(POINTS)
    )


def load(port: int, body: Iterable[bytes]) -> int:
    """Import lines into VictoriaMetrics; return how many bytes they have.

    Raises:
        BenchError: They are refused.
    """
    sent = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for line in body:
            sent += len(line)
            yield line

    _ask(port, "POST", "/api/v1/import", counted())
    return sent


def flush(port: int) -> None:
    """Make what was imported visible.

    Raises:
        BenchError: It is refused.
    """
    # VictoriaMetrics' documentation, "Forced flush".
    _ask(port, "GET", "/internal/force_flush")


def _ask(port: int, method: str, path: str, body: Iterable[bytes] | None = None) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, encode_chunked=body is not None)
        answer = connection.getresponse()
        said = answer.read().decode("utf-8", errors="replace")
    finally:
        connection.close()
    if answer.status >= 300:
        raise BenchError(f"{path} is refused: {answer.status} {said}")
