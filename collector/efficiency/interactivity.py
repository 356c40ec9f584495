"""What a user sees, from the histograms of a window: how fast tokens come, and how long requests last."""

from __future__ import annotations

import bisect

from collector.efficiency.figure import Figure, blank, figure
from collector.efficiency.rollup import HistogramSum

SLOW_QUANTILE = 0.9
"""The slow tail: nine of ten tokens come faster (facts on tokens, §2: the agentic lane takes P90)."""


def mean_rate(histogram: HistogramSum | None, what: str) -> Figure:
    """Return observations a second, count over sum: tokens a second and user of an inter-token latency.

    Args:
        histogram: Observations in seconds; None if the engine tells none.
        what: What is observed, for the reason.
    """
    missing = _missing(histogram, what)
    if histogram is None or missing:
        return blank(missing)
    if histogram.sum <= 0:
        return blank(f"the {what} adds up to {histogram.sum:g} s, which cannot be right")
    return figure(histogram.counts[-1] / histogram.sum)


def slow_rate(histogram: HistogramSum | None, what: str) -> Figure:
    """Return the rate that nine of ten observations exceed: 1 / `histogram_quantile(0.9, …)`."""
    seconds = quantile(histogram, SLOW_QUANTILE, what)
    return figure(1.0).per(seconds.above_zero(f"the {what} is 0 s, which cannot be right"))


def quantile(histogram: HistogramSum | None, share: float, what: str) -> Figure:
    """Return a quantile as Prometheus' `histogram_quantile` computes it: linear within a bucket.

    Where it lies above the highest finite bound, Prometheus gives that bound; here it is blank, as the bound
    would be too small.

    Args:
        histogram: Observations; None if the engine tells none.
        share: Which quantile, above 0 and at most 1.
        what: What is observed, for the reason.
    """
    missing = _missing(histogram, what)
    if histogram is None or missing:
        return blank(missing)
    rank = share * histogram.counts[-1]
    # The first bucket that holds the rank; the buckets' counts never fall.
    bucket = bisect.bisect_left(histogram.counts, rank, hi=len(histogram.bounds))
    if bucket == len(histogram.bounds):
        highest = (
            f"the highest bound is {histogram.bounds[-1]:g} s" if histogram.bounds else "there are no bounds"
        )
        return blank(f"the {what} of the {share:g} quantile lies above the engine's buckets: {highest}")
    upper = histogram.bounds[bucket]
    if bucket == 0 and upper <= 0:
        return figure(upper)
    lower, before = (histogram.bounds[bucket - 1], histogram.counts[bucket - 1]) if bucket else (0.0, 0.0)
    return figure(lower + (upper - lower) * (rank - before) / (histogram.counts[bucket] - before))


def _missing(histogram: HistogramSum | None, what: str) -> str:
    if histogram is None:
        return f"the engine does not tell its {what}"
    return "" if histogram.counts[-1] > 0 else f"no {what} was observed in the window"
