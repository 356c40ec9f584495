"""Grafana's ids of units, and which one a row of the catalogue has.

Ids are those of Grafana's `categories.ts` (packages/grafana-data/src/valueFormats). They change prefixes
only: 0.5 with `percentunit` shows as 50 %.
"""

from __future__ import annotations

from typing import Final

from collector.catalog.spec import Kind, Metric, Unit

WATTS: Final = "watt"
JOULES: Final = "joule"
BYTES: Final = "bytes"
BYTES_PER_SECOND: Final = "Bps"
RATIO: Final = "percentunit"
CELSIUS: Final = "celsius"
HERTZ: Final = "hertz"
SECONDS: Final = "s"
NUMBER: Final = "short"
BOOLEAN: Final = "bool_yes_no"
TIMESTAMP_MS: Final = "dateTimeFromNow"
"""Of a point of time in milliseconds: PromQL's seconds times 1000. Shows how long ago that is."""
US_DOLLARS: Final = "currencyUSD"
NONE: Final = "none"
SCIENTIFIC: Final = "sci"
"""For ratios far below a percent, such as those of bit errors."""

# Grafana writes what follows `si:` with a prefix (k, M, …), and what follows `suffix:` after a space.
TOKENS_PER_SECOND: Final = "si:tokens/s"
TOKENS_PER_SECOND_PER_MEGAWATT: Final = "si:tokens/s/MW"
TOKENS_PER_JOULE: Final = "suffix:tokens/J"
TOKENS_PER_SECOND_PER_WATT: Final = "suffix:tokens/s/W"
JOULES_PER_TOKEN: Final = "suffix:J/token"  # noqa: S105 - a unit, not a secret
US_DOLLARS_PER_MILLION_TOKENS: Final = "suffix:$/M tokens"
EVENTS_PER_SECOND: Final = "suffix:/s"
EVENTS_PER_HOUR: Final = "suffix:/h"
LANES: Final = "suffix:lanes"
NODES: Final = "suffix:nodes"

EFFICIENCY: Final = frozenset(
    {TOKENS_PER_JOULE, TOKENS_PER_SECOND_PER_WATT, JOULES_PER_TOKEN, US_DOLLARS_PER_MILLION_TOKENS}
)
"""Units of figures whose title names its power domain and its kind of tokens (DESIGN §5)."""

_OF_VALUES: Final = {
    Unit.NONE: NUMBER,
    Unit.BYTES: BYTES,
    Unit.BYTES_PER_SECOND: BYTES_PER_SECOND,
    Unit.CELSIUS: CELSIUS,
    Unit.HERTZ: HERTZ,
    Unit.JOULES: JOULES,
    Unit.LANES: LANES,
    Unit.RATIO: RATIO,
    Unit.SECONDS: SECONDS,
    Unit.WATTS: WATTS,
}

_OF_RATES: Final = {
    Unit.NONE: EVENTS_PER_SECOND,
    Unit.BYTES: BYTES_PER_SECOND,
    Unit.JOULES: WATTS,
    Unit.SECONDS: RATIO,
}
"""Units of what counters rise by each second: a joule a second is a watt."""


def unit_of(metric: Metric) -> str:
    """Return the unit of a row's values."""
    return _OF_VALUES[metric.unit]


def rate_unit_of(metric: Metric) -> str:
    """Return the unit of a counter's rate.

    Raises:
        ValueError: The row is no counter, or one whose rate has no unit here.
    """
    if metric.kind is not Kind.COUNTER or metric.unit not in _OF_RATES:
        raise ValueError(f"{metric.name}: a {metric.kind.value} of {metric.unit.value!r} has no rate")
    if "tokens" in metric.name.split("_"):
        return TOKENS_PER_SECOND
    return _OF_RATES[metric.unit]
