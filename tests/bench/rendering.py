"""Rendering: the agent's renderer against prometheus_client's generate_latest over the same series."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from collector.catalog import BY_NAME
from collector.model import Series, SeriesTable, Snapshot
from exporters.prometheus import Renderer, TextFormat
from tests.bench.errors import BenchError
from tests.bench.measuring import Capture

_ROUNDS: Final = 41


@dataclass(frozen=True)
class Rendering:
    """Median durations of one rendering of the same series.

    Attributes:
        series: How many series.
        ours_seconds: Of the agent's renderer; its values change from one rendering to the next.
        theirs_seconds: Of generate_latest, over families that stand ready; making them is not counted.
    """

    series: int
    ours_seconds: float
    theirs_seconds: float

    @property
    def ratio(self) -> float:
        """How many times faster the agent's renderer is."""
        return self.theirs_seconds / self.ours_seconds


class _Families:
    """A collector of prometheus_client that yields families which stand ready."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def compare(capture: Capture) -> Rendering:
    """Render what an agent served in both ways.

    Raises:
        BenchError: The two ways do not render the same series.
    """
    first, second = (_snapshot(document, capture.documents[0]["slots"]) for document in capture.documents)
    if first.values == second.values:
        raise BenchError("two Snapshots after one another hold the same values: the renderer would not work")
    renderer = Renderer()
    exposition = renderer.render(first, TextFormat.PLAIN).decode()
    families = list(text_string_to_metric_families(exposition))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    theirs = list(text_string_to_metric_families(generate_latest(registry).decode()))
    series = _count(families)
    if _count(theirs) != series:
        raise BenchError(f"generate_latest renders {_count(theirs)} series, the agent {series}")
    snapshots = (first, second)
    ours_seconds = _median_seconds(lambda turn: renderer.render(snapshots[turn % 2], TextFormat.PLAIN))
    theirs_seconds = _median_seconds(lambda _: generate_latest(registry))
    return Rendering(series, ours_seconds, theirs_seconds)


def _count(families: list[Family]) -> int:
    return sum(len(family.samples) for family in families)


def _median_seconds(render: Callable[[int], bytes]) -> float:
    durations = []
    for turn in range(_ROUNDS):
        start = time.perf_counter_ns()
        render(turn)
        durations.append(time.perf_counter_ns() - start)
    return statistics.median(durations) / 1e9


def _snapshot(document: dict[str, Any], slots: list[list[str]]) -> Snapshot:  # Any: a JSON document
    """Make the Snapshot anew from its document."""
    table = SeriesTable(tuple(Series(BY_NAME[name], tuple(labels)) for name, *labels in slots))
    return Snapshot(
        rack=document["rack"],
        node=document["node"],
        agent_id=document["agent_id"],
        boot_id=document["boot_id"],
        sequence=document["seq"],
        time_ns=document["time_ns"],
        table=table,
        values=tuple(document["values"]),
        ages_seconds=document["age_seconds"],
        nvml_up=document["nvml_up"],
    )
