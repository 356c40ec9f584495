"""The values of a node as they came: a flat vector over a table. A Sample is made only for whom asks.

A rack service takes over 200 vectors a second of some 2,000 values each, and shows few of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from collector.catalog.spec import Metric
from collector.model import Sample, Value


class SampleTable:
    """Metric and labels of each value of a vector; None for a metric that is not known here.

    Attributes:
        metrics: The metrics.
        labels: Their label values, without rack and node.
    """

    __slots__ = ("_of_gpu", "_of_metric", "_places", "labels", "metrics")

    def __init__(self, metrics: Sequence[Metric | None] = (), labels: Sequence[tuple[str, ...]] = ()) -> None:
        """Keep the columns, of equal length."""
        if len(metrics) != len(labels):
            raise ValueError(f"{len(metrics)} metrics, but {len(labels)} sets of labels")
        self.metrics = tuple(metrics)
        self.labels = tuple(labels)
        self._of_gpu: dict[str, tuple[int, ...]] | None = None
        self._of_metric: dict[str, tuple[int, ...]] | None = None
        self._places: dict[tuple[str, tuple[str, ...]], int] | None = None

    def __len__(self) -> int:
        """Count the series, unknown ones included."""
        return len(self.metrics)

    def place(self, name: str, labels: tuple[str, ...]) -> int | None:
        """Find a series by metric, without prefix, and labels."""
        if self._places is None:
            self._places = {
                (metric.name, own): place
                for place, (metric, own) in enumerate(zip(self.metrics, self.labels, strict=True))
                if metric is not None
            }
        return self._places.get((name, labels))

    def of_gpu(self, gpu_uuid: str) -> tuple[int, ...]:
        """Find the series of a GPU and of its links."""
        if self._of_gpu is None:
            found: dict[str, list[int]] = defaultdict(list)
            for place, (metric, own) in enumerate(zip(self.metrics, self.labels, strict=True)):
                if metric is not None and "gpu_uuid" in metric.entity.keys:
                    found[own[metric.entity.keys.index("gpu_uuid")]].append(place)
            self._of_gpu = {uuid: tuple(places) for uuid, places in found.items()}
        return self._of_gpu.get(gpu_uuid, ())

    def of_metric(self, name: str) -> tuple[int, ...]:
        """Find the series of a metric, without prefix."""
        if self._of_metric is None:
            found: dict[str, list[int]] = defaultdict(list)
            for place, metric in enumerate(self.metrics):
                if metric is not None:
                    found[metric.name].append(place)
            self._of_metric = {metric_name: tuple(places) for metric_name, places in found.items()}
        return self._of_metric.get(name, ())


class Samples:
    """The newest values of a node; iterates over those that are present.

    The table finds its places when they are first asked for, so all of this belongs to one thread.
    """

    __slots__ = ("_table", "_values")

    def __init__(self, table: SampleTable | None = None, values: Sequence[Value | None] = ()) -> None:
        """Put values beside their table; nothing is made of them yet.

        Raises:
            ValueError: There are not as many values as series.
        """
        self._table = table if table is not None else SampleTable()
        self._values = values
        if len(self._table) != len(values):
            raise ValueError(f"{len(values)} values, but {len(self._table)} series")

    def __iter__(self) -> Iterator[Sample]:
        """Yield every value that is present, in the order of the table."""
        return self._at(range(len(self._values)))

    def of_gpu(self, gpu_uuid: str) -> Iterator[Sample]:
        """Yield the values of one GPU and its links."""
        return self._at(self._table.of_gpu(gpu_uuid))

    def of_metric(self, name: str) -> Iterator[Sample]:
        """Yield the values of one metric, without prefix."""
        return self._at(self._table.of_metric(name))

    def value(self, name: str, *labels: str) -> Value | None:
        """Return one value, None if it is absent.

        Args:
            name: Name of the metric, without prefix.
            labels: Values of its labels, in the order of `Metric.label_names`.
        """
        place = self._table.place(name, labels)
        return None if place is None else self._values[place]

    def _at(self, places: Sequence[int]) -> Iterator[Sample]:
        for place in places:
            metric, value = self._table.metrics[place], self._values[place]
            if metric is not None and value is not None:
                yield Sample(metric, self._table.labels[place], value)


NO_SAMPLES = Samples()
