"""Links that go down and come back: what is told of them, and sums that never run back."""

from __future__ import annotations

import pytest

from collector.model import Value
from collector.simulator import Fault, FaultKind
from tests.nvml_node import NodeWatch, watch

OWN_COUNTERS = (
    "nvlink_transmitted_bytes_total",
    "nvlink_received_bytes_total",
    "nvlink_errors_total",
)
NVLINK5_ONLY = ("nvlink_effective_ber_ratio", "nvlink_symbol_ber_ratio")


def down(link: int, start: float, duration: float | None = None, gpu: int = 1) -> Fault:
    return Fault(FaultKind.LINK_DOWN, start_seconds=start, duration_seconds=duration, gpu=gpu, link=link)


def errors_seen(node: NodeWatch, gpu: int, seconds: int) -> list[Value]:
    """Step, and return every value of the GPU's error sum."""
    found: list[Value] = []
    for _ in range(seconds):
        node.step()
        value = node.gpu("gpu_nvlink_errors_total", gpu)
        assert value is not None
        found.append(value)
    return found


@pytest.mark.parametrize("platform", ["gb300-nvl72", "hgx-h100"])
def test_a_link_that_is_down_has_no_counters_and_says_so(platform: str) -> None:
    node = watch(platform, workload="decode", faults=[down(3, start=15, duration=20)])
    node.run(12)
    counters = OWN_COUNTERS + (NVLINK5_ONLY if platform == "gb300-nvl72" else ())
    assert node.gpu("gpu_nvlinks_up", 1) == 18
    node.run(15)  # 27 s: down since 15
    assert node.gpu("nvlink_up", 1, "3") == 0
    assert node.gpu("gpu_nvlinks_up", 1) == 17
    assert node.gpu("gpu_nvlinks_expected", 1) == 18
    assert [node.gpu(name, 1, "3") for name in counters] == [None] * len(counters)
    assert None not in [node.gpu(name, 1, "4") for name in counters]
    assert node.gpu("nvlink_up", 0, "3") == 1
    assert node.errors == {}  # that a link is down is no error of reading
    node.run(20)  # 47 s: up since 35
    assert node.gpu("nvlink_up", 1, "3") == 1
    assert node.gpu("gpu_nvlinks_up", 1) == 18
    assert None not in [node.gpu(name, 1, "3") for name in counters]
    xid = 149 if platform == "gb300-nvl72" else 74  # NVIDIA's Xid catalogue
    assert [(each.kind, each.gpu_uuid, each.code) for each in node.incidents] == [
        ("xid", node.node.gpus[1].uuid, xid)
    ]
    assert node.layout.generation == 1


def test_a_link_that_was_down_at_the_start_has_counters_once_it_is_up() -> None:
    node = watch("gb300-nvl72", workload="decode", faults=[down(7, start=0, duration=20)])
    node.run(2)
    assert node.gpu("nvlink_up", 1, "7") == 0
    assert node.gpu("nvlink_transmitted_bytes_total", 1, "7") is None
    node.run(30)
    assert node.gpu("nvlink_up", 1, "7") == 1
    assert node.gpu("nvlink_transmitted_bytes_total", 1, "7") is not None


@pytest.mark.parametrize("platform", ["gb300-nvl72", "hgx-h100"])
def test_series_of_links_appear_when_all_were_down_at_the_start(platform: str) -> None:
    faults = [down(link, start=0, duration=25) for link in range(18)]
    node = watch(platform, workload="decode", faults=faults)
    node.run(20)
    assert node.gpu("gpu_nvlinks_up", 1) == 0
    assert node.gpu("gpu_nvlinks_expected", 1) == 18
    assert [node.gpu("nvlink_up", 1, str(link)) for link in range(18)] == [0] * 18
    for name in OWN_COUNTERS:
        assert not node.has(name, *node.labels(1))
        assert node.has(name, *node.labels(0))
    assert not node.has("gpu_nvlink_errors_total", *node.labels(1))
    node.run(20)
    assert node.gpu("gpu_nvlinks_up", 1) == 18
    for name in OWN_COUNTERS:
        assert None not in [node.gpu(name, 1, str(link)) for link in range(18)]
    assert node.gpu("gpu_nvlink_errors_total", 1) is not None
    # The other GPUs have kept everything.
    assert node.gpu("gpu_nvlinks_up", 0) == 18
    assert node.gpu("gpu_sm_active_ratio", 0) is not None


def test_the_errors_of_a_gpu_never_run_back_while_a_link_is_down() -> None:
    node = watch("gb300-nvl72", faults=[down(3, start=25, duration=20)])
    for link in range(18):
        node.node.gpus[1].pin_field(206, link, 10 + link)
    node.step()
    total = sum(10 + link for link in range(18))  # 333
    assert node.gpu("gpu_nvlink_errors_total", 1) == total == 333
    seen = errors_seen(node, 1, 20)
    # The pinned counter of the link that is down answers as others do on hardware: not supported.
    node.node.gpus[1].pin_field(206, 3, None, code=3)
    seen += errors_seen(node, 1, 25)
    node.node.gpus[1].pin_field(206, 3, 2)  # it is back, and counts anew
    seen += errors_seen(node, 1, 25)
    assert seen == sorted(seen)
    assert seen[-1] == 333 + 2
    assert node.gpu("nvlink_errors_total", 1, "3") == 2


def test_the_errors_of_a_gpu_survive_links_that_appear_later() -> None:
    faults = [down(link, start=0, duration=25) for link in range(18)]
    node = watch("gb300-nvl72", faults=faults)
    gpu = node.node.gpus[1]
    gpu.pin_field(208, 0, 40)  # one counter of one link answers from the start
    seen = errors_seen(node, 1, 12)
    assert seen[-1] == 40
    gpu.pin_field(208, 0, 5)  # and restarts
    seen += errors_seen(node, 1, 12)
    assert seen[-1] == 45
    seen += errors_seen(node, 1, 20)  # the others appear, in a new layout
    assert node.layout.generation == 2
    assert seen == sorted(seen)
    assert seen[-1] >= 45


def test_a_counter_that_times_out_does_not_make_a_links_sum_run_back() -> None:
    node = watch("gb300-nvl72")
    gpu = node.node.gpus[1]
    gpu.pin_field(206, 3, 1000)
    gpu.pin_field(207, 3, 1)
    node.run(1)
    assert node.gpu("nvlink_errors_total", 1, "3") == 1001
    gpu.pin_field(206, 3, None, code=10)
    node.run(10)
    assert node.gpu("nvlink_errors_total", 1, "3") is None  # not 1, which would count 1000 errors anew
    assert node.gpu("gpu_nvlink_errors_total", 1) == 1001
    gpu.pin_field(206, 3, 1002)
    node.run(10)
    assert node.gpu("nvlink_errors_total", 1, "3") == 1003
    assert node.gpu("gpu_nvlink_errors_total", 1) == 1003


def test_a_garbage_count_does_not_spoil_the_errors_of_a_gpu() -> None:
    node = watch("gb300-nvl72")
    gpu = node.node.gpus[1]
    gpu.pin_field(206, 3, 7)
    node.run(1)
    gpu.pin_field(206, 3, 2**64 - 1)
    node.run(10)
    assert node.gpu("nvlink_errors_total", 1, "3") is None
    assert node.gpu("gpu_nvlink_errors_total", 1) == 7
    assert node.errors["out_of_range"] >= 2
    gpu.pin_field(206, 3, 9)
    node.run(10)
    assert node.gpu("gpu_nvlink_errors_total", 1) == 9


def test_a_flapping_link_costs_no_other() -> None:
    faults = [down(3, start=5 + 10 * turn, duration=5) for turn in range(10)]
    node = watch("gb300-nvl72", faults=faults)
    for _ in range(110):
        node.step()
        assert node.gpu("nvlink_up", 1, "4") == 1
        assert node.gpu("gpu_nvlinks_up", 1) in (17, 18)
        assert node.gpu("gpu_nvlinks_up", 0) == 18
    assert node.layout.generation == 1
    assert node.errors == {}


def test_traffic_of_a_gpu_is_the_sum_of_its_links_where_the_driver_has_none() -> None:
    node = watch("gb300-nvl72", workload="decode")
    for gpu in node.node.gpus:
        for field in (138, 139):
            gpu.pin_field(field, 0xFFFFFFFF, None, code=3)
        for link in range(18):
            gpu.pin_field(202, link, 1_000_000 + link)
            gpu.pin_field(204, link, 2_000_000 + link)
    node.run(1)
    assert node.gpu("gpu_nvlink_transmitted_bytes_total", 2) == 18_000_153  # 0 + 1 + … + 17 = 153
    assert node.gpu("gpu_nvlink_received_bytes_total", 2) == 36_000_153
