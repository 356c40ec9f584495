"""Over any course of faults: counters never run back within a life of their GPU, values are in range."""

from __future__ import annotations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from collector.catalog import BY_NAME
from collector.catalog.spec import Entity, Kind
from collector.model import Value
from collector.readings import SeriesKey
from collector.simulator import Fault, FaultKind, SimulatedGpu
from tests.nvml_node import NodeWatch, watch

# One step of a minute or so; several may happen at once.
START = st.integers(min_value=0, max_value=50)
DURATION = st.integers(min_value=1, max_value=25)
GPU = st.integers(min_value=0, max_value=3)
LINK = st.integers(min_value=0, max_value=17)
FAULTS = st.one_of(
    st.builds(Fault, st.just(FaultKind.GPU_LOST), START, DURATION, GPU),
    st.builds(Fault, st.just(FaultKind.LINK_DOWN), START, DURATION, GPU, LINK),
    st.builds(Fault, st.just(FaultKind.THERMAL_SLOWDOWN), START, DURATION, GPU),
    st.builds(Fault, st.just(FaultKind.DRIVER_UNLOADED), START, DURATION),
    st.builds(Fault, st.just(FaultKind.ECC_UNCORRECTABLE), START, st.none(), GPU),
)
# A field of one GPU that fails for a while: field, scope, code, from, to.
FAILING = st.tuples(
    st.sampled_from([(83, 0), (138, 0xFFFFFFFF), (202, 3), (206, 3), (206, 3), (208, 3), (165, 3), (94, 0)]),
    st.sampled_from([3, 4, 10, 16, 999]),  # nvml.h: not supported, no permission, time-out, reset, unknown
    START,
    DURATION,
)


# A course takes a quarter of a second: shrinking one that fails would take many minutes.
@settings(max_examples=20, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.lists(FAULTS, max_size=5), st.lists(FAILING, max_size=4))
def test_counters_never_run_back_within_a_life(
    faults: list[Fault], failing: list[tuple[tuple[int, int], int, int, int]]
) -> None:
    node = watch("gb300-nvl72", workload="training", faults=faults)
    highest: dict[SeriesKey, Value] = {}
    for second in range(90):
        play(node.node.gpus[1], second, failing)
        node.step()
        forget_former_lives(node, highest)
        for key, value in node.values.items():
            check_value(key, value)
            if value is not None and BY_NAME[key[0]].kind is Kind.COUNTER:
                assert value >= highest.get(key, 0), key
                highest[key] = value
    # The last fault ends at 75 s, and what is lost is looked for each 10 s.
    assert node.value("node_gpus_present") == 4
    assert set(node.named("gpu_up").values()) == {1}


def play(gpu: SimulatedGpu, second: int, failing: list[tuple[tuple[int, int], int, int, int]]) -> None:
    """Let a link count errors of three kinds, and some fields fail."""
    for field, count in ((206, 1000 + second), (207, 7 * second), (208, 3)):
        gpu.pin_field(field, 3, count)
    for (field, scope), code, start, duration in failing:
        if start <= second < start + duration:
            gpu.pin_field(field, scope, None, code=code)
        elif second == start + duration and field not in (206, 208):
            gpu.unpin_field(field, scope)


def forget_former_lives(node: NodeWatch, highest: dict[SeriesKey, Value]) -> None:
    """Counters may begin anew with the driver, and those of a GPU when it is back."""
    if not node.is_up():
        highest.clear()
    returned = {each.gpu_uuid for each in node.reading.incidents if each.kind == "gpu_returned"}
    for key in [key for key in highest if set(key[1]) & returned]:
        del highest[key]


def check_value(key: SeriesKey, value: Value | None) -> None:
    metric = BY_NAME[key[0]]
    assert len(key[1]) == len(metric.label_names)
    if value is not None:
        assert metric.minimum <= value <= metric.maximum
        assert isinstance(value, int if metric.value_type.value == "int" else float)
    if metric.entity is Entity.NVLINK:
        assert key[1][2] in {str(link) for link in range(18)}
