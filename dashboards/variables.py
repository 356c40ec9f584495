"""Variables of the dashboards: datasource, cluster, rack, node, GPU, each narrowed by those before it.

All is `.*`, so that `cluster=~"$cluster"` also takes series without a cluster, which is an external label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from collector.catalog import BY_NAME
from collector.catalog.rack import RACK as RACK_ROWS

DATASOURCE_TYPE = "prometheus"
DATASOURCE_NAME = "datasource"
"""Name of the variable that every panel and query takes its datasource from."""

ALL_VALUE = ".*"

_RACK_ROWS = {row.name: row for row in RACK_ROWS}


@dataclass(frozen=True, slots=True)
class DatasourceVariable:
    """Chooses the Prometheus that is asked."""

    name: str = DATASOURCE_NAME
    label: str = "Data source"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVariable:
    """Values of a label, asked anew whenever the time range changes.

    Attributes:
        name: Name of the variable, which is the label's.
        label: What people read.
        metrics: Exposed names of the metrics that have the label; any of them will do.
        above: Variables that narrow it.
        description: What it chooses.
        several: Whether several values can be chosen, and All; else exactly one, the first to begin with.
    """

    name: str
    label: str
    metrics: tuple[str, ...]
    above: tuple[str, ...]
    description: str
    several: bool = True

    @property
    def query(self) -> str:
        """The query that Grafana's Prometheus data source takes for variables."""
        names = f'__name__=~"{"|".join(self.metrics)}"'
        matchers = ",".join([names, *(f'{name}=~"${name}"' for name in self.above)])
        return f"label_values({{{matchers}}}, {self.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomVariable:
    """A choice among given values, exactly one at a time.

    Attributes:
        name: Name of the variable.
        label: What people read.
        values: The values; the first is the default.
        description: What it chooses.
    """

    name: str
    label: str
    values: tuple[str, ...]
    description: str


Variable = DatasourceVariable | QueryVariable | CustomVariable

_NODE_INFO = BY_NAME["node_info"].exposed_name
_GPU_UP = BY_NAME["gpu_up"].exposed_name
_NODES_EXPECTED = _RACK_ROWS["rack_nodes_expected"].exposed_name
_NODE_STATE = _RACK_ROWS["rack_node_state"].exposed_name

DATASOURCE = DatasourceVariable()

CLUSTER = QueryVariable(
    name="cluster",
    label="Cluster",
    # A rack whose nodes are all silent is still known to its rack service.
    metrics=(_NODES_EXPECTED, _NODE_INFO),
    above=(),
    description="Clusters, where Prometheus has been given an external label of that name.",
)
RACK = QueryVariable(
    name="rack",
    label="Rack",
    metrics=(_NODES_EXPECTED, _NODE_INFO),
    above=("cluster",),
    description="Racks that a rack service or an agent tells of.",
)
NODE = QueryVariable(
    name="node",
    label="Node",
    metrics=(_NODE_STATE, _NODE_INFO),
    above=("cluster", "rack"),
    description="Nodes, those that do not answer included.",
)
GPU = QueryVariable(
    name="gpu",
    label="GPU",
    metrics=(_GPU_UP,),
    above=("cluster", "rack", "node"),
    description="GPUs by their index on their node, lost ones included.",
)

_CHAIN: tuple[QueryVariable, ...] = (CLUSTER, RACK, NODE, GPU)


def down_to(last: QueryVariable, *, one: tuple[QueryVariable, ...] = ()) -> tuple[Variable, ...]:
    """Return the variables from the datasource down to one.

    Args:
        last: The last of them.
        one: Those of which exactly one value is chosen, as all would be more than a browser can draw.
    """
    chain = _CHAIN[: _CHAIN.index(last) + 1]
    return (DATASOURCE, *(replace(each, several=False) if each in one else each for each in chain))


def matched_by(variables: tuple[Variable, ...]) -> tuple[str, ...]:
    """Return the labels that a board with these variables matches in its queries, in order."""
    return tuple(variable.name for variable in variables if isinstance(variable, QueryVariable))
