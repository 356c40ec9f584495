"""Histograms in Prometheus text 0.0.4 and OpenMetrics 1.0.0: a line for each bucket, the sum and the count.

What a histogram's lines are but for their numbers follows from its shape, and is prepared once a shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from collector.model import HistogramSample, Value
from exporters.prometheus_lines import TextFormat, header, line

Shape = tuple[str, tuple[str, ...], tuple[float, ...]]
"""Metric without prefix, labels and bounds of a histogram."""

_EXPONENT_DIGITS = 6
"""From 10 to this power on, a bound is written with an exponent (OpenMetrics 1.0.0, "Considerations:
Canonical Numbers": `100000.0`, `1e+06`)."""


def shape(sample: HistogramSample) -> Shape:
    """Give what the lines of a histogram follow from, rack and node apart."""
    return sample.metric.name, sample.labels, sample.bounds


def block(sample: HistogramSample, node: tuple[str, str]) -> bytes:
    """Write the lines of one histogram, with `%a` for each of its `numbers`.

    Args:
        sample: The histogram.
        node: Rack and node.
    """
    bounds = (*map(bound_text, sample.bounds), "+Inf")
    metric, labels = sample.metric, sample.labels
    return b"".join(
        (
            *(line(metric, labels, node, suffix="_bucket", more=(("le", bound),)) for bound in bounds),
            line(metric, labels, node, suffix="_sum"),
            line(metric, labels, node, suffix="_count"),
        )
    )


def template(samples: Sequence[HistogramSample], blocks: Mapping[Shape, bytes], form: TextFormat) -> bytes:
    """Put the blocks of histograms together, each metric under its header.

    Args:
        samples: The histograms, grouped by metric.
        blocks: The block of each shape.
        form: Which format.
    """
    pieces: list[bytes] = []
    for _, members in groupby(samples, key=lambda sample: sample.metric.name):
        family = tuple(members)
        pieces.append(header(family[0].metric, form))
        pieces.extend(blocks[shape(sample)] for sample in family)
    return b"".join(pieces)


def numbers(samples: Sequence[HistogramSample]) -> Iterator[Value]:
    """Yield the numbers of histograms in the order of their lines: buckets, sum, count."""
    for sample in samples:
        yield from sample.counts
        yield sample.sum
        yield sample.counts[-1]


def bound_text(bound: float) -> str:
    """Write a bound as the label `le` has it, in its one spelling: `0.5`, `1.0` and never `1`, `1e+06`."""
    text = repr(float(bound) + 0.0)  # which makes 0 of -0
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, fraction = digits.partition(".")
    if "e" in digits or len(whole) <= _EXPONENT_DIGITS:
        return text
    mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".")
    return f"{sign}{mantissa}e+{len(whole) - 1:02d}"
