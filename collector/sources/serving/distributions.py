"""Histograms put together from their samples, and added over ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from collector.sources.serving.endpoint import HistogramReading
from collector.sources.serving.exposition import Sample
from collector.sources.serving.sums import Key, RankSum, Vector

MAXIMUM_BOUNDS = 512
"""Most bounds of a histogram; NVIDIA Dynamo allows as many (`MAX_BUCKET_COUNT` in its metrics.rs)."""

Part = tuple[tuple[float, ...], Vector]
"""Finite bounds of one rank's histogram; its counts, all of them last, and its sum after them."""


def assemble(samples: Iterable[Sample], name: str) -> Part | None:
    """Put the histogram of one rank together.

    Args:
        samples: Its samples.
        name: Its name, without suffix.

    Returns:
        The histogram; None where it lacks something or contradicts itself: its counts fall, or a bound or a
        count is no number that it can be.
    """
    counts: dict[float, float] = {}
    total: float | None = None
    for sample in samples:
        if not math.isfinite(sample.value) or sample.value < 0:
            return None
        if sample.name == f"{name}_sum":
            total = sample.value
            continue
        bound = _bound(sample.labels.get("le", "")) if sample.name == f"{name}_bucket" else math.inf
        if bound is None or counts.setdefault(bound, sample.value) != sample.value:
            return None
    bounds = sorted(counts)
    if total is None or math.inf not in counts or not 1 < len(bounds) <= MAXIMUM_BOUNDS + 1:
        return None
    ordered = [counts[bound] for bound in bounds]
    if any(later < earlier for earlier, later in pairwise(ordered)):
        return None
    return tuple(bounds[:-1]), (*ordered, total)


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return bound if bound > -math.inf else None


class HistogramSum:
    """A histogram over ranks; it begins anew where the engine has other bounds than before."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self._bounds: tuple[float, ...] = ()
        self._sum = RankSum()

    @property
    def ranks(self) -> RankSum:
        """The sum over its ranks."""
        return self._sum

    def update(self, parts: Mapping[Key, Part]) -> HistogramReading | None:
        """Take the histograms of those ranks that answered.

        Args:
            parts: At least one.

        Returns:
            Their sum; None where they have different bounds.
        """
        first, *others = {bounds for bounds, _ in parts.values()}
        if others:
            return None
        if first != self._bounds:
            self._bounds = first
            self._sum = RankSum(compared=len(first) + 1)
        *counts, total = self._sum.update({key: vector for key, (_, vector) in parts.items()})
        return HistogramReading(first, tuple(counts), total)
