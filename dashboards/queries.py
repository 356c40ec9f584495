"""PromQL from rows of the catalogue: names, matchers, rates, and each rack counted once.

```python
scope = Scope.of(VARIABLES)
scope.series("gpu_power_watts")     # rackwatt_gpu_power_watts{cluster=~"$cluster",rack=~"$rack",…}
scope.rate("gpu_energy_joules_total")               # rate(…[$__rate_interval])
scope.series("rack_power_watts", domain="gpu")      # max by (cluster, rack, domain) (…)
```

Series of a rack are taken `max by` their labels, so that a second scraper of the same rack service does not
double them (DESIGN §6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from collector.catalog import BY_NAME
from collector.catalog.rack import RACK
from collector.catalog.spec import Entity, Kind, Metric
from dashboards.panels.fields import FieldOptions
from dashboards.units import rate_unit_of, unit_of
from dashboards.variables import Variable, matched_by

RATE_INTERVAL = "$__rate_interval"
"""At least four scrapes, whatever the zoom (Grafana's documentation, "Prometheus template variables")."""

CLUSTER = "cluster"

_ROWS: dict[str, Metric] = BY_NAME | {row.name: row for row in RACK}


def row(name: str) -> Metric:
    """Return the row of a metric.

    Args:
        name: Name without prefix.

    Raises:
        ValueError: The catalogue has no such row.
    """
    try:
        return _ROWS[name]
    except KeyError:
        raise ValueError(f"the catalogue has no row {name!r}") from None


def describe(*names: str, note: str = "") -> str:
    """Describe a panel by the help of its metrics, and name them.

    Args:
        *names: Names without prefix.
        note: A sentence of the panel's own, which comes first.
    """
    rows = [row(name) for name in names]
    texts = ([note] if note else []) + [metric.help for metric in rows]
    listed = ", ".join(f"`{metric.exposed_name}`" for metric in rows)
    return "\n\n".join([*texts, f"{'Metric' if len(rows) == 1 else 'Metrics'}: {listed}."])


def unit(name: str) -> str:
    """Return Grafana's unit of a metric's values."""
    return unit_of(row(name))


def rate_unit(name: str) -> str:
    """Return Grafana's unit of a counter's rate."""
    return rate_unit_of(row(name))


def fields(name: str) -> FieldOptions:
    """Return how a metric's values look: its unit, from zero where nothing can be below."""
    metric = row(name)
    return FieldOptions(unit=unit_of(metric), minimum=0 if metric.minimum == 0 else None)


@dataclass(frozen=True, slots=True)
class Regexp:
    """Matches label values with a regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Not:
    """Matches label values other than one."""

    value: str


@dataclass(frozen=True, slots=True)
class NotRegexp:
    """Matches label values that a regular expression does not match."""

    pattern: str


Match = str | Regexp | Not | NotRegexp


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _matcher(label: str, match: Match) -> str:
    if isinstance(match, Regexp):
        return f"{label}=~{_quoted(match.pattern)}"
    if isinstance(match, NotRegexp):
        return f"{label}!~{_quoted(match.pattern)}"
    if isinstance(match, Not):
        return f"{label}!={_quoted(match.value)}"
    return f"{label}={_quoted(match)}"


def _labels(metric: Metric) -> tuple[str, ...]:
    """Every label of a row's series."""
    return metric.entity.implied_keys + metric.label_names


def _key(metric: Metric) -> tuple[str, ...]:
    """Labels that name a series of a row, the cluster first."""
    return (CLUSTER, *_labels(metric))


@dataclass(frozen=True, slots=True)
class Scope:
    """Writes the queries of a board, with matchers for the variables that it has.

    Attributes:
        variables: Names of the board's variables that are labels.
    """

    variables: tuple[str, ...]

    @classmethod
    def of(cls, variables: tuple[Variable, ...]) -> Scope:
        """Make the scope of a board with these variables."""
        return cls(matched_by(variables))

    def selector(self, name: str, **matches: Match) -> str:
        """Select a metric's series as they are, with matchers for the labels that its entity has.

        Args:
            name: Name without prefix.
            **matches: Further matchers; one for a variable's label takes the variable's place.

        Raises:
            ValueError: There is no such row, or it lacks a label that is matched.
        """
        metric = row(name)
        if metric.kind is Kind.HISTOGRAM:
            raise ValueError(f"{name} is a histogram: use buckets")
        self._check(metric, matches)
        return self.recorded(metric.exposed_name, _labels(metric), **matches)

    def recorded(self, name: str, labels: Iterable[str], **matches: Match) -> str:
        """Select series of any name, as of a recording rule.

        Args:
            name: Name as Prometheus has it.
            labels: Labels that its series have; those that are variables are matched.
            **matches: Further matchers.
        """
        own = [label for label in self.variables if label == CLUSTER or label in set(labels)]
        written = [_matcher(label, matches.get(label, Regexp(f"${label}"))) for label in own]
        written += [_matcher(label, match) for label, match in matches.items() if label not in own]
        return f"{name}{{{','.join(written)}}}"

    def series(self, name: str, **matches: Match) -> str:
        """Take a metric's values: those of a rack once, however often they are scraped."""
        return self._once(row(name), self.selector(name, **matches))

    def rate(self, name: str, **matches: Match) -> str:
        """Take a counter's rise a second.

        Raises:
            ValueError: The row is no counter.
        """
        return self._range("rate", name, RATE_INTERVAL, matches)

    def increase(self, name: str, window: str = RATE_INTERVAL, **matches: Match) -> str:
        """Take a counter's rise over a window, such as `1h` or `$__range`.

        Raises:
            ValueError: The row is no counter.
        """
        return self._range("increase", name, window, matches)

    def buckets(self, name: str, *, by: tuple[str, ...] = (), **matches: Match) -> str:
        """Take the rates of a histogram's buckets, summed by `le` and further labels.

        Raises:
            ValueError: The row is no histogram.
        """
        metric = row(name)
        if metric.kind is not Kind.HISTOGRAM:
            raise ValueError(f"{name} is a {metric.kind.value}, not a histogram")
        self._check(metric, matches)
        selector = self.recorded(f"{metric.exposed_name}_bucket", _labels(metric), **matches)
        return total(f"rate({selector}[{RATE_INTERVAL}])", "le", *by)

    def quantile(self, share: float, name: str, *, by: tuple[str, ...] = (), **matches: Match) -> str:
        """Estimate a quantile of a histogram from its buckets, by labels."""
        return f"histogram_quantile({share:g}, {self.buckets(name, by=by, **matches)})"

    def coded_state(
        self, name: str, states: tuple[str, ...], *, label: str = "state", **matches: Match
    ) -> str:
        """Number the state that is 1: 0 for the first of `states`, 1 for the next, and so on.

        What panels of states need, with `panels.state_codes(states)` as mappings. A subject without any
        series stays absent.

        Args:
            name: A row of kind STATE.
            states: Words in the order of their codes; of two that are 1 at once the later counts.
            label: Label that has the word.
            **matches: Further matchers.
        """
        metric = row(name)
        if metric.kind is not Kind.STATE or label not in _labels(metric):
            raise ValueError(f"{name} has no states by a label {label!r}")
        coded = [
            f"({self.selector(name, **{**matches, label: state})} == 1) * {code}"
            for code, state in enumerate(states)
        ]
        keys = [key for key in _key(metric) if key != label]
        return f"max by ({', '.join(keys)}) ({' or '.join(coded)})"

    def _range(self, function: str, name: str, window: str, matches: dict[str, Match]) -> str:
        metric = row(name)
        if metric.kind is not Kind.COUNTER:
            raise ValueError(f"{name} is a {metric.kind.value}, not a counter")
        return self._once(metric, f"{function}({self.selector(name, **matches)}[{window}])")

    def _once(self, metric: Metric, expression: str) -> str:
        if metric.entity is not Entity.RACK:
            return expression
        return f"max by ({', '.join(_key(metric))}) ({expression})"

    def _check(self, metric: Metric, matches: Iterable[str]) -> None:
        if unknown := set(matches) - {CLUSTER, *_labels(metric)}:
            raise ValueError(f"{metric.name} has no label {', '.join(sorted(unknown))}")


def total(expression: str, *by: str) -> str:
    """Sum over everything but the labels `by`, and never over clusters where there is a label left."""
    keys = (CLUSTER, *by) if by and CLUSTER not in by else by
    return f"sum by ({', '.join(keys)}) ({expression})" if keys else f"sum({expression})"


def largest(expression: str, *by: str) -> str:
    """Take the largest over everything but the cluster and the labels `by`."""
    keys = (CLUSTER, *by) if by and CLUSTER not in by else by
    return f"max by ({', '.join(keys)}) ({expression})" if keys else f"max({expression})"


def smallest(expression: str, *by: str) -> str:
    """Take the smallest over everything but the cluster and the labels `by`."""
    keys = (CLUSTER, *by) if by and CLUSTER not in by else by
    return f"min by ({', '.join(keys)}) ({expression})" if keys else f"min({expression})"
