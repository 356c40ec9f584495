"""From a table and its values to what is known of a node."""

from __future__ import annotations

import pytest

from collector.health.rack_types import NodeView
from collector.health.states import GpuState
from collector.sources.peers.document import PeerError
from collector.sources.peers.table import PeerTable, read_table
from collector.sources.peers.view import node_view
from tests.peer_agents import DIGEST, INFO_TEXTS, check, decoded, slots_and_values

COMPLETED = 3
"""Place of `completed` among the four states of a GPU's fabric in the small table."""


def view(**changes: object) -> NodeView:
    document = decoded(**changes)
    assert isinstance(document.slots, list)
    return node_view(document, read_table(DIGEST, document.slots), 0.25)


def values_with(name: str, value: float | None, *, occurrence: int = 0) -> list[int | float | None]:
    slots, values = slots_and_values()
    places = [place for place, slot in enumerate(slots) if name in (slot[0], " ".join(slot))]
    values[places[occurrence]] = value
    return values


def table(*slots: list[str]) -> PeerTable:
    return read_table(DIGEST, slots)


def test_a_node_that_is_well() -> None:
    own = view()
    assert (own.rack, own.node, own.agent_id, own.boot_id) == ("r01", "n01", "agent-1", "boot-1")
    assert (own.nvml_up, own.fast_age_seconds, own.gpus_expected) == (True, 0.25, 2)
    assert (own.cluster_uuid, own.clique, own.chassis_serial) == ("cluster-1", "7", "1823408340692")
    assert (own.slot, own.tray, own.fabric_complete) == (5, 4, True)
    assert own.identity["driver_version"] == "580.173.02"
    assert [(gpu.uuid, gpu.index, gpu.up, gpu.state) for gpu in own.gpus] == [
        ("GPU-0", "0", True, GpuState.OK),
        ("GPU-1", "1", True, GpuState.OK),
    ]
    assert own.gpus[0].texts["vbios"] == "97.10.4A.00.1A"


def test_a_lost_gpu_stays_with_its_identity_and_without_texts() -> None:
    slots, values = slots_and_values()
    for place, slot in enumerate(slots):
        if slot[2:3] == ["GPU-1"]:
            values[place] = 0 if slot[0] == "gpu_up" else None
    own = view(values=values)
    lost = own.gpus[1]
    assert (lost.uuid, lost.up, lost.state, dict(lost.texts)) == ("GPU-1", False, GpuState.FAILED, {})
    # The other one still names domain and slot, and has completed its registration.
    assert (own.clique, own.slot, own.fabric_complete) == ("7", 5, True)


def test_a_gpu_of_which_nothing_is_read_is_unknown() -> None:
    assert view(values=values_with("gpu_up", None)).gpus[0].state is GpuState.UNKNOWN


def test_without_nvml_no_gpu_is_ok() -> None:
    assert {gpu.state for gpu in view(nvml_up=False).gpus} == {GpuState.UNKNOWN}


def test_an_agent_that_evaluates_no_checks_leaves_its_gpus_unknown() -> None:
    assert {gpu.state for gpu in view(checks=None).gpus} == {GpuState.UNKNOWN}


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, GpuState.FAILED),
        ({"impact": "avoid"}, GpuState.DEGRADED),
        ({"impact": "warn"}, GpuState.DEGRADED),
        ({"impact": "info"}, GpuState.OK),
        ({"failed": False}, GpuState.UNKNOWN),
        ({"impact": "catastrophic"}, GpuState.DEGRADED),  # of a newer agent: not known is not harmless
    ],
)
def test_checks_make_the_state_of_their_gpu(changes: dict[str, object], state: GpuState) -> None:
    own = view(checks=[check(**changes)])
    assert [gpu.state for gpu in own.gpus] == [GpuState.OK, state]
    assert [found.check for found in own.gpus[1].checks] == ["gpu_row_remap_failure"]
    assert own.checks == ()


def test_checks_of_the_node_and_of_gpus_that_are_not_in_the_table_concern_the_node() -> None:
    own = view(checks=[check(gpu_uuid="", check="gpu_count"), check(gpu_uuid="GPU-gone")])
    assert [found.check for found in own.checks] == ["gpu_count", "gpu_row_remap_failure"]
    assert {gpu.state for gpu in own.gpus} == {GpuState.OK}


@pytest.mark.parametrize(
    ("states", "complete"),
    [
        ({"completed": 1, "not_supported": 0}, True),
        ({"completed": 0, "not_supported": 0}, False),
        ({"completed": None, "not_supported": None}, False),  # known to have one, not known to be complete
        ({"completed": 0, "not_supported": 1}, None),
    ],
)
def test_the_fabric_is_complete_when_every_gpu_is_registered(
    states: dict[str, int | None], complete: bool | None
) -> None:
    slots, values = slots_and_values()
    for place, slot in enumerate(slots):
        if slot[0] == "gpu_fabric_state" and slot[3] in states:
            values[place] = states[slot[3]]
    assert view(values=values).fabric_complete is complete


def test_one_gpu_that_is_not_registered_makes_the_fabric_incomplete() -> None:
    assert view(values=values_with("gpu_fabric_state 1 GPU-1 completed", 0)).fabric_complete is False


def test_without_fabric_series_there_is_no_fabric() -> None:
    slots = [["gpu_up", "0", "GPU-0"]]
    assert view(slots=slots, values=[1]).fabric_complete is None


def test_what_gpus_do_not_agree_on_is_left_open() -> None:
    slots, values = slots_and_values()
    for slot in slots:
        if slot[:3] == ["gpu_info", "1", "GPU-1"]:
            slot[3 + INFO_TEXTS.index("7")] = "8"  # its clique
            slot[3 + INFO_TEXTS.index("5")] = "9"  # its slot
    own = view(slots=slots, values=values)
    assert (own.cluster_uuid, own.clique, own.slot, own.tray) == ("cluster-1", "", None, 4)


@pytest.mark.parametrize("text", ["", "-1", "255.0", "²", "x", "99999", "123456"])
def test_a_slot_that_is_no_slot_is_none(text: str) -> None:
    slots, values = slots_and_values(gpus=1)
    for slot in slots:
        if slot[0] == "gpu_info":
            slot[3 + INFO_TEXTS.index("5")] = text
    assert view(slots=slots, values=values).slot is None


@pytest.mark.parametrize("value", [None, -1, 1e300])
def test_an_absurd_number_of_expected_gpus_is_none(value: float | None) -> None:
    assert view(values=values_with("node_gpus_expected", value)).gpus_expected is None


def test_unknown_metrics_and_other_labels_are_of_a_newer_agent_and_skipped() -> None:
    own = table(
        ["gpu_up", "0", "GPU-0"], ["gpu_soul_ratio", "0"], ["gpu_up", "0"], ["gpu_power_watts", "0", "G"]
    )
    assert len(own) == 4
    assert [metric.name if metric else None for metric in own.samples.metrics] == [
        "gpu_up",
        None,
        None,
        "gpu_power_watts",
    ]
    assert len(own.gpus) == 1


def test_an_agent_cannot_speak_for_its_rack() -> None:
    assert table(["rack_verdict", "r01", "AVAILABLE"]).samples.metrics == (None,)


def test_a_series_that_stands_twice_is_refused() -> None:
    with pytest.raises(PeerError, match="'gpu_up 0 GPU-0' stands twice"):
        table(["gpu_up", "0", "GPU-0"], ["gpu_up", "0", "GPU-0"])


def test_more_gpus_than_a_node_can_have_are_refused() -> None:
    with pytest.raises(PeerError, match="claims to have 257 GPUs; 256 at most"):
        table(*(["gpu_up", str(index), f"GPU-{index}"] for index in range(257)))


def test_equal_labels_are_kept_once() -> None:
    own = table(["gpu_up", "0", "GPU-0"], ["gpu_power_watts", "0", "GPU-0"])
    assert own.samples.labels[0] is own.samples.labels[1]
