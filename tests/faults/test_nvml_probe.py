"""What fails while a GPU is taken in is asked again, and never taken for what the hardware has not."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from collector.simulator import SimulatedGpu
from collector.sources.nvml.options import ReaderOptions
from tests.faults.nvml_functions import FUNCTIONS
from tests.nvml_node import HINTS, NodeWatch, watch

TIMEOUT, UNKNOWN = 10, 999  # nvml.h


def probed(
    platform: str, spoil: Callable[[SimulatedGpu], None], heal: Callable[[SimulatedGpu], None]
) -> NodeWatch:
    """Return a node of which GPU 1 was spoilt while it was taken in, and healed a step later."""
    node = watch(platform, workload="decode", options=ReaderOptions(platforms=HINTS, slow_seconds=10))
    spoil(node.node.gpus[1])
    node.run(1)
    heal(node.node.gpus[1])
    node.run(24)
    return node


@functools.cache
def usual(platform: str) -> NodeWatch:
    """Return the same node at the same time, never spoilt."""
    return probed(platform, lambda _: None, lambda _: None)


def assert_read_as_usual(node: NodeWatch, platform: str) -> None:
    """Assert that a node has the usual series, each with a value; those of each second have the usual one."""
    expected = usual(platform).values
    assert node.values.keys() == expected.keys()
    assert [key for key, value in node.values.items() if value is None] == []
    # Links are read at other seconds, since the layout is younger.
    slower = ("nvlink_transmitted_bytes_total", "nvlink_received_bytes_total")
    assert {key: value for key, value in node.values.items() if key[0] not in slower} == {
        key: value for key, value in expected.items() if key[0] not in slower
    }
    assert node.gpu("gpu_nvlinks_expected", 1) == 18


@pytest.mark.parametrize("platform", ["gb300-nvl72", "hgx-h100"])
@pytest.mark.parametrize(
    "function",
    [
        *FUNCTIONS,
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetSerial",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPlatformInfo",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetUUID",
    ],
)
def test_a_function_that_fails_in_the_probe_is_not_taken_for_missing(platform: str, function: str) -> None:
    node = probed(
        platform, lambda gpu: gpu.pin_return(function, TIMEOUT), lambda gpu: gpu.unpin_return(function)
    )
    assert_read_as_usual(node, platform)


@pytest.mark.parametrize("platform", ["gb300-nvl72", "hgx-h100"])
def test_fields_that_fail_in_the_probe_are_not_taken_for_missing(platform: str) -> None:
    failing = [(91, 0), (185, 0), (186, 0), (185, 1), (138, 0xFFFFFFFF), *((165, link) for link in range(36))]
    failing += [(field, link) for field in (138, 139, 161, 202, 204, 206, 213, 222) for link in range(18)]

    def spoil(gpu: SimulatedGpu) -> None:
        for field, scope in failing:
            gpu.pin_field(field, scope, None, code=UNKNOWN)

    def heal(gpu: SimulatedGpu) -> None:
        for field, scope in failing:
            gpu.unpin_field(field, scope)

    assert_read_as_usual(probed(platform, spoil, heal), platform)
