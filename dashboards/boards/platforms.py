"""What depends on a rack's platform: figures of its profile, for racks whose nodes say which they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collector import profiles
from collector.profiles import Profile
from dashboards.queries import CLUSTER, Match, Regexp, Scope

NODE_INFO = "node_info"
"""The metric whose label `platform` says it."""


def each_profile() -> Iterator[Profile]:
    """Yield the profile of every platform."""
    return map(profiles.load, profiles.names())


def grouped(figures: Mapping[str, float]) -> Mapping[float, tuple[str, ...]]:
    """List the platforms that share a figure, by the figure."""
    return {
        value: tuple(name for name, own in figures.items() if own == value)
        for value in dict.fromkeys(figures.values())
    }


def of_racks(scope: Scope, figures: Mapping[str, float], **matches: Match) -> str:
    """Give every rack the figure of its platform, by cluster and rack.

    A rack of which no node says its platform, or whose platform has no figure, has none. Of a rack with
    several platforms, which there should not be, the largest figure counts.

    Args:
        scope: The board's variables.
        figures: A figure for each platform.
        **matches: Further matchers of `node_info`.
    """
    parts = [
        f"{_info(scope, platforms, matches)} * {value:.12g}" for value, platforms in grouped(figures).items()
    ]
    return f"max by ({CLUSTER}, rack) ({' or '.join(parts)})"


def where_present(scope: Scope, platforms: tuple[str, ...], value: float) -> str:
    """Give a constant while a node of one of these platforms is among what the board's variables choose."""
    return f"max({_info(scope, platforms, {})}) * {value:.12g}"


def _info(scope: Scope, platforms: tuple[str, ...], matches: Mapping[str, Match]) -> str:
    return scope.selector(NODE_INFO, **{**matches, "platform": Regexp("|".join(platforms))})
