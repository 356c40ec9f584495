"""How a series gets its value from a sweep's answers, above all the sums over links."""

from __future__ import annotations

from collections import Counter

import pytest

from collector.catalog import BY_NAME
from collector.model import Value
from collector.sources.nvml.answers import Answers, Key
from collector.sources.nvml.fills import Count, MonotoneSum, Sum, coded, constant, scaled

ERRORS = BY_NAME["nvlink_errors_total"]
GPU_ERRORS = BY_NAME["gpu_nvlink_errors_total"]
TRAFFIC = BY_NAME["gpu_nvlink_transmitted_bytes_total"]
A, B, C = (208, 0), (208, 1), (208, 2)


def sweep(numbers: dict[Key, Value], failed: set[Key] | None = None) -> Answers:
    answers = Answers(Counter())
    answers.numbers = numbers
    answers.failed = failed or set()
    return answers


def test_a_number_is_converted_once() -> None:
    assert scaled(BY_NAME["gpu_power_watts"], A, 1, 1000)(sweep({A: 412_300})) == 412.3


def test_what_did_not_answer_is_absent_and_not_zero() -> None:
    assert scaled(ERRORS, A, 1, 1)(sweep({})) is None
    assert Sum(ERRORS, (A, B), 1)(sweep({})) is None
    assert Count((A, B))(sweep({})) is None
    assert MonotoneSum(GPU_ERRORS, (A, B), 1)(sweep({})) is None


def test_what_is_impossible_is_absent_and_counted_each_time() -> None:
    answers = sweep({A: 250_000_000})
    fill = scaled(BY_NAME["gpu_power_watts"], A, 1, 1000)  # 250 kW
    assert fill(answers) is None
    assert fill(answers) is None
    assert answers.errors == {"out_of_range": 2}


def test_a_sum_is_of_what_the_hardware_has() -> None:
    assert Sum(ERRORS, (A, B, C), 1)(sweep({A: 5, B: 7})) == 12
    assert Sum(TRAFFIC, (A, B), 1024)(sweep({A: 1000, B: 1})) == 1_025_024


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    assert Sum(ERRORS, (A, B), 1)(sweep({A: 5}, failed={B})) is None
    assert Sum(ERRORS, (A,), 1)(sweep({A: 5}, failed={B})) == 5


def test_a_sum_without_a_part_that_has_answered_before_is_unknown() -> None:
    fill = Sum(ERRORS, (A, B, C), 1)
    assert fill(sweep({A: 5, B: 1000})) == 1005
    assert fill(sweep({A: 5})) is None  # 5 would be a counter that ran back
    assert fill(sweep({})) is None
    assert fill(sweep({A: 6, B: 1000})) == 1006
    assert fill(sweep({A: 6, B: 1000, C: 1})) == 1007


def test_what_has_answered_before_is_taken_over() -> None:
    earlier, later = Sum(ERRORS, (A, B), 1), Sum(ERRORS, (A, B, C), 1)
    earlier(sweep({A: 5, B: 1000}))
    later.take_over(earlier)
    assert later(sweep({A: 5})) is None
    assert later(sweep({A: 6, B: 1000})) == 1006
    later.take_over(MonotoneSum(GPU_ERRORS, (A,), 1))  # of another kind: nothing


def test_a_sum_that_is_impossible_is_counted() -> None:
    answers = sweep({A: 2**64 - 1, B: 1})
    assert Sum(ERRORS, (A, B), 1)(answers) is None
    assert answers.errors == {"out_of_range": 1}


def test_links_are_counted_by_what_is_known_of_each() -> None:
    assert Count((A, B, C))(sweep({A: 1, B: 0, C: 1})) == 2
    assert Count((A, B, C))(sweep({A: 0, B: 0, C: 0})) == 0
    # A link whose state is unknown is neither up nor down, whether asking failed …
    assert Count((A, B, C))(sweep({A: 1, B: 1}, failed={C})) is None
    # … or it is silent; but one that never told a state is no link of this GPU.
    count = Count((A, B, C))
    assert [count(sweep({A: 1, B: 1})), count(sweep({A: 1, B: 0})), count(sweep({A: 1}))] == [2, 1, None]


def test_a_constant() -> None:
    assert constant(18)(sweep({})) == 18


class TestMonotoneSum:
    """A sum of counters that may restart, fail or fall silent."""

    def test_it_is_the_sum(self) -> None:
        assert MonotoneSum(TRAFFIC, (A, B), 1024)(sweep({A: 1000, B: 2000})) == 3_072_000

    def test_a_part_that_restarts_goes_on_from_what_it_had(self) -> None:
        total = MonotoneSum(GPU_ERRORS, (A, B), 1)
        assert total(sweep({A: 10, B: 5})) == 15
        assert total(sweep({A: 2, B: 6})) == 10 + 2 + 6
        assert total(sweep({A: 3, B: 1})) == 10 + 3 + 6 + 1

    def test_a_part_that_is_silent_keeps_its_count(self) -> None:
        total = MonotoneSum(GPU_ERRORS, (A, B), 1)
        assert total(sweep({A: 10, B: 5})) == 15
        assert total(sweep({B: 6})) == 16
        assert total(sweep({})) == 16
        assert total(sweep({A: 12, B: 6})) == 18

    def test_an_impossible_part_is_counted_and_spoils_nothing(self) -> None:
        total = MonotoneSum(GPU_ERRORS, (A, B), 1)
        assert total(sweep({A: 10, B: 5})) == 15
        garbage = sweep({A: 2**64 - 1, B: 6})
        assert total(garbage) == 16
        assert garbage.errors == {"out_of_range": 1}
        assert total(sweep({A: 11, B: 6})) == 17

    def test_it_takes_over_what_another_has_counted(self) -> None:
        earlier = MonotoneSum(GPU_ERRORS, (A, B), 1)
        earlier(sweep({A: 10, B: 5}))
        earlier(sweep({A: 1, B: 5}))  # 16: the ten before the restart, 1 and 5
        later = MonotoneSum(GPU_ERRORS, (B, C), 1)
        later.take_over(earlier)
        assert later(sweep({B: 6, C: 2})) == 11 + 6 + 2

    def test_it_takes_over_nothing_of_another_unit(self) -> None:
        earlier = MonotoneSum(TRAFFIC, (A,), 1024)
        earlier(sweep({A: 10}))
        later = MonotoneSum(TRAFFIC, (A,), 1)
        later.take_over(earlier)
        assert later(sweep({A: 7})) == 7


ACTION = BY_NAME["gpu_recovery_action"]
REASONS = BY_NAME["gpu_clock_event_active"]


def states(name: str, number: int) -> tuple[dict[str, Value | None], Answers]:
    metric = BY_NAME[name]
    assert metric.codes is not None
    answers = sweep({A: number})
    return {label: coded(metric, A, code)(answers) for code, label in metric.codes.values}, answers


def test_one_code_is_one_state() -> None:
    found, _ = states("gpu_recovery_action", 4)  # nvml.h: 4 drain and reset
    assert found == {
        "none": 0,
        "gpu_reset": 0,
        "node_reboot": 0,
        "drain_p2p": 0,
        "drain_and_reset": 1,
        "recover_imex_domain": 0,
        "bus_reset": 0,
        "system_reboot": 0,
    }


@pytest.mark.parametrize(
    ("state", "label"), [(0, "not_supported"), (1, "not_started"), (2, "in_progress"), (3, "completed")]
)
def test_fabric_states(state: int, label: str) -> None:
    found, _ = states("gpu_fabric_state", state)  # nvml.h: NVML_GPU_FABRIC_STATE_*
    assert [name for name, value in found.items() if value] == [label]


@pytest.mark.parametrize("code", [8, 255, 2**32 - 1])
def test_an_unknown_code_is_no_state_at_all_and_counted_once(code: int) -> None:
    found, answers = states("gpu_recovery_action", code)
    assert set(found.values()) == {None}
    assert answers.errors == {"undecodable": 1}


def test_each_bit_is_a_reason() -> None:
    found, answers = states("gpu_clock_event_active", 0x4 | 0x40 | 0x8000)  # the last is none that is known
    assert [name for name, value in found.items() if value] == ["sw_power_cap", "hw_thermal_slowdown"]
    assert len(found) == 11
    assert answers.errors == {}


def test_no_answer_is_no_state() -> None:
    assert coded(ACTION, A, 0)(sweep({})) is None
    assert coded(REASONS, A, 1)(sweep({})) is None
    with pytest.raises(TypeError, match="gpu_nvlink_errors_total has no codes"):
        coded(GPU_ERRORS, A, 0)
