"""What feeds bring, taken once a Snapshot: checked, bounded, and no feed pays for another's defect.

As long as a feed's revision stays, its values are taken by place, and nothing is sorted or looked up.
"""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise

from collector import catalog
from collector.catalog.spec import Kind, Metric
from collector.errors import RackwattError
from collector.model import HistogramSample, Series, Value
from collector.protocols import Feed

_logger = logging.getLogger("rackwatt.agent")

MAXIMUM_SERIES = 20_000
"""Most series of one feed, so that a node stays below what a rack service takes. Chosen: more than twice
those of ten endpoints with a hundred models each, which is the bound of CONTRACTS §8."""
MAXIMUM_LABEL = 256
"""Most characters of a label value; a rack service takes no longer one."""
MAXIMUM_SERIES_BYTES = 1024 * 1024
"""Most bytes that names and labels of one feed's series have together: chosen. Ten endpoints with a hundred
models each have 0.9 MiB, if names of models have 50 characters."""
MAXIMUM_HISTOGRAMS = 2_000
"""Most histograms of a Snapshot; a rack service takes no more."""
MAXIMUM_BOUNDS = 200
"""Most bounds of a histogram; a rack service takes no more."""
MAXIMUM_BUCKETS = 100_000
"""Most buckets of a Snapshot, so that its document stays below the 4 MiB that a rack service takes: a bucket
is two numbers, of 9 bytes each in MessagePack."""
MAXIMUM_HISTOGRAM_BYTES = 512 * 1024
"""Most bytes that names and labels of a Snapshot's histograms have together, for the same reason: chosen."""

_HISTOGRAM_ORDER = {
    metric.name: place for place, metric in enumerate(catalog.ALL) if metric.kind is Kind.HISTOGRAM
}

SeriesName = tuple[str, tuple[str, ...]]
"""Metric and labels of a series, which are quicker to compare than its whole row."""


class FeedError(RackwattError):
    """A feed breaks what feeds promise (collector.protocols.Feed); that is a defect of the feed."""


class _Intake:
    """What one feed has.

    Attributes:
        name: What the log calls it.
        series: Its series.
        values: One value a series.
        histograms: Its histograms that are sound; the same object while the feed gives the same ones.
        doubtful: Values and histograms that became impossible since the last Snapshot.
    """

    def __init__(self, feed: Feed) -> None:
        self.name = type(feed).__name__
        self.series: tuple[Series, ...] = ()
        self.values: Sequence[Value | None] = ()
        self.histograms: tuple[HistogramSample, ...] = ()
        self.doubtful = 0
        self._feed = feed
        self._revision: int | None = None
        self._ranges: tuple[tuple[float, float], ...] = ()
        self._out_of_range: frozenset[int] = frozenset()
        self._given: tuple[HistogramSample, ...] = ()
        self._failing = False

    def take(self) -> bool:
        """Take what the feed has now; tell whether its series are others than before."""
        before = self._revision
        self.doubtful = 0
        try:
            self._take()
        except Exception:
            if not self._failing:
                _logger.exception("%s cannot be read; its series are absent", self.name)
            self._failing = True
            self.values = (None,) * len(self.series)
            self.histograms = self._given = ()
        else:
            self._failing = False
        return self._revision != before

    def _take(self) -> None:
        rows = tuple(self._feed.rows())
        revision = self._feed.revision
        if revision != self._revision:
            series = tuple(entry for entry, _ in rows)
            _check(series)
            self.series, self._revision = series, revision
            self._ranges = tuple((entry.metric.minimum, entry.metric.maximum) for entry in series)
        if len(rows) != len(self.series):
            raise FeedError(f"{len(rows)} rows came for {len(self.series)} series of the same revision")
        self._take_values(tuple(value for _, value in rows))
        self._take_histograms(tuple(self._feed.histograms()))

    def _take_values(self, given: tuple[Value | None, ...]) -> None:
        values = tuple(
            value if value is not None and low <= value <= high else None
            for value, (low, high) in zip(given, self._ranges, strict=True)
        )
        out_of_range: frozenset[int] = frozenset()
        if values.count(None) != given.count(None):
            out_of_range = frozenset(
                place
                for place, (raw, value) in enumerate(zip(given, values, strict=True))
                if value is None and raw is not None
            )
        # One that stays as it is was read once.
        self.doubtful += len(out_of_range - self._out_of_range)
        self._out_of_range = out_of_range
        self.values = values

    def _take_histograms(self, given: tuple[HistogramSample, ...]) -> None:
        if len(given) == len(self._given) and all(map(operator.is_, given, self._given)):
            return
        self._given = given
        self.histograms = tuple(filter(_is_sound, given))
        self.doubtful += len(given) - len(self.histograms)


class Feeds:
    """All feeds of an agent.

    Attributes:
        histograms: Histograms of all feeds in the order of the catalogue, bounded; the same object while they
            are the same.
        doubtful: Values and histograms that became impossible with the newest Snapshot.
    """

    def __init__(self, feeds: Iterable[Feed]) -> None:
        """Begin without having taken anything."""
        self.histograms: tuple[HistogramSample, ...] = ()
        self.doubtful = 0
        self._intakes = tuple(map(_Intake, feeds))
        self._refused: frozenset[int] = frozenset()
        self._overfull = False

    @property
    def values(self) -> list[Sequence[Value | None]]:
        """Values of each feed, one a series of it."""
        return [intake.values for intake in self._intakes]

    def take(self) -> bool:
        """Take what every feed has now; tell whether there are other series than before."""
        before = [intake.histograms for intake in self._intakes]
        changed = [intake.take() for intake in self._intakes]
        self.doubtful = sum(intake.doubtful for intake in self._intakes)
        if not all(map(operator.is_, before, (intake.histograms for intake in self._intakes))):
            self._merge()
        return any(changed)

    def series(self, others: Iterable[Series]) -> list[tuple[Series, ...]]:
        """Return the series of each feed; none of one that names a series which another has already.

        Args:
            others: Series that no feed may have.
        """
        if not any(intake.series for intake in self._intakes):
            return [()] * len(self._intakes)
        taken = set(map(_name, others))
        refused: set[int] = set()
        groups: list[tuple[Series, ...]] = []
        for place, intake in enumerate(self._intakes):
            own = set(map(_name, intake.series))
            if common := sorted(own & taken):
                refused.add(place)
                self._say_refused(place, common[0])
            taken |= own
            groups.append(() if common else intake.series)
        self._refused = frozenset(refused)
        return groups

    def _say_refused(self, place: int, name: SeriesName) -> None:
        if place not in self._refused:
            _logger.error(
                "%s names the series %s %s, which is there already; its series are absent",
                self._intakes[place].name,
                name[0],
                name[1],
            )

    def _merge(self) -> None:
        """Put the histograms of all feeds together, each once."""
        merged: dict[SeriesName, HistogramSample] = {}
        for sample in chain.from_iterable(intake.histograms for intake in self._intakes):
            merged.setdefault((sample.metric.name, sample.labels), sample)
        ordered = sorted(merged.values(), key=lambda sample: _HISTOGRAM_ORDER[sample.metric.name])
        buckets = accumulate(len(sample.counts) for sample in ordered)
        sizes = accumulate(_size(sample) for sample in ordered)
        fitting = [
            sample
            for sample, total, size in zip(ordered, buckets, sizes, strict=True)
            if total <= MAXIMUM_BUCKETS and size <= MAXIMUM_HISTOGRAM_BYTES
        ]
        self.histograms = tuple(fitting[:MAXIMUM_HISTOGRAMS])
        overfull = len(self.histograms) < len(ordered)
        if overfull and not self._overfull:
            _logger.warning(
                "there are %d histograms; %d are left out, because a Snapshot has %d with %d buckets and %d "
                "bytes of labels at most",
                len(ordered),
                len(ordered) - len(self.histograms),
                MAXIMUM_HISTOGRAMS,
                MAXIMUM_BUCKETS,
                MAXIMUM_HISTOGRAM_BYTES,
            )
        self._overfull = overfull


def _size(entry: Series | HistogramSample) -> int:
    """Return the bytes of name and labels."""
    return sum(len(text.encode("utf-8", errors="replace")) for text in (entry.metric.name, *entry.labels))


def _name(series: Series) -> SeriesName:
    return series.metric.name, series.labels


def _check(series: Sequence[Series]) -> None:
    if len(series) > MAXIMUM_SERIES:
        raise FeedError(f"{len(series)} series came; {MAXIMUM_SERIES} of one feed are taken at most")
    if (size := sum(map(_size, series))) > MAXIMUM_SERIES_BYTES:
        raise FeedError(
            f"names and labels of {len(series)} series have {size} bytes; {MAXIMUM_SERIES_BYTES} of one feed "
            "are taken at most"
        )
    if len(set(map(_name, series))) < len(series):
        raise FeedError("a series came twice")
    for entry in series:
        if entry.metric.kind is Kind.HISTOGRAM or not _fits(entry.metric, entry.labels):
            raise FeedError(
                f"the series {entry.metric.name} with {len(entry.labels)} labels is not as the catalogue has "
                f"it, or a label has more than {MAXIMUM_LABEL} characters"
            )


def _fits(metric: Metric, labels: tuple[str, ...]) -> bool:
    """Tell whether labels are those of a row of the catalogue."""
    return (
        catalog.BY_NAME.get(metric.name) is metric
        and len(labels) == len(metric.label_names)
        and all(len(label) <= MAXIMUM_LABEL for label in labels)
    )


def _is_sound(sample: HistogramSample) -> bool:
    """Tell whether a histogram is what every exporter may rely on; that counts are whole is OpenMetrics'."""
    bounds, counts = sample.bounds, sample.counts
    return (
        sample.metric.name in _HISTOGRAM_ORDER
        and _fits(sample.metric, sample.labels)
        and len(bounds) <= MAXIMUM_BOUNDS
        and len(counts) == len(bounds) + 1
        and all(map(math.isfinite, (*bounds, *counts, sample.sum)))
        and (not bounds or bounds[0] >= sample.metric.minimum)
        and all(low < high for low, high in pairwise(bounds))
        and all(few <= many for few, many in pairwise((0, *counts)))
        and all(count % 1 == 0 for count in counts)
    )
