"""Pieces of PromQL: series by their catalogue rows, and the aggregations that every rule uses.

`by (cluster, rack, …)` names what a series is of. Whatever else a scrape adds (instance, job, pod, replica)
falls away, so that a second scrape of the same thing does not double it; a label that is not there, such as
`cluster` within one Prometheus, stays away.
"""

from __future__ import annotations

from collector.catalog import BY_NAME
from collector.catalog.rack import RACK
from collector.catalog.spec import Kind, Metric
from collector.errors import ConfigurationError

METRICS: dict[str, Metric] = {**BY_NAME, **{metric.name: metric for metric in RACK}}
"""Every row, of agents and of racks, by name without prefix."""

GPU = ("rack", "node", "gpu", "gpu_uuid")
NODE = ("rack", "node")
RACK_ONLY = ("rack",)
"""What a series is of, from the GPU to the rack."""

HISTOGRAM_SUFFIXES = ("_bucket", "_count", "_sum")


def series(name: str, *, part: str = "", **matchers: str) -> str:
    """Write a selector of one metric.

    Args:
        name: Name in the catalogue, without prefix.
        part: Of a histogram: `_bucket`, `_count` or `_sum`.
        matchers: What labels must be: `state="READY"`; a regular expression after `~` or `!~`.

    Raises:
        ConfigurationError: The catalogue has no such metric or label, or the part does not fit.
    """
    metric = METRICS.get(name)
    if metric is None:
        raise ConfigurationError(f"no row of the catalogue is called {name!r}")
    if (part in HISTOGRAM_SUFFIXES) is not (metric.kind is Kind.HISTOGRAM):
        raise ConfigurationError(f"{name}: {part!r} is no part of a {metric.kind.value}")
    unknown = set(matchers) - set(labels_of(metric))
    if unknown:
        raise ConfigurationError(f"{name} has no label {', '.join(sorted(unknown))}")
    return select(metric.exposed_name + part, **matchers)


def labels_of(metric: Metric) -> tuple[str, ...]:
    """Return the labels that a scraped series of a metric has, without those of its target."""
    return (*metric.entity.implied_keys, *metric.label_names)


def select(name: str, **matchers: str) -> str:
    """Write a selector of a series of any name; matchers as in `series`."""
    return name + (f"{{{','.join(_matcher(*each) for each in matchers.items())}}}" if matchers else "")


def _matcher(label: str, value: str) -> str:
    sign = next((sign for sign in ("!~", "!=", "~") if value.startswith(sign)), "")
    operator = {"": "=", "~": "=~"}.get(sign, sign)
    text = value.removeprefix(sign).replace("\\", r"\\").replace('"', r"\"")
    return f'{label}{operator}"{text}"'


def aggregate(operation: str, of: tuple[str, ...], expression: str) -> str:
    """Aggregate over everything but the cluster and what a series is of."""
    return f"{operation} by ({', '.join(('cluster', *of))}) ({expression})"


def highest(of: tuple[str, ...], expression: str) -> str:
    """Take the highest of what several scrapes say of the same thing."""
    return aggregate("max", of, expression)


def total(of: tuple[str, ...], expression: str) -> str:
    """Sum; what is summed must be free of doubles."""
    return aggregate("sum", of, expression)


def on(of: tuple[str, ...]) -> str:
    """Match two sides by the cluster and what they are of."""
    return f"on ({', '.join(('cluster', *of))})"


def difference(of: tuple[str, ...], selector: str, window: str) -> str:
    """Take the growth of a counter that the ledger keeps, over a window however long.

    Two points are read, not a month of them (facts/rack.md §7). A ledger that began anew gives nothing.
    """
    return f"({highest(of, selector)} - {highest(of, f'{selector} offset {window}')}) >= 0"


def unless_any_maintained(expression: str) -> str:
    """Leave out what is of a rack with a node in declared maintenance: for sums that do not name the node.

    Not for what may be an outage of others (facts/rack.md §7): those nodes have alerts of their own.
    """
    return f"{expression}\nunless {on(RACK_ONLY)} rack:maintenance_active:max == 1"


def unless_maintained(expression: str) -> str:
    """Leave out what is of a node in declared maintenance: somebody works on it already."""
    return f'{expression}\nunless {on(NODE)} rack_node_state:node_state:max{{state="MAINTENANCE"}} == 1'
