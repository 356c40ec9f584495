"""Every check of a GPU and of a node: below, at and above its threshold, and with its value missing."""

from __future__ import annotations

import pytest

from collector.catalog import series_per_gpu
from collector.catalog.checks import CHECK_BY_ID, CHECKS, GPU_CHECKS, NODE_CHECKS
from collector.catalog.spec import Level
from collector.health.checks import GPU_JUDGES, NODE_JUDGES
from collector.health.evaluate import Checker
from collector.health.states import Impact
from collector.model import Value
from tests.health_cells import HEALTHY, Node, Place

LEVELS: dict[str, tuple[Place, Value, Value, Value]] = {
    # check: place, a value that passes, the value at the threshold, one that fails
    "gpu_ecc_corrected": (("gpu_ecc_corrected_total",), 19_999_999, 20_000_000, 20_000_001),
    "gpu_rows_remapped": (("gpu_rows_remapped_total", "uncorrectable"), 511, 512, 513),
    "nvlink_effective_ber": (("nvlink_effective_ber_ratio", "1"), 9e-13, 1e-12, 2e-12),
    "nvlink_symbol_ber": (("nvlink_symbol_ber_ratio", "1"), 0.0, 15e-238, 2e-237),
    "gpu_temperature_margin": (("gpu_temperature_margin_celsius",), 6.0, 5.0, 4.0),
    "gpu_memory_temperature": (("gpu_memory_temperature_celsius",), 94.0, 95.0, 96.0),
}
FAILS_AT = {"gpu_rows_remapped"}
"""DCGM warns at 512 rows; the other limits may be reached."""


@pytest.mark.parametrize("check", LEVELS)
def test_a_level_below_at_and_beyond_its_threshold(check: str) -> None:
    place, passing, at, failing = LEVELS[check]
    for value, failed in ((passing, False), (at, check in FAILS_AT), (failing, True)):
        node = Node()
        node.gpus[0][place] = value
        node.evaluate()
        result = node.result(check)
        assert node.exported(check) == int(failed), value
        if failed:
            assert result is not None
            assert (result.failed, result.value) == (True, value)
        else:
            assert result is None


FLAGS: dict[str, Place] = {
    "gpu_row_remap_pending": ("gpu_row_remap_pending",),
    "gpu_row_remap_failure": ("gpu_row_remap_failure",),
    "gpu_fabric_unhealthy": ("gpu_fabric_condition", "route_unhealthy"),
    "gpu_fabric_degraded": ("gpu_fabric_condition", "degraded_bandwidth"),
}


@pytest.mark.parametrize(
    ("check", "place"),
    [
        *FLAGS.items(),
        ("gpu_fabric_unhealthy", ("gpu_fabric_condition", "incorrect_configuration")),
        ("gpu_fabric_degraded", ("gpu_fabric_condition", "route_recovery")),
        ("gpu_fabric_degraded", ("gpu_fabric_condition", "access_timeout")),
    ],
)
def test_a_flag_fails_while_it_is_up(check: str, place: Place) -> None:
    node = Node()
    for value, exported in ((0, 0), (1, 1), (0, 0)):
        node.gpus[0][place] = value
        node.evaluate()
        assert node.exported(check) == exported
        assert (node.result(check) is not None) == bool(exported)


@pytest.mark.parametrize(
    ("action", "reset", "drain", "words"),
    [
        ("none", 0, 0, ""),
        ("drain_p2p", 0, 1, "place no new job here; when the running ones have ended, reset the GPU"),
        ("gpu_reset", 1, 0, "reset the GPU"),
        ("node_reboot", 1, 0, "reboot the node"),
    ],
)
def test_what_the_driver_asks_for(action: str, reset: int, drain: int, words: str) -> None:
    node = Node()
    node.gpus[0] |= {("gpu_recovery_action", "none"): 0, ("gpu_recovery_action", action): 1}
    node.evaluate()
    assert (node.exported("gpu_recovery_action"), node.exported("gpu_drain_p2p")) == (reset, drain)
    results = [each.action for each in node.results]
    assert results == ([words] if words else [])


def test_a_lost_gpu_fails_and_its_other_checks_are_not_evaluated() -> None:
    node = Node.of(2)
    node.gpus[1] = {("gpu_up",): 0}
    node.node["node_gpus_present"] = 1
    node.evaluate()
    assert node.exported("gpu_lost", 1) == 1
    assert node.exported("gpu_lost", 0) == 0
    assert node.exported("gpu_row_remap_pending", 1) is None
    assert [(each.check, each.gpu) for each in node.results] == [("gpu_lost", "1"), ("node_gpus_missing", "")]


@pytest.mark.parametrize(("up", "missing", "down"), [(2, 0, 0), (1, 1, 0), (0, 1, 1)])
def test_links_that_are_up(up: int, missing: int, down: int) -> None:
    node = Node()
    node.gpus[0] |= {
        ("gpu_nvlinks_up",): up,
        ("nvlink_up", "1"): int(up > 1),
        ("nvlink_up", "0"): int(up > 0),
    }
    node.evaluate()
    assert node.exported("gpu_nvlinks_missing") == missing
    assert node.exported("gpu_nvlinks_all_down") == down


def test_the_reason_names_the_links() -> None:
    node = Node()
    node.gpus[0] |= {("gpu_nvlinks_up",): 1, ("nvlink_up", "1"): 0}
    result = node.evaluate().result("gpu_nvlinks_missing")
    assert result is not None
    assert (result.impact, result.value, result.threshold) == ("avoid", 1, 2)
    assert result.reason == "1 of 2 NVLinks are up: link 1 down"


def test_a_link_that_is_down_counts_nothing_and_spoils_nothing() -> None:
    node = Node()
    down = {place: None for place in HEALTHY if place[0].startswith("nvlink_") and place[1] == "1"}
    node.gpus[0] |= {**down, ("nvlink_up", "1"): 0, ("gpu_nvlinks_up",): 1}
    node.evaluate()
    assert node.exported("nvlink_effective_ber") == 0
    assert node.exported("nvlink_recovery_failed") == 0


@pytest.mark.parametrize(
    ("state", "seconds", "status"),
    [
        ("completed", 0, "passed"),
        ("not_supported", 0, "passed"),  # HGX: no rack-wide fabric (CONTRACTS §3)
        ("in_progress", 0, "unknown"),
        ("in_progress", 299, "unknown"),
        ("in_progress", 300, "failed"),
        ("not_started", 299, "unknown"),
        ("not_started", 300, "failed"),
    ],
)
def test_the_fabric_has_five_minutes(state: str, seconds: float, status: str) -> None:
    node = Node()
    node.gpus[0] |= {("gpu_fabric_state", "completed"): 0, ("gpu_fabric_state", state): 1}
    node.evaluate()
    begun_ns = node.now_ns
    node.evaluate(seconds)
    result = node.result("gpu_fabric_state")
    assert node.exported("gpu_fabric_state") == {"passed": 0, "failed": 1, "unknown": None}[status]
    if result is not None:
        assert (result.failed, result.since_ns) == (status == "failed", begun_ns)


def test_the_fabric_waits_anew_after_it_was_complete() -> None:
    node = Node()
    waiting: dict[Place, Value] = {
        ("gpu_fabric_state", "completed"): 0,
        ("gpu_fabric_state", "in_progress"): 1,
    }
    complete: dict[Place, Value] = {
        ("gpu_fabric_state", "completed"): 1,
        ("gpu_fabric_state", "in_progress"): 0,
    }
    for values, seconds in ((waiting, 1), (waiting, 200), (complete, 1), (waiting, 200), (waiting, 200)):
        node.gpus[0] |= values
        node.evaluate(seconds)
    assert node.exported("gpu_fabric_state") is None


@pytest.mark.parametrize(
    ("own", "peer", "utilization", "failed"),
    [
        ((16, 5), (16, 5), 0.9, False),
        ((8, 5), (16, 5), 0.9, True),
        ((8, 5), (16, 5), 0.0, True),  # lanes do not rest
        ((16, 4), (16, 5), 0.9, True),
        ((16, 4), (16, 5), 0.1, True),
        ((16, 4), (16, 5), 0.09, False),  # at rest a link may slow down
        ((16, 5), (16, 4), 0.9, False),
    ],
)
def test_the_pcie_link_beside_its_peers(
    own: tuple[int, int], peer: tuple[int, int], utilization: float, failed: bool
) -> None:
    node = Node.of(2)
    for gpu, (width, generation) in zip(node.gpus, (own, peer), strict=True):
        gpu |= {("gpu_pcie_width_lanes",): width, ("gpu_pcie_generation",): generation}
    node.gpus[0][("gpu_utilization_ratio",)] = utilization
    node.evaluate()
    assert node.exported("gpu_pcie_link") == int(failed)


def test_a_slow_pcie_link_stays_failed_at_rest_and_passes_at_speed() -> None:
    node = Node.of(2)
    node.gpus[0][("gpu_pcie_generation",)] = 4
    assert node.evaluate().exported("gpu_pcie_link") == 1
    node.gpus[0][("gpu_utilization_ratio",)] = 0.0
    assert node.evaluate().exported("gpu_pcie_link") == 1
    node.gpus[0][("gpu_pcie_generation",)] = 5
    assert node.evaluate().exported("gpu_pcie_link") == 0


def test_peers_of_another_product_are_no_measure() -> None:
    node = Node.of(2)
    node.gpus[0][("gpu_pcie_width_lanes",)] = 8
    node.texts[1]["name"] = "NVIDIA L4"
    assert node.evaluate().exported("gpu_pcie_link") == 0


def test_gpus_that_are_missing() -> None:
    node = Node.of(2)
    for present, exported in ((2, 0), (1, 1), (3, 0)):
        node.node["node_gpus_present"] = present
        assert node.evaluate().exported("node_gpus_missing", None) == exported
    node.node["node_gpus_expected"] = None  # the platform is not known
    assert node.evaluate().exported("node_gpus_missing", None) is None
    assert node.result("node_gpus_missing", None) is None


def test_persistence_mode() -> None:
    node = Node.of(2)
    assert node.evaluate().exported("node_persistence_mode", None) == 0
    node.texts[1]["persistence_mode"] = "disabled"
    result = node.evaluate().result("node_persistence_mode", None)
    assert result is not None
    assert result.reason == "persistence mode is off on GPU 1"
    assert result.impact == "warn"
    for texts in node.texts:
        texts["persistence_mode"] = ""
    assert node.evaluate().exported("node_persistence_mode", None) is None
    assert node.result("node_persistence_mode", None) is None


MISSING: dict[str, tuple[Place, ...]] = {
    "gpu_lost": (("gpu_up",),),
    "gpu_recovery_action": (("gpu_recovery_action", "none"),),
    "gpu_drain_p2p": (("gpu_recovery_action", "none"),),
    "gpu_ecc_uncorrected": (("gpu_ecc_uncorrected_total",),),
    "gpu_nvlinks_missing": (("gpu_nvlinks_up",), ("gpu_nvlinks_expected",)),
    "gpu_nvlinks_all_down": (("gpu_nvlinks_up",), ("gpu_nvlinks_expected",)),
    "nvlink_recovery_failed": (("nvlink_recoveries_total", "0", "failed"),),
    "nvlink_errors": (("gpu_nvlink_errors_total",),),
    "gpu_fabric_state": (("gpu_fabric_state", "completed"),),
    "gpu_clock_events": (("gpu_clock_event_active", "hw_slowdown"),),
    "gpu_pcie_link": (("gpu_pcie_width_lanes",), ("gpu_pcie_generation",)),
    "gpu_pcie_replays": (("gpu_pcie_replays_total",),),
    **{check: (row[0],) for check, row in LEVELS.items()},
    **{check: (place,) for check, place in FLAGS.items()},
}
"""Of each check, values without any of which it cannot be evaluated."""


@pytest.mark.parametrize(
    ("check", "place"), [(check, place) for check, places in MISSING.items() for place in places]
)
def test_a_missing_value_is_unknown_and_no_pass(check: str, place: Place) -> None:
    node = Node()
    node.gpus[0][place] = None
    node.evaluate()
    result = node.result(check)
    assert result is not None
    assert not result.failed
    assert node.exported(check) is None
    assert "could not be read" in result.reason
    assert result.action == "run `rackwatt check` on the node: it says what cannot be read, and why"


def test_missing_values_are_known_of_every_check_that_is_judged_by_values() -> None:
    by_events = {"gpu_xid_fatal", "gpu_xid_repeated"}
    assert set(MISSING) | by_events == {check.id for check in GPU_CHECKS}


@pytest.mark.parametrize("check", [check.id for check in GPU_CHECKS if not check.id.startswith("gpu_xid")])
def test_what_is_not_supported_is_absent(check: str) -> None:
    node = Node()
    unwanted = {metric for metric in CHECK_BY_ID[check].metrics if metric != "gpu_up"}
    node.gpus[0] = {place: value for place, value in HEALTHY.items() if place[0] not in unwanted}
    node.evaluate()
    assert node.result(check) is None
    if check != "gpu_lost":
        assert node.exported(check) is None


def test_a_healthy_gpu_passes_every_check() -> None:
    node = Node().evaluate()
    assert node.results == ()
    assert {node.exported(check.id) for check in GPU_CHECKS} == {0}
    assert {node.exported(check.id, None) for check in NODE_CHECKS} == {0}


def test_while_nothing_is_read_every_gpu_is_unknown_with_the_reason() -> None:
    node = Node.of(2)
    node.evaluate(down="the driver is not loaded")
    told = [(each.check, each.gpu, each.failed, each.reason) for each in node.results]
    assert told == [
        ("gpu_lost", "0", False, "the driver is not loaded"),
        ("gpu_lost", "1", False, "the driver is not loaded"),
        ("node_gpus_missing", "", False, "the driver is not loaded"),
    ]
    assert {node.exported(check.id, 1) for check in GPU_CHECKS} == {None}
    assert {node.exported(check.id, None) for check in NODE_CHECKS} == {None}


def test_since_is_kept_while_it_lasts_and_over_a_time_without_values() -> None:
    node = Node()
    pending = ("gpu_row_remap_pending",)
    node.gpus[0][pending] = 1
    begun_ns = node.evaluate().now_ns
    node.evaluate(60)
    node.evaluate(60, down="released")
    node.gpus[0][pending] = None
    unknown_ns = node.evaluate(60).now_ns
    result = node.result("gpu_row_remap_pending")
    assert result is not None
    assert (result.failed, result.since_ns) == (False, unknown_ns)
    node.gpus[0][pending] = 1
    result = node.evaluate(60).result("gpu_row_remap_pending")
    assert result is not None
    assert (result.failed, result.since_ns) == (True, begun_ns)
    node.gpus[0][pending] = 0
    assert node.evaluate(60).result("gpu_row_remap_pending") is None
    node.gpus[0][pending] = 1
    result = node.evaluate(60).result("gpu_row_remap_pending")
    assert result is not None
    assert result.since_ns == node.now_ns


def test_a_threshold_of_the_configuration_counts() -> None:
    node = Node(checker=Checker({"gpu_temperature_margin": 41}))
    result = node.evaluate().result("gpu_temperature_margin")
    assert result is not None
    assert (result.value, result.threshold) == (40.0, 41)


def test_gpus_that_are_not_known_any_more_are_forgotten() -> None:
    node = Node.of(2)
    node.gpus[1][("gpu_row_remap_pending",)] = 1
    node.evaluate()
    node.gpus.pop()
    node.texts.pop()
    node.evaluate()
    assert list(node.checker._memories) == ["GPU-0"]
    assert {key[0] for key in node.checker._standings} == {"", "GPU-0"}


# The rows themselves.


def test_every_row_has_a_judge_and_every_judge_a_row() -> None:
    assert set(GPU_JUDGES) == {check.id for check in GPU_CHECKS}
    assert set(NODE_JUDGES) == {check.id for check in NODE_CHECKS}


def test_the_series_of_a_gpu_stay_within_their_budget() -> None:
    assert len(GPU_CHECKS) <= 24  # CONTRACTS §2
    assert series_per_gpu(Level.CORE, 18) <= 70  # CONTRACTS §2


def test_impacts_are_those_of_the_agreement() -> None:
    impacts = {check.id: check.impact for check in CHECKS}
    # CONTRACTS §3: clock events, thermal margin and PCIe width are warn.
    for check in ("gpu_clock_events", "gpu_temperature_margin", "gpu_pcie_link"):
        assert impacts[check] == "warn"
    # facts/rack.md §3: links missing take the GPU out; none up, recovery failed, remap failure fail it.
    assert impacts["gpu_nvlinks_missing"] == "avoid"
    for check in ("gpu_nvlinks_all_down", "nvlink_recovery_failed", "gpu_row_remap_failure", "gpu_xid_fatal"):
        assert impacts[check] == "fail"
    assert set(impacts.values()) <= {impact.value for impact in Impact}


@pytest.mark.parametrize("check", [check.id for check in CHECKS])
def test_a_row_says_what_it_must(check: str) -> None:
    row = CHECK_BY_ID[check]
    assert row.id.startswith(("gpu_", "nvlink_", "node_"))
    assert row.help
    assert row.action
    assert row.source
    assert (row.threshold is None) == (row.unit == "")
    if row.threshold is not None:
        assert row.lowest <= row.threshold <= row.highest
