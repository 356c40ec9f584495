"""Which alert makes another one needless, for Alertmanager: the cause is told, not what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from collector.errors import ConfigurationError
from dashboards.rules.alerting import Alert
from dashboards.rules.alerts import ALERTS

_ALERTS: Mapping[str, Alert] = {alert.name: alert for alert in ALERTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inhibition:
    """While one of the causes fires, its effects are not told.

    Attributes:
        causes: Names of alerts.
        effects: Names of alerts.
        of: Labels that both must have alike, beside `cluster`.
        checks: Regular expression for the label `check` of the effects; empty for any.

    Raises:
        ConfigurationError: There is no such alert, or one lacks a label: Alertmanager takes labels that both
            lack for alike, and would silence what has nothing to do with the cause.
    """

    causes: tuple[str, ...]
    effects: tuple[str, ...]
    of: tuple[str, ...]
    checks: str = ""

    def __post_init__(self) -> None:
        for name in (*self.causes, *self.effects):
            if name not in _ALERTS:
                raise ConfigurationError(f"an inhibition names {name!r}, which is no alert")
            wanted = {*self.of, *(("check",) if self.checks and name in self.effects else ())}
            if lacking := wanted - set(_ALERTS[name].of):
                raise ConfigurationError(f"an inhibition needs {name} to have {sorted(lacking)}")


INHIBITIONS = (
    # A rack that is dark.
    Inhibition(
        causes=("RackwattRackSilent",),
        effects=(
            "RackwattRackUnknown",
            "RackwattNodeUnknown",
            "RackwattAgentDown",
            "RackwattEndpointsMissing",
            "RackwattEnergyUncovered",
        ),
        of=("rack",),
    ),
    # A fabric that is at fault, over its nodes.
    Inhibition(
        causes=("RackwattDomainUnhealthy",),
        effects=("RackwattGpuCheckFail", "RackwattGpuCheckAvoid"),
        of=("rack",),
        checks="gpu_fabric_.+|gpu_nvlinks_.+",
    ),
    # A node that has failed by something that is told of already.
    Inhibition(
        causes=(
            "RackwattGpuCheckFail",
            "RackwattNodeCheckFailed",
            "RackwattRowRemapFailure",
            "RackwattNvlinkRecoveryFailed",
            "RackwattXidFatal",
        ),
        effects=("RackwattNodeFailed",),
        of=("rack", "node"),
    ),
    # The check of an Xid, beside the Xid.
    Inhibition(
        causes=("RackwattXidFatal",),
        effects=("RackwattGpuCheckFail",),
        of=("rack", "node", "gpu_uuid"),
        checks="gpu_xid_fatal",
    ),
    # The faster burn rate speaks for the slower ones.
    Inhibition(
        causes=("RackwattAvailabilityBurnFast",),
        effects=("RackwattAvailabilityBurnMedium", "RackwattAvailabilityBurnSlow"),
        of=("rack",),
    ),
    Inhibition(
        causes=("RackwattAvailabilityBurnMedium",), effects=("RackwattAvailabilityBurnSlow",), of=("rack",)
    ),
)
"""Causes and what follows from them."""


def render_inhibitions() -> str:
    """Render what goes into Alertmanager's configuration, as a block of Markdown."""
    document = {
        "route": {
            "receiver": "somebody",
            "group_by": ["alertname", "cluster"],
            "routes": [
                {"matchers": ['severity="critical"'], "receiver": "pager"},
                {"matchers": ['severity="warning"'], "receiver": "tickets"},
            ],
        },
        "inhibit_rules": [
            {
                "source_matchers": [_named(each.causes)],
                "target_matchers": [
                    _named(each.effects),
                    *([f'check=~"{each.checks}"'] if each.checks else []),
                ],
                "equal": ["cluster", *each.of],
            }
            for each in INHIBITIONS
        ],
    }
    text = yaml.safe_dump(document, sort_keys=False, width=10_000)
    return f"```yaml\n# alertmanager.yml\n{text}```\n"


def _named(names: tuple[str, ...]) -> str:
    return f'alertname=~"{"|".join(names)}"'
