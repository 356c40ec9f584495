"""The series table of an agent, with the places of what a rack service looks at in every poll."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collector import catalog
from collector.catalog.spec import Kind, Metric
from collector.health.samples import SampleTable
from collector.sources.peers.document import PeerError

MAXIMUM_GPUS = 256
"""Most GPUs of a node; the largest today have 16."""

_INFO = catalog.BY_NAME["gpu_info"]
_KNOWN = {
    name: (metric, 1 + len(metric.label_names))
    for name, metric in catalog.BY_NAME.items()
    if metric.kind is not Kind.HISTOGRAM
}
"""Metrics of single values, each with the length of its slots."""


@dataclass(slots=True)
class GpuPlaces:
    """Where the series of one GPU stand.

    Attributes:
        index: Index for display.
        uuid: Identity.
        up: Place of `gpu_up`; None if there is none.
        infos: Places of `gpu_info` with the texts of each; one, unless a table holds an old one, too.
        fabric: Places of `gpu_fabric_state`, by state.
    """

    index: str
    uuid: str
    up: int | None = None
    infos: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    fabric: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PeerTable:
    """A decoded table.

    Attributes:
        digest: By which agent and rack service know that they hold the same.
        samples: Metric and labels of each series, for those who show them.
        gpus: The GPUs that have a `gpu_up`, in the order of the table.
        gpus_expected: Place of `node_gpus_expected`, or None.
    """

    digest: str
    samples: SampleTable
    gpus: tuple[GpuPlaces, ...]
    gpus_expected: int | None

    def __len__(self) -> int:
        """Count the series, unknown ones included."""
        return len(self.samples)


def read_table(digest: str, slots: Sequence[Sequence[str]]) -> PeerTable:
    """Read the table of a document.

    A metric that the catalogue does not have, or has with other labels, is of a newer agent and is skipped.

    Args:
        digest: Digest of the table, as the agent gives it.
        slots: The series, each as metric and label values.

    Raises:
        PeerError: A series stands twice, or there are too many GPUs.
    """
    labels_of: dict[tuple[str, ...], tuple[str, ...]] = {}
    metrics: list[Metric | None] = []
    labels: list[tuple[str, ...]] = []
    seen: set[tuple[str, ...]] = set()
    for slot in slots:
        key = tuple(slot)
        if key in seen:
            raise PeerError(f"the series {' '.join(key)[:200]!r} stands twice in the table")
        seen.add(key)
        metric, length = _KNOWN.get(slot[0], (None, 0))
        known = length == len(slot)
        metrics.append(metric if known else None)
        # The same labels stand in dozens of series; kept once, a table takes 27 kB instead of 200.
        own = key[1:] if known else ()
        labels.append(labels_of.setdefault(own, own))
    gpus, gpus_expected = _places(metrics, labels)
    if len(gpus) > MAXIMUM_GPUS:
        raise PeerError(f"the node claims to have {len(gpus)} GPUs; {MAXIMUM_GPUS} at most are believed")
    return PeerTable(digest, SampleTable(tuple(metrics), tuple(labels)), gpus, gpus_expected)


def _places(
    metrics: Sequence[Metric | None], labels: Sequence[tuple[str, ...]]
) -> tuple[tuple[GpuPlaces, ...], int | None]:
    places: dict[tuple[str, str], GpuPlaces] = {}
    infos: dict[tuple[str, str], list[tuple[int, Mapping[str, str]]]] = defaultdict(list)
    fabric: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    gpus_expected = None
    for place, (metric, own) in enumerate(zip(metrics, labels, strict=True)):
        name = metric.name if metric is not None else ""
        if name == "node_gpus_expected":
            gpus_expected = place
        elif name == "gpu_up":
            places[own[0], own[1]] = GpuPlaces(own[0], own[1], place)
        elif name == "gpu_info":
            infos[own[0], own[1]].append((place, dict(zip(_INFO.info_labels, own[2:], strict=True))))
        elif name == "gpu_fabric_state":
            fabric[own[0], own[1]][own[2]] = place
    for key, gpu in places.items():
        gpu.infos, gpu.fabric = infos[key], fabric[key]
    return tuple(places.values()), gpus_expected
