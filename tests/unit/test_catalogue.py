"""The catalogue holds the rows of the agreed metric table, under their names, kinds and labels."""

from __future__ import annotations

import re
from typing import Final

import pytest

from collector import catalog
from collector.catalog.rack import RACK
from collector.catalog.spec import DriverRange, Entity, Kind, Level, Metric, Unit, ValueType

# Metric, kind, labels beyond rack and node; values of the last label where the table names them.
# Source: the agreed metric table (CONTRACTS §2); kinds g gauge, c counter, s state, i info, h histogram.
GPU: Final = "gpu gpu_uuid"
LINK: Final = "gpu gpu_uuid link"
ENDPOINT: Final = "endpoint engine role"
LLM: Final = "endpoint engine model role"
SCRAPE_ERRORS: Final = "connection drained_json malformed status timeout too_large unrecognized"
REASONS: Final = (
    "gpu_idle applications_clocks sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown "
    "hw_thermal_slowdown hw_power_brake display_clocks board_limit reliability"  # nvmlClocksEventReason*
)
TIMED_REASONS: Final = (
    "sw_power_cap sync_boost board_limit reliability sw_thermal_slowdown hw_thermal_slowdown hw_power_brake"
)
GPU_INFO: Final = (
    "name serial board_part vbios inforom pci_bus_id module slot tray host chassis_serial cluster_uuid "
    "clique architecture ecc_mode mig_mode persistence_mode"
)
NODE_INFO: Final = "hostname boot_id platform driver_version cuda_version kernel agent_version simulated"
ACTIONS: Final = (
    "none gpu_reset node_reboot drain_p2p drain_and_reset recover_imex_domain bus_reset system_reboot"
)
CONDITIONS: Final = "degraded_bandwidth route_recovery route_unhealthy access_timeout incorrect_configuration"
ERRORS: Final = (
    "driver_not_loaded gpu_is_lost invalid_argument kernel_log_overrun memory no_permission "
    "operating_system out_of_range reset_required timeout undecodable uninitialized unknown other"
)
INFLUXDB_ERRORS: Final = (
    "certificate forbidden not_found other overloaded redirected refused_lines server_error timeout "
    "too_large unauthorized unreachable"
)
# The ids that configuration, alerts and the rack service know.
GPU_CHECKS: Final = (
    "gpu_lost gpu_recovery_action gpu_drain_p2p gpu_ecc_uncorrected gpu_ecc_corrected gpu_row_remap_pending "
    "gpu_row_remap_failure gpu_rows_remapped gpu_nvlinks_missing gpu_nvlinks_all_down nvlink_recovery_failed "
    "nvlink_errors nvlink_symbol_ber nvlink_effective_ber gpu_fabric_state gpu_fabric_unhealthy "
    "gpu_fabric_degraded gpu_clock_events gpu_temperature_margin gpu_memory_temperature gpu_pcie_link "
    "gpu_pcie_replays gpu_xid_fatal gpu_xid_repeated"
)

CORE: Final = {
    "rackwatt_gpu_up": ("g", GPU, ""),
    "rackwatt_gpu_info": ("i", f"{GPU} {GPU_INFO}", ""),
    "rackwatt_gpu_utilization_ratio": ("g", GPU, ""),
    "rackwatt_gpu_memory_total_bytes": ("g", GPU, ""),
    "rackwatt_gpu_memory_used_bytes": ("g", GPU, ""),
    "rackwatt_gpu_memory_free_bytes": ("g", GPU, ""),
    "rackwatt_gpu_memory_reserved_bytes": ("g", GPU, ""),
    "rackwatt_gpu_power_watts": ("g", GPU, ""),
    "rackwatt_gpu_power_limit_watts": ("g", GPU, ""),
    "rackwatt_gpu_energy_joules_total": ("c", GPU, ""),
    "rackwatt_gpu_sm_clock_hertz": ("g", GPU, ""),
    "rackwatt_gpu_memory_clock_hertz": ("g", GPU, ""),
    "rackwatt_gpu_temperature_celsius": ("g", GPU, ""),
    "rackwatt_gpu_memory_temperature_celsius": ("g", GPU, ""),
    "rackwatt_gpu_temperature_margin_celsius": ("g", GPU, ""),
    "rackwatt_gpu_ecc_corrected_total": ("c", GPU, ""),
    "rackwatt_gpu_ecc_uncorrected_total": ("c", GPU, ""),
    "rackwatt_gpu_row_remap_pending": ("g", GPU, ""),
    "rackwatt_gpu_row_remap_failure": ("g", GPU, ""),
    "rackwatt_gpu_rows_remapped_total": ("c", f"{GPU} cause", "correctable uncorrectable"),
    "rackwatt_gpu_xid_total": ("c", f"{GPU} xid", ""),
    "rackwatt_gpu_xid_last_seen_timestamp_seconds": ("g", f"{GPU} xid", ""),
    "rackwatt_gpu_recovery_action": ("s", f"{GPU} action", ACTIONS),
    "rackwatt_gpu_fabric_state": ("s", f"{GPU} state", "not_supported not_started in_progress completed"),
    "rackwatt_gpu_fabric_condition": ("g", f"{GPU} condition", CONDITIONS),
    "rackwatt_gpu_nvlinks_up": ("g", GPU, ""),
    "rackwatt_gpu_nvlinks_expected": ("g", GPU, ""),
    "rackwatt_gpu_nvlink_transmitted_bytes_total": ("c", GPU, ""),
    "rackwatt_gpu_nvlink_received_bytes_total": ("c", GPU, ""),
    "rackwatt_gpu_nvlink_errors_total": ("c", GPU, ""),
    "rackwatt_module_power_watts": ("g", "module", ""),
    "rackwatt_module_energy_joules_total": ("c", "module", ""),
    "rackwatt_llm_up": ("g", ENDPOINT, ""),
    "rackwatt_llm_tokens_total": ("c", f"{LLM} phase", "prompt generation"),
    "rackwatt_llm_requests_running": ("g", LLM, ""),
    "rackwatt_llm_requests_waiting": ("g", LLM, ""),
    "rackwatt_llm_kv_cache_usage_ratio": ("g", LLM, ""),
    "rackwatt_llm_prefix_cache_query_tokens_total": ("c", LLM, ""),
    "rackwatt_llm_prefix_cache_hit_tokens_total": ("c", LLM, ""),
    # Beyond the table: the GPUs of an endpoint, how its scrapes go, how far an integral may be off.
    "rackwatt_llm_gpu_info": ("i", f"{ENDPOINT} gpu", ""),
    "rackwatt_llm_scrape_seconds": ("g", ENDPOINT, ""),
    "rackwatt_llm_tokens_at_finish": ("g", ENDPOINT, ""),
    "rackwatt_llm_scrape_errors_total": ("c", f"{ENDPOINT} error", SCRAPE_ERRORS),
    "rackwatt_module_energy_error_joules_total": ("c", "module", ""),
    "rackwatt_node_info": ("i", NODE_INFO, ""),
    "rackwatt_node_gpus_expected": ("g", "", ""),
    "rackwatt_node_gpus_present": ("g", "", ""),
    "rackwatt_gpu_check_failed": ("s", f"{GPU} check impact", GPU_CHECKS),
    "rackwatt_node_check_failed": ("s", "check impact", "node_gpus_missing node_persistence_mode"),
    "rackwatt_agent_nvml_up": ("g", "", ""),
    "rackwatt_agent_sample_age_seconds": ("g", "cadence", "fast links slow"),
    "rackwatt_agent_sweep_seconds": ("g", "cadence", "fast links slow"),
    "rackwatt_agent_reader_restarts_total": ("c", "", ""),
    "rackwatt_agent_read_errors_total": ("c", "error", ERRORS),
    "rackwatt_agent_nvml_calls_total": ("c", "", ""),
    # Beyond the table: how writing to InfluxDB goes, where it is configured.
    "rackwatt_agent_influxdb_sender_state": ("s", "state", "idle sending backing_off held"),
    "rackwatt_agent_influxdb_spool_records": ("g", "", ""),
    "rackwatt_agent_influxdb_spool_points": ("g", "", ""),
    "rackwatt_agent_influxdb_spool_bytes": ("g", "", ""),
    "rackwatt_agent_influxdb_spool_age_seconds": ("g", "", ""),
    "rackwatt_agent_influxdb_points_written_total": ("c", "", ""),
    "rackwatt_agent_influxdb_points_rejected_total": ("c", "cause", "refused server_error too_large"),
    "rackwatt_agent_influxdb_points_dropped_total": ("c", "cause", "age disk size"),
    "rackwatt_agent_influxdb_points_damaged_total": ("c", "", ""),
    "rackwatt_agent_influxdb_requests_total": ("c", "", ""),
    "rackwatt_agent_influxdb_request_errors_total": ("c", "error", INFLUXDB_ERRORS),
    "rackwatt_agent_influxdb_spool_write_errors_total": ("c", "", ""),
    "rackwatt_agent_influxdb_last_success_timestamp_seconds": ("g", "", ""),
}
STANDARD: Final = {
    "rackwatt_gpu_clock_event_active": ("s", f"{GPU} reason", REASONS),
    "rackwatt_gpu_clock_event_seconds_total": ("c", f"{GPU} reason", TIMED_REASONS),
    "rackwatt_gpu_sm_active_ratio": ("g", GPU, ""),
    "rackwatt_gpu_sm_occupancy_ratio": ("g", GPU, ""),
    "rackwatt_gpu_tensor_active_ratio": ("g", GPU, ""),
    "rackwatt_gpu_memory_bandwidth_ratio": ("g", GPU, ""),
    "rackwatt_gpu_pcie_transmitted_bytes_per_second": ("g", GPU, ""),
    "rackwatt_gpu_pcie_received_bytes_per_second": ("g", GPU, ""),
    "rackwatt_gpu_memory_power_watts": ("g", GPU, ""),
    "rackwatt_gpu_pcie_generation": ("g", GPU, ""),
    "rackwatt_gpu_pcie_width_lanes": ("g", GPU, ""),
    "rackwatt_gpu_pcie_replays_total": ("c", GPU, ""),
    "rackwatt_gpu_processes": ("g", GPU, ""),
    "rackwatt_nvlink_up": ("g", LINK, ""),
    "rackwatt_nvlink_transmitted_bytes_total": ("c", LINK, ""),
    "rackwatt_nvlink_received_bytes_total": ("c", LINK, ""),
    "rackwatt_nvlink_errors_total": ("c", LINK, ""),
    "rackwatt_nvlink_recoveries_total": ("c", f"{LINK} outcome", "succeeded failed"),
    "rackwatt_nvlink_effective_ber_ratio": ("g", LINK, ""),
    "rackwatt_nvlink_symbol_ber_ratio": ("g", LINK, ""),
    "rackwatt_llm_time_to_first_token_seconds": ("h", LLM, ""),
    "rackwatt_llm_inter_token_latency_seconds": ("h", LLM, ""),
    "rackwatt_llm_request_duration_seconds": ("h", LLM, ""),
    # Beyond the table: the power of Grace, for the split.
    "rackwatt_cpu_power_watts": ("g", "socket", ""),
    "rackwatt_cpu_cores_power_watts": ("g", "socket", ""),
    "rackwatt_cpu_sysio_power_watts": ("g", "socket", ""),
}
DOMAINS: Final = "gpu module rack_input cpu"
RACK_EFFICIENCY: Final = {
    "rackwatt_rack_energy_joules_total": ("c", "rack domain", DOMAINS),
    "rackwatt_rack_power_watts": ("g", "rack domain", DOMAINS),
    "rackwatt_rack_energy_coverage_ratio": ("g", "rack domain", DOMAINS),
    "rackwatt_rack_llm_endpoints_expected": ("g", "rack", ""),
    "rackwatt_rack_llm_endpoints_up": ("g", "rack", ""),
    "rackwatt_rack_gpu_hour_usd": ("g", "rack", ""),
    "rackwatt_rack_electricity_usd_per_kwh": ("g", "rack", ""),
    "rackwatt_rack_pue_ratio": ("g", "rack", ""),
    # Beyond the table: how far the energy may be off, what was spent idle, and what was made of it.
    "rackwatt_rack_energy_error_joules_total": ("c", "rack domain", DOMAINS),
    "rackwatt_rack_idle_energy_joules_total": ("c", "rack domain", DOMAINS),
    "rackwatt_rack_llm_tokens_total": ("c", "rack model phase", ""),
    # Beyond it, too: what PromQL needs to say the same as REST of budgets and costs.
    "rackwatt_rack_slo_ratio": ("g", "rack", ""),
    "rackwatt_rack_gpu_hour_includes_energy": ("s", "rack", ""),
}
KINDS: Final = {
    "g": Kind.GAUGE,
    "c": Kind.COUNTER,
    "s": Kind.STATE,
    "i": Kind.INFO,
    "h": Kind.HISTOGRAM,
}
EVERY_ROW: Final = [
    *((Level.CORE, row) for row in CORE.items()),
    *((Level.STANDARD, row) for row in STANDARD.items()),
]

# What a name may end in; short forms and prefixed units never appear in one.
UNIT_WORDS: Final = {
    Unit.BYTES: "bytes",
    Unit.BYTES_PER_SECOND: "bytes_per_second",
    Unit.CELSIUS: "celsius",
    Unit.HERTZ: "hertz",
    Unit.JOULES: "joules",
    Unit.LANES: "lanes",
    Unit.RATIO: "ratio",
    Unit.SECONDS: "seconds",
    Unit.WATTS: "watts",
}
SHORT_UNITS: Final = re.compile(
    r"(^|_)(w|mw|kw|j|mj|kwh|hz|mhz|ghz|b|kb|mb|gb|kib|mib|gib|bps|s|ms|us|ns|sec|secs|c|degc|deg|temp|pct|"
    r"percent|percentage|mem|util|volts?|milli\w*|kilo\w*|mega\w*)(_|$)"
)


def row(exposed: str) -> Metric:
    return catalog.BY_NAME[exposed.removeprefix("rackwatt_")]


@pytest.mark.parametrize(
    ("level", "name", "kind", "labels", "values"),
    [(level, name, *rest) for level, (name, rest) in EVERY_ROW],
    ids=[name for _, (name, _) in EVERY_ROW],
)
def test_row_is_as_agreed(level: Level, name: str, kind: str, labels: str, values: str) -> None:
    metric = row(name)
    assert metric.exposed_name == name
    assert metric.kind is KINDS[kind]
    assert metric.label_names == tuple(labels.split())
    assert metric.level is level
    if values:
        assert metric.label_values == tuple(values.split())


@pytest.mark.parametrize(
    ("name", "kind", "labels", "values"),
    [(name, *rest) for name, rest in RACK_EFFICIENCY.items()],
    ids=list(RACK_EFFICIENCY),
)
def test_row_of_a_rack_is_as_agreed(name: str, kind: str, labels: str, values: str) -> None:
    (metric,) = (metric for metric in RACK if metric.exposed_name == name)
    assert metric.kind is KINDS[kind]
    assert metric.label_names == tuple(labels.split())
    if values:
        assert metric.label_values == tuple(values.split())


def test_nothing_is_exported_at_standard_beyond_the_table() -> None:
    assert {metric.exposed_name for metric in catalog.at_level(Level.CORE)} == set(CORE)
    assert {metric.exposed_name for metric in catalog.at_level(Level.STANDARD)} == {*CORE, *STANDARD}


def test_core_series_of_a_gpu() -> None:
    # Table: 24 numbers and info, rows remapped 2, recovery action 8, fabric state 4, conditions 5, checks 24.
    assert catalog.series_per_gpu(Level.CORE, 18) == 43 + 24 == 67
    # The budget is 70, of which 24 are the GPU's checks.
    assert catalog.series_per_gpu(Level.CORE, 18) <= 70


def test_standard_series_of_a_gpu() -> None:
    # 67 core, clock events 11 and 7, 6 of performance monitoring, 5 numbers, and 8 for each of 18 links.
    assert catalog.series_per_gpu(Level.STANDARD, 18) == 67 + 18 + 6 + 5 + 8 * 18 == 240
    assert catalog.series_per_gpu(Level.STANDARD, 18) <= 300


def test_rows_of_full_detail_stay_within_no_other_level() -> None:
    assert catalog.at_level(Level.FULL) == catalog.ALL
    assert len(catalog.BY_NAME) == len(catalog.ALL)


@pytest.mark.parametrize("metric", catalog.ALL, ids=lambda metric: metric.name)
def test_name_ends_in_its_unit_and_its_kind(metric: Metric) -> None:
    name = metric.name
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)
    assert name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert name.endswith("_info") == (metric.kind is Kind.INFO)
    stem = name.removesuffix("_total")
    if metric.unit is not Unit.NONE:
        assert metric.unit.value == UNIT_WORDS[metric.unit]
        assert stem.endswith("_" + UNIT_WORDS[metric.unit])
    else:
        assert not stem.endswith(tuple("_" + word for word in UNIT_WORDS.values()))
    assert SHORT_UNITS.search(name) is None


@pytest.mark.parametrize("metric", catalog.ALL, ids=lambda metric: metric.name)
def test_help_is_one_sentence(metric: Metric) -> None:
    assert metric.help.isprintable()
    assert metric.help.endswith(".")
    assert re.search(r"[.!?]\s", metric.help) is None
    assert 15 <= len(metric.help) <= 170
    assert metric.help[0].isupper() or metric.help[0].isdigit()


@pytest.mark.parametrize("metric", catalog.ALL, ids=lambda metric: metric.name)
def test_range_and_type_fit(metric: Metric) -> None:
    assert metric.minimum < metric.maximum
    if metric.unit in (Unit.WATTS, Unit.JOULES, Unit.CELSIUS, Unit.RATIO, Unit.SECONDS):
        assert metric.value_type is ValueType.FLOAT
    if metric.kind in (Kind.STATE, Kind.INFO):
        assert (metric.value_type, metric.minimum, metric.maximum) == (ValueType.INT, 0, 1)
    if metric.kind in (Kind.COUNTER, Kind.HISTOGRAM):
        assert metric.minimum == 0


@pytest.mark.parametrize("metric", catalog.ALL, ids=lambda metric: metric.name)
def test_a_histogram_has_a_unit_and_no_label_of_its_own(metric: Metric) -> None:
    # Prometheus keeps `le` for buckets, and its names `_bucket`, `_sum` and `_count` for their series.
    assert "le" not in metric.label_names
    assert not metric.name.endswith(("_bucket", "_sum", "_count"))
    if metric.kind is Kind.HISTOGRAM:
        assert metric.unit is not Unit.NONE
        assert (metric.label, metric.info_labels, metric.codes) == (None, (), None)


@pytest.mark.parametrize("metric", catalog.ALL, ids=lambda metric: metric.name)
def test_labels_are_names_and_their_values_differ(metric: Metric) -> None:
    assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in metric.label_names)
    assert len(set(metric.label_names)) == len(metric.label_names)
    assert "rack" not in metric.label_names
    assert "node" not in metric.label_names
    assert len(set(metric.label_values)) == len(metric.label_values)
    assert all(re.fullmatch(r"[a-z0-9_]*", value) for value in metric.label_values)


def test_entities_are_labelled_as_agreed() -> None:
    # CONTRACTS §1.
    assert {entity: " ".join(entity.keys) for entity in Entity} == {
        Entity.NODE: "",
        Entity.AGENT: "",
        Entity.GPU: "gpu gpu_uuid",
        Entity.NVLINK: "gpu gpu_uuid link",
        Entity.MODULE: "module",
        Entity.CPU: "socket",
        Entity.LLM_ENDPOINT: "endpoint engine role",
        Entity.LLM: "endpoint engine model role",
        Entity.RACK: "rack",
    }


@pytest.mark.parametrize(
    ("version", "before", "since"),
    [
        # nvidia-ml-py releases: thermal times are 251 to 253 from 12.575.51 to 13.580.65, then 269 to 271.
        ((570, 211, 1), False, False),
        ((575, 51, 2), True, False),
        ((575, 57, 8), True, False),
        ((580, 65, 6), True, False),  # 65 is before 82: numbers, not text, and not decimals
        ((580, 82, 7), False, True),
        ((580, 105, 8), False, True),  # 105 is after 82, though "105" sorts before "82"
        ((580, 173, 2), False, True),
        ((590, 48, 1), False, True),
        ((), False, False),
    ],
)
def test_driver_ranges(version: tuple[int, ...], before: bool, since: bool) -> None:
    assert DriverRange(since=(575, 51), before=(580, 82)).contains(version) is before
    assert DriverRange(since=(580, 82)).contains(version) is since
