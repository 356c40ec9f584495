"""A GPU that is lost costs that GPU; a value that fails costs that value, for as long as it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from collector.readings import GpuIdentity
from collector.simulator import Fault, FaultKind
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from tests.faults.nvml_functions import FUNCTIONS
from tests.nvml_node import HINTS, NodeWatch, watch

TIMEOUT, UNKNOWN, RESET_REQUIRED, NO_PERMISSION = 10, 999, 16, 4  # nvml.h


def lost(gpu: int, start: float, duration: float | None = None) -> Fault:
    return Fault(FaultKind.GPU_LOST, start_seconds=start, duration_seconds=duration, gpu=gpu)


def ups(node: NodeWatch) -> dict[int, object]:
    """Return gpu_up by the index that each GPU has in a complete node."""
    by_uuid = {labels[1]: value for labels, value in node.named("gpu_up").items()}
    return {gpu.index: by_uuid[gpu.uuid] for gpu in node.node.gpus if gpu.uuid in by_uuid}


def handles(node: NodeWatch, name: str) -> list[int]:
    """List the handles with which a function was called."""
    found: list[Any] = [call.arguments[0] for call in node.recorder.named(name)]
    return [handle.value for handle in found]


def advance_at_call(node: NodeWatch, name: str, nth: int, seconds: float) -> Callable[[], None]:
    """Let time pass before the nth call of a function, counted from now."""
    left = [nth]

    def before() -> None:
        left[0] -= 1
        if left[0] == 0:
            node.clock.advance(seconds)

    node.recorder.before[name] = before
    return before


def test_a_gpu_lost_in_the_middle_of_a_sweep_costs_that_gpu_only() -> None:
    node = watch("gb300-nvl72", workload="decode", faults=[lost(2, start=10.5)])
    node.run(9)
    complete = {key for key, value in node.values.items() if value is not None}
    advance_at_call(node, "nvmlDeviceGetMemoryInfo_v2", 3, 0.6)  # GPU 2 is in the middle of its sweep
    node.step()  # 10.0 s after the start when the step begins
    assert node.is_up()
    assert ups(node) == {0: 1, 1: 1, 2: 0, 3: 1}
    assert node.value("node_gpus_present") == 3
    assert not node.has("gpu_power_watts", *node.labels(2))
    # Everything else that had a value has one, the activity of the others too.
    uuid = node.node.gpus[2].uuid
    others = {key for key in complete if uuid not in key[1]}
    assert {key for key, value in node.values.items() if value is not None} >= others
    assert node.gpu("gpu_sm_active_ratio", 0) is not None
    assert node.gpu("gpu_sm_active_ratio", 3) is not None
    assert [(each.kind, each.gpu_uuid) for each in node.incidents] == [("gpu_lost", uuid)]
    assert node.errors == {"gpu_is_lost": 1}
    assert [gpu.present for gpu in node.layout.gpus] == [True, True, False, True]
    node.step()
    assert [(each.kind, each.gpu_uuid, each.code) for each in node.incidents[1:]] == [("xid", uuid, 79)]
    assert node.layout.generation == 2


def test_a_lost_gpu_is_back_under_its_uuid_and_a_new_handle() -> None:
    node = watch("hgx-h100", faults=[lost(5, start=10, duration=20)])
    node.run(12)
    assert ups(node)[5] == 0
    before = set(handles(node, "nvmlDeviceGetUtilizationRates"))
    node.run(30)
    assert set(ups(node).values()) == {1}
    assert node.value("node_gpus_present") == 8
    assert node.gpu("gpu_power_limit_watts", 5) == 700.0
    assert node.gpu("gpu_nvlinks_up", 5) == 18
    assert node.gpu("gpu_sm_active_ratio", 5) is not None
    uuid = node.node.gpus[5].uuid
    assert [(each.kind, each.gpu_uuid) for each in node.incidents] == [
        ("xid", uuid),
        ("gpu_lost", uuid),
        ("gpu_returned", uuid),
    ]
    now = set(handles(node, "nvmlDeviceGetUtilizationRates"))
    assert len(now - before) == 1
    assert {gpu.index for gpu in node.layout.gpus} == set(range(8))


def test_a_lost_gpu_is_looked_for_every_ten_seconds_only() -> None:
    node = watch("hgx-h100", faults=[lost(5, start=10)])
    node.run(12)
    node.recorder.calls.clear()
    node.run(60)
    assert len(node.recorder.named("nvmlDeviceGetHandleByUUID")) == 6
    assert ups(node)[5] == 0
    assert node.errors == {"gpu_is_lost": 1}  # said once, not each second


def test_incidents_have_the_time_at_which_they_were_seen() -> None:
    node = watch("hgx-h100", faults=[lost(5, start=10)])
    node.run(10)
    node.run(3)
    # The clock began at 2025-11-30T12:20:00Z.
    assert {each.time_ns for each in node.incidents} == {1_764_505_210_000_000_000}


def test_the_module_is_read_through_another_gpu_once_its_first_is_lost() -> None:
    node = watch("gb300-nvl72", faults=[lost(0, start=10, duration=20)])
    for gpu in node.node.gpus:
        gpu.pin_field(185, 1, 1_000_000 + gpu.index * 1000)
    first, second = node.node.gpus[0].identity.serial, node.node.gpus[2].identity.serial
    node.run(9)
    assert node.named("module_power_watts") == {(first,): 1000.0, (second,): 1002.0}
    node.run(3)
    assert node.named("module_power_watts") == {(first,): 1001.0, (second,): 1002.0}
    node.run(30)
    assert node.named("module_power_watts") == {(first,): 1000.0, (second,): 1002.0}


def test_a_module_without_gpus_has_no_series() -> None:
    node = watch("gb300-nvl72", faults=[lost(0, start=10), lost(1, start=12)])
    node.run(15)
    assert len(node.named("module_power_watts")) == 1
    assert ups(node) == {0: 0, 1: 0, 2: 1, 3: 1}


def test_all_gpus_can_be_lost() -> None:
    node = watch("gb300-nvl72", faults=[lost(gpu, start=10, duration=30) for gpu in range(4)])
    node.run(15)
    assert node.is_up()
    assert ups(node) == dict.fromkeys(range(4), 0)
    assert node.value("node_gpus_present") == 0
    node.run(40)
    assert ups(node) == dict.fromkeys(range(4), 1)


def known(node: NodeWatch) -> tuple[GpuIdentity, ...]:
    """Return what an agent remembers of a complete node."""
    return tuple(GpuIdentity(gpu.uuid, gpu.index, True, {}) for gpu in node.node.gpus)


def test_a_gpu_lost_before_the_start_is_down_from_the_first_sweep() -> None:
    remembered = known(watch("gb300-nvl72"))
    node = watch(
        "gb300-nvl72",
        faults=[lost(0, start=0, duration=35)],
        options=ReaderOptions(platforms=HINTS, known_gpus=remembered),
    )
    node.step()
    expected = {0: 0, 1: 1, 2: 1, 3: 1}
    assert ups(node) == expected
    assert node.value("node_gpus_present") == 3
    # The indices of the others have moved down by one; their UUIDs say who is who, for as long as it takes.
    for _ in range(30):
        node.step()
        assert ups(node) == expected
    assert node.incidents == []
    node.run(15)
    assert [each.kind for each in node.incidents] == ["gpu_returned"]
    # Each is what it is in a complete node, its index too.
    assert node.named("gpu_up") == {node.labels(gpu): 1 for gpu in range(4)}
    assert node.named("gpu_power_limit_watts") == {node.labels(gpu): 1400.0 for gpu in range(4)}
    assert None not in node.values.values()


def test_a_replaced_gpu_is_forgotten_once_the_expected_count_is_present() -> None:
    ghost = GpuIdentity("GPU-that-was-replaced", 2, True, {})
    for options in (
        ReaderOptions(platforms=HINTS, known_gpus=(ghost,)),
        ReaderOptions(known_gpus=(*known(watch("gb300-nvl72"))[:3], ghost)),  # an unknown platform
        ReaderOptions(platform="gb300-nvl72", gpus_expected=4, known_gpus=(ghost,)),
    ):
        node = watch("gb300-nvl72", options=options)
        node.step()
        assert len(node.named("gpu_up")) == 4
        assert {gpu.uuid for gpu in node.layout.gpus} == {gpu.uuid for gpu in node.node.gpus}


def test_a_missing_gpu_is_not_forgotten_while_the_count_is_short() -> None:
    node = watch("gb300-nvl72", options=ReaderOptions(platform="big", gpus_expected=5, known_gpus=(ghost(),)))
    node.run(30)
    assert node.value("gpu_up", "9", "GPU-ghost") == 0
    assert node.value("node_gpus_present") == 4


def ghost() -> GpuIdentity:
    return GpuIdentity("GPU-ghost", 9, True, {})


def test_on_an_unknown_platform_a_lost_gpu_is_down_and_not_forgotten() -> None:
    node = watch("gb300-nvl72", faults=[lost(1, start=5)], options=ReaderOptions())
    node.run(30)
    assert ups(node) == {0: 1, 1: 0, 2: 1, 3: 1}


def test_a_lost_gpu_of_a_node_larger_than_its_profile_is_down_and_not_forgotten() -> None:
    options = ReaderOptions(platforms={"NVIDIA GB300": PlatformHint("half", 2)})
    node = watch("gb300-nvl72", faults=[lost(1, start=5)], options=options)
    node.run(30)
    assert ups(node) == {0: 1, 1: 0, 2: 1, 3: 1}


@pytest.mark.parametrize(
    ("field", "scope", "name", "labels"),
    [
        (185, 0, "gpu_power_watts", ()),
        (83, 0, "gpu_energy_joules_total", ()),
        (138, 0xFFFFFFFF, "gpu_nvlink_transmitted_bytes_total", ()),
        (204, 4, "nvlink_received_bytes_total", ("4",)),
        (208, 4, "nvlink_errors_total", ("4",)),
        (165, 4, "nvlink_up", ("4",)),
        (165, 4, "gpu_nvlinks_up", ()),
        (142, 0, "gpu_rows_remapped_total", ("correctable",)),
    ],
)
@pytest.mark.parametrize(
    ("code", "error"), [(TIMEOUT, "timeout"), (UNKNOWN, "unknown"), (RESET_REQUIRED, "reset_required")]
)
def test_a_field_that_fails_once_is_absent_once(
    field: int, scope: int, name: str, labels: tuple[str, ...], code: int, error: str
) -> None:
    node = watch("gb300-nvl72", workload="decode")
    node.run(1)
    assert node.gpu(name, 1, *labels) is not None
    others = {key for key, value in node.values.items() if value is not None and key[0] != name}
    node.node.gpus[1].pin_field(field, scope, None, code=code)
    node.run(10)
    assert node.gpu(name, 1, *labels) is None
    assert node.gpu(name, 0, *labels) is not None
    assert node.errors[error] >= 1
    assert set(node.errors) == {error}
    # The sums and counts that rest on the field are unknown, too; nothing else is.
    missing = {key[0] for key in others if node.values[key] is None}
    assert missing <= {"gpu_nvlinks_up", "nvlink_up"}
    node.node.gpus[1].unpin_field(field, scope)
    node.run(10)
    assert node.gpu(name, 1, *labels) is not None
    assert set(ups(node).values()) == {1}
    assert node.layout.generation == 1


@pytest.mark.parametrize(("function", "name"), FUNCTIONS.items())
def test_a_function_that_fails_once_is_absent_once(function: str, name: str) -> None:
    node = watch("gb300-nvl72", workload="decode")
    node.run(2)
    node.node.gpus[1].pin_return(function, UNKNOWN)
    node.run(10)
    assert node.gpu(name, 1) is None
    assert node.gpu(name, 0) is not None
    assert set(node.errors) == {"unknown"}
    node.node.gpus[1].unpin_return(function)
    node.run(10)
    assert node.gpu(name, 1) is not None
    assert node.layout.generation == 1


def test_what_always_fails_costs_itself_and_no_layout() -> None:
    node = watch("gb300-nvl72")
    node.node.gpus[1].pin_field(83, 0, None, code=UNKNOWN)
    node.run(60)
    assert node.gpu("gpu_energy_joules_total", 1) is None
    assert node.gpu("gpu_power_watts", 1) is not None
    assert node.layout.generation == 1
    assert set(node.errors) == {"unknown"}
    assert 60 <= node.errors["unknown"] <= 61  # each second, and once when it was probed


def test_no_permission_is_counted_once() -> None:
    node = watch("gb300-nvl72")
    node.node.gpus[1].pin_field(185, 2, None, code=NO_PERMISSION)
    node.run(60)
    assert node.errors == {"no_permission": 1}
    assert not node.has("gpu_memory_power_watts", *node.labels(1))
    assert node.gpu("gpu_memory_power_watts", 0) is not None


def test_a_gpu_that_needs_a_reset_is_up() -> None:
    node = watch("gb300-nvl72")
    node.run(1)
    node.node.gpus[1].pin_return("nvmlDeviceGetFieldValues", RESET_REQUIRED)
    node.run(10)
    assert set(ups(node).values()) == {1}
    assert node.gpu("gpu_utilization_ratio", 1) == 0.0
    assert set(node.errors) == {"reset_required"}


def test_identity_survives_a_time_out() -> None:
    node = watch("gb300-nvl72")
    node.run(2)
    texts = dict(node.texts(1))
    for function in ("nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetMigMode", "nvmlDeviceGetEccMode"):
        node.node.gpus[1].pin_return(function, TIMEOUT)
    node.run(70)
    assert node.texts(1) == texts
    assert node.layout.generation == 1


def test_an_identity_that_never_rests_does_not_stop_the_reading() -> None:
    node = watch("gb300-nvl72")
    profile, cliques = node.node.profile, iter(range(1, 100_000))

    def another() -> None:
        fabric = replace(profile.fabric, clique_id=next(cliques))
        for gpu in node.node.gpus:
            gpu.profile = replace(profile, fabric=fabric)

    node.recorder.before["nvmlDeviceGetGpuFabricInfoV"] = another
    node.run(3)
    assert node.gpu("gpu_power_watts", 0) is not None
    assert len(node.named("gpu_info")) == 4
    assert len(node.recorder.calls) < 3 * 4 * 4 * 40


def test_a_lost_gpu_does_not_silence_the_xids_of_the_others() -> None:
    xids = [Fault(FaultKind.XID, 12, gpu=3, code=94)]
    node = watch("gb300-nvl72", faults=[lost(1, start=10), *xids])
    node.run(10)
    node.recorder.answers["nvmlEventSetWait_v2"] = 15  # as a driver answers with a lost GPU in the set
    node.run(1)
    del node.recorder.answers["nvmlEventSetWait_v2"]
    node.run(3)
    seen = {(each.kind, each.gpu_uuid, each.code) for each in node.incidents}
    assert ("xid", node.node.gpus[3].uuid, 94) in seen
    assert len(node.recorder.named("nvmlEventSetCreate")) == 2


@pytest.mark.parametrize("code", [13, 31, 48, 63, 79, 94, 119, 149, 999])
def test_each_xid_is_one_incident(code: int) -> None:
    faults = [Fault(FaultKind.XID, start, gpu=2, code=code) for start in (3, 3, 7.5)]
    node = watch("hgx-h100", faults=faults)
    node.run(12)
    uuid = node.node.gpus[2].uuid
    assert [(each.kind, each.gpu_uuid, each.code) for each in node.incidents] == [("xid", uuid, code)] * 3
    assert ups(node) == dict.fromkeys(range(8), 1)
