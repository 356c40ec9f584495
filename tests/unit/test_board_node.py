"""The node's board: which GPU is in trouble, and everything about it."""

from __future__ import annotations

import pytest

from collector.catalog import BY_NAME
from dashboards.boards import node_states
from dashboards.boards.node import BOARD
from dashboards.panels.board_json import board_json
from tests import board_contents as contents

PANELS = contents.panels(BOARD)
GPUS = PANELS["GPUs"]


def test_its_variables_narrow_down_to_the_gpu() -> None:
    assert [variable.name for variable in BOARD.variables] == [
        "datasource",
        "cluster",
        "rack",
        "node",
        "gpu",
    ]


def test_it_shows_one_rack() -> None:
    # It asks for raw series: 3,960 GPUs of 55 racks would be a million points a panel.
    listed = board_json(BOARD)["templating"]
    assert isinstance(listed, dict)
    choices = {each["name"]: (each.get("multi"), each.get("includeAll")) for each in listed["list"]}
    assert choices["rack"] == (False, False)
    assert choices["node"] == choices["gpu"] == (True, True)


def test_its_sections() -> None:
    assert contents.sections(BOARD) == [
        ("Clock events, Xids, fabric, recovery", False),
        ("Power and energy", False),
        ("Temperatures", False),
        ("Clocks and clock events", False),
        ("Activity", False),
        ("Memory", True),
        ("NVLink", True),
        ("ECC and row remap", True),
        ("PCIe", True),
        ("Identity and versions", False),
        ("Agent: how well it reads", True),
    ]


def test_gpus_have_what_is_asked_first() -> None:
    assert contents.headings(GPUS) == [
        "Rack",
        "Node",
        "GPU",
        "State",
        "Slot",
        "Tray",
        "Module",
        "Checks: fail, avoid",
        "Checks: warn",
        "Utilization",
        "Power",
        "Power of limit",
        "Margin",
        "Memory used",
        "NVLinks up",
        "NVLinks down",
        "Processes",
        "Cluster",
    ]


@pytest.mark.parametrize("column", ["Utilization", "Power of limit", "Memory used"])
def test_shares_are_gauges_from_nothing_to_all(column: str) -> None:
    properties = contents.override(GPUS, column)
    assert properties["custom.cellOptions"]["type"] == "gauge"
    assert (properties["min"], properties["max"], properties["unit"]) == (0, 1, "percentunit")


def test_a_lost_gpu_is_said_in_words() -> None:
    assert contents.texts(contents.override(GPUS, "State")["mappings"]) == {"1": "answers", "0": "LOST"}


def test_the_margin_is_coloured_by_the_threshold_of_its_check() -> None:
    steps = contents.override(GPUS, "Margin")["thresholds"]["steps"]
    # gpu_temperature_margin of collector/catalog/checks.py warns at 5 degrees
    assert [step["value"] for step in steps] == [None, 0, 5.0]


def test_links_lead_on() -> None:
    assert contents.targets_of(GPUS) == {"rackwatt-rack", "rackwatt-node", "rackwatt-nvlink"}


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Power, and its limit", {"rackwatt_gpu_power_watts", "rackwatt_gpu_power_limit_watts"}),
        ("Energy over the time range", {"rackwatt_gpu_energy_joules_total"}),
        (
            "Temperature margin: degrees until clocks are held down",
            {"rack_node_gpu:temperature_margin_celsius:min"},
        ),
        ("Temperature of the memory", {"rackwatt_gpu_memory_temperature_celsius"}),
        (
            "Share of time with clocks held down, by reason",
            {"rack_node_gpu_reason:clock_event_seconds:rate5m"},
        ),
        (
            "NVLink throughput; received below zero",
            {
                "rack_node_gpu:nvlink_transmitted_bytes:rate5m",
                "rack_node_gpu:nvlink_received_bytes:rate5m",
            },
        ),
        ("ECC errors not corrected", {"rackwatt_gpu_ecc_uncorrected_total"}),
        (
            "Rows: remapped, pending, failed",
            {
                "rackwatt_gpu_rows_remapped_total",
                "rackwatt_gpu_row_remap_pending",
                "rackwatt_gpu_row_remap_failure",
            },
        ),
        (
            "Xids: the gravest class within 10 minutes",
            {"rack_node_gpu_class:xids:increase10m", "rackwatt_gpu_up"},
        ),
        ("Read errors by kind", {"rackwatt_agent_read_errors_total"}),
        ("Age of the data", {"rackwatt_agent_sample_age_seconds"}),
        ("NVML", {"rack_node:agent_nvml_up:max"}),
    ],
)
def test_a_panel_asks_for(title: str, names: set[str]) -> None:
    assert contents.metrics(PANELS[title]) == names


def test_every_word_of_a_state_metric_has_its_place() -> None:
    tables = {
        "gpu_clock_event_active": node_states.CLOCK_EVENTS,
        "gpu_fabric_state": node_states.FABRIC_STATES,
        "gpu_recovery_action": node_states.RECOVERY_ACTIONS,
    }
    for name, words in tables.items():
        assert {word for word, _ in words} == set(BY_NAME[name].label_values)


def test_every_class_of_xids_has_its_place() -> None:
    from dashboards.rules.record_gpus import CLASSES

    assert {word for word, _ in node_states.XID_CLASSES} == set(CLASSES)


def test_nothing_holds_the_clocks_is_no_status() -> None:
    mappings = PANELS["Clock events: the gravest reason"]["fieldConfig"]["defaults"]["mappings"]
    assert contents.texts(mappings)["0"] == "none"
    assert "none" not in contents.colours(mappings)


def test_what_is_simulated_says_so() -> None:
    mappings = contents.override(PANELS["Identity and versions of the nodes"], "Simulated")["mappings"]
    assert contents.texts(mappings)["true"] == "SIMULATED"
