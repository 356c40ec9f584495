"""A batch of field values is one call into one array, and each field is judged by itself."""

from __future__ import annotations

from collections import Counter

import pytest

from collector.catalog.spec import Decode
from collector.errors import NvmlUnavailableError
from collector.sources.nvml.answers import Answers
from collector.sources.nvml.fields import FieldBatch, Request
from collector.sources.nvml.library import GpuLostError, Handle
from tests.scripted_nvml import FieldTable, answer, failed, scripted, u32, u64

ENERGY: Request = (83, 0, Decode.UNSIGNED_64)
POWER: Request = (185, 0, Decode.UNSIGNED_32)
MARGIN: Request = (193, 0, Decode.SIGNED_32)
LINK_3: Request = (165, 3, Decode.LINK_STATE)


def read(table: FieldTable, *requests: Request) -> Answers:
    answers = Answers(Counter())
    FieldBatch(scripted(nvmlDeviceGetFieldValues=table), Handle(1), requests).read(answers)
    return answers


def test_each_field_is_read_as_its_row_expects() -> None:
    answers = read(
        FieldTable(
            {(83, 0): u64(2**40 + 5), (185, 0): u32(412_300), (193, 0): u32(2**32 - 5), (165, 3): u32(2)}
        ),
        ENERGY,
        POWER,
        MARGIN,
        LINK_3,
    )
    assert answers.numbers == {(83, 0): 1_099_511_627_781, (185, 0): 412_300, (193, 0): -5, (165, 3): 1}
    assert answers.errors == {}


@pytest.mark.parametrize("value_type", [0, 1, 2, 3, 4, 5, 6, 250])
def test_the_drivers_own_type_does_not_matter(value_type: int) -> None:
    # Seen wrong or unset: NVML bugs 2009232, 2032468, 4300930 (DcgmCacheManager.cpp).
    table = FieldTable(
        {(83, 0): u64(2**40), (185, 0): u32(7), (193, 0): u32(2**32 - 1)}, value_type=value_type
    )
    assert read(table, ENERGY, POWER, MARGIN).numbers == {(83, 0): 2**40, (185, 0): 7, (193, 0): -1}


def test_bytes_that_the_driver_leaves_are_zero_though_a_wide_value_stood_there() -> None:
    table = FieldTable({(83, 0): u64(0xFFFFFFFFFFFFFFFF)})
    batch = FieldBatch(scripted(nvmlDeviceGetFieldValues=table), Handle(1), (ENERGY,))
    first, second = Answers(Counter()), Answers(Counter())
    batch.read(first)
    table.answers[83, 0] = u32(1000)  # four bytes of the eight that are decoded
    batch.read(second)
    assert first.numbers == {(83, 0): 0xFFFFFFFFFFFFFFFF}
    assert second.numbers == {(83, 0): 1000}


def test_an_entry_that_the_driver_skips_is_no_value_and_not_that_of_the_time_before() -> None:
    table = FieldTable({(83, 0): u64(5), (185, 0): u32(6)})
    batch = FieldBatch(scripted(nvmlDeviceGetFieldValues=table), Handle(1), (ENERGY, POWER))
    batch.read(Answers(Counter()))
    table.answers[83, 0] = None
    answers = Answers(Counter())
    batch.read(answers)
    assert answers.numbers == {(185, 0): 6}
    assert answers.errors == {"other": 1}
    assert answers.failed == {(83, 0)}


def test_one_array_is_made_once_and_asks_the_same_each_time() -> None:
    table = FieldTable({})
    batch = FieldBatch(scripted(nvmlDeviceGetFieldValues=table), Handle(1), (ENERGY, LINK_3))
    for _ in range(3):
        batch.read(Answers(Counter()))
    assert len(table.arrays) == 3
    assert table.arrays[0] is table.arrays[1] is table.arrays[2]
    assert table.requests == [[(83, 0), (165, 3)]] * 3


def test_a_batch_without_fields_calls_nothing() -> None:
    table = FieldTable({})
    assert read(table).numbers == {}
    assert table.arrays == []


@pytest.mark.parametrize("code", [2, 3, 13, 25, 26])  # invalid argument, not supported, missing, version, old
def test_what_the_hardware_has_not_is_absent_and_no_error(code: int) -> None:
    answers = read(FieldTable({(83, 0): failed(code), (185, 0): u32(1)}), ENERGY, POWER)
    assert answers.numbers == {(185, 0): 1}
    assert answers.errors == {}
    assert answers.failed == set()


@pytest.mark.parametrize(
    ("code", "error"), [(10, "timeout"), (999, "unknown"), (16, "reset_required"), (20, "memory")]
)
def test_what_fails_now_is_absent_and_counted(code: int, error: str) -> None:
    answers = read(FieldTable({(83, 0): failed(code), (185, 0): u32(1)}), ENERGY, POWER)
    assert answers.numbers == {(185, 0): 1}
    assert answers.errors == {error: 1}
    assert answers.failed == {(83, 0)}


def test_no_permission_says_that_it_will_stay_so() -> None:
    answers = read(FieldTable({(83, 0): failed(4)}), ENERGY)
    assert answers.errors == {"no_permission": 1}
    assert answers.failed == set()


def test_a_value_without_meaning_is_unknown_and_counted() -> None:
    answers = read(FieldTable({(165, 3): u32(7)}), LINK_3)
    assert answers.numbers == {}
    assert answers.errors == {"undecodable": 1}
    assert answers.failed == {(165, 3)}


def test_a_call_that_fails_as_a_whole_costs_each_of_its_fields() -> None:
    answers = Answers(Counter())
    batch = FieldBatch(scripted(nvmlDeviceGetFieldValues=answer(999)), Handle(1), (ENERGY, POWER))
    batch.read(answers)
    assert answers.numbers == {}
    assert answers.errors == {"unknown": 2}
    assert answers.failed == {(83, 0), (185, 0)}


@pytest.mark.parametrize("code", [15, 28])  # GPU is lost, GPU not found
def test_a_lost_gpu_is_told_apart(code: int) -> None:
    with pytest.raises(GpuLostError, match=f"NVML error {code}"):
        read(FieldTable({(83, 0): failed(code)}), ENERGY)
    batch = FieldBatch(scripted(nvmlDeviceGetFieldValues=answer(code)), Handle(1), (ENERGY,))
    with pytest.raises(GpuLostError):
        batch.read(Answers(Counter()))


@pytest.mark.parametrize(
    ("code", "reason", "anew"),
    [(1, "uninitialized", False), (9, "driver_not_loaded", False), (18, "version_mismatch", True)],
)
def test_a_lost_driver_is_told_apart(code: int, reason: str, anew: bool) -> None:
    with pytest.raises(NvmlUnavailableError) as caught:
        read(FieldTable({(83, 0): failed(code)}), ENERGY)
    assert caught.value.reason == reason
    assert caught.value.needs_new_process is anew
