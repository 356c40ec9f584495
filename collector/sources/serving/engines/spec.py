"""What a name map of an engine is made of.

A map says, for each metric of rackwatt, what the engine calls it: alternatives in order of preference, the
newest name first, as engines rename metrics from version to version.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from collector.catalog.engines import ENGINES, Engine


class Combine(enum.Enum):
    """How the values of ranks that do not repeat one another make the model's value."""

    ADD = "add"
    FULLEST = "fullest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way in which an engine tells a number.

    Attributes:
        names: Series whose values are added; all of them must be there for the alternative to be taken.
        label: Label that chooses among their series; empty to take all.
        values: Values of that label that are taken. A series without the label has it empty.
        help_word: Word that the HELP line of the names must have, where versions of an engine count different
            things under one name; empty to take every version.
        at_finish: Whether a request counts when it ends and not as it goes on (facts on serving engines, §1).
    """

    names: tuple[str, ...]
    label: str = ""
    values: tuple[str, ...] = ()
    help_word: str = ""
    at_finish: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """How an engine tells one counter or gauge.

    Attributes:
        metric: Name in the catalogue, without prefix.
        value: Value of the metric's own label; empty where it has none.
        alternatives: In order of preference.
        combine: How ranks make one value.
    """

    metric: str
    value: str = ""
    alternatives: tuple[Alternative, ...]
    combine: Combine = Combine.ADD


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """A histogram of an engine.

    Attributes:
        name: Its name, without `_bucket`, `_sum` and `_count`; its observations are seconds.
        once_a_request: Whether it observes once a request, so that quantiles weigh requests and not tokens.
    """

    name: str
    once_a_request: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How an engine tells one histogram.

    Attributes:
        metric: Name in the catalogue, without prefix.
        alternatives: In order of preference.
    """

    metric: str
    alternatives: tuple[Buckets, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMap:
    """What an engine calls what rackwatt reads of it.

    Attributes:
        engine: The engine.
        marks: Beginnings of metric names by which it is recognized; no other engine or router has them.
        model_labels: Labels that name the model, in order of preference; none if it names none.
        repeating_labels: Labels of ranks that tell the same numbers once more, so that one of them counts.
            Ranks by any other label add.
        quantities: Counters and gauges.
        distributions: Histograms.
    """

    engine: Engine
    marks: tuple[str, ...]
    model_labels: tuple[str, ...]
    repeating_labels: tuple[str, ...] = ()
    quantities: tuple[Quantity, ...]
    distributions: tuple[Distribution, ...]

    @property
    def names(self) -> frozenset[str]:
        """Names of all series that are read."""
        plain = {
            name
            for quantity in self.quantities
            for alternative in quantity.alternatives
            for name in alternative.names
        }
        histograms = {
            buckets.name + suffix
            for distribution in self.distributions
            for buckets in distribution.alternatives
            for suffix in ("_bucket", "_sum", "_count")
        }
        return frozenset(plain | histograms)


def named(*names: str, at_finish: bool = False) -> tuple[Alternative, ...]:
    """Make alternatives of one series each, in order of preference."""
    return tuple(Alternative(names=(name,), at_finish=at_finish) for name in names)


def catalogued(name: str) -> Engine:
    """Return the engine of that name from the catalogue."""
    return {engine.name: engine for engine in ENGINES}[name]
