"""What holds of every simulated node, however it is polled."""

from __future__ import annotations

import ctypes
import itertools
import math

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import profiles
from collector.errors import ConfigurationError
from collector.simulator import (
    WORKLOADS,
    Fault,
    FaultKind,
    ManualClock,
    SimulatedNode,
    parse_fault,
)

names = st.sampled_from(profiles.names())
workloads = st.sampled_from(sorted(WORKLOADS))
seeds = st.integers(0, 2**32)
# Polling times in milliseconds, so that grid points and points between them both occur.
times = st.lists(st.integers(0, 60_000), min_size=1, max_size=12).map(
    lambda points: [point / 1000 for point in sorted(points)]
)
windows = st.tuples(st.floats(0, 40), st.floats(0.1, 30))


def make(
    name: str = "gb300-nvl72",
    workload: str = "decode",
    seed: int = 0,
    faults: tuple[Fault, ...] = (),
    start: float = 0.0,
) -> tuple[SimulatedNode, ManualClock]:
    clock = ManualClock(start)
    node = SimulatedNode(
        profiles.load(name),
        workload=workload,
        seed=seed,
        faults=faults,
        clock=clock,
        sleep=clock.sleep,
        wall_clock_ns=lambda: 0,
    )
    assert node.library.nvmlInit_v2() == 0
    return node, clock


REQUESTS = [
    *((field_id, 0) for field_id in (82, 83, 138, 139, 185, 186, 202, 204, 214, 221, 222, 230, 235)),
    *((field_id, 1) for field_id in (185, 186, 191)),
    *((field_id, 0xFFFFFFFF) for field_id in (138, 139, 140, 141)),
    (202, 3),
]
COUNTERS = [index for index, (field_id, _) in enumerate(REQUESTS) if field_id in {83, 191, *range(138, 142)}]
COUNTERS += [index for index, (field_id, _) in enumerate(REQUESTS) if field_id in {202, 204, 214, 221, 235}]


def poll(node: SimulatedNode, index: int = 0) -> list[tuple[int, int]]:
    handle = ctypes.c_void_p()
    assert node.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    values = (pynvml.c_nvmlFieldValue_t * len(REQUESTS))()
    for value, (field_id, scope_id) in zip(values, REQUESTS, strict=True):
        value.fieldId, value.scopeId = field_id, scope_id
    assert node.library.nvmlDeviceGetFieldValues(handle, len(REQUESTS), values) == 0
    return [(value.nvmlReturn, value.value.ullVal) for value in values]


@given(names, workloads, seeds, times)
def test_counters_never_run_back(name: str, workload: str, seed: int, points: list[float]) -> None:
    node, clock = make(name, workload, seed)
    last = poll(node)
    for point in points:
        clock.set(point)
        now = poll(node)
        for index in COUNTERS:
            assert now[index][0] == last[index][0]
            assert now[index][1] >= last[index][1], REQUESTS[index]
        last = now


@given(seeds, times, windows, st.integers(0, 17))
def test_sums_over_links_never_run_back_when_a_link_fails(
    seed: int, points: list[float], window: tuple[float, float], link: int
) -> None:
    fault = Fault(FaultKind.LINK_DOWN, *window, gpu=0, link=link)
    node, clock = make(seed=seed, faults=(fault,))
    totals = [index for index, (_, scope) in enumerate(REQUESTS) if scope == 0xFFFFFFFF]
    last, last_of_link = poll(node), node.gpus[0].nvlink_transmitted_bytes(0, link)
    for point in points:
        clock.set(point)
        now, of_link = poll(node), node.gpus[0].nvlink_transmitted_bytes(point, link)
        assert all(now[index][1] >= last[index][1] for index in totals)
        assert of_link >= last_of_link
        last, last_of_link = now, of_link


@given(names, workloads, seeds, times, times)
def test_the_truth_does_not_depend_on_who_looks_when(
    name: str, workload: str, seed: int, mine: list[float], yours: list[float]
) -> None:
    end = 61.7
    answers = []
    for points in (mine, yours, []):
        node, clock = make(name, workload, seed)
        for point in points:
            clock.set(point)
            poll(node, int(point) % 4)
        clock.set(end)
        answers.append([poll(node, index) for index in range(4)])
    assert answers[0] == answers[1] == answers[2]


@given(seeds, times, windows)
def test_nor_under_faults(seed: int, points: list[float], window: tuple[float, float]) -> None:
    faults = (
        Fault(FaultKind.LINK_DOWN, *window, gpu=0, link=3),
        Fault(FaultKind.THERMAL_SLOWDOWN, window[0] / 2, window[1], gpu=0),
        Fault(FaultKind.GPU_LOST, 5, 3, gpu=1),
    )
    answers = []
    for look in (True, False):
        node, clock = make(seed=seed, faults=faults)
        for point in points if look else ():
            clock.set(point)
            poll(node)
        clock.set(80)
        answers.append(poll(node))
    assert answers[0] == answers[1]


@given(names, workloads, seeds, st.integers(1, 400))
def test_energy_is_the_integral_of_power(name: str, workload: str, seed: int, ticks: int) -> None:
    node, _ = make(name, workload, seed)
    gpu = node.gpus[0]
    start = gpu.energy_joules(0.0)
    # Power is constant within a tick of 0.1 s: the middle of each tick stands for all of it.
    joules = math.fsum(gpu.power_watts((tick + 0.5) / 10) * 0.1 for tick in range(ticks))
    assert gpu.energy_joules(ticks / 10) - start == pytest.approx(joules, rel=1e-6, abs=1e-3)


@given(seeds, st.floats(1.5, 50))
def test_the_average_power_is_the_energy_of_the_last_second(seed: int, moment: float) -> None:
    node, clock = make("hgx-h100", "prefill", seed)
    joules = node.gpus[0].energy_joules(moment) - node.gpus[0].energy_joules(moment - 1)
    clock.set(moment)
    code, milliwatts = poll(node)[4]
    assert code == 0
    assert milliwatts == pytest.approx(joules * 1000, abs=2)


@given(seeds, st.floats(2, 50))
def test_a_module_is_its_gpus_and_more(seed: int, moment: float) -> None:
    node, clock = make(seed=seed)
    clock.set(moment)
    first, second = (poll(node, index) for index in (0, 1))
    average = REQUESTS.index((185, 0)), REQUESTS.index((185, 1))
    rest_watts = (first[average[1]][1] - first[average[0]][1] - second[average[0]][1]) / 1000
    # 491.5 W of an idle module less two GPUs of 178 W; Grace draws more under load.
    assert 135 <= rest_watts <= 135.5 + 45.1
    assert first[average[1]][1] <= 2_900_000  # the captured limit


@given(names, seeds)
def test_work_shows_everywhere(name: str, seed: int) -> None:
    """Twice the load is more power, more heat and more traffic, on every platform."""
    readings = []
    for workload in ("idle", "decode", "training"):
        node, _ = make(name, workload, seed)
        gpu = node.gpus[0]
        joules = gpu.energy_joules(120) - gpu.energy_joules(60)
        sent = gpu.nvlink_transmitted_bytes(120) - gpu.nvlink_transmitted_bytes(60)
        readings.append((joules, gpu.temperature_celsius(120), sent))
    for before, after in itertools.pairwise(readings):
        assert all(less < more for less, more in zip(before, after, strict=True))
    assert readings[0][2] == 0


@given(names, workloads, seeds)
def test_what_is_read_stays_within_the_platform(name: str, workload: str, seed: int) -> None:
    node, _ = make(name, workload, seed)
    profile = profiles.load(name)
    gpu = node.gpus[0]
    lanes = profile.nvlink.links_per_gpu * profile.nvlink.nominal_bytes_per_second
    for second in range(0, 90, 7):
        assert 0 < gpu.power_watts(second) <= profile.gpu.power_max_watts
        assert 0 <= gpu.load_ratio(second) <= 1
        assert gpu.temperature_celsius(second) < profile.gpu.temperature_limit_sum_celsius
        sent = gpu.nvlink_transmitted_bytes(second + 1) - gpu.nvlink_transmitted_bytes(second)
        assert sent <= lanes


@given(workloads, seeds)
def test_temperature_follows_power_with_a_lag(workload: str, seed: int) -> None:
    node, _ = make("hgx-h100", workload, seed)
    gpu = node.gpus[0]
    trace = [gpu.temperature_celsius(second) for second in range(200)]
    # A first-order lag of 15 s moves at most a fifteenth of the whole span in a second.
    assert max(abs(after - before) for before, after in itertools.pairwise(trace)) <= 65 / 15
    mean_watts = (gpu.energy_joules(200) - gpu.energy_joules(100)) / 100
    # 30.5 degrees idle at 69 W, 62 at 612 W: the captures.
    expected = 30.5 + (mean_watts - 69) * (62 - 30.5) / (612 - 69)
    assert trace[-1] == pytest.approx(expected, abs=5)


@given(st.floats(0, 1e9), st.integers(0, 50_000))
def test_the_clock_may_begin_anywhere(start: float, milliseconds: int) -> None:
    """Only time since the start counts; rounding of a large clock is far below a reading."""
    elapsed = milliseconds / 1000
    near, near_clock = make(start=0.0)
    far, far_clock = make(start=start)
    near_clock.set(elapsed)
    far_clock.set(start + elapsed)
    ours, theirs = near.gpus[0].energy_joules(near_clock()), far.gpus[0].energy_joules(far_clock())
    assert ours == pytest.approx(theirs, abs=0.01)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=6))
def test_the_truth_can_be_asked_in_any_order(moments: list[int]) -> None:
    node, _ = make(workload="training")
    fresh = {moment: make(workload="training")[0].gpus[0].energy_joules(moment) for moment in moments}
    for moment in moments:
        assert node.gpus[0].energy_joules(moment) == fresh[moment]


def read_fault(text: str) -> Fault | str:
    """Return the fault, or the message of its refusal; anything else fails the test."""
    try:
        return parse_fault(text)
    except ConfigurationError as error:
        return str(error)


@given(st.text(max_size=60))
def test_any_text_is_a_fault_or_refused(text: str) -> None:
    answer = read_fault(text)
    assert isinstance(answer, Fault) or answer.startswith("fault ")


@given(
    st.sampled_from([kind.value for kind in FaultKind]),
    st.dictionaries(
        st.sampled_from(["gpu", "link", "code", "start", "duration", "what"]),
        st.one_of(st.integers(-1, 200).map(str), st.text(max_size=6)),
        max_size=5,
    ),
)
def test_any_parameters_are_a_fault_or_refused(kind: str, parameters: dict[str, str]) -> None:
    answer = read_fault(f"{kind}:" + ",".join(f"{name}={value}" for name, value in parameters.items()))
    if isinstance(answer, Fault):
        assert answer.kind == kind
        assert answer.start_seconds >= 0
    else:
        assert kind in answer
