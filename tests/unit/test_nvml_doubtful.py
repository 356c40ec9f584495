"""What a driver answers and cannot be: absent and counted, never clamped, and back once it is right."""

from __future__ import annotations

import pytest

from tests.nvml_node import watch


@pytest.mark.parametrize(
    ("pins", "name", "labels"),
    [
        ({(185, 0): 30_000_000}, "gpu_power_watts", ()),  # 30 kW
        ({(82, 0): 250}, "gpu_memory_temperature_celsius", ()),
        ({(144, 0): 7}, "gpu_row_remap_pending", ()),
        ({(222, 5): 0x200}, "nvlink_symbol_ber_ratio", ("5",)),
        ({(202, 5): 2**64 - 1}, "nvlink_transmitted_bytes_total", ("5",)),
    ],
)
def test_what_is_impossible_is_absent_counted_and_never_kept(
    pins: dict[tuple[int, int], int], name: str, labels: tuple[str, ...]
) -> None:
    node = watch("gb300-nvl72")
    node.run(1)
    before = node.gpu(name, 0, *labels)
    assert before is not None
    for (field, scope), raw in pins.items():
        node.node.gpus[0].pin_field(field, scope, raw)
    node.run(10)
    assert node.gpu(name, 0, *labels) is None
    assert node.errors["out_of_range"] >= 1
    assert set(node.errors) == {"out_of_range"}
    assert node.gpu(name, 1, *labels) is not None
    for field, scope in pins:
        node.node.gpus[0].unpin_field(field, scope)
    node.run(10)
    assert node.gpu(name, 0, *labels) is not None


@pytest.mark.parametrize(("field", "scope"), [(165, 2), (230, 0)])
def test_what_has_no_meaning_is_absent_and_counted(field: int, scope: int) -> None:
    node = watch("gb300-nvl72")
    node.run(1)
    node.node.gpus[0].pin_field(field, scope, 200)
    node.run(10)
    assert node.errors["undecodable"] >= 1
    if field == 165:
        assert node.gpu("nvlink_up", 0, "2") is None
        assert node.gpu("gpu_nvlinks_up", 0) is None  # neither 17 nor 18
        assert node.gpu("nvlink_up", 0, "3") == 1
    else:
        states = [value for labels, value in node.named("gpu_recovery_action").items() if labels[0] == "0"]
        assert states == [None] * 8


@pytest.mark.parametrize("count", [0xFFFFFFFF, 37, 4_000_000])
def test_an_impossible_number_of_links_is_not_believed(count: int) -> None:
    node = watch("hgx-h100")
    for gpu in node.node.gpus:
        gpu.pin_field(91, 0, count)
    node.run(1)
    # The links that tell a state are counted instead.
    assert node.gpu("gpu_nvlinks_expected", 0) == 18
    assert len(node.named("nvlink_up")) == 18 * 8


def test_links_are_counted_where_the_driver_does_not_tell_how_many() -> None:
    node = watch("hgx-h100")
    for gpu in node.node.gpus:
        gpu.pin_field(91, 0, None, code=3)
    node.run(1)
    assert node.gpu("gpu_nvlinks_expected", 0) == 18


def test_a_gpu_without_links_has_no_link_series() -> None:
    node = watch("hgx-h100")
    node.node.gpus[4].pin_field(91, 0, 0)
    node.run(2)
    assert not node.has("gpu_nvlinks_up", *node.labels(4))
    assert not node.has("nvlink_up", *node.labels(4))
    assert node.gpu("gpu_nvlinks_up", 5) == 18
