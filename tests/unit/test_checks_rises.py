"""Checks that look back: growth of counters, clock events, Xids."""

from __future__ import annotations

import pytest

from collector.health.evaluate import Checker
from collector.health.rises import Rise
from collector.health.xid_memory import SeenXid
from collector.health.xids import Severity, XidOverride, load_catalogue
from tests.health_cells import SECOND_NS, Node, Place, uuid

RISES: dict[str, tuple[Place, int, int]] = {
    # check: counter, growth that passes, growth that fails
    "gpu_ecc_uncorrected": (("gpu_ecc_uncorrected_total",), 0, 1),
    "nvlink_errors": (("gpu_nvlink_errors_total",), 0, 1),
    "nvlink_recovery_failed": (("nvlink_recoveries_total", "1", "failed"), 0, 1),
    "gpu_pcie_replays": (("gpu_pcie_replays_total",), 31, 32),  # DCGM: above 31 a minute
}
WINDOWS = {"gpu_pcie_replays": 60.0}


@pytest.mark.parametrize("check", RISES)
def test_growth_below_and_at_what_fails(check: str) -> None:
    place, passing, failing = RISES[check]
    for growth, exported in ((passing, 0), (failing, 1)):
        node = Node()
        node.gpus[0][place] = 100
        assert node.evaluate().exported(check) == 0  # what was there before is no growth
        node.gpus[0][place] = 100 + growth
        assert node.evaluate().exported(check) == exported
        result = node.result(check)
        if result is not None:
            assert (result.value, result.since_ns) == (growth, node.now_ns)


@pytest.mark.parametrize("check", RISES)
def test_growth_counts_until_its_window_is_clean(check: str) -> None:
    place, _, failing = RISES[check]
    window = WINDOWS.get(check, 600.0)
    node = Node()
    node.evaluate()
    node.gpus[0][place] = failing
    node.evaluate()
    assert node.evaluate(window - 1).exported(check) == 1
    assert node.evaluate(1).exported(check) == 0


@pytest.mark.parametrize("check", RISES)
def test_a_value_that_disappears_is_no_cure(check: str) -> None:
    place, _, failing = RISES[check]
    node = Node()
    node.evaluate()
    node.gpus[0][place] = failing
    node.evaluate()
    node.gpus[0][place] = None
    assert node.evaluate(86_400).exported(check) == 1
    node.gpus[0][place] = failing
    assert node.evaluate(1).exported(check) == 0


def test_the_reason_of_a_failed_recovery_names_its_link() -> None:
    node = Node()
    node.evaluate()
    node.gpus[0][("nvlink_recoveries_total", "1", "failed")] = 1
    result = node.evaluate().result("nvlink_recovery_failed")
    assert result is not None
    assert result.reason == "1 recoveries failed within 10 minutes on link 1"
    assert result.action == "reset the GPU; if it comes again, look at cable, connector and peer"


def test_the_reason_of_link_errors_names_the_links_where_they_are_read() -> None:
    node = Node()
    node.evaluate()
    node.gpus[0] |= {("gpu_nvlink_errors_total",): 7, ("nvlink_errors_total", "0"): 7}
    result = node.evaluate().result("nvlink_errors")
    assert result is not None
    assert result.reason == "NVLinks counted 7 errors within 10 minutes on link 0"


def test_a_counter_that_fell_began_anew() -> None:
    rise = Rise()
    for second, value in enumerate((5, 9, 2, 2, None, 3)):
        rise.read(value, second * SECOND_NS)
    assert rise.within(100) == 7  # 4 to nine, 2 from zero, 1 to three
    assert rise.within(1) == 1


def test_growth_is_never_forgotten_too_early_however_often_it_grows() -> None:
    rise = Rise()
    for second in range(1000):
        rise.read(second, second * SECOND_NS)
    assert rise.within(10_000) == 999
    assert len(rise._steps) == 64


def test_clock_events_count_minutes() -> None:
    # gpud: 0.6 events a minute over 10 minutes.
    node = Node()
    slow = ("gpu_clock_event_active", "hw_thermal_slowdown")
    for minute in range(10):
        node.gpus[0][slow] = int(minute < 5)
        node.evaluate(60)
    assert node.exported("gpu_clock_events") == 0  # 5 of 10 minutes
    node = Node()
    for minute in range(10):
        node.gpus[0][slow] = int(minute < 6)
        node.evaluate(60)
    result = node.result("gpu_clock_events")
    assert result is not None
    assert (result.value, result.threshold, result.impact) == (0.6, 0.6, "warn")
    assert result.reason == "hardware held the clocks down in 6 of the last 10 minutes"
    node.evaluate(60)
    assert node.exported("gpu_clock_events") == 0


def test_many_clock_events_within_a_minute_are_one() -> None:
    node = Node()
    for second in range(120):
        node.gpus[0][("gpu_clock_event_active", "hw_power_brake")] = second % 2
        node.evaluate(0.4)
    assert node.exported("gpu_clock_events") == 0


def test_other_reasons_for_low_clocks_do_not_count() -> None:
    node = Node()
    for _ in range(20):
        node.gpus[0] |= {
            ("gpu_clock_event_active", "sw_power_cap"): 1,
            ("gpu_clock_event_active", "gpu_idle"): 1,
        }
        node.evaluate(60)
    assert node.exported("gpu_clock_events") == 0


# Xids.


def see(
    node: Node, code: int, severity: Severity, gpu: int = 0, *, ago: float = 0.0, link: int | None = None
) -> None:
    time_ns = node.now_ns - int(ago * SECOND_NS)
    node.checker.see_xid(uuid(gpu), SeenXid(time_ns, code, severity, link=link))


def test_a_fatal_xid_fails_its_gpu_with_the_catalogue_s_action() -> None:
    node = Node.of(2)
    node.evaluate()
    see(node, 79, "fatal")
    at_ns = node.now_ns
    node.evaluate()
    result = node.result("gpu_xid_fatal")
    assert result is not None
    assert (result.value, result.impact, result.since_ns) == (79, "fail", at_ns)
    assert result.reason == "Xid 79: GPU has fallen off the bus"
    assert result.action == "reboot the node; then ask NVIDIA's support"
    assert node.exported("gpu_xid_fatal", 1) == 0


@pytest.mark.parametrize("severity", ["warn", "app", "info"])
def test_any_other_xid_changes_no_state(severity: Severity) -> None:
    node = Node()
    see(node, 13, severity)
    assert node.evaluate().results == ()


def test_a_fatal_xid_is_cured_by_ten_clean_minutes_while_the_driver_asks_for_nothing() -> None:
    node = Node()
    see(node, 95, "fatal")
    assert node.evaluate(599).exported("gpu_xid_fatal") == 1
    assert node.evaluate(1).exported("gpu_xid_fatal") == 0
    assert node.evaluate().exported("gpu_xid_fatal") == 0


@pytest.mark.parametrize("none", [0, None])
def test_it_is_not_while_the_driver_asks_for_something_or_does_not_say(none: int | None) -> None:
    node = Node()
    node.gpus[0][("gpu_recovery_action", "none")] = none
    see(node, 95, "fatal")
    assert node.evaluate(86_400).exported("gpu_xid_fatal") == 1


def test_it_is_not_where_the_driver_cannot_say() -> None:
    node = Node()
    node.gpus[0] = {
        place: value for place, value in node.gpus[0].items() if place[0] != "gpu_recovery_action"
    }
    see(node, 74, "fatal")
    assert node.evaluate(90_000).exported("gpu_xid_fatal") == 1


def test_a_reset_or_driver_load_cures_as_its_energy_counter_begins_anew() -> None:
    node = Node()
    node.evaluate()
    see(node, 95, "fatal")
    assert node.evaluate().exported("gpu_xid_fatal") == 1
    node.gpus[0][("gpu_energy_joules_total",)] = 3.0  # it stood at 1000
    assert node.evaluate().exported("gpu_xid_fatal") == 0


def test_a_gpu_that_is_back_is_cured() -> None:
    node = Node()
    see(node, 79, "fatal")
    node.evaluate()
    node.checker.see_return(uuid(0))
    assert node.evaluate().exported("gpu_xid_fatal") == 0


def test_the_newest_fatal_xid_is_named_and_the_first_one_says_since_when() -> None:
    node = Node()
    see(node, 95, "fatal", ago=30)
    see(node, 119, "fatal", ago=10)
    see(node, 48, "fatal", ago=20)
    first_ns = node.now_ns - 30 * SECOND_NS
    result = node.evaluate().result("gpu_xid_fatal")
    assert result is not None
    assert (result.value, result.since_ns) == (119, first_ns)


def test_a_fatal_xid_holds_while_nothing_is_read_and_none_is_no_pass() -> None:
    node = Node.of(2)
    see(node, 119, "fatal")
    node.evaluate(down="a call hangs")
    assert node.exported("gpu_xid_fatal", 0) == 1
    assert node.exported("gpu_xid_fatal", 1) is None


def times(node: Node, code: int, severity: Severity, count: int, gpu: int = 0, apart: float = 120) -> None:
    for number in range(count):
        see(node, code, severity, gpu, ago=number * apart)


@pytest.mark.parametrize(
    ("code", "severity", "count", "failed"),
    [
        (31, "app", 1, False),
        (31, "app", 2, True),  # NVSentinel: twice on the same GPU
        (13, "app", 4, False),
        (13, "app", 5, True),
        (94, "warn", 4, False),
        (94, "warn", 5, True),  # NVSentinel: the same Xid 5 times in 24 hours
        (45, "app", 50, False),  # it follows on others
        (154, "info", 50, False),
    ],
)
def test_repetition_on_one_gpu(code: int, severity: Severity, count: int, failed: bool) -> None:
    node = Node.of(2)
    times(node, code, severity, count)
    node.evaluate()
    assert node.exported("gpu_xid_repeated", 0) == int(failed)
    assert node.exported("gpu_xid_repeated", 1) == 0
    result = node.result("gpu_xid_repeated")
    assert (result is not None and result.value == count) == failed


def test_an_application_s_xid_on_several_gpus_is_the_application_s() -> None:
    node = Node.of(2)
    times(node, 31, "app", 2, gpu=0)
    times(node, 31, "app", 1, gpu=1)
    node.evaluate()
    assert node.exported("gpu_xid_repeated", 0) == 0


def test_one_of_the_hardware_on_several_gpus_counts_on_each() -> None:
    node = Node.of(2)
    times(node, 94, "warn", 5, gpu=0)
    times(node, 94, "warn", 5, gpu=1)
    node.evaluate()
    assert [node.exported("gpu_xid_repeated", gpu) for gpu in (0, 1)] == [1, 1]


def test_a_burst_is_one_time() -> None:
    node = Node()
    times(node, 31, "app", 30, apart=59)
    assert node.evaluate().exported("gpu_xid_repeated") == 0


def test_what_is_older_than_a_day_does_not_count() -> None:
    node = Node()
    see(node, 31, "app", ago=86_399)
    see(node, 31, "app", ago=86_401)
    assert node.evaluate(0).exported("gpu_xid_repeated") == 0


def test_a_repetition_of_the_configuration_counts() -> None:
    catalogue = load_catalogue().overridden({94: XidOverride(repeat=2), 31: XidOverride(repeat=0)})
    node = Node(checker=Checker({"gpu_xid_repeated": 3}, catalogue))
    times(node, 31, "app", 9)
    assert node.evaluate().exported("gpu_xid_repeated") == 0
    times(node, 13, "app", 2)
    assert node.evaluate().exported("gpu_xid_repeated") == 0
    times(node, 94, "warn", 2)
    result = node.evaluate().result("gpu_xid_repeated")
    assert result is not None
    assert result.reason == "Xid 94 (Contained ECC error) came 2 times within 24 hours"


def test_a_flood_of_xids_is_bounded() -> None:
    node = Node()
    times(node, 94, "warn", 10_000, apart=0)
    node.evaluate()
    assert len(node.checker._memories[uuid(0)].xids._seen) == 256
