"""What no format can carry is left out: NaN and the infinities."""

from __future__ import annotations

import math

from collector.model import HistogramSample


def finite_histograms(samples: tuple[HistogramSample, ...]) -> tuple[HistogramSample, ...]:
    """Leave out the histograms that hold anything but finite numbers."""
    kept = tuple(filter(_is_finite, samples))
    return samples if len(kept) == len(samples) else kept


def _is_finite(sample: HistogramSample) -> bool:
    return all(map(math.isfinite, (*sample.bounds, *sample.counts, sample.sum)))
