"""The generated files: recording rules, alerts, and promtool's tests of the alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dashboards.recorded import recording_groups
from dashboards.rules.alerting import Alert, AlertGroup, Case
from dashboards.rules.alerts import alert_groups
from dashboards.rules.parameters import DEFAULTS, Parameters
from dashboards.rules.recording import Recorded
from dashboards.rules.yaml_text import Plain, dump_yaml

RULES = "rules"
RULE_TESTS = "rule_tests"
"""Folders of the generated files. Tests stand apart, so that Prometheus can load `rules/*.yaml`."""

RECORDING_FILE = f"{RULES}/rackwatt-recording.yaml"
ALERTS_FILE = f"{RULES}/rackwatt-alerts.yaml"


def rule_files(parameters: Parameters = DEFAULTS) -> dict[str, str]:
    """Write the files that Prometheus loads, by their path below the folder of generated files."""
    groups: list[Plain] = [
        {
            "name": group.name,
            "interval": group.interval,
            "rules": [_recording(rule) for rule in group.rules],
        }
        for group in recording_groups(parameters)
    ]
    alerts: list[Plain] = [
        {"name": group.name, "rules": [_alert(alert, parameters) for alert in group.alerts]}
        for group in alert_groups(parameters)
    ]
    return {RECORDING_FILE: dump_yaml({"groups": groups}), ALERTS_FILE: dump_yaml({"groups": alerts})}


def rule_test_files(parameters: Parameters = DEFAULTS) -> dict[str, str]:
    """Write the tests for `promtool test rules`, one file a subject and step, by their path."""
    return {
        f"{RULE_TESTS}/{group.name}-{step}.yaml": dump_yaml(_tests(cases, step, parameters))
        for group in alert_groups(parameters)
        for step, cases in _by_step(group).items()
    }


def _recording(rule: Recorded) -> Plain:
    labels: dict[str, Plain] = {"labels": dict(rule.fixed)} if rule.fixed else {}
    return {"record": rule.name, "expr": rule.expression, **labels}


def _alert(alert: Alert, parameters: Parameters) -> Plain:
    wait: dict[str, Plain] = {"for": alert.wait} if alert.wait else {}
    return {
        "alert": alert.name,
        "expr": alert.expression,
        **wait,
        "keep_firing_for": alert.keep,
        "labels": {"severity": alert.severity.value},
        "annotations": dict(alert.annotations(parameters)),
    }


def _by_step(group: AlertGroup) -> Mapping[str, list[tuple[Alert, Case]]]:
    found: dict[str, list[tuple[Alert, Case]]] = {}
    for alert in group.alerts:
        for case in (alert.fires, alert.rests):
            found.setdefault(case.step, []).append((alert, case))
    return found


def _tests(cases: list[tuple[Alert, Case]], step: str, parameters: Parameters) -> dict[str, Plain]:
    return {
        "rule_files": [f"../{RECORDING_FILE}", f"../{ALERTS_FILE}"],
        "evaluation_interval": step,
        # Without it promtool takes groups in any order, and an alert may see what was recorded a step ago.
        "group_eval_order": [
            *(group.name for group in recording_groups(parameters)),
            *(group.name for group in alert_groups(parameters)),
        ],
        "tests": [_test(alert, case, parameters) for alert, case in cases],
    }


def _test(alert: Alert, case: Case, parameters: Parameters) -> Plain:
    return {
        "name": f"{alert.name} {'fires' if case.labels is not None else 'does not fire'}",
        "interval": case.step,
        "input_series": [{"series": series, "values": values} for series, values in case.given.items()],
        "alert_rule_test": [
            {
                "eval_time": case.at,
                "alertname": alert.name,
                "exp_alerts": list(_expected(alert, case, parameters)),
            }
        ],
    }


def _expected(alert: Alert, case: Case, parameters: Parameters) -> Iterator[Plain]:
    if case.labels is not None:
        yield {
            "exp_labels": {"severity": alert.severity.value, **case.labels},
            "exp_annotations": dict(alert.annotations_of(case, parameters)),
        }
