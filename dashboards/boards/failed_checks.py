"""The table of failed checks: where, since when, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from collector.catalog.checks import CHECKS
from dashboards import queries, units
from dashboards.boards.recordings import recorded
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
from dashboards.rules.alerts import ALERTS

RACK_ACTIONS: Mapping[str, str] = {
    "chassis_mismatch": "find out in which rack the tray stands, and correct the configuration",
    "duplicate_gpu": "see whether two addresses lead to one agent",
    "duplicate_slot": "see whether two addresses lead to one agent; else correct the slot in the FRU data",
    "fabric": "look at fabric manager, IMEX and NVLink switches, then reset the GPUs",
    "flapping": "find out why the node failed again and again; maintenance that ends lets it in again",
    "gpu_state": "see what the agent of the node says of its GPUs",
    "missing_gpu": "reboot the node; if the GPU stays away, have it serviced",
    "poll": "see whether the node, its agent and its driver run",
    "rack_mismatch": "correct `rack` in the agent's configuration, or the agents of the rack",
    "recovering": "wait until the node was clean for ten minutes, or reboot it",
    "split_domain": "look at the partitions of the NVLink switches; if the split is wanted, declare it",
    "unexpected_node": "declare the node, or correct its name or address",
    "version_skew": "bring driver, kernel and firmware to one version over the rack",
    "witness": "power the node on, or have it serviced",
}
"""What to do about what the rack service finds, in short; the reasons of a node say it in its own case."""

CHECK_ACTIONS: Mapping[str, str] = {**{check.id: check.action for check in CHECKS}, **RACK_ACTIONS}

IMPACT_CODES: Mapping[str, int] = {"info": 0, "warn": 1, "avoid": 2, "fail": 3}
_IMPACT_COLOURS = {
    "info": palette.NEUTRAL,
    "warn": palette.DEGRADED,
    "avoid": palette.DEGRADED,
    "fail": palette.FAILED,
}

_FOUND_BY_RACKS = "rack_node_check_impact:check_failed:max"
RUNBOOK_OF_CHECK: Mapping[str, str] = {
    **dict.fromkeys(RACK_ACTIONS, "rackwattrackcheckfailed"),
    "version_skew": "rackwattversionskew",
    **{check: alert.anchor for alert in ALERTS for check in alert.checks},
}
"""Section of docs/runbooks.md about each check: that of the alert which fires on it."""


def failed_checks(scope: Scope, *, width: int = 24, height: int = 8) -> Table:
    """List every check that fails, worst first, with what to do."""
    names = "|".join(
        (*(queries.row(f"{entity}_check_failed").exposed_name for entity in ("gpu", "node")), _FOUND_BY_RACKS)
    )
    labels = recorded(_FOUND_BY_RACKS).labels
    found = " or ".join(
        f"({scope.recorded('', labels, __name__=Regexp(names), impact=impact)} == 1) * {code}"
        for impact, code in IMPACT_CODES.items()
    )
    by_check = by("rack", "node", "gpu", "check")
    failing = f"{by_check} ({found})"
    alerts = scope.recorded(
        "ALERTS_FOR_STATE", labels, alertname=Regexp(f"{ALERT_PREFIX}.+"), check=Regexp(".+")
    )
    since = f"{by_check} ({alerts}) * 1000 and {failing}"
    return Table(
        key="failed-checks",
        title="Failed checks, and what to do",
        description=queries.describe(
            "gpu_check_failed",
            "node_check_failed",
            note="Checks that fail now: those of the agents, and those of the rack service. Empty while none "
            "fails; a node that does not answer has only those of the rack service.",
        )
        + f"\n\nRecorded: `{_FOUND_BY_RACKS}`. Since when a check fails, its alert knows "
        "(`ALERTS_FOR_STATE`); blank where one alert speaks for all GPUs of a node.",
        width=width,
        height=height,
        targets=(
            table(copied(copied(failing, "action", "check"), "runbook", "check")),
            table(since),
        ),
        transformations=(
            Merge(),
            Organize(
                (
                    ("Value #A", "Impact"),
                    # Its name where the other query has no answer.
                    ("Value", "Impact"),
                    *PLACE,
                    ("check", "Check"),
                    ("Value #B", "Since"),
                    ("action", "What to do"),
                    ("runbook", "Runbook"),
                    (CLUSTER, "Cluster"),
                )
            ),
        ),
        sort_by="Impact",
        descending=True,
        fields=FieldOptions(unit=units.NONE, no_value=NONE_KNOWN),
        overrides=(
            Override(
                fields=ByName("Impact"),
                cell=CellKind.COLOURED_BACKGROUND,
                column_width=80,
                mappings=tuple(
                    ValueText(str(code), impact, _IMPACT_COLOURS[impact])
                    for impact, code in IMPACT_CODES.items()
                ),
            ),
            *place_links(),
            Override(fields=ByName("Since"), unit=units.TIMESTAMP_MS, column_width=140),
            texts("What to do", CHECK_ACTIONS),
            runbooks(RUNBOOK_OF_CHECK),
            Override(fields=ByName("Check"), column_width=200),
        ),
    )
