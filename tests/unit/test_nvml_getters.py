"""Functions with an answer of their own: what each is asked, and what is taken from its answer."""

from __future__ import annotations

from collections import Counter

import pytest

from collector.catalog import BY_NAME
from collector.catalog.spec import GetterBinding
from collector.model import Value
from collector.sources.nvml.answers import Answers
from collector.sources.nvml.decode import to_unit
from collector.sources.nvml.getters import MAKERS
from collector.sources.nvml.library import GpuLostError, Handle
from tests.scripted_nvml import Function, answer, fills, number, scripted, target

HANDLE = Handle(0x6400)


def ask(function: str, script: Function, *attributes: str) -> Answers:
    answers = Answers(Counter())
    MAKERS[function](scripted(**{function: script}), HANDLE, function, attributes)(answers)
    return answers


def value_of(metric_name: str, answers: Answers) -> Value | None:
    """Convert what a metric's first getter brought, by the factors of the catalogue."""
    metric = BY_NAME[metric_name]
    binding = metric.parts[0].bindings[0]
    assert isinstance(binding, GetterBinding)
    read = answers.numbers[binding.function, binding.attribute]
    return to_unit(read, metric, binding.multiply, binding.divide)


def test_utilization() -> None:
    answers = ask("nvmlDeviceGetUtilizationRates", fills(gpu=73, memory=41), "gpu")
    assert answers.numbers == {("nvmlDeviceGetUtilizationRates", "gpu"): 73}
    assert value_of("gpu_utilization_ratio", answers) == 0.73


def test_memory_is_asked_in_version_2() -> None:
    asked: list[int] = []

    def script(_handle: object, reference: object) -> int:
        memory = target(reference)
        asked.append(memory.version)
        # GB300 as captured: 284208 MiB in all, 947 MiB reserved; 1 GiB used.
        memory.total, memory.reserved = 298_013_687_808, 993_001_472
        memory.used, memory.free = 2**30, 295_946_944_512
        return 0

    answers = ask("nvmlDeviceGetMemoryInfo_v2", script, "total", "used", "free", "reserved")
    assert asked == [0x02000028]  # nvml.h: nvmlMemory_v2 is 40 bytes, version 2
    assert value_of("gpu_memory_total_bytes", answers) == 298_013_687_808
    assert value_of("gpu_memory_used_bytes", answers) == 1_073_741_824
    assert value_of("gpu_memory_free_bytes", answers) == 295_946_944_512
    assert value_of("gpu_memory_reserved_bytes", answers) == 993_001_472


def test_memory_that_is_not_available_is_nothing() -> None:
    answers = ask("nvmlDeviceGetMemoryInfo_v2", fills(total=2**64 - 1), "total")
    assert value_of("gpu_memory_total_bytes", answers) is None


def test_clocks_are_told_apart_by_their_number() -> None:
    def script(_handle: object, clock: int, reference: object) -> int:
        target(reference).value = {1: 1605, 2: 2619}[clock]  # nvml.h: NVML_CLOCK_SM 1, NVML_CLOCK_MEM 2
        return 0

    answers = ask("nvmlDeviceGetClockInfo", script, "NVML_CLOCK_SM", "NVML_CLOCK_MEM")
    assert value_of("gpu_sm_clock_hertz", answers) == 1_605_000_000
    assert value_of("gpu_memory_clock_hertz", answers) == 2_619_000_000


def test_one_clock_that_fails_costs_that_clock() -> None:
    def script(_handle: object, clock: int, reference: object) -> int:
        target(reference).value = 1605
        return 0 if clock == 1 else 999

    answers = ask("nvmlDeviceGetClockInfo", script, "NVML_CLOCK_SM", "NVML_CLOCK_MEM")
    assert answers.numbers == {("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"): 1605}
    assert answers.errors == {"unknown": 1}


def test_temperature_is_asked_in_version_1_of_the_gpu_sensor() -> None:
    asked: list[tuple[int, int]] = []

    def script(_handle: object, reference: object) -> int:
        asked.append((target(reference).version, target(reference).sensorType))
        target(reference).temperature = 61
        return 0

    answers = ask("nvmlDeviceGetTemperatureV", script, "NVML_TEMPERATURE_GPU")
    assert asked == [(0x0100000C, 0)]  # nvml.h: 12 bytes, version 1; NVML_TEMPERATURE_GPU 0
    assert value_of("gpu_temperature_celsius", answers) == 61.0


def test_temperature_of_older_drivers() -> None:
    answers = ask("nvmlDeviceGetTemperature", number(58), "NVML_TEMPERATURE_GPU")
    assert answers.numbers == {("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"): 58}


@pytest.mark.parametrize(("margin", "celsius"), [(49, 49.0), (0, 0.0), (-3, -3.0)])
def test_margin_is_signed(margin: int, celsius: float) -> None:
    def script(_handle: object, reference: object) -> int:
        assert target(reference).version == 0x01000008  # nvml.h: 8 bytes, version 1
        target(reference).marginTemperature = margin
        return 0

    assert (
        value_of("gpu_temperature_margin_celsius", ask("nvmlDeviceGetMarginTemperature", script, "margin"))
        == celsius
    )


def test_clock_event_reasons() -> None:
    answers = ask("nvmlDeviceGetCurrentClocksEventReasons", number(0x44), "mask")
    assert answers.numbers == {("nvmlDeviceGetCurrentClocksEventReasons", "mask"): 0x44}


def test_time_of_a_policy_is_its_violation_time() -> None:
    def script(_handle: object, policy: int, reference: object) -> int:
        assert policy == 1  # nvml.h: NVML_PERF_POLICY_THERMAL
        target(reference).referenceTime = 1_764_505_200_000_000  # µs since 1970
        target(reference).violationTime = 2_500_000_000  # ns
        return 0

    answers = ask("nvmlDeviceGetViolationStatus", script, "NVML_PERF_POLICY_THERMAL")
    assert answers.numbers == {("nvmlDeviceGetViolationStatus", "NVML_PERF_POLICY_THERMAL"): 2_500_000_000}


@pytest.mark.parametrize(
    ("code", "count"), [(0, 0), (7, 5)]
)  # success; insufficient size, and how many there are
def test_processes_are_counted_without_room_for_any(code: int, count: int) -> None:
    rooms: list[int] = []

    def script(_handle: object, reference: object, infos: object) -> int:
        rooms.append(target(reference).value)
        assert infos is None
        target(reference).value = count
        return code

    answers = Answers(Counter())
    function = "nvmlDeviceGetComputeRunningProcesses_v3"
    call = MAKERS[function](scripted(**{function: script}), HANDLE, function, ("count",))
    call(answers)
    call(answers)
    assert answers.numbers == {(function, "count"): count}
    assert rooms == [0, 0]  # the number is an input, too


def fabric(state: int, mask: int, *, known_version: int = 0x03000028) -> Function:
    """Answer as a driver that knows one version of the structure and writes one byte of state."""

    def script(_handle: object, reference: object) -> int:
        info = target(reference)
        if info.version != known_version:
            return 25  # NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        info.state = state
        info.healthMask = mask
        return 0

    return script


FABRIC = "nvmlDeviceGetGpuFabricInfoV"
CONDITIONS = (
    "degraded_bandwidth",
    "route_recovery",
    "route_unhealthy",
    "access_timeout",
    "incorrect_configuration",
)


def test_fabric_state_is_one_byte_whatever_stands_behind_it() -> None:
    # In C the state is an unsigned char; the compiler's padding is not zero.
    answers = ask(FABRIC, fabric(0xA5C37E03, 0x1AA), "state", *CONDITIONS)
    assert answers.numbers == {(FABRIC, "state"): 3} | {(FABRIC, name): 0 for name in CONDITIONS}


def test_fabric_of_a_driver_that_knows_version_2_alone() -> None:
    # nvml.h: version 2 is 36 bytes, the beginning of version 3's 40.
    answers = ask(FABRIC, fabric(3, 0x1A9, known_version=0x02000024), "state", *CONDITIONS)
    assert answers.numbers[FABRIC, "state"] == 3
    assert answers.numbers[FABRIC, "degraded_bandwidth"] == 1
    assert answers.errors == {}


def test_fabric_version_is_settled_by_the_first_answer() -> None:
    versions: list[int] = []

    def script(_handle: object, reference: object) -> int:
        versions.append(target(reference).version)
        return 25 if versions[-1] != 0x02000024 else 0

    call = MAKERS[FABRIC](scripted(**{FABRIC: script}), HANDLE, FABRIC, ("state",))
    call(Answers(Counter()))
    call(Answers(Counter()))
    assert versions == [0x03000028, 0x02000024, 0x02000024]


def test_fabric_condition_without_meaning_is_counted() -> None:
    answers = ask(FABRIC, fabric(3, 0x1AB), "state", *CONDITIONS)
    assert (FABRIC, "degraded_bandwidth") not in answers.numbers
    assert answers.errors == {"undecodable": 1}


def test_fabric_that_fails_leaves_each_of_its_values_unknown() -> None:
    answers = ask(FABRIC, answer(10), "state", *CONDITIONS)
    assert answers.numbers == {}
    assert answers.failed == {(FABRIC, name) for name in ("state", *CONDITIONS)}


@pytest.mark.parametrize(
    ("function", "attribute"),
    [
        ("nvmlDeviceGetUtilizationRates", "gpu"),
        ("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
        ("nvmlDeviceGetCurrPcieLinkWidth", "value"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "count"),
        (FABRIC, "state"),
    ],
)
class TestFailures:
    """What every function does when it fails."""

    def test_missing_symbol_is_unsupported(self, function: str, attribute: str) -> None:
        answers = Answers(Counter())
        MAKERS[function](scripted(), HANDLE, function, (attribute,))(answers)
        assert (answers.numbers, answers.errors, answers.failed) == ({}, {}, set())

    def test_failure_is_counted_and_says_nothing_of_support(self, function: str, attribute: str) -> None:
        answers = ask(function, answer(999), attribute)
        assert (answers.numbers, answers.errors) == ({}, {"unknown": 1})
        assert answers.failed == {(function, attribute)}

    def test_lost_gpu_is_raised(self, function: str, attribute: str) -> None:
        with pytest.raises(GpuLostError):
            ask(function, answer(15), attribute)
