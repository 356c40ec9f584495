"""Field values: what each platform and driver answers, called as a ctypes library is."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from collector import profiles
from collector.errors import ConfigurationError
from collector.simulator import Fault, FaultKind, ManualClock, Return, SimulatedNode, ValueType
from collector.simulator.driver import parse_driver
from collector.simulator.field_values import FIELD_VALUE_BYTES

ALL_LINKS = 0xFFFFFFFF
NVL72 = ("gb300-nvl72", "gb200-nvl72")
HGX = ("hgx-b200", "hgx-h200", "hgx-h100")
HOPPER = ("hgx-h200", "hgx-h100")
BLACKWELL = ("gb300-nvl72", "gb200-nvl72", "hgx-b200")


class Probe:
    """A node, the handle of its first GPU, and its clock."""

    def __init__(self, name: str, **arguments: Any) -> None:
        self.clock = ManualClock()
        self.node = SimulatedNode(
            profiles.load(name),
            clock=self.clock,
            sleep=self.clock.sleep,
            wall_clock_ns=lambda: 0,
            **arguments,
        )
        self.gpu = self.node.gpus[0]
        self.handle = ctypes.c_void_p()
        assert self.node.library.nvmlInit_v2() == 0
        assert self.node.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0

    def read(self, *requests: tuple[int, int]) -> Any:
        values = (pynvml.c_nvmlFieldValue_t * len(requests))()
        for value, (field_id, scope_id) in zip(values, requests, strict=True):
            value.fieldId, value.scopeId = field_id, scope_id
        assert self.node.library.nvmlDeviceGetFieldValues(self.handle, len(requests), values) == 0
        return values

    def value(self, field_id: int, scope_id: int = 0) -> Any:
        (answer,) = self.read((field_id, scope_id))
        assert answer.nvmlReturn == 0, f"field {field_id} scope {scope_id}: {answer.nvmlReturn}"
        return {
            ValueType.DOUBLE: answer.value.dVal,
            ValueType.UNSIGNED_INT: answer.value.uiVal,
            ValueType.UNSIGNED_LONG_LONG: answer.value.ullVal,
            ValueType.SIGNED_INT: answer.value.siVal,
        }[ValueType(answer.valueType)]

    def code(self, field_id: int, scope_id: int = 0) -> int:
        (answer,) = self.read((field_id, scope_id))
        return int(answer.nvmlReturn)


def test_the_layout_is_that_of_pynvml() -> None:
    assert ctypes.sizeof(pynvml.c_nvmlFieldValue_t) == FIELD_VALUE_BYTES


def test_energy_is_in_millijoules() -> None:
    probe = Probe("hgx-h100")
    probe.clock.advance(5)
    truth = probe.gpu.energy_joules(probe.clock())
    assert probe.value(83) == int(truth * 1000)
    assert probe.value(191, 0) == int(truth * 1000)


@pytest.mark.parametrize("name", NVL72)
def test_module_scope_of_superchips(name: str) -> None:
    probe = Probe(name, workload="idle")
    profile = profiles.load(name)
    assert profile.module is not None
    # The captures' idle module power.
    assert probe.value(185, 1) == pytest.approx(profile.module.idle_watts * 1000, rel=0.01)
    assert probe.value(186, 1) == pytest.approx(profile.module.idle_watts * 1000, rel=0.01)
    assert probe.value(189, 1) == profile.module.power_limit_watts * 1000
    assert probe.value(187, 1) == 500_000  # captures: 500 W minimum
    before = probe.value(191, 1)
    probe.clock.advance(100)
    watts = (probe.value(191, 1) - before) / 1000 / 100
    assert watts == pytest.approx(profile.module.idle_watts, rel=0.01)


def test_both_gpus_of_a_module_report_the_same_module() -> None:
    probe = Probe("gb300-nvl72")
    probe.clock.advance(3.14)
    handle = ctypes.c_void_p()
    readings = []
    for index in range(4):
        probe.node.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        probe.handle = handle
        readings.append((probe.value(185, 1), probe.value(191, 1)))
    assert readings[0] == readings[1]
    assert readings[2] == readings[3]
    assert readings[0] != readings[2]


@pytest.mark.parametrize("name", HGX)
def test_hgx_has_no_module_scope(name: str) -> None:
    probe = Probe(name)
    assert [probe.code(field_id, 1) for field_id in (185, 186, 187, 188, 189, 190, 191, 192)] == [3] * 8


def test_power_scopes() -> None:
    probe = Probe("hgx-h100", workload="idle")
    assert probe.value(185, 0) == pytest.approx(69_000, rel=0.01)  # 67 to 71 W in the capture
    assert probe.value(186, 0) == pytest.approx(69_000, rel=0.01)
    assert probe.value(185, 2) == 39_500  # 33 to 46 W, middle
    assert probe.code(186, 2) == Return.NOT_SUPPORTED  # "N/A" in every capture
    assert [probe.value(field_id) for field_id in (187, 188, 189, 190, 192)] == [
        200_000,
        700_000,
        700_000,
        700_000,
        700_000,
    ]


def test_average_is_the_mean_of_the_last_second() -> None:
    probe = Probe("hgx-h100", workload="prefill")
    probe.clock.set(7.0)
    before = probe.gpu.energy_joules(7.0)
    probe.clock.set(8.0)
    mean_watts = probe.gpu.energy_joules(8.0) - before
    assert probe.value(185) == pytest.approx(mean_watts * 1000, abs=1)
    assert probe.value(186) == round(probe.gpu.power_watts(8.0) * 1000)


@pytest.mark.parametrize("name", profiles.names())
def test_throughput_is_in_kib_by_link_and_in_sum(name: str) -> None:
    probe = Probe(name)
    probe.clock.advance(30)
    now = probe.clock()
    assert probe.value(138, 3) == probe.gpu.nvlink_transmitted_bytes(now, 3) // 1024
    assert probe.value(139, 3) == probe.gpu.nvlink_received_bytes(now, 3) // 1024
    assert probe.value(138, ALL_LINKS) == probe.gpu.nvlink_transmitted_bytes(now) // 1024
    assert probe.value(139, ALL_LINKS) == probe.gpu.nvlink_received_bytes(now) // 1024
    assert probe.value(138, 3) != probe.value(139, 3)
    # Overhead: 53125 MB/s signalled over 50000 MB/s of data, and 26562 over 25000.
    assert probe.value(140, 3) / probe.value(138, 3) == pytest.approx(1.0625, abs=1e-4)


@pytest.mark.parametrize("name", BLACKWELL)
def test_nvlink5_counters_are_bytes_and_packets(name: str) -> None:
    probe = Probe(name)
    probe.clock.advance(30)
    now = probe.clock()
    assert probe.value(202, 17) == probe.gpu.nvlink_transmitted_bytes(now, 17)
    assert probe.value(204, 17) == probe.gpu.nvlink_received_bytes(now, 17)
    assert 0 < probe.value(201, 17) < probe.value(202, 17)
    assert 0 < probe.value(203, 17) < probe.value(204, 17)
    assert [probe.value(field_id, 0) for field_id in (*range(206, 216), 219)] == [0] * 11
    # Only the throughput fields sum over links (nvml.h).
    assert probe.code(202, ALL_LINKS) == Return.INVALID_ARGUMENT
    # Legacy errors are unsupported from Blackwell on (nvml.h); field 90 is dead (datadog-agent 46530).
    assert [probe.code(field_id) for field_id in (90, 161, 162, 163)] == [3] * 4
    assert probe.value(164, 0) == 53125
    assert probe.value(166, 0) == pynvml.NVML_NVLINK_VERSION_5_0


@pytest.mark.parametrize("name", HOPPER)
def test_nvlink4_counters(name: str) -> None:
    probe = Probe(name)
    fields = (*range(201, 205), *range(206, 216), 219, 220, 221, 222, *range(235, 251))
    assert [probe.code(field_id, 0) for field_id in fields] == [3] * len(fields)
    assert [probe.value(field_id, 17) for field_id in (161, 162, 163)] == [0, 0, 0]
    # Totals over lanes succeed with nothing in them (datadog-agent 55966).
    assert [probe.value(field_id) for field_id in (38, 45, 52, 59)] == [0, 0, 0, 0]
    assert probe.value(164, 0) == 26562
    assert probe.value(166, 0) == pynvml.NVML_NVLINK_VERSION_4_0


@pytest.mark.parametrize("name", profiles.names())
def test_links_beyond_18_are_invalid(name: str) -> None:
    probe = Probe(name)
    assert probe.value(91) == 18
    for field_id in (138, 139, 140, 141, 164, 165, 166):
        assert probe.code(field_id, 17) == 0
        assert probe.code(field_id, 18) == Return.INVALID_ARGUMENT
        assert probe.code(field_id, 35) == Return.INVALID_ARGUMENT


def test_bit_error_ratios_are_packed() -> None:
    probe = Probe("gb300-nvl72")
    assert probe.value(220, 0) == 0xFFF  # mantissa 15, exponent 255: zero (nvml.h)
    assert probe.value(222, 0) == 0xFFF  # DCGM fails a link above 15e-238
    probe.gpu.pin_field(222, 4, 3 << 8 | 12)
    assert probe.value(222, 4) == 0x30C


def test_a_pinned_field_reads_as_pinned() -> None:
    probe = Probe("hgx-h100")
    probe.gpu.pin_field(138, 2, 1000)
    # 1000 KiB are 1,024,000 bytes: the unit of field 138 (nvml.h).
    assert probe.value(138, 2) * 1024 == 1_024_000
    assert probe.value(138, 3) != 1000
    probe.gpu.pin_field(83, 0, None, code=999)
    assert probe.code(83) == 999
    probe.gpu.unpin_field(83, 0)
    assert probe.code(83) == 0
    probe.gpu.pin_power(412_300)
    assert probe.value(185) == probe.value(186) == 412_300
    probe.gpu.pin_field(700, 0, 2**63, value_type=ValueType.UNSIGNED_LONG_LONG)
    assert probe.value(700) == 2**63


def test_only_the_width_of_the_type_is_written() -> None:
    probe = Probe("hgx-h100")
    values = (pynvml.c_nvmlFieldValue_t * 2)()
    for value, field_id in zip(values, (193, 186), strict=True):
        value.fieldId = field_id
        value.value.ullVal = 0xABCD_EF01_2345_6789
    assert (
        probe.node.library.nvmlDeviceGetFieldValues(probe.handle, ctypes.c_int(2), ctypes.byref(values)) == 0
    )
    assert values[0].value.siVal == -8  # shutdown margin of the capture
    assert [value.value.ullVal >> 32 for value in values] == [0xABCD_EF01, 0xABCD_EF01]


def test_a_refused_field_leaves_its_value_alone() -> None:
    probe = Probe("hgx-h100")
    values = (pynvml.c_nvmlFieldValue_t * 1)()
    values[0].fieldId, values[0].scopeId = 185, 1
    values[0].value.ullVal = 77
    probe.node.library.nvmlDeviceGetFieldValues(probe.handle, 1, values)
    assert values[0].nvmlReturn == Return.NOT_SUPPORTED
    assert values[0].value.ullVal == 77


def test_a_pointer_to_the_array_works_too() -> None:
    probe = Probe("hgx-h100")
    values = (pynvml.c_nvmlFieldValue_t * 3)()
    for value in values:
        value.fieldId = 91
    pointer = ctypes.cast(values, ctypes.POINTER(pynvml.c_nvmlFieldValue_t))
    assert probe.node.library.nvmlDeviceGetFieldValues(probe.handle, 3, pointer) == 0
    assert [value.value.uiVal for value in values] == [18, 18, 18]


@pytest.mark.parametrize("count", [0, -1, 1_000_000])
def test_a_wild_count_is_refused(count: int) -> None:
    probe = Probe("hgx-h100")
    values = (pynvml.c_nvmlFieldValue_t * 1)()
    call = probe.node.library.nvmlDeviceGetFieldValues
    assert call(probe.handle, count, values) == Return.INVALID_ARGUMENT
    assert call(probe.handle, 1, None) == Return.INVALID_ARGUMENT


def test_an_array_that_is_too_short_fails_the_test_that_passes_it() -> None:
    probe = Probe("hgx-h100")
    with pytest.raises(ValueError, match="2 field values do not fit"):
        probe.node.library.nvmlDeviceGetFieldValues(probe.handle, 2, (pynvml.c_nvmlFieldValue_t * 1)())


def test_a_struct_by_value_is_not_a_pointer() -> None:
    probe = Probe("hgx-h100")
    with pytest.raises(TypeError, match="byref"):
        probe.node.library.nvmlDeviceGetPowerUsage(probe.handle, ctypes.c_uint())


@pytest.mark.parametrize(
    ("name", "margins"),
    # Captures: shutdown, slowdown, memory, operating.
    [("gb300-nvl72", [-5, -2, 0, 0]), ("hgx-b200", [-5, -3, 0, 0]), ("hgx-h100", [-8, -2, 0, 0])],
)
def test_margins_are_signed(name: str, margins: list[int]) -> None:
    probe = Probe(name)
    assert [probe.value(field_id) for field_id in (193, 194, 195, 196)] == margins


@pytest.mark.parametrize(
    ("driver", "old", "new"),
    # nvidia-ml-py 12.570, 12.575.51, 13.580.65 and 13.580.82: 251 to 253 moved to 269 to 271. On
    # Blackwell the other ids are power smoothing, which asks for root; 269 was the active preset profile.
    [
        ("570.133.20", 4, 3),
        ("575.51.03", 0, 0),
        ("580.65.06", 0, 0),
        ("580.82.07", 4, 0),
        ("590.48.01", 4, 0),
    ],
)
def test_thermal_times_move_with_the_driver(driver: str, old: int, new: int) -> None:
    fault = Fault(FaultKind.THERMAL_SLOWDOWN, start_seconds=0, duration_seconds=2, gpu=0)
    probe = Probe("gb300-nvl72", driver_version=driver, faults=[fault])
    probe.clock.advance(10)
    assert probe.code(251) == old
    assert probe.code(269) == new
    if old == 0:
        assert [probe.value(field_id) for field_id in (251, 252, 253)] == [2_000_000_000, 2_000_000_000, 0]
        assert probe.value(269) == 1  # a success that lies
        assert probe.code(270) == Return.NOT_SUPPORTED
    elif new == 0:
        assert [probe.value(field_id) for field_id in (269, 270, 271)] == [2_000_000_000, 2_000_000_000, 0]


def test_r570_on_hopper_has_no_thermal_times_at_all() -> None:
    probe = Probe("hgx-h100", driver_version="570.133.20")
    assert [probe.code(field_id) for field_id in (251, 252, 253, 269, 270, 271)] == [3] * 6


def test_fields_of_newer_drivers() -> None:
    assert Probe("hgx-h100", driver_version="590.48.01").code(308) == Return.NOT_SUPPORTED
    probe = Probe("hgx-h100", driver_version="615.10.01")
    assert probe.value(308) == pytest.approx(30.5)  # 29 to 32 degrees at idle, middle
    assert [probe.value(field_id) for field_id in (301, 302)] == [0, 0]


@pytest.mark.parametrize(("name", "code"), [("gb300-nvl72", 0), ("hgx-h100", 3)])
def test_c2c_only_with_grace(name: str, code: int) -> None:
    probe = Probe(name)
    assert [probe.code(field_id, 0) for field_id in (170, 171, 172, 231, 234)] == [code] * 5


@pytest.mark.parametrize("name", profiles.names())
def test_retired_pages_are_not_supported(name: str) -> None:
    probe = Probe(name)  # "N/A" in every capture
    assert [probe.code(field_id) for field_id in (29, 30, 31, 92, 93)] == [3] * 5


@pytest.mark.parametrize("driver", ["", "580", "five.eighty", "580.65.06.1", "-580.1"])
def test_a_driver_version_that_is_none_is_refused(driver: str) -> None:
    with pytest.raises(ConfigurationError, match=r"580\.105\.08"):
        parse_driver(driver)
