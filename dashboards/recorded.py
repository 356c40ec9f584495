"""Every recorded series: dashboards and alerts read these, so that both say the same.

A rule is evaluated after those above it in its group; what reads another group's series is at most one
interval behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from dashboards.rules.parameters import DEFAULTS, Parameters
from dashboards.rules.record_availability import availability_rules
from dashboards.rules.record_fabric import fabric_rules, link_rules
from dashboards.rules.record_gpus import gpu_rules, xid_rules
from dashboards.rules.record_serving import serving_rules
from dashboards.rules.record_state import check_rules, state_rules, telemetry_rules
from dashboards.rules.record_tokens import token_rules
from dashboards.rules.recording import Measure, Recorded, RecordingGroup

__all__ = ["RECORDED", "RECORDED_BY_NAME", "Measure", "Recorded", "recording_groups"]


def recording_groups(parameters: Parameters = DEFAULTS) -> tuple[RecordingGroup, ...]:
    """Return all recording rules by group.

    Args:
        parameters: What a site wants otherwise; names, units and labels do not depend on it.
    """
    return (
        RecordingGroup(name="rackwatt-state", interval="30s", rules=state_rules(parameters)),
        RecordingGroup(name="rackwatt-checks", interval="30s", rules=check_rules(parameters)),
        RecordingGroup(name="rackwatt-telemetry", interval="30s", rules=telemetry_rules(parameters)),
        RecordingGroup(name="rackwatt-availability", interval="1m", rules=availability_rules(parameters)),
        RecordingGroup(name="rackwatt-tokens", interval="30s", rules=token_rules(parameters)),
        RecordingGroup(name="rackwatt-serving", interval="30s", rules=serving_rules(parameters)),
        RecordingGroup(name="rackwatt-nvlink", interval="30s", rules=fabric_rules(parameters)),
        # 55 racks have 71,280 links, and each rule here reads them all, one of them 40 samples of each.
        RecordingGroup(name="rackwatt-links", interval="1m", rules=link_rules(parameters)),
        RecordingGroup(name="rackwatt-gpus", interval="30s", rules=gpu_rules(parameters)),
        RecordingGroup(name="rackwatt-xids", interval="30s", rules=xid_rules(parameters)),
    )


RECORDED: tuple[Recorded, ...] = tuple(rule for group in recording_groups() for rule in group.rules)
"""Every rule, with the parameters that are committed."""

RECORDED_BY_NAME: Mapping[str, Recorded] = {rule.name: rule for rule in RECORDED}
"""A rule by the name of its series; of several with one name, which differ in `fixed`, the last."""
