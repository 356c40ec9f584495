"""Queries of tokens per watt: ratios of sums over the racks of which both sides are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collector.catalog.engines import Role
from collector.efficiency.guards import SUFFICIENT_RATIO
from collector.profiles.references import TokenKind
from dashboards.boards.recordings import Recordings
from dashboards.queries import Scope
from dashboards.rules.record_tokens import IDLE_WINDOW

RACK_INPUT = "rack_input"

DOMAIN_WORDS = {"gpu": "GPU", "module": "module", RACK_INPUT: "rack input"}
"""Power domains as titles name them, from the part to the whole."""

KIND_WORDS = {TokenKind.GENERATION: "Generated", TokenKind.TOTAL: "Total"}
"""Kinds of tokens as titles name them."""

COVERAGE = "rack_domain:energy_coverage:avg5m"
WATTS = "rack_domain:energy_joules:rate5m"
IDLE = f"rack_domain:idle_energy_joules_per_energy_joules:ratio_rate{IDLE_WINDOW}"
INTERACTIVITY = "rack_model:llm_tokens_per_second_per_user:ratio_rate5m"
SLOW_INTERACTIVITY = "rack_model:llm_slow_tokens_per_second_per_user:p90_rate5m"


def tokens_name(kind: TokenKind, window: str = "5m", *, level: str = "rack") -> str:
    """Name the recorded tokens a second."""
    return f"{level}:llm_{kind.value}_tokens:rate{window}"


def per_joule_name(kind: TokenKind, window: str = "5m") -> str:
    """Name the recorded tokens for each joule."""
    return f"rack_domain:llm_{kind.value}_tokens_per_joule:ratio_rate{window}"


def cost_name(which: str, kind: TokenKind) -> str:
    """Name the recorded price of a million tokens: `energy` or `all_in`."""
    return f"rack:{which}_usd_per_million_llm_{kind.value}_tokens:ratio_rate5m"


@dataclass(frozen=True, slots=True)
class TokenQueries:
    """Writes the queries of one board.

    Attributes:
        scope: The board's variables.
    """

    scope: Scope

    @property
    def recordings(self) -> Recordings:
        """Recorded series under the board's variables."""
        return Recordings(self.scope)

    def tokens(self, kind: TokenKind, window: str = "5m") -> str:
        """Tokens a second of each rack."""
        return self.recordings.by(tokens_name(kind, window), "rack")

    def per_joule(self, kind: TokenKind, domain: str = RACK_INPUT, window: str = "5m") -> str:
        """Tokens for each joule of each rack; absent where a side is not known well enough."""
        return self.recordings.by(per_joule_name(kind, window), "rack", domain=domain)

    def watts(self, domain: str = RACK_INPUT, window: str = "5m") -> str:
        """Mean power of each rack, where enough of it is covered."""
        energy = self.recordings.by(f"rack_domain:energy_joules:rate{window}", "rack", domain=domain)
        covered = self.recordings.by(f"rack_domain:energy_coverage:avg{window}", "rack", domain=domain)
        return f"({energy} and {covered} >= {SUFFICIENT_RATIO:g})"

    def ratio_of_sums(self, kind: TokenKind, *, inverse: bool = False) -> str:
        """Tokens for each joule of rack input, of all racks of which it is known; or joules a token."""
        known = self.per_joule(kind)
        tokens = f"sum({self.tokens(kind)} and {known})"
        watts = f"sum({self.recordings.by(WATTS, 'rack', domain=RACK_INPUT)} and {known})"
        return f"{watts} / ({tokens} > 0)" if inverse else f"{tokens} / ({watts} > 0)"

    def mean_cost(self, which: str, kind: TokenKind) -> str:
        """Price of a million tokens over all racks of which it is known, each by its tokens."""
        cost = self.recordings.by(cost_name(which, kind), "rack")
        tokens = self.tokens(kind)
        return f"sum({cost} * {tokens}) / (sum({tokens} and {cost}) > 0)"

    def of_one_role(self, write: Callable[[str], str]) -> str:
        """Take what engines say of a model, else what its router says: both see the same requests."""
        return " or ".join(f"({write(role.value)})" for role in (Role.ENGINE, Role.ROUTER))
