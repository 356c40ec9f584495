"""NVLink fabric: which link it is, what goes wrong, and what flows."""

from __future__ import annotations

import pytest

from collector import profiles
from collector.catalog.nvlink import FABRIC
from collector.catalog.rack import DOMAIN_STATES
from dashboards.boards import nvlink_errors, nvlink_fabric, nvlink_traffic
from dashboards.boards.nvlink import BOARD
from dashboards.recorded import RECORDED_BY_NAME
from dashboards.rules.record_fabric import ERROR_WINDOW
from tests import board_contents as contents

PANELS = contents.panels(BOARD)
LINKS_DOWN = PANELS["Links of each node that are down"]
MATRIX = PANELS["Node by link, now"]
DOWN = PANELS["Links that are down now"]
FAILED = PANELS["Links that failed to recover in the last hour"]


def test_it_begins_with_figures_of_the_racks() -> None:
    assert list(PANELS)[:6] == [
        "Links up, and those that GPUs have",
        "GPUs that tell of their links",
        "NVLink domains by state",
        "Failed recoveries and errors, last hour",
        "NVLink in use, busiest rack",
        "Worst bit error ratio",
    ]
    for title in list(PANELS)[:6]:
        for target in PANELS[title]["targets"]:
            assert "$node" not in target["expr"]
            assert "$gpu" not in target["expr"]


def test_its_sections() -> None:
    assert contents.sections(BOARD) == [
        ("Which node, GPU and link", False),
        ("Recoveries, errors and bit errors", False),
        ("Throughput", False),
        ("Fabric and its domains", False),
        ("Balance of links", True),
    ]


def test_a_gpu_is_expected_to_send_and_receive_what_its_links_can() -> None:
    # facts on platforms: 900 GB/s a direction with NVLink 5, 450 GB/s with NVLink 4
    assert nvlink_traffic.GPU_PEAKS == {
        "gb300-nvl72": 900e9,
        "gb200-nvl72": 900e9,
        "hgx-b200": 900e9,
        "hgx-h200": 450e9,
        "hgx-h100": 450e9,
    }


def test_a_rack_that_is_one_domain_carries_130_terabytes_a_second() -> None:
    # NVIDIA NVL72 AI Factory Enterprise Reference Architecture: 130 TB/s, which is 72 x 1.8 TB/s
    assert nvlink_traffic.RACK_PEAKS == {"gb300-nvl72": 72 * 1.8e12, "gb200-nvl72": 72 * 1.8e12}
    assert nvlink_traffic.rack_peak(profiles.load("hgx-h200")) is None


def test_throughput_stands_against_its_limits() -> None:
    rack = PANELS["NVLink throughput of each rack, against its limit"]
    assert [target["refId"] for target in rack["targets"]] == ["A", "LIMIT"]
    assert "* 1.296e+14" in rack["targets"][1]["expr"]
    for word in ("sent", "received"):
        panel = PANELS[f"NVLink throughput of each GPU, {word}"]
        assert [target["legendFormat"] for target in panel["targets"][1:]] == [
            "peak: 900 GB/s",
            "peak: 450 GB/s",
        ]
        dashed = [each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]]
        assert dashed == ["PEAK1", "PEAK2"]


def test_the_limit_of_a_rack_does_not_depend_on_the_nodes_that_are_chosen() -> None:
    expression = PANELS["NVLink throughput of each rack, against its limit"]["targets"][1]["expr"]
    assert 'node=~".*"' in expression
    assert "$node" not in expression


def test_a_node_with_a_lost_gpu_is_never_whole() -> None:
    expression = LINKS_DOWN["targets"][0]["expr"]
    down, missing, whole = expression.split(" or ")
    assert down == f"({whole} > 0)"
    assert missing.endswith("> 0) * 0 - 1")
    # All GPUs of the node are counted, whichever are chosen.
    assert "$gpu" not in missing
    assert "rackwatt_node_gpus_expected" in missing
    colours = contents.colours(LINKS_DOWN["fieldConfig"]["defaults"]["mappings"])
    assert colours["a GPU is missing"] == colours["no data"] == "#808080"
    assert colours["all up"] == "#009E73"


def test_long_lists_of_nodes_have_pages() -> None:
    for title in ("Links of each node that are down", "Failed recoveries of each node's links in 10 minutes"):
        assert PANELS[title]["type"] == "status-history"
        assert PANELS[title]["options"]["perPage"] == 18


def test_nodes_stand_against_links() -> None:
    sort, matrix = MATRIX["transformations"]
    assert (sort["id"], matrix["id"]) == ("sortBy", "groupingToMatrix")
    assert (matrix["options"]["rowField"], matrix["options"]["columnField"]) == ("node", "link")
    assert matrix["options"]["emptyValue"] == "null"
    assert contents.metrics(MATRIX) == {"rackwatt_nvlink_up"}
    # 2 before 10
    assert '"link", "0$1", "link", "([0-9])"' in MATRIX["targets"][0]["expr"]


@pytest.mark.parametrize("panel", [DOWN, FAILED])
def test_links_are_named_to_the_link_and_lead_to_their_gpu(panel: contents.Json) -> None:
    assert contents.headings(panel)[:4] == ["Rack", "Node", "GPU", "Link"]
    (link,) = contents.override(panel, "GPU")["links"]
    assert link["url"].startswith("/d/rackwatt-node?${__url_time_range}&")
    assert panel["targets"][0]["expr"].startswith("topk(100, ")
    assert panel["fieldConfig"]["defaults"]["noValue"] == "none known"


def test_a_link_that_stays_down_keeps_the_failures_that_took_it_down() -> None:
    expression = FAILED["targets"][0]["expr"]
    assert "last_over_time(rackwatt_nvlink_recoveries_total{" in expression
    assert 'outcome="failed"' in expression
    assert "offset 1h" in expression


def test_the_last_hour_is_six_windows_of_ten_minutes() -> None:
    assert ERROR_WINDOW == "10m"
    assert nvlink_errors.last_hour("x") == (
        "x + (x offset 10m or x * 0) + (x offset 20m or x * 0) + (x offset 30m or x * 0)"
        " + (x offset 40m or x * 0) + (x offset 50m or x * 0)"
    )


def test_recoveries_are_bars_of_windows_that_do_not_overlap() -> None:
    panel = PANELS["Recoveries of links by outcome, in 10 minutes"]
    assert panel["fieldConfig"]["defaults"]["custom"]["drawStyle"] == "bars"
    assert panel["targets"][0]["interval"] == ERROR_WINDOW
    assert contents.metrics(panel) == {"rack_outcome:nvlink_recoveries:increase10m"}


@pytest.mark.parametrize(("kind", "threshold"), [("effective", 1e-12), ("symbol", 1.5e-237)])
def test_bit_errors_have_a_logarithmic_scale_and_the_line_of_their_check(kind: str, threshold: float) -> None:
    # DCGM: docs/checks.md
    panel = PANELS[f"Worst {kind} bit error ratios, by rack and GPU"]
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["custom"]["scaleDistribution"] == {"type": "log", "log": 10}
    assert [step["value"] for step in defaults["thresholds"]["steps"]] == [None, threshold]
    assert contents.metrics(panel) == {
        f"rack:nvlink_{kind}_ber:max",
        f"rack_node_gpu:nvlink_{kind}_ber:max",
    }


def test_imbalance_is_the_slowest_link_of_the_busiest() -> None:
    panel = PANELS["Imbalance: GPUs whose links send unequal shares"]
    assert contents.headings(panel) == [
        "Rack",
        "Node",
        "GPU",
        "Slowest of busiest",
        "Slowest link",
        "Busiest link",
        "Cluster",
    ]
    ratio = panel["targets"][0]["expr"]
    assert ratio.startswith("bottomk(20, min by (cluster, rack, node, gpu) (rate(")
    # 1 % of 25 GB/s, a link of NVLink 4
    assert ratio.endswith("[$__rate_interval])) > 250000000))")


def test_states_of_domains_are_words_and_unknown_is_grey() -> None:
    assert contents.metrics(PANELS["NVLink domains by state"]) == {
        "rack_cluster_uuid_clique_state:domain_state:max"
    }
    for title in ("State of each NVLink domain", "NVLink domains and cliques, worst first"):
        fields = PANELS[title]["fieldConfig"]
        own = contents.override(PANELS[title], "State").get("mappings", fields["defaults"]["mappings"])
        colours = contents.colours(own)
        assert set(DOMAIN_STATES) <= set(colours)
        assert colours["UNKNOWN"] == "#808080"
        assert colours["SPLIT"] == colours["UNHEALTHY"] == "#D55E00"


def test_every_state_of_the_fabric_has_its_word() -> None:
    (metric,) = (metric for metric in FABRIC if metric.name == "gpu_fabric_state")
    assert metric.codes is not None
    assert set(nvlink_fabric.FABRIC_STATES) == {word for _, word in metric.codes.values}
    panel = PANELS["Fabric state of each node"]
    assert contents.texts(panel["fieldConfig"]["defaults"]["mappings"]) == {
        "0": "COMPLETED",
        "1": "NOT SUPPORTED",
        "2": "IN PROGRESS",
        "3": "NOT STARTED",
    }


def test_single_links_are_asked_for_only_in_lists_and_maps_of_now() -> None:
    for title, panel in PANELS.items():
        if any(name.startswith("rackwatt_nvlink_") for name in contents.metrics(panel)):
            assert panel["type"] == "table", title


def test_what_is_recorded_is_not_computed_anew() -> None:
    raw = {name for panel in PANELS.values() for name in contents.metrics(panel) if ":" not in name}
    assert raw == {
        "rackwatt_gpu_fabric_condition",
        "rackwatt_gpu_fabric_state",
        "rackwatt_node_gpus_expected",
        "rackwatt_node_info",
        "rackwatt_nvlink_recoveries_total",
        "rackwatt_nvlink_transmitted_bytes_total",
        "rackwatt_nvlink_up",
    }
    recorded = {name for panel in PANELS.values() for name in contents.metrics(panel) if ":" in name}
    assert recorded <= set(RECORDED_BY_NAME)


def test_it_leads_to_rack_and_node() -> None:
    led = set().union(*(contents.targets_of(panel) for panel in PANELS.values()))
    # A domain leads to this board again, for its rack alone.
    assert led == {"rackwatt-rack", "rackwatt-node", "rackwatt-nvlink"}
