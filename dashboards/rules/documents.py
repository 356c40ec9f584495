"""The generated parts of docs/runbooks.md and docs/rules.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from dashboards.recorded import recording_groups
from dashboards.rules.alerting import KEPT, Alert
from dashboards.rules.alerts import alert_groups
from dashboards.rules.recording import Measure, Recorded, RecordingGroup

RUNBOOKS_MARKER = "runbooks"
RECORDED_MARKER = "recorded"
ALERTS_MARKER = "alerts"
INHIBITIONS_MARKER = "inhibitions"
"""Names of the markers between which the parts stand."""

_WIDTH = 110

_UNITS = {
    Measure.NONE: "-",
    Measure.BYTES_PER_SECOND: "bytes/s",
    Measure.CELSIUS: "°C",
    Measure.COUNT: "number",
    Measure.KILOWATT_HOURS: "kWh",
    Measure.RATIO: "ratio",
    Measure.SECONDS: "s",
    Measure.STATE: "1 or 0",
    Measure.TOKENS_PER_JOULE: "tokens/J",
    Measure.TOKENS_PER_SECOND: "tokens/s",
    Measure.TOKENS_PER_SECOND_PER_MEGAWATT: "tokens/s/MW",
    Measure.US_DOLLARS: "US$",
    Measure.WATTS: "W",
}


def render_runbooks() -> str:
    """Render a section an alert, by subject."""
    parts: list[str] = []
    for group in alert_groups():
        parts.append(f"## {group.title}")
        parts.extend(_section(alert) for alert in group.alerts)
    return "\n\n".join(parts) + "\n"


def _section(alert: Alert) -> str:
    wait = f"after {alert.wait}" if alert.wait else "at once"
    keep = f"; fires on for {alert.keep}" if alert.keep != KEPT else ""
    steps = "\n".join(f"{number}. {text}" for number, text in enumerate(alert.act, start=1))
    look = "\n".join(f"- {text}" for text in alert.look)
    return (
        f"### {alert.name}\n\n"
        f"{alert.severity.value.capitalize()}, {wait}{keep}; dashboard `{alert.board.uid}`.\n\n"
        f"{_wrapped(alert.meaning)}\n\n"
        f"```promql\n{alert.expression}\n```\n\n"
        f"See:\n\n{look}\n\n"
        f"Do:\n\n{steps}"
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def render_alerts() -> str:
    """Render a table of the alerts, each with a link to its runbook."""
    heads = ("Alert", "Severity", "After", "Dashboard")
    rows = (
        (
            f"[{alert.name}](runbooks.md#{alert.anchor})",
            alert.severity.value,
            alert.wait or "at once",
            f"`{alert.board.uid}`",
        )
        for group in alert_groups()
        for alert in group.alerts
    )
    return _table(heads, rows)


def render_recorded() -> str:
    """Render a table a group of the recorded series."""
    return "\n".join(_group(group) for group in recording_groups())


def _group(group: RecordingGroup) -> str:
    rows = ((f"`{rule.name}`", _UNITS[rule.unit], _labels(rule), rule.help) for rule in _distinct(group))
    table = _table(("Series", "Unit", "Labels", "Meaning"), rows)
    return f"### {group.name}, each {group.interval}\n\n{table}"


def _distinct(group: RecordingGroup) -> Iterator[Recorded]:
    """Yield rules that record under one name once."""
    yield from {rule.name: rule for rule in group.rules}.values()


def _labels(rule: Recorded) -> str:
    return ", ".join(f"`{label}`" for label in rule.labels) or "-"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [_line(heads), "|---" * len(heads) + "|", *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
