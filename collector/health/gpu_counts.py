"""How many GPUs a rack should have: the one answer of REST and of the exported series."""

from __future__ import annotations

from collections.abc import Iterable

from collector.health.rack_types import NodeStatus


def expected_gpus_of(node: NodeStatus, gpus_per_node: int | None) -> int | None:
    """Return the GPUs that a node should have: the declared platform's, else what its agent says.

    Args:
        node: The node.
        gpus_per_node: GPUs of a node of the declared platform; None if none is declared.
    """
    if gpus_per_node is not None:
        return gpus_per_node
    return node.poll.view.gpus_expected if node.poll.view is not None else None


def expected_gpus(nodes: Iterable[NodeStatus], gpus_per_node: int | None) -> int | None:
    """Sum what nodes should have; None where it is not known of one of them."""
    total = 0
    for node in nodes:
        own = expected_gpus_of(node, gpus_per_node)
        if own is None:
            return None
        total += own
    return total
