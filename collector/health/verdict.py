"""The rack's verdict: can a job have the block of nodes that it needs? (CONTRACTS §3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.errors import ConfigurationError
from collector.health.states import Verdict


@dataclass(frozen=True, slots=True)
class CliqueCount:
    """Nodes of one clique, each counted once.

    Attributes:
        schedulable: Nodes that a job may be placed on.
        unknown: Nodes of which nothing can be said.
        maintenance: Nodes in declared maintenance.
    """

    schedulable: int = 0
    unknown: int = 0
    maintenance: int = 0


def default_min_block(*, nodes: int, largest_clique: int, rack_wide_fabric: bool) -> int:
    """Return the block that a rack must offer where nothing is configured.

    Args:
        nodes: Expected nodes.
        largest_clique: Nodes of the largest declared clique.
        rack_wide_fabric: Whether the platform has one NVLink fabric over the rack.

    Returns:
        n - floor(n/9) of the largest clique: 16 of 18, 8 of 9. Without a fabric over the rack
        max(1, N - max(1, floor(N/9))): one node at least may be missing (CONTRACTS §3).
    """
    if rack_wide_fabric:
        return max(1, largest_clique - largest_clique // 9)
    return max(1, nodes - max(1, nodes // 9))


def check_min_block(min_block: int, nodes: int) -> int:
    """Return the minimum block, if a rack of so many nodes can have it.

    Raises:
        ConfigurationError: It lies outside 1 to the number of expected nodes.
    """
    if not 1 <= min_block <= nodes:
        raise ConfigurationError(
            f"min_block: {min_block} is not between 1 and {nodes}, the nodes of the rack"
        )
    return min_block


def largest_block(cliques: Mapping[str, CliqueCount]) -> int:
    """Return the most schedulable nodes that one clique offers."""
    return max((count.schedulable for count in cliques.values()), default=0)


def judge_rack(cliques: Mapping[str, CliqueCount], min_block: int) -> Verdict:
    """Give the verdict.

    Args:
        cliques: Nodes of each clique.
        min_block: Smallest block of schedulable nodes in one clique with which the rack is usable.

    Returns:
        AVAILABLE if a clique offers the block; else UNAVAILABLE if none could even with every node whose
        state is unknown or in maintenance; else MAINTENANCE if declared maintenance alone explains it; else
        UNKNOWN.
    """
    counts = tuple(cliques.values())
    if largest_block(cliques) >= min_block:
        return Verdict.AVAILABLE
    reachable = max((c.schedulable + c.unknown + c.maintenance for c in counts), default=0)
    if reachable < min_block:
        return Verdict.UNAVAILABLE
    if max((c.schedulable + c.maintenance for c in counts), default=0) >= min_block:
        return Verdict.MAINTENANCE
    return Verdict.UNKNOWN
