"""What rackwatt measures: one row a metric, as pure data, from which every name and unit derives."""

from __future__ import annotations

from collector.catalog.gpu import GPU
from collector.catalog.health import HEALTH
from collector.catalog.influxdb import INFLUXDB
from collector.catalog.llm import LLM
from collector.catalog.node import AGENT, CPU, MODULE, NODE
from collector.catalog.nvlink import NVLINK
from collector.catalog.reliability import RELIABILITY
from collector.catalog.spec import Entity, Level, Metric

ALL: tuple[Metric, ...] = (
    *GPU,
    *RELIABILITY,
    *NVLINK,
    *MODULE,
    *CPU,
    *LLM,
    *NODE,
    *HEALTH,
    *AGENT,
    *INFLUXDB,
)
"""Every row, in the order in which expositions list them."""

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in ALL}
"""Rows by name without prefix."""


def at_level(level: Level) -> tuple[Metric, ...]:
    """Rows that are exported at a level: its own and those below."""
    return tuple(metric for metric in ALL if metric.level <= level)


def series_per_gpu(level: Level, links: int) -> int:
    """Count the series that one GPU has at a level, before any Xid.

    Args:
        level: Level of detail.
        links: NVLinks of the GPU.

    Returns:
        Series labelled with the GPU or one of its links. Open labels (Xid numbers) count none.
    """
    copies = {Entity.GPU: 1, Entity.NVLINK: links}
    return sum(
        copies.get(metric.entity, 0) * len(metric.label_values)
        for metric in at_level(level)
        if not metric.open_label
    )
