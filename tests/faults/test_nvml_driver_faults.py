"""NVML as a whole goes away: said with its reason, tried again, and read anew when it is back."""

from __future__ import annotations

import pytest

from collector.errors import NvmlUnavailableError
from collector.readings import Reading
from collector.simulator import Fault, FaultKind
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.reader import NvmlReader
from tests.nvml_node import Clock, NodeWatch, Watch, watch

UNINITIALIZED, DRIVER_NOT_LOADED, NO_PERMISSION, VERSION_MISMATCH = 1, 9, 4, 18  # nvml.h


def unloaded(start: float, duration: float | None = None) -> Fault:
    return Fault(FaultKind.DRIVER_UNLOADED, start_seconds=start, duration_seconds=duration)


def attempts(node: NodeWatch) -> list[float]:
    return [call.at for call in node.recorder.named("nvmlInitWithFlags")]


def test_an_unloaded_driver_is_said_and_tried_every_five_seconds() -> None:
    node = watch("gb300-nvl72", faults=[unloaded(10, 22)])
    node.run(9)
    assert node.is_up()
    node.step()
    assert node.reading == Reading(
        taken_at=1010.0,
        generation=0,
        up=False,
        reason=node.reading.reason,
        calls=node.reading.calls,
        errors=node.reading.errors,
    )
    assert "driver was unloaded or reset" in node.reading.reason
    assert node.values == {}
    node.run(15)
    assert not node.is_up()
    assert "modprobe nvidia" in node.reading.reason
    assert attempts(node) == [1001.0, 1015.0, 1020.0, 1025.0]
    assert node.reader.needs_new_process is False


def test_a_driver_that_is_back_is_read_under_a_new_layout() -> None:
    node = watch("gb300-nvl72", workload="decode", faults=[unloaded(10, 22)])
    node.run(9)
    before = node.gpu("gpu_energy_joules_total", 0)
    node.run(26)
    assert node.is_up()  # at the first attempt after 32 s, the one at 35 s
    node.step()
    assert [layout.generation for layout in node.layouts] == [1, 2]
    assert set(node.named("gpu_up").values()) == {1}
    # Its counters have begun anew.
    after = node.gpu("gpu_energy_joules_total", 0)
    assert before is not None
    assert after is not None
    assert after < 5000 < before
    assert node.gpu("gpu_sm_active_ratio", 0) is not None
    assert [each.kind for each in node.incidents] == []


@pytest.mark.parametrize(
    ("code", "reason", "anew"),
    [
        (DRIVER_NOT_LOADED, "modprobe nvidia", False),
        (NO_PERMISSION, "/dev/nvidiactl", False),
        (VERSION_MISMATCH, "different versions", True),
        (999, "error 999 (unknown)", False),
    ],
)
def test_nvml_that_cannot_be_initialized(code: int, reason: str, anew: bool) -> None:
    node = watch("gb300-nvl72")
    node.recorder.answers["nvmlInitWithFlags"] = code
    node.run(12)
    assert {(each.up, each.generation) for each in node.readings} == {(False, 0)}
    assert reason in node.reading.reason
    assert node.reader.needs_new_process is anew
    assert attempts(node) == [1001.0, 1006.0, 1011.0]
    assert node.layouts == []
    del node.recorder.answers["nvmlInitWithFlags"]
    node.run(5)
    assert node.is_up()
    assert node.layout.generation == 1


def test_a_driver_replaced_under_the_reader_needs_a_new_process() -> None:
    node = watch("gb300-nvl72")
    node.run(5)
    node.node.gpus[1].pin_return("nvmlDeviceGetFieldValues", VERSION_MISMATCH)
    node.step()
    assert not node.is_up()
    assert "different versions" in node.reading.reason
    assert node.reader.needs_new_process


def test_a_missing_library_is_named_tried_again_and_read_when_it_appears() -> None:
    node = watch("hgx-h100")
    opened: list[float] = []
    library: list[NvmlLibrary] = []

    def open_library() -> NvmlLibrary:
        opened.append(node.clock.now)
        if not library:
            raise NvmlUnavailableError(
                "library_not_found", "the NVML library libnvidia-ml.so.1 cannot be loaded"
            )
        return library[0]

    clock: Clock = node.clock
    reader = NvmlReader(open_library, node.reader.options, monotonic=clock, wall_ns=clock.wall_ns)
    bare = Watch(reader, clock)
    bare.run(13)
    assert {each.up for each in bare.readings} == {False}
    assert "libnvidia-ml.so.1" in bare.reading.reason
    assert opened == [1001.0, 1006.0, 1011.0]
    library.append(NvmlLibrary(node.node.library))
    bare.run(3)
    assert bare.is_up()
    assert opened == [1001.0, 1006.0, 1011.0, 1016.0]
    assert bare.value("node_gpus_present") == 8
    assert bare.layout.generation == 1


def test_every_initialization_is_given_back() -> None:
    # NVML counts its users; one too many would keep it from beginning anew (nvml.h, nvmlInit).
    node = watch("gb300-nvl72")
    node.recorder.answers["nvmlDeviceGetCount_v2"] = UNINITIALIZED  # breaks while the GPUs are found
    node.run(12)
    begun, ended = node.recorder.named("nvmlInitWithFlags"), node.recorder.named("nvmlShutdown")
    assert len(begun) == len(ended) == 3
    assert not node.is_up()
    del node.recorder.answers["nvmlDeviceGetCount_v2"]
    node.run(5)
    assert node.is_up()
    node.reader.close()
    assert len(node.recorder.named("nvmlInitWithFlags")) == len(node.recorder.named("nvmlShutdown")) == 4


def test_what_was_seen_before_the_driver_went_is_not_lost() -> None:
    faults = [Fault(FaultKind.XID, 9.5, gpu=2, code=119), unloaded(10.5)]
    node = watch("hgx-h100", faults=faults)
    node.run(9)
    called = len(node.recorder.calls)
    node.recorder.before["nvmlDeviceGetUtilizationRates"] = lambda: node.clock.advance(0.6)
    node.step()  # the Xid is fetched, then the driver goes in the middle of the sweep
    assert not node.is_up()
    assert [(each.kind, each.code) for each in node.incidents] == [("xid", 119)]
    assert node.reading.errors["uninitialized"] == 1
    assert node.reading.calls == len(node.recorder.calls) - called > 0


def test_a_gpu_that_is_lost_with_the_driver_is_told() -> None:
    faults = [Fault(FaultKind.GPU_LOST, 9.5, gpu=0), unloaded(10.5)]
    node = watch("gb300-nvl72", faults=faults)
    node.run(9)
    node.recorder.before["nvmlDeviceGetUtilizationRates"] = lambda: node.clock.advance(0.6)
    node.step()
    assert not node.is_up()
    assert [(each.kind, each.code) for each in node.incidents] == [("xid", 79), ("gpu_lost", None)]


def test_no_gpu_at_all_is_a_node_that_is_read() -> None:
    node = watch("gb300-nvl72")
    node.recorder.answers["nvmlDeviceGetCount_v2"] = 28  # NVML_ERROR_GPU_NOT_FOUND
    node.run(3)
    assert node.is_up()
    assert node.value("node_gpus_present") == 0
    assert node.named("gpu_up") == {}


def test_a_wild_count_of_gpus_is_bounded() -> None:
    node = watch("gb300-nvl72")
    count = node.node.library.__dict__["nvmlDeviceGetCount_v2"]

    def wild(reference: object) -> int:
        code: int = count(reference)
        reference._obj.value = 0xFFFFFFFF  # type: ignore[attr-defined]  # what byref refers to
        return code

    node.node.library.__dict__["nvmlDeviceGetCount_v2"] = wild
    node.step()
    assert node.value("node_gpus_present") == 4
    assert len(node.recorder.named("nvmlDeviceGetHandleByIndex_v2")) == 256
