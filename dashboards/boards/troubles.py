"""Tables of what went wrong: Xids of the last day, and the alerts that fire. Several boards show them."""

from __future__ import annotations

import re

from collector.health.xids import load_catalogue
from dashboards import queries, units
from dashboards.boards.row_texts import NONE_KNOWN, PLACE, by, copied, place_links, runbooks, texts
from dashboards.panels import (
    ByName,
    CellKind,
    FieldOptions,
    Merge,
    Organize,
    Override,
    Table,
    ValueText,
    palette,
    table,
)
from dashboards.queries import CLUSTER, Regexp, Scope
from dashboards.rules.alerting import PREFIX as ALERT_PREFIX
from dashboards.rules.alerting import Alert, Severity
from dashboards.rules.alerts import ALERTS
from dashboards.variables import GPU

_SEVERITY_COLOURS = {
    Severity.CRITICAL: palette.FAILED,
    Severity.WARNING: palette.DEGRADED,
    Severity.INFO: palette.NEUTRAL,
}
"""The gravest first."""
_XID_COLOURS = {"fatal": palette.FAILED, "warn": palette.DEGRADED}

XID_WINDOW_SECONDS = 86_400
"""For how long an Xid is listed: a day, as the check of repeated ones looks back."""


def _ranked(expression: str) -> str:
    """Give each alert the rank of its severity as a label: a table sorts by values, not by their texts."""
    for rank, severity in enumerate(_SEVERITY_COLOURS, 1):
        expression = f'label_replace({expression}, "rank", "{rank}", "severity", "{severity.value}")'
    return expression


def _first_step(alert: Alert) -> str:
    """Return what to do first, without the runbook's links within itself."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", alert.act[0])


def recent_xids(scope: Scope, *, width: int = 24, height: int = 8) -> Table:
    """List the Xids of the last day, newest first, with what they mean and what to do."""
    seen, counted = (
        f"{by('rack', 'node', 'gpu', 'xid')} ({scope.series(name)})"
        for name in ("gpu_xid_last_seen_timestamp_seconds", "gpu_xid_total")
    )
    recent = f"{seen} > time() - {XID_WINDOW_SECONDS}"
    described = copied(copied(copied(f"({recent}) * 1000", "what", "xid"), "class", "xid"), "action", "xid")
    rows = load_catalogue().rows.values()
    return Table(
        key="xids",
        title="Xids of the last day",
        description=queries.describe("gpu_xid_last_seen_timestamp_seconds", "gpu_xid_total"),
        width=width,
        height=height,
        targets=(table(described), table(f"{counted} and ({recent})")),
        transformations=(
            Merge(),
            Organize(
                (
                    ("Value #A", "Last seen"),
                    *PLACE,
                    ("xid", "Xid"),
                    ("class", "Class"),
                    ("what", "What it is"),
                    ("Value #B", "Times"),
                    ("action", "What to do"),
                    (CLUSTER, "Cluster"),
                )
            ),
        ),
        sort_by="Last seen",
        descending=True,
        fields=FieldOptions(unit=units.NUMBER, no_value=NONE_KNOWN),
        overrides=(
            Override(fields=ByName("Last seen"), unit=units.TIMESTAMP_MS, column_width=140),
            *place_links(),
            Override(
                fields=ByName("Class"),
                cell=CellKind.COLOURED_TEXT,
                column_width=100,
                mappings=tuple(
                    ValueText(str(row.number), row.severity.replace("_", " "), _XID_COLOURS.get(row.severity))
                    for row in rows
                ),
            ),
            texts("What it is", {str(row.number): row.name for row in rows}),
            texts("What to do", {str(row.number): row.action for row in rows}),
            Override(fields=ByName("Xid"), column_width=70),
            Override(fields=ByName("Times"), column_width=70),
        ),
    )


def firing_alerts(scope: Scope, *, width: int = 24, height: int = 8) -> Table:
    """List the alerts of ours that fire, with since when."""
    place = tuple(label for label, _ in PLACE)
    matched = tuple(label for label in place if label in scope.variables and label != GPU.name)
    whose = Regexp(f"{ALERT_PREFIX}.+")
    by_alert = by("alertname", "severity", *place)
    since = f"{by_alert} ({scope.recorded('ALERTS_FOR_STATE', matched, alertname=whose)})"
    firing = f"{by_alert} ({scope.recorded('ALERTS', matched, alertname=whose, alertstate='firing')})"
    return Table(
        key="alerts",
        title="Firing alerts",
        description="Alerts of rackwatt that fire now, and since when their condition holds. `ALERTS` and "
        "`ALERTS_FOR_STATE` are written by the Prometheus that evaluates the rules; without the rules of "
        "`dashboards/generated/rules` there are none. The runbook of an alert is the section of its name in "
        "docs/runbooks.md.",
        width=width,
        height=height,
        targets=(
            table(
                copied(
                    copied(_ranked(f"({since} * 1000 and {firing})"), "action", "alertname"),
                    "runbook",
                    "alertname",
                )
            ),
        ),
        transformations=(
            Organize(
                (
                    ("rank", "Severity"),
                    ("alertname", "Alert"),
                    *PLACE,
                    ("Value", "Since"),
                    ("action", "What to do first"),
                    ("runbook", "Runbook"),
                    (CLUSTER, "Cluster"),
                ),
                dropped=("Time", "severity"),
            ),
        ),
        sort_by="Severity",
        fields=FieldOptions(unit=units.NONE, no_value=NONE_KNOWN),
        overrides=(
            Override(
                fields=ByName("Severity"),
                cell=CellKind.COLOURED_TEXT,
                column_width=90,
                mappings=tuple(
                    ValueText(str(rank), severity.value, colour)
                    for rank, (severity, colour) in enumerate(_SEVERITY_COLOURS.items(), 1)
                ),
            ),
            *place_links(),
            Override(fields=ByName("Since"), unit=units.TIMESTAMP_MS, column_width=140),
            texts("What to do first", {alert.name: _first_step(alert) for alert in ALERTS}),
            runbooks({alert.name: alert.anchor for alert in ALERTS}),
        ),
    )
