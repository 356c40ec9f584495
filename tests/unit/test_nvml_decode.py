"""Numbers and bytes of NVML become values of the right unit, or nothing; each figure worked out by hand."""

from __future__ import annotations

import math

import pytest

from collector.catalog import BY_NAME
from collector.catalog.spec import Decode
from collector.model import Value
from collector.sources.nvml import decode

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("metric", "number", "multiply", "divide", "expected"),
    [
        # nvml.h: fields 138 and 139 count KiB, 202 and 204 bytes.
        ("gpu_nvlink_transmitted_bytes_total", 1000, 1024, 1, 1_024_000),
        ("nvlink_received_bytes_total", 1000, 1, 1, 1000),
        # nvml.h: power in mW. Division keeps the decimals: 412300 * 0.001 would be 412.3000…3.
        ("gpu_power_watts", 412_300, 1, 1000, 412.3),
        ("gpu_power_watts", 1_234_567, 1, 1000, 1234.567),
        # nvml.h: field 83 in mJ.
        ("gpu_energy_joules_total", 123_456_789_012, 1, 1000, 123_456_789.012),
        # nvml.h: clocks in MHz.
        ("gpu_sm_clock_hertz", 1605, 1_000_000, 1, 1_605_000_000),
        # nvml.h: clock event times in ns.
        ("gpu_clock_event_seconds_total", 3_360_324_000, 1, 1_000_000_000, 3.360324),
        # nvml.h: utilization and GPM in percent, PCIe throughput of GPM in MiB/s.
        ("gpu_utilization_ratio", 73, 1, 100, 0.73),
        ("gpu_sm_active_ratio", 79.25, 1, 100, 0.7925),
        ("gpu_pcie_transmitted_bytes_per_second", 107.5, MIB, 1, 112_721_920.0),
        ("gpu_temperature_margin_celsius", -3, 1, 1, -3.0),
    ],
)
def test_units(metric: str, number: Value, multiply: int, divide: int, expected: Value) -> None:
    value = decode.to_unit(number, BY_NAME[metric], multiply, divide)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("metric", "number", "multiply", "divide"),
    [
        ("gpu_memory_total_bytes", 2**64 - 1, 1, 1),  # ULLONG_MAX: NVML's "not available"
        ("gpu_memory_temperature_celsius", 0xFFFFFFFF, 1, 1),
        ("gpu_memory_temperature_celsius", 201, 1, 1),  # DCGM refuses what is above 200
        ("gpu_memory_temperature_celsius", 0, 1, 1),
        ("gpu_utilization_ratio", 101, 1, 100),
        ("gpu_power_watts", 0xFFFFFFFF, 1, 1000),
        ("gpu_sm_active_ratio", 100.2, 1, 100),
        ("gpu_sm_active_ratio", -0.5, 1, 100),
        ("gpu_sm_active_ratio", math.nan, 1, 100),
        ("gpu_sm_active_ratio", math.inf, 1, 100),
        ("gpu_temperature_margin_celsius", -(2**31), 1, 1),
        ("gpu_pcie_width_lanes", 0, 1, 1),
        ("gpu_energy_joules_total", -1, 1, 1000),
        ("nvlink_up", 2, 1, 1),
        ("nvlink_transmitted_bytes_total", 2**64 - 1, 1, 1),
    ],
)
def test_what_is_impossible_is_nothing(metric: str, number: Value, multiply: int, divide: int) -> None:
    assert decode.to_unit(number, BY_NAME[metric], multiply, divide) is None


def test_a_ratio_may_exceed_one_by_a_rounding_error_and_is_not_clamped() -> None:
    assert decode.to_unit(100.05, BY_NAME["gpu_sm_active_ratio"], 1, 100) == 1.0005


@pytest.mark.parametrize(
    ("raw", "kind", "expected"),
    [
        (0x0000000100000005, Decode.UNSIGNED_64, 4_294_967_301),
        (0xFFFFFFFFFFFFFFFF, Decode.UNSIGNED_64, 18_446_744_073_709_551_615),
        # The upper half is none of a 32-bit value's business.
        (0xDEADBEEF00064A8C, Decode.UNSIGNED_32, 412_300),
        (0x00000000FFFFFFFE, Decode.SIGNED_32, -2),
        (0xDEADBEEFFFFFFFFE, Decode.SIGNED_32, -2),
        (0x0000000080000000, Decode.SIGNED_32, -2_147_483_648),
        (0x000000007FFFFFFF, Decode.SIGNED_32, 2_147_483_647),
        # nvml.h: 0 inactive, 1 active, 2 sleep, 3 active with traffic disabled.
        (0, Decode.LINK_STATE, 0),
        (1, Decode.LINK_STATE, 1),
        (2, Decode.LINK_STATE, 1),
        (3, Decode.LINK_STATE, 0),
        (0xDEADBEEF00000001, Decode.LINK_STATE, 1),
    ],
)
def test_field_values(raw: int, kind: Decode, expected: int) -> None:
    assert decode.field_value(raw, kind) == expected


@pytest.mark.parametrize("raw", [4, 7, 255, 0xFFFFFFFF])
def test_a_link_state_without_a_meaning_is_neither_up_nor_down(raw: int) -> None:
    assert decode.field_value(raw, Decode.LINK_STATE) is None


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        # nvml.h: bits 0 to 7 the exponent e, bits 8 to 11 the mantissa m, the ratio m * 10^-e.
        (0x30C, 3e-12),  # m = 3, e = 12
        (0x10F, 1e-15),  # m = 1, e = 15
        (0xF0F, 1.5e-14),  # m = 15, e = 15
        (0x906, 9e-6),  # m = 9, e = 6
        (0x100, 1.0),  # m = 1, e = 0
        (0x0FF, 0.0),  # m = 0
        (0x000, 0.0),  # as NVIDIA's mock answers, a double of 0
        (0xFFF, 0.0),  # m = 15, e = 255 stands for zero (facts)
        (0xABCD30C, 3e-12),  # what stands above bit 11 is not of the ratio
    ],
)
def test_bit_error_ratios(packed: int, expected: float) -> None:
    assert decode.bit_error_ratio(packed) == expected
    assert decode.field_value(packed, Decode.BIT_ERROR_RATIO) == expected


def test_an_impossible_bit_error_ratio_is_nothing() -> None:
    metric = BY_NAME["nvlink_symbol_ber_ratio"]
    assert decode.to_unit(decode.bit_error_ratio(0x200), metric, 1, 1) is None  # 2 errors a bit


HEALTHY = {
    "degraded_bandwidth": 0,
    "route_recovery": 0,
    "route_unhealthy": 0,
    "access_timeout": 0,
    "incorrect_configuration": 0,
}


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        # GB300 and GB200 as captured: four times 2 (false), configuration 1 (none).
        (0x1AA, HEALTHY),
        # Configuration 0 is not supported, which is not a fault, nor its absence.
        (0x0AA, {name: 0 for name in HEALTHY if name != "incorrect_configuration"}),
        # B200 as captured: access timeout alone, 2 << 6.
        (0x080, {"access_timeout": 0}),
        # H100 as captured.
        (0x000, {}),
        # One fault each: 1 is true, the neighbours stay 2.
        (0x1A9, HEALTHY | {"degraded_bandwidth": 1}),
        (0x1A6, HEALTHY | {"route_recovery": 1}),
        (0x19A, HEALTHY | {"route_unhealthy": 1}),
        (0x16A, HEALTHY | {"access_timeout": 1}),
        # 3 in a group of two bits has no meaning.
        (0x1AB, HEALTHY | {"degraded_bandwidth": None}),
        (0x1EA, HEALTHY | {"access_timeout": None}),
        # Partition (bits 12, 13) and global fabric manager (14, 15) are no conditions.
        (0x51AA, HEALTHY),
        (0xA1AA, HEALTHY),
        (0xF1AA, HEALTHY),
    ],
)
def test_fabric_masks(mask: int, expected: dict[str, int | None]) -> None:
    assert decode.fabric_conditions(mask) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    # nvml.h: 1 correct; 2 sysGUID, 3 chassis serial, 4 no partition, 5 too few NVLinks, 6 firmware,
    # 7 location, 8 GPU state; 9 to 15 are not defined.
    [(1, 0), *((code, 1) for code in range(2, 9)), *((code, None) for code in range(9, 16))],
)
def test_fabric_configuration_codes(code: int, expected: int | None) -> None:
    assert decode.fabric_conditions(code << 8 | 0xAA) == HEALTHY | {"incorrect_configuration": expected}


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("580.173.02", (580, 173, 2)),
        ("580.65.06", (580, 65, 6)),
        ("575.57", (575, 57)),
        ("570.211.01", (570, 211, 1)),
        ("615.36-open", (615,)),
        ("", ()),
        ("unknown", ()),
        ("580.\u0661\u0662", (580,)),  # digits, but not of ASCII
        ("580..02", (580,)),
    ],
)
def test_driver_versions(version: str, numbers: tuple[int, ...]) -> None:
    assert decode.driver_version(version) == numbers


def test_driver_versions_compare_as_numbers() -> None:
    mixed = ["580.173.02", "590.48.01", "580.65.06", "575.57", "580.105.08", "580.82.07"]
    ordered = ["575.57", "580.65.06", "580.82.07", "580.105.08", "580.173.02", "590.48.01"]
    assert sorted(mixed, key=decode.driver_version) == ordered


@pytest.mark.parametrize(
    ("number", "version"),
    [(13000, "13.0"), (12080, "12.8"), (13010, "13.1"), (0, "0.0")],  # nvml.h: 1000 * major + 10 * minor
)
def test_cuda_versions(number: int, version: str) -> None:
    assert decode.cuda_version(number) == version


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"NVIDIA GB300\x00garbage", "NVIDIA GB300"),
        (b"  1650025001234 \x00", "1650025001234"),
        (b"", ""),
        (b"\x00\x00", ""),
        (b"\xb0\xcf\x0e", "\ufffd\ufffd\ufffd"),
        (b"a\nb\rc\td", "a\ufffdb\ufffdc\ufffdd"),
        (b"a\x1b[31mred", "a\ufffd[31mred"),
        (b"a\x7fb", "a\ufffdb"),
        ("a\u0085b\u2028c\u2029d".encode(), "a\ufffdb\ufffdc\ufffdd"),
        ("Größe".encode(), "Größe"),
        (b"x" * 500, "x" * 128),
    ],
)
def test_texts(raw: bytes, expected: str) -> None:
    assert decode.text(raw) == expected


def test_cluster_uuids() -> None:
    assert decode.cluster_uuid(bytes(16)) == ""  # in no cluster (facts, trap T5)
    raw = bytes.fromhex("a1b2c3d4000140028003000000000004")
    assert decode.cluster_uuid(raw) == "a1b2c3d4-0001-4002-8003-000000000004"
