"""Whatever a driver answers: a value is exact and in range, or there is none; text never breaks a line."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import catalog
from collector.catalog.spec import Decode, Metric, ValueType
from collector.sources.nvml import decode

WORDS = st.integers(min_value=0, max_value=2**64 - 1)
NUMBERS = WORDS | st.integers(min_value=-(2**63), max_value=-1) | st.floats()
METRICS = st.sampled_from([metric for metric in catalog.ALL if metric.label_values != ()])
# Every factor that a binding has, by nvml.h's units: KiB, MHz, MiB/s; percent, mW and mJ, ns.
FACTORS = st.sampled_from([(1, 1), (1024, 1), (10**6, 1), (2**20, 1), (1, 100), (1, 1000), (1, 10**9)])


@given(METRICS, NUMBERS.filter(lambda number: number == number and abs(number) != float("inf")), FACTORS)
def test_a_value_is_exact_and_in_range_or_nothing(
    metric: Metric, number: float, factors: tuple[int, int]
) -> None:
    multiply, divide = factors
    value = decode.to_unit(number, metric, multiply, divide)
    if abs(number) * multiply == float("inf"):
        assert value is None
        return
    exact = Fraction(number) * multiply / divide
    if value is None:
        # Beyond the range, but for the rounding of one float.
        assert not metric.minimum < exact < metric.maximum
    else:
        assert metric.minimum <= value <= metric.maximum
        if metric.value_type is ValueType.INT:
            assert type(value) is int
            assert value <= exact < value + 1 or exact <= value < exact + 1
        else:
            assert type(value) is float
            assert value == pytest.approx(float(exact), rel=1e-15, abs=5e-324)


@given(METRICS, st.sampled_from([float("nan"), float("inf"), float("-inf")]))
def test_blanks_and_infinities_are_nothing(metric: Metric, number: float) -> None:
    assert decode.to_unit(number, metric, 1, 100) is None


@given(st.integers(min_value=0, max_value=20_000_000))
def test_milliwatts_keep_their_decimals(milliwatts: int) -> None:
    watts = decode.to_unit(milliwatts, catalog.BY_NAME["gpu_power_watts"], 1, 1000)
    assert Decimal(repr(watts)) == Decimal(milliwatts) / 1000


@given(st.integers(min_value=0, max_value=2**63 // 1024))
def test_kibibytes_lose_nothing(kibibytes: int) -> None:
    total = decode.to_unit(kibibytes, catalog.BY_NAME["gpu_nvlink_transmitted_bytes_total"], 1024, 1)
    assert total == kibibytes << 10


@given(st.integers(min_value=-(2**31), max_value=2**31 - 1), st.binary(min_size=4, max_size=4))
def test_a_narrow_value_is_read_whatever_stands_above_it(number: int, above: bytes) -> None:
    signed = int.from_bytes(struct.pack("<i", number) + above, "little")
    assert decode.field_value(signed, Decode.SIGNED_32) == number
    unsigned = int.from_bytes(struct.pack("<I", number & 0xFFFFFFFF) + above, "little")
    assert decode.field_value(unsigned, Decode.UNSIGNED_32) == number % 2**32


@given(WORDS)
def test_a_wide_value_is_read_as_it_is(word: int) -> None:
    assert decode.field_value(word, Decode.UNSIGNED_64) == word


@given(WORDS)
def test_a_link_is_up_down_or_unknown(word: int) -> None:
    state = decode.field_value(word, Decode.LINK_STATE)
    # nvml.h: 1 active and 2 sleep carry traffic, 0 inactive and 3 traffic disabled do not.
    assert state == {0: 0, 1: 1, 2: 1, 3: 0}.get(word % 2**32)


@given(st.integers(min_value=0, max_value=15), st.integers(min_value=0, max_value=255))
def test_a_bit_error_ratio_is_its_decimal(mantissa: int, exponent: int) -> None:
    ratio = decode.bit_error_ratio(mantissa << 8 | exponent)
    expected = 0.0 if (mantissa, exponent) == (15, 255) else float(f"{mantissa}e-{exponent}")
    assert ratio == expected
    assert ratio >= 0


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_a_fabric_mask_is_read_group_by_group(mask: int) -> None:
    conditions = decode.fabric_conditions(mask)
    meaning = {1: 1, 2: 0, 3: None}
    shifts = {"degraded_bandwidth": 0, "route_recovery": 2, "route_unhealthy": 4, "access_timeout": 6}
    for name, shift in shifts.items():
        group = (mask // 2**shift) % 4
        assert (name in conditions) == (group != 0)
        if group:
            assert conditions[name] == meaning[group]
    configuration = (mask // 256) % 16
    assert ("incorrect_configuration" in conditions) == (configuration != 0)
    if configuration:
        expected = 0 if configuration == 1 else 1 if configuration <= 8 else None
        assert conditions["incorrect_configuration"] == expected


@given(st.binary(max_size=400))
def test_text_is_bounded_and_breaks_nothing(raw: bytes) -> None:
    decoded = decode.text(raw)
    assert len(decoded) <= 128
    assert len(decoded.splitlines()) <= 1
    assert decoded == decoded.strip()
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in decoded)
    decoded.encode("utf-8")


@given(st.text(max_size=40))
def test_a_driver_version_never_fails(version: str) -> None:
    assert all(number >= 0 for number in decode.driver_version(version))


@given(st.lists(st.integers(min_value=0, max_value=9999), min_size=1, max_size=4))
def test_a_driver_version_is_its_numbers(numbers: list[int]) -> None:
    assert decode.driver_version(".".join(map(str, numbers))) == tuple(numbers)


@given(st.binary(min_size=16, max_size=16))
def test_a_cluster_uuid_is_its_bytes(raw: bytes) -> None:
    text = decode.cluster_uuid(raw)
    assert text == "" if raw == bytes(16) else bytes.fromhex(text.replace("-", "")) == raw
