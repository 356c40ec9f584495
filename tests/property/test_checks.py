"""Whatever the values are: no check raises, nothing missing is healthy, nothing that disappears is cured."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.catalog.checks import GPU_CHECKS, NODE_CHECKS
from collector.health.agent_view import judge_node
from collector.health.evaluate import Checker, GpuName
from collector.health.kernel_log import parse_xid, pci_address
from collector.health.states import GpuState, NodeState, state_of_checks
from collector.health.xid_memory import SeenXid
from collector.health.xids import SEVERITIES, load_catalogue
from collector.model import Value
from collector.sources.host.kmsg import RecordReader
from tests.exporter_snapshots import snapshot_of
from tests.health_cells import HEALTHY, SECOND_NS, Node, Place, uuid

CATALOGUE = load_catalogue()

anything = st.one_of(
    st.none(),
    st.integers(0, 3),
    st.integers(-(2**63), 2**64),
    st.floats(allow_nan=True, allow_infinity=True),
)
places = st.sampled_from(sorted(HEALTHY))
changes = st.dictionaries(places, anything, max_size=12)
steps = st.lists(
    st.tuples(
        changes,
        st.sets(places, max_size=6),  # series that are not there at all
        st.floats(0, 2000),
        st.sampled_from(["", "", "", "the driver is not loaded"]),
    ),
    max_size=5,
)
xids = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(1, 200),
        st.sampled_from(SEVERITIES),
        st.floats(0, 200_000),
        st.one_of(st.none(), st.integers(0, 99)),
    ),
    max_size=6,
)


def fresh() -> Node:
    return Node.of(2, Checker({}, CATALOGUE))


@settings(max_examples=150, deadline=None)
@given(steps=steps, xids=xids)
def test_no_combination_of_values_raises(
    steps: list[tuple[dict[Place, Value | None], set[Place], float, str]],
    xids: list[tuple[int, int, str, float, int | None]],
) -> None:
    node = fresh()
    for number, (changed, absent, seconds, down) in enumerate(steps):
        gpu = node.gpus[number % 2]
        gpu |= changed
        for place in absent:
            gpu.pop(place, None)
        for index, code, _, ago, link in xids:
            severity = CATALOGUE.find(code).severity_of("", "")
            node.checker.see_xid(
                uuid(index), SeenXid(node.now_ns - int(ago * SECOND_NS), code, severity, link=link)
            )
        node.evaluate(seconds, down=down)
        for result in node.results:
            assert result.reason
            assert result.action
            assert result.since_ns <= node.now_ns
        values = [value for _, value in node.checker.rows([GpuName("0", uuid(0)), GpuName("1", uuid(1))])]
        assert len(values) == 2 * len(GPU_CHECKS) + len(NODE_CHECKS)
        assert set(values) <= {0, 1, None}


@settings(max_examples=150, deadline=None)
@given(changed=changes, removed=st.sets(places, min_size=1, max_size=20))
def test_a_value_that_is_removed_never_makes_a_failed_check_pass(
    changed: dict[Place, Value | None], removed: set[Place]
) -> None:
    node = fresh()
    node.evaluate()
    node.gpus[0] |= {
        place: value for place, value in changed.items() if value is None or math.isfinite(value)
    }
    node.evaluate()
    failed = {(result.check, result.gpu_uuid) for result in node.results if result.failed}
    for gpu in node.gpus:
        gpu |= dict.fromkeys(removed)
    node.evaluate()
    for check, gpu_uuid in failed:
        index = None if not gpu_uuid else int(gpu_uuid.removeprefix("GPU-"))
        assert node.exported(check, index) != 0, check


@settings(max_examples=150, deadline=None)
@given(missing=st.sets(places, min_size=1, max_size=8))
def test_a_gpu_with_a_missing_value_is_never_ok(missing: set[Place]) -> None:
    # Utilization, energy and the links' own error counters are judged in no check by themselves.
    judged = {place for place in missing if place[0] not in UNJUDGED}
    node = fresh()
    # States that exclude one another come from one number, so that all are missing or none.
    one_number = {place[0] for place in judged} & {"gpu_recovery_action", "gpu_fabric_state"}
    node.gpus[0] |= {place: None for place in HEALTHY if place in judged or place[0] in one_number}
    node.evaluate()
    results = [result for result in node.results if result.gpu_uuid == uuid(0)]
    state = state_of_checks(results)
    assert (state is GpuState.OK) == (not judged)


UNJUDGED = {"gpu_utilization_ratio", "gpu_energy_joules_total", "nvlink_errors_total", "nvlink_up"}


@settings(max_examples=100, deadline=None)
@given(changed=changes, down=st.sampled_from(["", "a call hangs"]))
def test_a_node_is_ready_only_if_every_check_passed(changed: dict[Place, Value | None], down: str) -> None:
    node = fresh()
    node.gpus[0] |= changed
    node.evaluate(down=down)
    health = judge_node(replace(snapshot_of(), checks=node.results), down)
    if health.state is NodeState.READY:
        assert not [result for result in node.results if result.impact != "info"]
        assert health.reason == ""
    else:
        assert health.reason
    if down:
        assert health.state is NodeState.UNKNOWN


@given(
    text=st.text(max_size=300),
    prefix=st.sampled_from(["", "NVRM: Xid (PCI:0000:3b:00): ", "NVRM: Xid (PCI:"]),
)
def test_no_text_of_the_kernel_log_raises(text: str, prefix: str) -> None:
    line = parse_xid(prefix + text)
    if line is not None:
        assert len(line.detail) <= 200
        assert line.detail.isprintable() or "\ufffd" in line.detail or line.detail.strip() != ""
        assert 0 <= line.code <= 99_999
    pci_address(text)


@given(pieces=st.lists(st.binary(max_size=200), max_size=10))
def test_no_bytes_of_the_kernel_log_raise(pieces: list[bytes]) -> None:
    reader = RecordReader()
    for piece in pieces:
        for record in reader.feed(piece):
            assert record.sequence >= 0


@given(
    numbers=st.lists(st.integers(0, 2**63), min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 2000), max_size=10),
)
def test_records_are_the_same_however_they_are_cut(numbers: list[int], cuts: list[int]) -> None:
    whole = b"".join(b"3,%d,5,-;text %d\n SUBSYSTEM=pci\n" % (number, number) for number in numbers)
    bounds = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    reader = RecordReader()
    found = [record.sequence for start, end in pairwise(bounds) for record in reader.feed(whole[start:end])]
    assert found == numbers
