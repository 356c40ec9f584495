"""Alerts: each has what people need, two cases, and a runbook; and no check is without one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from collector.catalog.checks import CHECKS
from collector.errors import ConfigurationError
from dashboards.build import GENERATED
from dashboards.identities import BoardId, is_uid
from dashboards.recorded import RECORDED
from dashboards.rules.alerting import Alert
from dashboards.rules.alerts import ALERTS, alert_groups
from dashboards.rules.files import ALERTS_FILE, RECORDING_FILE, rule_files, rule_test_files
from dashboards.rules.inhibitions import INHIBITIONS, Inhibition, render_inhibitions
from dashboards.rules.parameters import DEFAULTS, Parameters

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks.md"
DURATION = re.compile(r"[1-9][0-9]*[mhd]")
BY_NAME = {alert.name: alert for alert in ALERTS}

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)


def headings() -> list[str]:
    return re.findall(r"^### (.+)$", RUNBOOKS.read_text("utf-8"), re.MULTILINE)


def test_names_are_told_apart() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(names) == len(set(names)) > 40
    assert all(re.fullmatch(r"Rackwatt([A-Z][a-z]+)+", name) for name in names)


@each_alert
def test_an_alert_has_what_people_need(alert: Alert) -> None:
    assert alert.summary
    assert not alert.summary.endswith(".")
    assert alert.description.endswith(".")
    assert alert.meaning.endswith((".", ")"))
    assert alert.look
    assert alert.act
    assert not alert.wait or DURATION.fullmatch(alert.wait)
    assert DURATION.fullmatch(alert.keep)


def test_every_runbook_has_its_section_and_none_is_left_over() -> None:
    assert headings() == [alert.name for alert in ALERTS]
    assert len({alert.anchor for alert in ALERTS}) == len(ALERTS)


@each_alert
def test_links_lead_to_the_section_and_to_a_dashboard(alert: Alert) -> None:
    annotations = alert.annotations(DEFAULTS)
    path, _, anchor = annotations["runbook_url"].partition("#")
    assert path == "docs/runbooks.md"
    assert anchor in {heading.lower() for heading in headings()}
    uid = re.fullmatch(r"/d/([\w-]+)(\?var-.*)?", annotations["dashboard_url"])
    assert uid
    assert is_uid(uid[1])
    assert uid[1] in {board.uid for board in BoardId}


def test_a_link_hands_rack_and_node_on() -> None:
    alert = BY_NAME["RackwattNvmlDown"]
    assert alert.annotations(DEFAULTS) == {
        "summary": "The agent of {{ $labels.node }} in {{ $labels.rack }} cannot read its GPUs",
        "description": "NVML is absent, unloaded, of another version, or released on {{ $labels.node }} in "
        "{{ $labels.rack }}.",
        "runbook_url": "docs/runbooks.md#rackwattnvmldown",
        "dashboard_url": "/d/rackwatt-node?var-rack={{ $labels.rack }}&var-node={{ $labels.node }}",
    }
    there = Parameters(
        runbook_url="https://wiki.example.org/rackwatt", dashboard_url="https://grafana.example.org/d/"
    )
    links = alert.annotations(there)
    assert links["runbook_url"] == "https://wiki.example.org/rackwatt#rackwattnvmldown"
    assert links["dashboard_url"].startswith("https://grafana.example.org/d/rackwatt-node?")


def test_every_check_has_one_alert() -> None:
    alerted = Counter(check for alert in ALERTS for check in alert.checks)
    assert alerted == Counter(check.id for check in CHECKS if check.impact != "info")


@pytest.mark.parametrize(
    "check", [check for check in CHECKS if check.impact in ("fail", "avoid")], ids=lambda c: c.id
)
def test_what_takes_a_node_out_is_more_than_information(check: object) -> None:
    owners = [alert for alert in ALERTS if getattr(check, "id", "") in alert.checks]
    assert [alert.severity.value for alert in owners] == ["warning"]


@each_alert
def test_a_node_in_maintenance_raises_no_alert_of_its_own(alert: Alert) -> None:
    if "node" in alert.of and "state" not in alert.of:  # one state of a node excludes another
        assert 'node_state:max{state="MAINTENANCE"} == 1' in alert.expression


def test_nobody_is_woken_by_what_a_rack_can_spare() -> None:
    assert sorted(alert.name for alert in ALERTS if alert.severity.value == "critical") == [
        "RackwattAgentsAbsent",
        "RackwattAvailabilityBurnFast",
        "RackwattAvailabilityBurnMedium",
        "RackwattRackServiceAbsent",
        "RackwattRackServiceDown",
        "RackwattRackSilent",
        "RackwattRackUnavailable",
    ]


# What cannot be declared.


def test_an_alert_without_both_cases_cannot_be_declared() -> None:
    alert = ALERTS[0]
    for case in ("fires", "rests"):
        arguments = {each.name: getattr(alert, each.name) for each in fields(alert) if each.name != case}
        with pytest.raises(TypeError, match=case):
            Alert(**arguments)


def test_two_cases_that_both_fire_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="`fires` must have labels, and `rests` none"):
        replace(ALERTS[0], rests=ALERTS[0].fires)
    with pytest.raises(ConfigurationError, match="`fires` must have labels, and `rests` none"):
        replace(ALERTS[0], fires=ALERTS[0].rests)


def test_a_text_that_names_a_label_it_has_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names \\['gpu'\\], which it has not"):
        replace(ALERTS[0], summary="GPU {gpu}")


def test_a_case_with_other_labels_is_refused() -> None:
    alert = ALERTS[0]
    with pytest.raises(ConfigurationError, match="its case has other labels"):
        replace(alert, fires=replace(alert.fires, labels={"rack": "r01", "slot": "4"}))


# What follows from what.


def test_an_inhibition_names_alerts_that_have_its_labels() -> None:
    with pytest.raises(ConfigurationError, match="'RackwattNothing', which is no alert"):
        Inhibition(causes=("RackwattNothing",), effects=("RackwattNodeFailed",), of=("rack",))
    with pytest.raises(ConfigurationError, match=r"needs RackwattRackSilent to have \['node'\]"):
        Inhibition(causes=("RackwattRackSilent",), effects=("RackwattNodeFailed",), of=("rack", "node"))
    with pytest.raises(ConfigurationError, match=r"needs RackwattNodeFailed to have \['check'\]"):
        Inhibition(
            causes=("RackwattXidFatal",), effects=("RackwattNodeFailed",), of=("rack",), checks="gpu_lost"
        )


def test_no_page_is_inhibited_but_by_a_page() -> None:
    pages = {alert.name for alert in ALERTS if alert.severity.value == "critical"}
    for each in INHIBITIONS:
        assert not pages & set(each.effects) or set(each.causes) <= pages


def test_checks_of_inhibitions_are_checks() -> None:
    for each in INHIBITIONS:
        if each.checks:
            assert [check.id for check in CHECKS if re.fullmatch(each.checks, check.id)]


def test_the_configuration_of_alertmanager() -> None:
    text = render_inhibitions().removeprefix("```yaml\n").removesuffix("```\n")
    document = yaml.safe_load(text)
    assert document["inhibit_rules"][3] == {
        "source_matchers": ['alertname=~"RackwattXidFatal"'],
        "target_matchers": ['alertname=~"RackwattGpuCheckFail"', 'check=~"gpu_xid_fatal"'],
        "equal": ["cluster", "rack", "node", "gpu_uuid"],
    }


# The files.


def test_the_rule_files_hold_every_rule() -> None:
    files = {name: yaml.safe_load(text) for name, text in rule_files().items()}
    recorded = [rule for group in files[RECORDING_FILE]["groups"] for rule in group["rules"]]
    assert [(rule["record"], rule["expr"], rule.get("labels", {})) for rule in recorded] == [
        (rule.name, rule.expression, dict(rule.fixed)) for rule in RECORDED
    ]
    alerts = [rule for group in files[ALERTS_FILE]["groups"] for rule in group["rules"]]
    assert [(rule["alert"], rule["expr"]) for rule in alerts] == [
        (alert.name, alert.expression) for alert in ALERTS
    ]
    assert {rule["labels"]["severity"] for rule in alerts} == {"critical", "warning", "info"}


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fired: Counter[tuple[str, bool]] = Counter()
    for text in rule_test_files().values():
        for test in yaml.safe_load(text)["tests"]:
            (asked,) = test["alert_rule_test"]
            fired[asked["alertname"], bool(asked["exp_alerts"])] += 1
    assert fired == Counter({(alert.name, fires): 1 for alert in ALERTS for fires in (True, False)})


def test_groups_of_rules_are_told_apart() -> None:
    names = [group.name for group in alert_groups()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("folder", ["rules", "rule_tests"])
def test_the_committed_files_are_fresh(folder: str) -> None:
    made = {**rule_files(), **rule_test_files()}
    wanted = {name: text for name, text in made.items() if name.startswith(f"{folder}/")}
    present = {f"{folder}/{path.name}": path.read_text("utf-8") for path in (GENERATED / folder).iterdir()}
    assert present == wanted


def test_the_files_are_the_same_each_time() -> None:
    assert {**rule_files(), **rule_test_files()} == {**rule_files(), **rule_test_files()}
