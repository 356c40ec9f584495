"""The rack's board: which tray is in trouble, and what to do."""

from __future__ import annotations

from collector.catalog.checks import CHECKS
from collector.catalog.rack import DOMAIN_STATES, NODE_STATES, RACK_CHECKS
from dashboards.boards.rack import BOARD
from tests import board_contents as contents

PANELS = contents.panels(BOARD)
CHECK_TABLE = PANELS["Failed checks, and what to do"]
XIDS = PANELS["Xids of the last day"]
TRAYS = PANELS["Trays, worst first"]


def test_it_begins_with_six_figures() -> None:
    assert list(PANELS)[:6] == [
        "Verdict",
        "Largest block, against the minimum",
        "Nodes that are not READY",
        "Availability of 7 and 30 days",
        "Error budget left of 30 days",
        "Data: oldest, and agents reached",
    ]


def test_its_sections() -> None:
    assert contents.sections(BOARD) == [
        ("Which tray, and what to do", False),
        ("Alerts, Xids, NVLink domains, versions", False),
        ("Availability and its budget", False),
        ("Heat and clocks", False),
    ]


def test_availability_stands_beside_its_target_and_coverage() -> None:
    assert contents.metrics(PANELS["Availability of 7 and 30 days"]) == {
        "rack:availability_point:ratio7d",
        "rack:availability_point:ratio30d",
        "rack:availability_coverage:ratio30d",
        "rack:availability_target:ratio",
    }


def test_states_of_trays_are_words_and_unknown_is_grey() -> None:
    panel = PANELS["State of each tray"]
    mappings = panel["fieldConfig"]["defaults"]["mappings"]
    assert set(contents.texts(mappings).values()) == set(NODE_STATES)
    colours = contents.colours(mappings)
    assert colours["UNKNOWN"] == colours["no data"] == "#808080"
    assert contents.metrics(panel) == {"rack_node_state:node_state:max"}
    assert contents.targets_of(panel) == {"rackwatt-node"}


def test_trays_have_what_leads_to_the_part_at_fault() -> None:
    assert contents.headings(TRAYS) == [
        "Rack",
        "Node",
        "State",
        "Slot",
        "Tray",
        "Checks: fail",
        "Checks: avoid",
        "Checks: warn",
        "GPUs",
        "GPUs expected",
        "Links up",
        "Links down",
        "Margin",
        "GPU power",
        "Data age",
        "Cluster",
    ]
    assert contents.targets_of(TRAYS) == {"rackwatt-node", "rackwatt-nvlink"}


def test_every_check_says_what_to_do_and_which_runbook() -> None:
    ids = {check.id for check in CHECKS} | set(RACK_CHECKS)
    actions = contents.texts(contents.override(CHECK_TABLE, "What to do")["mappings"])
    runbooks = contents.texts(contents.override(CHECK_TABLE, "Runbook")["mappings"])
    assert set(actions) == set(runbooks) == ids
    # collector/catalog/checks.py
    assert actions["gpu_lost"] == "reboot the node; if the GPU stays away, have it serviced"
    assert runbooks["gpu_row_remap_failure"] == "rackwattrowremapfailure"
    assert runbooks["version_skew"] == "rackwattversionskew"


def test_checks_of_agents_and_of_the_rack_service_stand_together() -> None:
    assert contents.metrics(CHECK_TABLE) == {
        "rackwatt_gpu_check_failed",
        "rackwatt_node_check_failed",
        "rack_node_check_impact:check_failed:max",
        "ALERTS_FOR_STATE",  # since when
    }
    assert CHECK_TABLE["options"]["sortBy"] == [{"displayName": "Impact", "desc": True}]
    impacts = contents.texts(contents.override(CHECK_TABLE, "Impact")["mappings"])
    assert impacts == {"0": "info", "1": "warn", "2": "avoid", "3": "fail"}


def test_a_failed_check_leads_to_its_gpu() -> None:
    (link,) = contents.override(CHECK_TABLE, "GPU")["links"]
    assert link["url"].startswith("/d/rackwatt-node?${__url_time_range}&")
    assert link["url"].endswith(
        '&var-rack=${__data.fields["rack"]}&var-node=${__data.fields["node"]}&var-gpu=${__data.fields["gpu"]}'
    )


def test_xids_say_what_they_are() -> None:
    # collector/health/xids.toml
    assert contents.texts(contents.override(XIDS, "What it is")["mappings"])["79"] == (
        "GPU has fallen off the bus"
    )
    assert contents.texts(contents.override(XIDS, "Class")["mappings"])["79"] == "fatal"
    assert "reboot the node" in contents.texts(contents.override(XIDS, "What to do")["mappings"])["79"]


def test_events_are_marked_in_time() -> None:
    assert [annotation.name for annotation in BOARD.annotations] == [
        "Unavailable",
        "Incidents",
        "Fatal Xids",
        "Maintenance",
    ]


def test_domains_are_words() -> None:
    mappings = contents.override(PANELS["NVLink domains and cliques, worst first"], "State")["mappings"]
    assert set(contents.texts(mappings).values()) == set(DOMAIN_STATES)


def test_the_burn_has_the_lines_at_which_alerts_fire() -> None:
    steps = PANELS["Burn of the error budget"]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    # Google's SRE Workbook, chapter 5
    assert [step["value"] for step in steps] == [None, 1, 6, 14.4]
    description = PANELS["Burn of the error budget"]["description"]
    assert "above 14.4 over 1h, above 6 over 6h, above 1 over 3d" in description


def test_windows_are_rows() -> None:
    expression = PANELS["Availability by window"]["targets"][0]["expr"]
    assert [f'"window", "{window}"' in expression for window in ("1d", "7d", "30d")] == [True, True, True]
