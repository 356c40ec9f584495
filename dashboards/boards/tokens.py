"""Tokens per watt: how many tokens every joule buys, at which cost, and how fast they reach users."""

from __future__ import annotations

from dashboards import queries, variables
from dashboards.boards.tokens_compared import rankings, watts_and_tokens
from dashboards.boards.tokens_endpoints import endpoints, failed_scrapes
from dashboards.boards.tokens_figures import (
    by_domain,
    costs,
    coverage,
    numerator_denominator_ratio,
    usual,
)
from dashboards.boards.tokens_queries import TokenQueries
from dashboards.boards.tokens_references import against_published
from dashboards.boards.tokens_serving import distributions, experience, load
from dashboards.boards.tokens_stats import stats
from dashboards.dashboard import Board
from dashboards.identities import BoardId
from dashboards.layout import Section

_VARIABLES = variables.down_to(variables.RACK)
_OWN = TokenQueries(queries.Scope.of(_VARIABLES))

BOARD = Board(
    identity=BoardId.EFFICIENCY,
    description="How many tokens every joule buys, by power domain and kind of tokens; what they cost, and "
    "how fast they reach users. Blank where a side is not known well enough.",
    variables=_VARIABLES,
    sections=(
        Section(panels=stats(_OWN)),
        Section(
            key="one-axis",
            title="Tokens, watts, and their ratio",
            panels=numerator_denominator_ratio(_OWN),
        ),
        Section(
            key="coverage",
            title="Coverage of power and token sources",
            panels=coverage(_OWN),
        ),
        Section(
            key="compared",
            title="Rack against rack",
            panels=(*rankings(_OWN), watts_and_tokens(_OWN)),
        ),
        Section(
            key="held-against",
            title="Against published figures, the usual, and the price",
            panels=(against_published(_OWN), usual(_OWN), costs(_OWN)),
        ),
        Section(
            key="domains",
            title="By power domain",
            panels=tuple(by_domain(_OWN)),
        ),
        Section(key="users", title="What users see", panels=experience(_OWN)),
        Section(key="load", title="Requests and caches", panels=load(_OWN)),
        Section(key="endpoints", title="Endpoints", panels=(endpoints(_OWN), failed_scrapes(_OWN))),
        Section(
            key="distributions",
            title="Latencies, all of them",
            panels=distributions(_OWN),
            collapsed=True,
        ),
    ),
    time_from="now-6h",
)
