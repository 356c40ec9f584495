"""What an alert is: its rule, what people read, a case in which it fires and one in which it does not."""

from __future__ import annotations

import enum
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.errors import ConfigurationError
from dashboards.identities import BoardId
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import series

PREFIX = "Rackwatt"
"""What names of alerts begin with, so that one can tell whose they are."""

KEPT = "5m"
"""For how long an alert fires on after its condition ended, unless it says otherwise (chosen): one that comes
and goes is one message."""

_LINKED = ("rack", "node")
"""Labels that a link hands to variables of the dashboard."""


class Severity(enum.Enum):
    """How soon somebody must look: now, on this working day, or when there is time."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Show(enum.Enum):
    """Template function by which Prometheus writes an alert's value."""

    NUMBER = "humanize"
    PERCENTAGE = "humanizePercentage"
    DURATION = "humanizeDuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Series over time, and what the alert makes of them.

    Attributes:
        given: Values in promtool's notation by series, such as `1+0x20`.
        at: When the alert is looked at.
        labels: Labels of the one alert that fires then, without those of the rule; None if none fires.
        value: How its value is written in the description.
        step: Time between two values, and between two evaluations.
    """

    given: Mapping[str, str]
    at: str
    labels: Mapping[str, str] | None = None
    value: str = ""
    step: str = "1m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert.

    In texts `{rack}` stands for a label and `{value}` for the value.

    Attributes:
        name: Name; its section in docs/runbooks.md is called the same.
        severity: How soon somebody must look.
        expression: The PromQL expression; whatever it returns fires.
        of: Labels that its series have, beside `cluster`.
        wait: For how long it must hold before it fires; empty for at once.
        keep: For how long it fires on.
        summary: One line.
        description: One or two sentences with the value.
        meaning: What it means, for the runbook, with the source of its threshold.
        look: How to see it: which panel, which query.
        act: What to do, step by step.
        board: Dashboard that shows it.
        checks: Checks of the catalogue that it is about, so that no other alert repeats them.
        show: How the value is written.
        fires: A case in which it fires.
        rests: A case in which it does not, as near as can be.
    """

    name: str
    severity: Severity
    expression: str
    of: tuple[str, ...]
    wait: str
    keep: str = KEPT
    summary: str
    description: str
    meaning: str
    look: tuple[str, ...]
    act: tuple[str, ...]
    board: BoardId
    checks: tuple[str, ...] = ()
    show: Show = Show.NUMBER
    fires: Case
    rests: Case

    def __post_init__(self) -> None:
        known = {*self.of, "value"}
        for text in (self.summary, self.description):
            fields = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
            if fields - known:
                raise ConfigurationError(
                    f"{self.name}: {text!r} names {sorted(fields - known)}, which it has not"
                )
        if self.fires.labels is None or self.rests.labels is not None:
            raise ConfigurationError(f"{self.name}: `fires` must have labels, and `rests` none")
        if not set(self.of) >= set(self.fires.labels):
            raise ConfigurationError(f"{self.name}: its case has other labels than {self.of}")

    @property
    def anchor(self) -> str:
        """Anchor of its section in the runbooks, as forges make it from the heading."""
        return self.name.lower()

    def annotations(self, parameters: Parameters) -> dict[str, str]:
        """Return its annotations, as templates of Prometheus."""
        words = {label: f"{{{{ $labels.{label} }}}}" for label in self.of}
        return self._annotations(words, f"{{{{ $value | {self.show.value} }}}}", parameters)

    def annotations_of(self, case: Case, parameters: Parameters) -> dict[str, str]:
        """Return its annotations as Prometheus writes them when a case has made it fire."""
        words = {label: (case.labels or {}).get(label, "") for label in self.of}
        return self._annotations(words, case.value, parameters)

    def _annotations(self, words: Mapping[str, str], value: str, parameters: Parameters) -> dict[str, str]:
        query = "&".join(f"var-{label}={words[label]}" for label in _LINKED if label in self.of)
        link = f"{parameters.dashboard_url}{self.board.uid}"
        return {
            "summary": self.summary.format(value=value, **words),
            "description": self.description.format(value=value, **words),
            "runbook_url": f"{parameters.runbook_url}#{self.anchor}",
            "dashboard_url": f"{link}?{query}" if query else link,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertGroup:
    """Alerts of one subject.

    Attributes:
        name: Name of the group, and of its file.
        title: Heading in the runbooks.
        alerts: Its alerts.
    """

    name: str
    title: str
    alerts: tuple[Alert, ...] = field(default_factory=tuple)


def steady(value: float, steps: int = 60) -> str:
    """Write a value that stays, in promtool's notation."""
    return f"{value:g}+0x{steps}"


def given(name: str, *, part: str = "", **labels: str) -> str:
    """Write a series of the catalogue for a case; what the catalogue lacks is refused as in `series`."""
    return series(name, part=part, **labels)
