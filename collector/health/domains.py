"""NVLink domains and cliques: which node counts where, and what state each is in (CONTRACTS §3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.health.rack_types import DomainStatus, ExpectedRack, NodeStatus, NodeView, Reason
from collector.health.states import DomainState, Impact, NodeState
from collector.health.verdict import CliqueCount

ROUTE_CHECK = "gpu_fabric_unhealthy"
"""Check that fails where a GPU has no healthy route in the fabric."""


@dataclass(frozen=True, slots=True)
class Clique:
    """A clique that was found, or that is declared and of which nothing was found.

    Attributes:
        key: `cluster_uuid.clique` as found, else the declared name.
        cluster_uuid: NVLink domain; empty if not found.
        clique: Clique id; the declared name if not found.
        expected: Nodes that it should have; empty for a part that nobody declared.
        members: Nodes that report it.
        split: Whether it is a part of a declared clique that is in several parts.
    """

    key: str
    cluster_uuid: str
    clique: str
    expected: tuple[str, ...]
    members: tuple[str, ...]
    split: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the nodes of a rack count.

    Attributes:
        cliques: Cliques of the rack; one a node where there is no fabric over the rack.
        places: For each expected node the keys under which it is counted, the likeliest first.
        block_wide: True where every node counts in one block of the rack, whatever its domain.
    """

    cliques: tuple[Clique, ...]
    places: Mapping[str, tuple[str, ...]]
    block_wide: bool = False


def declared_cliques(expected: ExpectedRack) -> dict[str, tuple[str, ...]]:
    """Return the declared cliques; all nodes in one, called like the rack, where none is declared."""
    return dict(expected.cliques) or {expected.rack: expected.nodes}


def lay_out(
    expected: ExpectedRack,
    views: Mapping[str, NodeView],
    last: Mapping[str, tuple[str, str]],
) -> Layout:
    """Find out which node counts in which clique.

    A node counts in the clique that it reports. One that reports none counts in its declared clique: in each
    part of it, if that is found split. One without a declared clique counts in its last one, and one without
    either in each (CONTRACTS §3).

    Args:
        expected: The rack as declared.
        views: Believable Snapshots by expected node.
        last: NVLink domain and clique that each node last reported.
    """
    if not expected.rack_wide_fabric:
        return _one_domain_a_node(expected, views)
    reported = {
        node: (view.cluster_uuid, view.clique)
        for node, view in views.items()
        if node in expected.nodes and view.cluster_uuid and view.clique
    }
    declared = declared_cliques(expected)
    parts = {name: _parts(nodes, reported) for name, nodes in declared.items()}
    cliques = (*_found(declared, parts, reported), *_not_found(declared, parts))
    every = tuple(clique.key for clique in cliques) or (expected.rack,)
    home = {node: name for name in reversed(declared) for node in declared[name]}
    places: dict[str, tuple[str, ...]] = {}
    for node in expected.nodes:
        if node in reported:
            places[node] = (_key(reported[node]),)
        elif node in home:
            places[node] = tuple(map(_key, parts[home[node]])) or (home[node],)
        elif node in last:
            places[node] = (_key(last[node]),)
        else:
            places[node] = every
    return Layout(cliques, places)


def _one_domain_a_node(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Layout:
    cliques = tuple(
        Clique(
            key=node,
            cluster_uuid=views[node].cluster_uuid if node in views else "",
            clique=node,
            expected=(node,),
            members=(node,) if node in views else (),
        )
        for node in expected.nodes
    )
    return Layout(cliques, dict.fromkeys(expected.nodes, (expected.rack,)), block_wide=True)


def _key(found: tuple[str, str]) -> str:
    return ".".join(found)


def _parts(nodes: Iterable[str], reported: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the cliques that the nodes report, the one with most of them first."""
    counts = Counter(reported[node] for node in nodes if node in reported)
    return sorted(counts, key=lambda found: (-counts[found], found))


def _found(
    declared: Mapping[str, tuple[str, ...]],
    parts: Mapping[str, list[tuple[str, str]]],
    reported: Mapping[str, tuple[str, str]],
) -> list[Clique]:
    cliques = []
    for found in sorted(set(reported.values())):
        stands_for = [name for name in declared if parts[name][:1] == [found]]
        cliques.append(
            Clique(
                key=_key(found),
                cluster_uuid=found[0],
                clique=found[1],
                expected=tuple(dict.fromkeys(node for name in stands_for for node in declared[name])),
                members=tuple(node for node, own in reported.items() if own == found),
                split=any(found in own and len(own) > 1 for own in parts.values()),
            )
        )
    return cliques


def _not_found(
    declared: Mapping[str, tuple[str, ...]], parts: Mapping[str, list[tuple[str, str]]]
) -> list[Clique]:
    return [Clique(name, "", name, nodes, ()) for name, nodes in declared.items() if not parts[name]]


def count(layout: Layout, nodes: Iterable[NodeStatus]) -> dict[str, CliqueCount]:
    """Count the nodes of each clique, or of the one block where the rack has no fabric.

    A schedulable node counts once; one that is unknown or in maintenance counts wherever it may be.
    """
    schedulable: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    maintenance: Counter[str] = Counter()
    for node in nodes:
        places = layout.places[node.node]
        if node.schedulable:
            schedulable[places[0]] += 1
        elif node.state is NodeState.UNKNOWN:
            unknown.update(places)
        elif node.state is NodeState.MAINTENANCE:
            maintenance.update(places)
    keys = {key for places in layout.places.values() for key in places}
    return {key: CliqueCount(schedulable[key], unknown[key], maintenance[key]) for key in sorted(keys)}


def clique_of(layout: Layout, node: str) -> str:
    """Return the clique in which a node counts; empty where it is not one for certain, or there is none."""
    places = layout.places[node]
    return places[0] if len(places) == 1 and not layout.block_wide else ""


def judge_domains(
    layout: Layout, nodes: Mapping[str, NodeStatus], views: Mapping[str, NodeView]
) -> tuple[DomainStatus, ...]:
    """Give the state of each clique.

    Args:
        layout: Where the nodes count.
        nodes: Every expected node by name.
        views: Believable Snapshots by expected node.
    """
    return tuple(_judge_domain(clique, nodes, views) for clique in layout.cliques)


def _judge_domain(
    clique: Clique, nodes: Mapping[str, NodeStatus], views: Mapping[str, NodeView]
) -> DomainStatus:
    names = dict.fromkeys((*clique.members, *(node for node in clique.expected if node not in views)))
    concerned = [nodes[name] for name in names if name in nodes]
    state = _domain_state(clique, concerned)
    return DomainStatus(
        cluster_uuid=clique.cluster_uuid,
        clique=clique.clique,
        state=state,
        expected=clique.expected,
        members=clique.members,
        schedulable=tuple(node.node for node in concerned if node.schedulable),
        reasons=(_split_reason(clique),) if clique.split else _domain_reasons(concerned, state),
    )


def _domain_state(clique: Clique, concerned: list[NodeStatus]) -> DomainState:
    if clique.split:
        return DomainState.SPLIT
    known = [node for node in concerned if node.state not in (NodeState.UNKNOWN, NodeState.MAINTENANCE)]
    if known and all(map(_route_unhealthy, known)):
        return DomainState.UNHEALTHY
    if not any(node.schedulable for node in concerned):
        return DomainState.UNHEALTHY if known and len(known) == len(concerned) else DomainState.UNKNOWN
    if all(node.state is NodeState.READY and node.schedulable for node in concerned):
        return DomainState.HEALTHY
    return DomainState.DEGRADED


def _route_unhealthy(node: NodeStatus) -> bool:
    return any(reason.check == ROUTE_CHECK for reason in node.reasons)


def _domain_reasons(concerned: list[NodeStatus], state: DomainState) -> tuple[Reason, ...]:
    if state is DomainState.HEALTHY:
        return ()
    return tuple(node.reasons[0] for node in concerned if node.reasons)


def _split_reason(clique: Clique) -> Reason:
    nodes = ", ".join(clique.members)
    return Reason(
        check="split_domain",
        impact=Impact.AVOID,
        text=f"a declared clique is found in several: clique {clique.clique} of NVLink domain "
        f"{clique.cluster_uuid} has only {nodes}",
        action="Look at the partitions of the fabric manager (NVLink switches), or declare the cliques.",
    )
