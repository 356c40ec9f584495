"""Every binding of the catalogue means in the installed pynvml, and in NVIDIA's nvml.h, what it says."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pynvml
import pytest

from collector import catalog
from collector.catalog.node import READ_ERRORS
from collector.catalog.spec import (
    Binding,
    Codes,
    FieldBinding,
    GetterBinding,
    GpmBinding,
    LinkSum,
    Metric,
    Scope,
)
from collector.sources.nvml.answers import OUT_OF_RANGE, UNDECODABLE, Answers
from collector.sources.nvml.bindings import field_id
from collector.sources.nvml.getters import MAKERS
from collector.sources.nvml.library import FUNCTIONS, Handle, error_name
from tests.abi.double.build import header_directory
from tests.scripted_nvml import answer, scripted

# nvml.h 13.5: the number of each field that the catalogue names. A renumbered binding fails here.
FIELD_IDS: Final = {
    "NVML_FI_DEV_ECC_SBE_VOL_TOTAL": 3,
    "NVML_FI_DEV_ECC_DBE_VOL_TOTAL": 4,
    "NVML_FI_DEV_PERF_POLICY_POWER": 74,
    "NVML_FI_DEV_PERF_POLICY_SYNC_BOOST": 76,
    "NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT": 77,
    "NVML_FI_DEV_PERF_POLICY_RELIABILITY": 79,
    "NVML_FI_DEV_MEMORY_TEMP": 82,
    "NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 83,
    "NVML_FI_DEV_PCIE_REPLAY_COUNTER": 94,
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX": 138,
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX": 139,
    "NVML_FI_DEV_REMAPPED_COR": 142,
    "NVML_FI_DEV_REMAPPED_UNC": 143,
    "NVML_FI_DEV_REMAPPED_PENDING": 144,
    "NVML_FI_DEV_REMAPPED_FAILURE": 145,
    "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY": 161,
    "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY": 162,
    "NVML_FI_DEV_NVLINK_ERROR_DL_CRC": 163,
    "NVML_FI_DEV_NVLINK_GET_STATE": 165,
    "NVML_FI_DEV_POWER_AVERAGE": 185,
    "NVML_FI_DEV_POWER_INSTANT": 186,
    "NVML_FI_DEV_POWER_CURRENT_LIMIT": 190,
    "NVML_FI_DEV_ENERGY": 191,
    "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES": 202,
    "NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES": 204,
    "NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS": 206,
    "NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS": 207,
    "NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS": 208,
    "NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS": 209,
    "NVML_FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS": 210,
    "NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS": 211,
    "NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS": 212,
    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS": 213,
    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS": 214,
    "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER": 220,
    "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER": 222,
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": 230,
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN": 269,
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN": 270,
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN": 271,
}
GPM_IDS: Final = {
    "NVML_GPM_METRIC_SM_UTIL": 2,
    "NVML_GPM_METRIC_SM_OCCUPANCY": 3,
    "NVML_GPM_METRIC_ANY_TENSOR_UTIL": 5,
    "NVML_GPM_METRIC_DRAM_BW_UTIL": 10,
    "NVML_GPM_METRIC_PCIE_TX_PER_SEC": 20,
    "NVML_GPM_METRIC_PCIE_RX_PER_SEC": 21,
}
OLD_THERMAL_IDS: Final = {251, 252, 253}  # nvidia-ml-py 12.575.51 to 13.580.65


def every_binding() -> Iterator[tuple[Metric, Binding]]:
    for metric in catalog.ALL:
        for part in metric.parts:
            yield from ((metric, binding) for binding in part.bindings)
        if metric.codes is not None:
            yield from ((metric, binding) for binding in metric.codes.bindings)


def fields() -> list[FieldBinding]:
    found = [binding for _, binding in every_binding() if isinstance(binding, FieldBinding)]
    sums = [binding for _, binding in every_binding() if isinstance(binding, LinkSum)]
    return found + [part for binding in sums for part in binding.fields]


def getters() -> list[tuple[str, str]]:
    return sorted(
        {
            (binding.function, binding.attribute)
            for _, binding in every_binding()
            if isinstance(binding, GetterBinding)
        }
    )


@pytest.fixture(scope="module")
def header() -> str:
    return (header_directory() / "nvml.h").read_text(encoding="utf-8", errors="replace")


def test_fields_are_those_of_the_table() -> None:
    named = {binding.field for binding in fields() if isinstance(binding.field, str)}
    numbered = {binding.field for binding in fields() if isinstance(binding.field, int)}
    assert named == set(FIELD_IDS)
    assert numbered == OLD_THERMAL_IDS


@pytest.mark.parametrize(("name", "number"), FIELD_IDS.items())
def test_field_has_its_number_in_pynvml_and_in_nvml_h(name: str, number: int, header: str) -> None:
    assert field_id(FieldBinding(field=name)) == getattr(pynvml, name) == number
    assert re.search(rf"^#define\s+{name}\s+{number}\b", header, re.MULTILINE)


def test_numbered_fields_hold_for_some_drivers_only() -> None:
    for binding in fields():
        if isinstance(binding.field, int) or binding.field.startswith("NVML_FI_DEV_CLOCKS_EVENT_REASON_"):
            assert binding.drivers is not None


def test_performance_monitoring_is_that_of_the_table(header: str) -> None:
    named = {binding.metric for _, binding in every_binding() if isinstance(binding, GpmBinding)}
    assert named == set(GPM_IDS)
    for name, number in GPM_IDS.items():
        assert getattr(pynvml, name) == number
        assert re.search(rf"\b{name}\s*=\s*{number}\b", header)


@pytest.mark.parametrize(("function", "attribute"), getters())
def test_getter_can_be_called(function: str, attribute: str) -> None:
    assert function in FUNCTIONS
    library = scripted(**{function: answer(0)})
    answers = Answers(Counter())
    MAKERS[function](library, Handle(1), function, (attribute,))(answers)
    # A driver that writes nothing leaves zeros, which the fabric says to be unsupported conditions.
    if function != "nvmlDeviceGetGpuFabricInfoV" or attribute == "state":
        assert answers.numbers == {(function, attribute): 0}
    assert answers.errors == {}


def test_no_maker_is_without_a_row() -> None:
    assert set(MAKERS) == {function for function, _ in getters()}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_function_is_declared_in_nvml_h(function: str, header: str) -> None:
    declared = re.search(rf"\bnvmlReturn_t DECLDIR {function}\s*\(([^)]*)\)", header, re.MULTILINE)
    assert declared is not None
    parameters = [part.strip() for part in declared[1].split(",") if part.strip() not in ("", "void")]
    types = FUNCTIONS[function]
    assert len(types) == len(parameters)
    for text, argument in zip(parameters, types, strict=True):
        # A pointer, an opaque handle (itself a pointer in C), or a number.
        is_number = isinstance(argument, type) and issubclass(
            argument, ctypes.c_uint | ctypes.c_int | ctypes.c_ulonglong
        )
        is_address = "*" in text or re.match(r"nvml(Device|EventSet|GpmSample)_t\b", text) is not None
        assert is_number != is_address, (function, text, argument)


def test_pcie_throughput_cannot_be_called() -> None:
    # It blocks for 20 ms a direction (facts, trap T9).
    assert not any("PcieThroughput" in name for name in FUNCTIONS)


def test_nothing_that_changes_a_gpu_can_be_called() -> None:
    assert not any(re.search(r"Set(?!Create|Free|Wait)|Reset|Clear|Freeze", name) for name in FUNCTIONS)


def test_codes_are_those_of_nvml_h(header: str) -> None:
    codes = {metric.name: metric.codes for metric in catalog.ALL if metric.codes is not None}
    assert set(codes) == {"gpu_clock_event_active", "gpu_recovery_action", "gpu_fabric_state"}
    assert numbers(codes["gpu_clock_event_active"]) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert numbers(codes["gpu_recovery_action"]) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert numbers(codes["gpu_fabric_state"]) == [0, 1, 2, 3]
    for name, number in {
        "nvmlClocksEventReasonSwPowerCap": 0x4,
        "nvmlClocksEventReasonSwThermalSlowdown": 0x20,
    }.items():
        assert re.search(rf"^#define\s+{name}\s+0x0*{number:x}LL\b", header, re.MULTILINE | re.IGNORECASE)
    for name, number in {
        "NVML_GPU_RECOVERY_ACTION_NONE": 0,
        "NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET": 4,
    }.items():
        assert re.search(rf"\b{name}\s*=\s*{number}\b", header)
    assert re.search(r"^#define\s+NVML_GPU_FABRIC_STATE_COMPLETED\s+3\b", header, re.MULTILINE)


def numbers(codes: Codes) -> list[int]:
    return [number for number, _ in codes.values]


def test_scopes_are_those_of_nvml_h(header: str) -> None:
    for name, number in {"GPU": 0, "MODULE": 1, "MEMORY": 2}.items():
        assert Scope[name] == number
        assert re.search(rf"^#define\s+NVML_POWER_SCOPE_{name}\s+{number}U\b", header, re.MULTILINE)
    assert int(Scope.ALL_LINKS) == 0xFFFFFFFF  # UINT_MAX


def test_read_errors_are_a_closed_set() -> None:
    # nvml.h, nvmlReturn_t: what a read may answer besides success, and what of it says "unsupported".
    codes = [*range(1, 31), 999, 31, 12345]
    own = {OUT_OF_RANGE, UNDECODABLE, "kernel_log_overrun"}  # the last one of /dev/kmsg
    assert {error_name(code) for code in codes} | own == set(READ_ERRORS)
    assert {code: error_name(code) for code in (1, 2, 4, 9, 10, 15, 16, 17, 20, 999)} == {
        1: "uninitialized",
        2: "invalid_argument",
        4: "no_permission",
        9: "driver_not_loaded",
        10: "timeout",
        15: "gpu_is_lost",
        16: "reset_required",
        17: "operating_system",
        20: "memory",
        999: "unknown",
    }
    assert error_name(21) == "other"
