"""Queries, units, variables and links, from rows of the catalogue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collector.catalog import ALL
from collector.catalog.rack import RACK, VERDICTS
from collector.catalog.spec import Kind
from dashboards import links, queries, units, variables
from dashboards.identities import BoardId, is_uid
from dashboards.panels import palette, state_codes, state_mappings
from dashboards.queries import Not, NotRegexp, Regexp, Scope

ALL_SCOPE = Scope.of(variables.down_to(variables.GPU))
RACK_SCOPE = Scope.of(variables.down_to(variables.RACK))


def test_a_selector_matches_what_board_and_row_both_have() -> None:
    assert ALL_SCOPE.series("gpu_power_watts") == (
        'rackwatt_gpu_power_watts{cluster=~"$cluster",rack=~"$rack",node=~"$node",gpu=~"$gpu"}'
    )
    assert ALL_SCOPE.series("node_gpus_present") == (
        'rackwatt_node_gpus_present{cluster=~"$cluster",rack=~"$rack",node=~"$node"}'
    )
    assert RACK_SCOPE.series("gpu_power_watts") == (
        'rackwatt_gpu_power_watts{cluster=~"$cluster",rack=~"$rack"}'
    )


def test_a_rack_counts_once_however_often_it_is_scraped() -> None:
    assert RACK_SCOPE.series("rack_power_watts", domain="gpu") == (
        "max by (cluster, rack, domain) "
        '(rackwatt_rack_power_watts{cluster=~"$cluster",rack=~"$rack",domain="gpu"})'
    )
    assert RACK_SCOPE.rate("rack_energy_joules_total") == (
        "max by (cluster, rack, domain) "
        '(rate(rackwatt_rack_energy_joules_total{cluster=~"$cluster",rack=~"$rack"}[$__rate_interval]))'
    )
    # A node of `rack_node_state` is a label of the row; the board's variable narrows it.
    assert ALL_SCOPE.selector("rack_node_state", state="FAILED") == (
        'rackwatt_rack_node_state{cluster=~"$cluster",rack=~"$rack",node=~"$node",state="FAILED"}'
    )


def test_rises_of_counters() -> None:
    selector = 'rackwatt_gpu_energy_joules_total{cluster=~"$cluster",rack=~"$rack"}'
    assert RACK_SCOPE.rate("gpu_energy_joules_total") == f"rate({selector}[$__rate_interval])"
    assert RACK_SCOPE.increase("gpu_energy_joules_total", "1h") == f"increase({selector}[1h])"


def test_matchers_and_quoting() -> None:
    selector = RACK_SCOPE.selector(
        "gpu_xid_total", rack="r01", xid=Regexp("7[49]"), node=Not('a"b\\'), gpu=NotRegexp("[45]")
    )
    assert selector == (
        'rackwatt_gpu_xid_total{cluster=~"$cluster",rack="r01",xid=~"7[49]",node!="a\\"b\\\\",gpu!~"[45]"}'
    )


def test_a_recorded_series() -> None:
    assert RACK_SCOPE.recorded("rack:power_watts:sum", ("rack", "domain"), domain="gpu") == (
        'rack:power_watts:sum{cluster=~"$cluster",rack=~"$rack",domain="gpu"}'
    )
    assert (
        RACK_SCOPE.recorded("cluster:power_watts:sum", ()) == 'cluster:power_watts:sum{cluster=~"$cluster"}'
    )


def test_a_histogram() -> None:
    name = "llm_time_to_first_token_seconds"
    buckets = (
        "sum by (cluster, le, model) (rate(rackwatt_llm_time_to_first_token_seconds_bucket"
        '{cluster=~"$cluster",rack=~"$rack",phase="x"}[$__rate_interval]))'
    ).replace(',phase="x"', "")
    assert RACK_SCOPE.buckets(name, by=("model",)) == buckets
    assert RACK_SCOPE.quantile(0.99, name, by=("model",)) == f"histogram_quantile(0.99, {buckets})"


def test_states_as_codes() -> None:
    assert RACK_SCOPE.coded_state("rack_verdict", VERDICTS[:2], label="verdict") == (
        "max by (cluster, rack) ("
        '(rackwatt_rack_verdict{cluster=~"$cluster",rack=~"$rack",verdict="AVAILABLE"} == 1) * 0 or '
        '(rackwatt_rack_verdict{cluster=~"$cluster",rack=~"$rack",verdict="UNAVAILABLE"} == 1) * 1)'
    )
    codes = {text.value: (text.text, text.colour) for text in state_codes(VERDICTS)}
    assert codes == {
        "0": ("AVAILABLE", palette.OK),
        "1": ("UNAVAILABLE", palette.FAILED),
        "2": ("MAINTENANCE", palette.MAINTENANCE),
        "3": ("UNKNOWN", palette.UNKNOWN),
    }
    assert [text.value for text in state_mappings(("OK", "FAILED"))] == ["OK", "FAILED"]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: RACK_SCOPE.series("gpu_powr_watts"), "no row 'gpu_powr_watts'"),
        (lambda: RACK_SCOPE.series("gpu_power_watts", domain="gpu"), "gpu_power_watts has no label domain"),
        (lambda: RACK_SCOPE.rate("gpu_power_watts"), "a gauge, not a counter"),
        (lambda: RACK_SCOPE.increase("rack_verdict"), "a state, not a counter"),
        (lambda: RACK_SCOPE.series("llm_time_to_first_token_seconds"), "use buckets"),
        (lambda: RACK_SCOPE.buckets("gpu_power_watts"), "not a histogram"),
        (lambda: RACK_SCOPE.coded_state("gpu_power_watts", ("a",)), "has no states"),
        (lambda: RACK_SCOPE.coded_state("rack_verdict", VERDICTS), "has no states by a label 'state'"),
        (lambda: queries.rate_unit("gpu_power_watts"), "has no rate"),
    ],
)
def test_what_the_catalogue_does_not_have_is_refused(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ask()


def test_sums_keep_clusters_apart() -> None:
    assert queries.total("x", "rack") == "sum by (cluster, rack) (x)"
    assert queries.total("x", "cluster") == "sum by (cluster) (x)"
    assert queries.total("x") == "sum(x)"
    assert queries.largest("x", "rack") == "max by (cluster, rack) (x)"
    assert queries.smallest("x") == "min(x)"


def test_descriptions_name_their_metrics() -> None:
    assert queries.describe("node_gpus_present", note="How many are there.") == (
        "How many are there.\n\nGPUs that answer now.\n\nMetric: `rackwatt_node_gpus_present`."
    )
    assert queries.describe("gpu_up", "gpu_power_watts").endswith(
        "Metrics: `rackwatt_gpu_up`, `rackwatt_gpu_power_watts`."
    )


# Ids of Grafana's categories.ts; the catalogue's own words are the suffixes of its names.
@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("gpu_power_watts", "watt"),
        ("gpu_energy_joules_total", "joule"),
        ("gpu_memory_used_bytes", "bytes"),
        ("gpu_pcie_transmitted_bytes_per_second", "Bps"),
        ("gpu_utilization_ratio", "percentunit"),
        ("gpu_temperature_celsius", "celsius"),
        ("gpu_sm_clock_hertz", "hertz"),
        ("agent_sweep_seconds", "s"),
        ("node_gpus_present", "short"),
    ],
)
def test_units(name: str, unit: str) -> None:
    assert queries.unit(name) == unit


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("gpu_energy_joules_total", "watt"),
        ("gpu_nvlink_transmitted_bytes_total", "Bps"),
        ("rack_verdict_seconds_total", "percentunit"),
        ("llm_tokens_total", "si:tokens/s"),
        ("gpu_nvlink_errors_total", "suffix:/s"),
    ],
)
def test_units_of_rates(name: str, unit: str) -> None:
    assert queries.rate_unit(name) == unit


def test_every_row_has_a_unit() -> None:
    for row in (*ALL, *RACK):
        assert units.unit_of(row)
        if row.kind is Kind.COUNTER:
            assert units.rate_unit_of(row)


def test_fields_start_at_zero_where_nothing_is_below() -> None:
    assert queries.fields("gpu_power_watts").minimum == 0
    assert queries.fields("gpu_temperature_celsius").unit == "celsius"


def test_the_chain_of_variables() -> None:
    chain = variables.down_to(variables.GPU)
    assert [variable.name for variable in chain] == ["datasource", "cluster", "rack", "node", "gpu"]
    assert [variable.name for variable in variables.down_to(variables.CLUSTER)] == ["datasource", "cluster"]
    assert variables.NODE.query == (
        'label_values({__name__=~"rackwatt_rack_node_state|rackwatt_node_info",'
        'cluster=~"$cluster",rack=~"$rack"}, node)'
    )
    assert variables.CLUSTER.query == (
        'label_values({__name__=~"rackwatt_rack_nodes_expected|rackwatt_node_info"}, cluster)'
    )


def test_links_keep_time_and_variables() -> None:
    assert links.to_node().url == (
        "/d/rackwatt-node?${__url_time_range}&${datasource:queryparam}&${cluster:queryparam}"
        "&var-rack=${__field.labels.rack}&var-node=${__field.labels.node}"
    )
    link = links.to_board(BoardId.NVLINK, "Links", kept=("rack",), node=links.cell("node"))
    assert link.url == (
        "/d/rackwatt-nvlink?${__url_time_range}&${datasource:queryparam}&${cluster:queryparam}"
        '&${rack:queryparam}&var-node=${__data.fields["node"]}'
    )
    assert links.to_gpu().title == "node and GPU of this GPU"
    assert links.to_rack(BoardId.EFFICIENCY).url.endswith("&var-rack=${__field.labels.rack}")
    with pytest.raises(ValueError, match="kept and set"):
        links.to_board(BoardId.NODE, "x", kept=("rack",), rack="r01")


def test_uids() -> None:
    assert [board.uid for board in BoardId] == [
        "rackwatt-fleet",
        "rackwatt-rack",
        "rackwatt-tokens",
        "rackwatt-nvlink",
        "rackwatt-node",
    ]
    assert all(is_uid(board.uid) and board.title for board in BoardId)
    assert not is_uid("rackwatt-" + "x" * 32)
