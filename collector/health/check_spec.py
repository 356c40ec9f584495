"""What a judge sees of a GPU or a node, and what it finds: the types between values and checks."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.catalog.checks import Check
from collector.health.rises import Rise
from collector.health.xid_memory import XidMemory
from collector.health.xids import XidCatalogue
from collector.model import Value

Cell = tuple[str, str]
"""A metric's name without prefix, and the value of its own label; empty for a metric without one."""


class Status(enum.Enum):
    """What became of a check.

    `HELD`: the values of now tell nothing, as of a link that is asleep; what was found before stays.
    """

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a judge found. A judge that finds None has nothing to judge: the hardware does not support it.

    Attributes:
        status: What became of the check.
        value: Value that decided.
        threshold: What it was compared with.
        reason: Why it is not passed, in words.
        metric: Metric that decided; empty for the check's first.
        action: What to do; empty for what the check says.
        since_ns: Since when it holds, where the judge knows; nanoseconds of Unix time.
    """

    status: Status
    value: Value | None = None
    threshold: Value | None = None
    reason: str = ""
    metric: str = ""
    action: str = ""
    since_ns: int | None = None


PASSED = Finding(Status.PASSED)


def unknown(metric: str, place: str = "") -> Finding:
    """Say that a value that the hardware supports is missing."""
    where = f" of {place}" if place else ""
    return Finding(Status.UNKNOWN, reason=f"{metric}{where} could not be read", metric=metric)


@dataclass(slots=True)
class Cells:
    """Values of one GPU, or of one of its links, by metric and label.

    Attributes:
        positions: Where each series stands in a Snapshot's values.
        values: The Snapshot's values.
    """

    positions: Mapping[Cell, int]
    values: Sequence[Value | None] = ()

    def has(self, metric: str, label: str = "") -> bool:
        """Tell whether the hardware supports a series."""
        return (metric, label) in self.positions

    def get(self, metric: str, label: str = "") -> Value | None:
        """Return a value; None where it is missing or not supported."""
        position = self.positions.get((metric, label))
        return None if position is None else self.values[position]

    def labels(self, metric: str) -> tuple[str, ...]:
        """Return the label values of a metric that are supported."""
        return tuple(label for name, label in self.positions if name == metric)


@dataclass(slots=True)
class GpuEvidence:
    """All that is known of a GPU.

    Attributes:
        index: Index for display.
        uuid: Identity.
        texts: Labels of `gpu_info`; empty while it is lost.
        cells: Its values.
        links: Values of its links, by link.
        rises: Growth of its counters, by metric, label and link (empty for the GPU's own).
        xids: Its Xids.
        slow_minutes: Minutes of Unix time in which hardware held its clocks down.
        waiting_since_ns: Since when its fabric registration goes on; None while it does not.
    """

    index: str
    uuid: str
    texts: Mapping[str, str]
    cells: Cells
    links: Mapping[str, Cells]
    rises: Mapping[tuple[str, str, str], Rise]
    xids: XidMemory
    slow_minutes: Sequence[int] = ()
    waiting_since_ns: int | None = None


@dataclass(slots=True)
class NodeEvidence:
    """All that is known of a node.

    Attributes:
        gpus: Its GPUs, missing ones included.
        cells: Values of the node itself.
        catalogue: What Xids mean.
        now_ns: Nanoseconds of Unix time.
    """

    gpus: Sequence[GpuEvidence]
    cells: Cells
    catalogue: XidCatalogue
    now_ns: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """A check as it is configured.

    Attributes:
        check: Its row.
        threshold: What is compared with; 0 where the row has none.
    """

    check: Check
    threshold: Value


GpuJudge = Callable[[Rule, GpuEvidence, NodeEvidence], Finding | None]
"""Judges one GPU, beside the other GPUs of its node."""

NodeJudge = Callable[[Rule, NodeEvidence], Finding | None]
"""Judges the node as a whole."""
