"""The fleet's board: what somebody on call must see at once."""

from __future__ import annotations

from dashboards.boards.fleet import BOARD
from tests import board_contents as contents

PANELS = contents.panels(BOARD)
TABLE = PANELS["Racks, worst first"]

GREY = "#808080"
GREEN = "#009E73"


def test_it_begins_with_what_is_in_trouble() -> None:
    titles = list(PANELS)
    assert titles[:8] == [
        "Racks by verdict",
        "Nodes by state",
        "GPUs expected, and by state",
        "GPU power",
        "Tokens",
        "Racks, worst first",
        "Verdict on each rack",
        "Firing alerts",
    ]


def test_its_variables_narrow_down_to_the_rack() -> None:
    assert [variable.name for variable in BOARD.variables] == ["datasource", "cluster", "rack"]


def test_the_table_has_what_the_agreement_wants() -> None:
    assert contents.headings(TABLE) == [
        "Rack",
        "Verdict",
        "Class",
        "Largest block",
        "Minimum",
        "Schedulable",
        "Nodes",
        "GPUs out",
        "Failed checks",
        "GPU power",
        "Availability 30 d",
        "Low",
        "High",
        "Data age",
        "Cluster",
    ]


def test_the_table_reads_what_alerts_read() -> None:
    assert contents.metrics(TABLE) == {
        "rack_verdict:verdict:max",
        "rack:nodes_expected:max",
        "rack:nodes_schedulable:max",
        "rack:largest_block_nodes:max",
        "rack:min_block_nodes:max",
        "rack:gpus_expected:max",
        "rack_state:gpus:max",
        "rack_impact:checks_failed:sum",
        "rack_domain:power_watts:max",
        "rack:availability_point:ratio30d",
        "rack:availability_low:ratio30d",
        "rack:availability_high:ratio30d",
        "rack:agent_sample_age_seconds:max",
    }


def test_no_raw_series_is_read_but_whether_rack_services_answer() -> None:
    raw = {name for panel in PANELS.values() for name in contents.metrics(panel) if ":" not in name}
    assert raw == {"up", "ALERTS", "ALERTS_FOR_STATE"}


def test_the_worst_rack_stands_first() -> None:
    assert TABLE["options"]["sortBy"] == [{"displayName": "Verdict", "desc": True}]
    codes = contents.texts(contents.override(TABLE, "Verdict")["mappings"])
    assert [codes[code] for code in sorted(codes, reverse=True)] == [
        "UNAVAILABLE",
        "NO DATA",
        "UNKNOWN",
        "MAINTENANCE",
        "AVAILABLE",
    ]


def test_what_is_unknown_silent_or_missing_is_grey() -> None:
    colours = contents.colours(contents.override(TABLE, "Verdict")["mappings"])
    assert {colours[word] for word in ("UNKNOWN", "NO DATA", "no data")} == {GREY}
    assert colours["AVAILABLE"] == GREEN


def test_a_silent_rack_keeps_its_row_for_a_day() -> None:
    assert "last_over_time(" in TABLE["targets"][0]["expr"]
    assert "[1d])) * 0 + 3" in TABLE["targets"][0]["expr"]


def test_rows_lead_to_the_rack_and_keep_time_and_variables() -> None:
    (link,) = contents.override(TABLE, "Rack")["links"]
    assert link["url"] == (
        "/d/rackwatt-rack?${__url_time_range}&${datasource:queryparam}&${cluster:queryparam}"
        '&var-rack=${__data.fields["rack"]}'
    )
    assert contents.targets_of(TABLE) == {"rackwatt-rack", "rackwatt-tokens"}
    assert contents.targets_of(PANELS["Verdict on each rack"]) == {"rackwatt-rack"}


def test_counts_take_a_colour_only_when_there_is_something_to_count() -> None:
    unavailable = contents.override(PANELS["Racks by verdict"], "UNAVAILABLE")["thresholds"]["steps"]
    assert [step["value"] for step in unavailable] == [None, 1]


def test_telemetry_has_its_own_panels() -> None:
    assert ("Telemetry: is there anything to believe", False) in contents.sections(BOARD)
    assert contents.metrics(PANELS["Agents"]) == {
        "rack:nodes_expected:max",
        "rack:agents_up:sum",
        "rack_node:agent_nvml_up:max",
    }
    assert contents.metrics(PANELS["Racks that fell silent"]) == {"rack:nodes_expected:max"}


def test_the_power_says_of_how_many_gpus_it_is() -> None:
    assert contents.metrics(PANELS["GPU power"]) == {
        "rack_domain:energy_joules:rate5m",
        "rack_domain:energy_coverage:avg5m",
        "rack:gpus_expected:max",
    }
