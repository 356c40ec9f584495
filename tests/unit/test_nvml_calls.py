"""Which calls the source makes of the library: few, harmless, never waiting, in separate batches."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from collector.simulator import Fault, FaultKind
from tests.nvml_node import Call, NodeWatch, watch

EVERY_PLATFORM = pytest.mark.parametrize(
    "platform", ["gb300-nvl72", "gb200-nvl72", "hgx-b200", "hgx-h200", "hgx-h100"]
)
LINK_FIELDS = {138, 139, 161, 162, 163, 165, 202, 204, *range(206, 215), 220, 222}  # nvml.h: scope is a link
ALL_LINKS = 0xFFFFFFFF


def calls_of_a_step(node: NodeWatch) -> list[Call]:
    node.recorder.calls.clear()
    node.step()
    return node.recorder.calls


def name_counts(calls: list[Call]) -> Counter[str]:
    return Counter(call.name for call in calls)


@EVERY_PLATFORM
def test_a_fast_sweep_is_at_most_twelve_calls_a_gpu(platform: str) -> None:
    node = watch(platform)
    node.step()
    gpus = len(node.node.gpus)
    # Facts §6, read plan: two batches of fields, utilization, memory, clock event reasons, two clocks,
    # temperature, margin, a sample and its metrics; and one look for events a node.
    assert name_counts(calls_of_a_step(node)) == {
        "nvmlDeviceGetFieldValues": 2 * gpus,
        "nvmlDeviceGetUtilizationRates": gpus,
        "nvmlDeviceGetMemoryInfo_v2": gpus,
        "nvmlDeviceGetCurrentClocksEventReasons": gpus,
        "nvmlDeviceGetClockInfo": 2 * gpus,
        "nvmlDeviceGetTemperatureV": gpus,
        "nvmlDeviceGetMarginTemperature": gpus,
        "nvmlGpmSampleGet": gpus,
        "nvmlGpmMetricsGet": gpus,
        "nvmlEventSetWait_v2": 1,
    }
    assert node.reading.calls == 11 * gpus + 1


@EVERY_PLATFORM
def test_a_minute_costs_what_the_read_plan_says(platform: str) -> None:
    node = watch(platform)
    node.step()
    node.recorder.calls.clear()
    node.run(60)
    gpus = len(node.node.gpus)
    found = name_counts(node.recorder.calls)
    # A links sweep, each 10 s: two batches, fabric, PCIe generation and width, processes. Identity, each
    # 60 s: fabric and three modes. Who is there, each 10 s: the count, and handle and UUID of each.
    assert found["nvmlDeviceGetFieldValues"] == gpus * (60 * 2 + 6 * 2)
    assert found["nvmlDeviceGetGpuFabricInfoV"] == gpus * (6 + 1)
    assert found["nvmlDeviceGetCurrPcieLinkWidth"] == gpus * 6
    assert found["nvmlDeviceGetComputeRunningProcesses_v3"] == gpus * 6
    assert found["nvmlDeviceGetMigMode"] == found["nvmlDeviceGetEccMode"] == gpus
    assert found["nvmlDeviceGetCount_v2"] == 6
    assert found["nvmlDeviceGetUUID"] == found["nvmlDeviceGetHandleByIndex_v2"] == gpus * 6
    assert sum(reading.calls for reading in node.readings[1:]) == len(node.recorder.calls)
    # Names that do not change are read once.
    assert not {"nvmlDeviceGetName", "nvmlDeviceGetSerial", "nvmlDeviceGetPlatformInfo"} & set(found)


@EVERY_PLATFORM
def test_what_blocks_or_changes_a_gpu_is_never_called(platform: str) -> None:
    node = watch(platform, workload="training", faults=[Fault(FaultKind.LINK_DOWN, 5, 20, gpu=0, link=3)])
    node.run(70)
    node.reader.close()
    names = {call.name for call in node.recorder.calls}
    assert "nvmlDeviceGetPcieThroughput" not in names  # 20 ms a direction
    assert not {name for name in names if "Set" in name.replace("EventSet", "")}
    assert not {name for name in names if "Reset" in name or "Clear" in name}


@EVERY_PLATFORM
def test_events_are_never_waited_for(platform: str) -> None:
    node = watch(platform)
    node.run(15)
    waits = node.recorder.named("nvmlEventSetWait_v2")
    assert len(waits) == 15
    assert {call.arguments[2] for call in waits} == {0}


@EVERY_PLATFORM
def test_fields_of_links_and_of_the_gpu_are_never_in_one_call(platform: str) -> None:
    # A batch with both has failed as a whole on GB200 (facts, trap T3).
    node = watch(platform)
    node.run(25)
    for requests in node.field_calls():
        kinds = {field in LINK_FIELDS for field, _ in requests}
        assert len(kinds) == 1
        if kinds == {True}:
            assert {scope for _, scope in requests} <= {*range(18), ALL_LINKS}
        else:
            assert {scope for _, scope in requests} <= {0, 1, 2}  # GPU, module, memory
        assert len(set(requests)) == len(requests)  # nothing is asked twice


def test_a_sweep_asks_only_for_what_the_gpu_has() -> None:
    node = watch("hgx-h100")
    node.run(1)
    node.recorder.calls.clear()
    node.run(20)
    asked = {request for requests in node.field_calls() for request in requests}
    fields = {field for field, _ in asked}
    assert not fields & {202, 204, *range(206, 215), 220, 222}  # NVLink 5
    assert (185, 1) not in asked  # no modules
    assert {161, 162, 163} <= fields
    assert not node.recorder.named("nvmlDeviceGetTemperature")  # the newer function answers
    assert not node.recorder.named("nvmlDeviceGetViolationStatus")


def test_arrays_are_made_once_and_used_for_every_sweep() -> None:
    node = watch("hgx-h100")
    node.run(1)
    node.recorder.calls.clear()
    node.run(30)
    arrays = [call.arguments[2] for call in node.recorder.named("nvmlDeviceGetFieldValues")]
    # Two of the fast sweep and two of the links sweep for each of 8 GPUs.
    assert len({id(array) for array in arrays}) == 4 * 8
    assert len(arrays) == 8 * (30 * 2 + 3 * 2)


def test_samples_are_a_period_apart_and_two_buffers_a_gpu() -> None:
    node = watch("hgx-h100", workload="decode")
    node.run(10)
    samples = node.recorder.named("nvmlGpmSampleGet")
    assert len(node.recorder.named("nvmlGpmSampleAlloc")) == 2 * 8
    by_gpu: dict[Any, list[float]] = {}
    for call in samples:
        handle: Any = call.arguments[0]
        by_gpu.setdefault(handle.value, []).append(call.at)
    assert len(by_gpu) == 8
    for times in by_gpu.values():
        assert all(later - earlier > 0.1 for earlier, later in itertools.pairwise(times))
    # The first sweep has no activity, every later one has.
    place = [name for name, _ in node.layout.blocks[1].series].index("gpu_sm_active_ratio")
    (first,) = [batch for batch in node.readings[0].batches if batch.block == 1]
    assert first.values[place] is None
    assert node.gpu("gpu_sm_active_ratio", 0) is not None


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.1])
def test_faster_than_samples_may_be_taken_none_is_taken(seconds: float) -> None:
    node = watch("hgx-h100", workload="decode")
    node.step()
    node.recorder.calls.clear()
    for _ in range(10):
        node.step(seconds)
    taken = len(node.recorder.named("nvmlGpmSampleGet")) / 8
    assert taken <= 10 * seconds / 0.1
    assert node.errors == {}


def test_closing_gives_back_what_was_taken() -> None:
    node = watch("hgx-h100")
    node.run(2)
    node.reader.close()
    node.reader.close()
    found = name_counts(node.recorder.calls)
    assert found["nvmlGpmSampleFree"] == found["nvmlGpmSampleAlloc"] == 16
    assert found["nvmlEventSetFree"] == found["nvmlEventSetCreate"] == 1
    assert found["nvmlShutdown"] == found["nvmlInitWithFlags"] == 1
    assert node.recorder.calls[-1].name == "nvmlShutdown"


def test_nothing_is_called_before_the_first_step() -> None:
    node = watch("hgx-h100")
    assert node.recorder.calls == []
    node.reader.close()
    assert node.recorder.calls == []
