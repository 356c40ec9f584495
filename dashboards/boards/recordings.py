"""Recorded series for boards: selected by a board's variables, described, and with their units.

Boards and alerts read the same recorded series, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dashboards import units
from dashboards.panels import ValueText, palette
from dashboards.queries import CLUSTER, Match, Scope
from dashboards.recorded import RECORDED_BY_NAME, Measure, Recorded

RACK_LEGEND = "{{rack}}"
NODE_LEGEND = "{{rack}} {{node}}"
GPU_LEGEND = "{{rack}} {{node}}/{{gpu}}"
"""Legends as short as they can be while several racks are shown."""

VERDICT_CODES: Mapping[str, int] = {"AVAILABLE": 0, "MAINTENANCE": 1, "UNKNOWN": 2, "UNAVAILABLE": 4}
NODE_STATE_CODES: Mapping[str, int] = {"READY": 0, "MAINTENANCE": 1, "DEGRADED": 2, "UNKNOWN": 3, "FAILED": 4}
DOMAIN_STATE_CODES: Mapping[str, int] = {
    "HEALTHY": 0,
    "DEGRADED": 1,
    "UNKNOWN": 2,
    "SPLIT": 3,
    "UNHEALTHY": 4,
}
"""Words of CONTRACTS §3 in the order in which somebody must look (chosen), so that tables sort by them."""

SILENT = "NO DATA"
SILENT_CODE = 3
"""A rack of which nothing is heard any more: grey, and after a failure the first to be looked at."""

_UNITS: Mapping[Measure, str] = {
    Measure.NONE: units.NUMBER,
    Measure.BYTES_PER_SECOND: units.BYTES_PER_SECOND,
    Measure.CELSIUS: units.CELSIUS,
    Measure.COUNT: units.NUMBER,
    Measure.RATIO: units.RATIO,
    Measure.SECONDS: units.SECONDS,
    Measure.STATE: units.NONE,
    Measure.TOKENS_PER_JOULE: units.TOKENS_PER_JOULE,
    Measure.TOKENS_PER_SECOND: units.TOKENS_PER_SECOND,
    Measure.TOKENS_PER_SECOND_PER_MEGAWATT: units.TOKENS_PER_SECOND_PER_MEGAWATT,
    Measure.US_DOLLARS: units.US_DOLLARS_PER_MILLION_TOKENS,
    Measure.WATTS: units.WATTS,
}


def recorded(name: str) -> Recorded:
    """Return the rule that records a series.

    Raises:
        ValueError: None does.
    """
    try:
        return RECORDED_BY_NAME[name]
    except KeyError:
        raise ValueError(f"no rule records {name!r}") from None


def unit(name: str) -> str:
    """Return Grafana's unit of a recorded series.

    Raises:
        ValueError: Nothing records it, or its unit is none that these boards show.
    """
    measure = recorded(name).unit
    if measure not in _UNITS:
        raise ValueError(f"{name} is counted in {measure.value}, which has no unit here")
    return _UNITS[measure]


def describe(*names: str, note: str = "") -> str:
    """Describe a panel by the help of its recorded series, and name them.

    Args:
        *names: Names of recorded series.
        note: Sentences of the panel's own, which come first.
    """
    rules = [recorded(name) for name in names]
    texts = [note] if note else []
    texts += dict.fromkeys(rule.help for rule in rules)
    listed = ", ".join(f"`{rule.name}`" for rule in rules)
    return "\n\n".join([*texts, f"Recorded: {listed}."])


def code_texts(codes: Mapping[str, int]) -> tuple[ValueText, ...]:
    """Map codes to their words and colours."""
    return tuple(ValueText(str(code), word, palette.STATE_COLOURS[word]) for word, code in codes.items())


@dataclass(frozen=True, slots=True)
class Recordings:
    """Writes queries of recorded series.

    Attributes:
        scope: The board's variables.
    """

    scope: Scope

    def selector(self, name: str, **matches: Match) -> str:
        """Select series as they are recorded, matched by the board's variables."""
        return self.scope.recorded(name, recorded(name).labels, **matches)

    def by(self, name: str, /, *labels: str, **matches: Match) -> str:
        """Take values by labels, so that answers of several queries are rows of one table.

        Args:
            name: Name of the recorded series.
            *labels: Labels beside the cluster; what else tells the series apart must be matched.
            **matches: Further matchers.
        """
        return f"max by ({', '.join((CLUSTER, *labels))}) ({self.selector(name, **matches)})"

    def total(self, name: str, /, *labels: str, **matches: Match) -> str:
        """Sum values by labels, over every cluster where none is named."""
        by = f" by ({', '.join(labels)}) " if labels else ""
        return f"sum{by}({self.selector(name, **matches)})"

    def coded(self, name: str, codes: Mapping[str, int], *, label: str) -> str:
        """Number the word whose series is 1: of several the highest code, and nothing where there is none.

        Args:
            name: Name of recorded states.
            codes: Code of each word.
            label: Label that has the word.
        """
        parts = [
            f"({self.selector(name, **{label: word})} == 1) * {code}" for word, code in sorted(codes.items())
        ]
        keys = [key for key in recorded(name).labels if key != label]
        return f"max by ({', '.join((CLUSTER, *keys))}) ({' or '.join(parts)})"
