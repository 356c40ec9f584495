"""Energy of modules whose hardware counts none: integrated, closed against the truth, and bounded."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from collector.catalog import BY_NAME
from collector.model import Value
from collector.simulator import Fault, FaultKind, Return
from collector.sources.nvml.answers import Answers
from collector.sources.nvml.module_energy import (
    Integral,
    half_difference,
    longest_step_seconds,
    mean,
    power_fill,
)
from collector.sources.nvml.options import ReaderOptions
from tests.nvml_node import HINTS, NodeWatch, watch

ENERGY, MODULE = 191, 1  # NVML_FI_DEV_ENERGY and NVML_POWER_SCOPE_MODULE (nvml.h)
AVERAGE, INSTANT = 185, 186  # NVML_FI_DEV_POWER_AVERAGE and _INSTANT (nvml.h)
KEY = (AVERAGE, MODULE)
FEW_READS = ReaderOptions(level="core", links_seconds=300.0, slow_seconds=600.0, platforms=HINTS)
NVL72 = pytest.mark.parametrize("platform", ["gb300-nvl72", "gb200-nvl72"])


def without_counter(
    platform: str = "gb300-nvl72",
    *,
    workload: str = "prefill",
    faults: tuple[Fault, ...] = (),
    options: ReaderOptions | None = None,
) -> NodeWatch:
    """Watch a node whose modules have power, and no counter of energy."""
    node = watch(platform, workload=workload, faults=faults, options=options)
    for gpu in node.node.gpus:
        gpu.pin_field(ENERGY, MODULE, None, code=Return.NOT_SUPPORTED)
    return node


def serials(node: NodeWatch) -> list[str]:
    """List the modules' serials, in the order of their GPUs."""
    return list(dict.fromkeys(gpu.identity.serial for gpu in node.node.gpus))


def joules(node: NodeWatch, module: int = 0) -> Value:
    value = node.value("module_energy_joules_total", serials(node)[module])
    assert value is not None
    return value


def error(node: NodeWatch, module: int = 0) -> Value:
    value = node.value("module_energy_error_joules_total", serials(node)[module])
    assert value is not None
    return value


def truth(node: NodeWatch, module: int = 0) -> float:
    """Return the simulator's exact integral, since its driver was loaded."""
    return node.node.gpus[2 * module].module_energy_joules(node.clock.now)


def sweep(at: float, milliwatts: int | None) -> Answers:
    answers = Answers(Counter())
    answers.read_at = at
    if milliwatts is not None:
        answers.numbers[KEY] = milliwatts
    return answers


def integral(longest_seconds: float = 3.0) -> Integral:
    return Integral(power_fill(BY_NAME["module_power_watts"], KEY, 1, 1000), mean, longest_seconds)


def error_integral() -> Integral:
    return Integral(power_fill(BY_NAME["module_power_watts"], KEY, 1, 1000), half_difference, 3.0)


# The rule.


def test_power_becomes_energy_by_the_trapezoid_rule_over_the_times_of_reading() -> None:
    fill = integral()
    # 1000 W to 1200 W in 1 s, on to 800 W in 0.5 s: 1100 J, and 500 J more.
    values = [fill(sweep(at, power)) for at, power in ((7.0, 1_000_000), (8.0, 1_200_000), (8.5, 800_000))]
    assert values == [0.0, 1100.0, 1600.0]


def test_the_error_is_half_of_what_power_changed_by() -> None:
    fill = error_integral()
    # |1200 - 1000| / 2 over 1 s, and |800 - 1200| / 2 over 0.5 s: 100 J, and 100 J more.
    values = [fill(sweep(at, power)) for at, power in ((7.0, 1_000_000), (8.0, 1_200_000), (8.5, 800_000))]
    assert values == [0.0, 100.0, 200.0]


def test_unknown_power_is_unknown_energy_and_a_short_silence_is_bridged() -> None:
    fill = integral()
    values = [fill(sweep(at, power)) for at, power in ((0.0, None), (1.0, 1_000_000), (2.0, None))]
    assert values == [None, 0.0, None]
    assert fill(sweep(3.0, 2_000_000)) == 3000.0  # 1500 W on average, for 2 s


def test_a_gap_is_not_integrated_and_the_error_does_not_grow() -> None:
    energy, bound = integral(), error_integral()
    for fill in (energy, bound):
        fill(sweep(0.0, 1_000_000))
        fill(sweep(1.0, 1_200_000))
    assert (energy(sweep(4.25, 2_000_000)), bound(sweep(4.25, 2_000_000))) == (1100.0, 100.0)
    # From there on it goes on.
    assert (energy(sweep(5.25, 2_000_000)), bound(sweep(5.25, 2_000_000))) == (3100.0, 100.0)


def test_the_longest_step_is_integrated() -> None:
    fill = integral()
    fill(sweep(10.0, 1_000_000))
    assert fill(sweep(13.0, 1_000_000)) == 3000.0


def test_impossible_power_is_unknown_and_counted_by_its_own_row_only() -> None:
    answers = sweep(1.0, 4_000_000_000)  # 4 MW
    assert integral()(answers) is None
    assert answers.errors == {}


def test_the_same_moment_twice_counts_nothing() -> None:
    fill = integral()
    fill(sweep(1.0, 1_000_000))
    fill(sweep(2.0, 1_000_000))
    assert fill(sweep(2.0, 3_000_000)) == 1000.0


@pytest.mark.parametrize(("fast", "longest"), [(0.1, 3.0), (1.0, 3.0), (2.0, 6.0), (10.0, 30.0)])
def test_a_gap_is_three_periods_and_three_seconds_at_least(fast: float, longest: float) -> None:
    assert longest_step_seconds(fast) == longest


# In the reader.


@NVL72
def test_a_counter_of_the_hardware_is_read_and_has_no_error(platform: str) -> None:
    node = watch(platform, workload="prefill")
    node.run(3)
    for module in (0, 1):
        assert joules(node, module) == int(truth(node, module) * 1000) / 1000
    assert node.named("module_energy_error_joules_total") == {}


@pytest.mark.parametrize("platform", ["hgx-b200", "hgx-h200", "hgx-h100"])
def test_without_modules_there_is_no_energy_of_any(platform: str) -> None:
    node = watch(platform)
    node.run(2)
    assert not node.has("module_energy_joules_total")
    assert not node.has("module_energy_error_joules_total")


@NVL72
def test_without_a_counter_energy_and_error_begin_at_zero_with_the_reader(platform: str) -> None:
    node = without_counter(platform)
    node.step()
    names = {(serial,) for serial in serials(node)}
    assert len(names) == 2
    assert node.named("module_energy_joules_total") == dict.fromkeys(names, 0.0)
    assert node.named("module_energy_error_joules_total") == dict.fromkeys(names, 0.0)
    assert node.errors == {}


def test_a_module_is_one_series_whichever_gpu_it_is_read_through() -> None:
    node = without_counter()
    node.run(3)
    keys = [key for block in node.layout.blocks for key in block.series]
    for name in (
        "module_power_watts",
        "module_energy_joules_total",
        "module_energy_error_joules_total",
    ):
        assert sorted(labels for key, labels in keys if key == name) == sorted((s,) for s in serials(node))


def test_no_call_is_made_for_it_and_the_counter_is_not_asked_again() -> None:
    with_counter, without = watch("gb300-nvl72"), without_counter(workload="idle")
    for node in (with_counter, without):
        node.step()
        node.recorder.calls.clear()
        node.run(20)
    assert len(without.recorder.calls) == len(with_counter.recorder.calls)
    asked = {request for requests in without.field_calls() for request in requests}
    assert (AVERAGE, MODULE) in asked
    assert (ENERGY, MODULE) not in asked


@pytest.mark.parametrize("workload", ["decode", "prefill"])
def test_an_hour_closes_against_the_exact_integral(workload: str) -> None:
    node = without_counter(workload=workload, options=FEW_READS)
    node.step()
    begin = [truth(node, module) for module in (0, 1)]
    node.run(3600)
    for module in (0, 1):
        exact = truth(node, module) - begin[module]
        difference = abs(joules(node, module) - exact)
        assert difference <= 0.005 * exact
        assert difference <= error(node, module)
        # A bound that says nothing would hold, too: it is 2.2 % of decode and 12 % of prefill's bursts.
        assert error(node, module) <= 0.15 * exact


def test_an_hour_of_uneven_sweeps_closes_as_well() -> None:
    node = without_counter(workload="training", options=FEW_READS)
    node.step()
    begin, start = truth(node), node.clock.now
    for seconds in itertools.cycle((0.4, 1.0, 1.1, 0.9, 2.9, 1.0, 1.7)):
        node.step(seconds)
        if node.clock.now > start + 3600:
            break
    exact = truth(node) - begin
    assert abs(joules(node) - exact) <= min(0.005 * exact, error(node))


def test_slower_sweeps_have_longer_gaps() -> None:
    options = ReaderOptions(fast_seconds=5.0, platforms=HINTS)
    node = without_counter(workload="idle", options=options)
    node.step()
    node.step(15.0)
    before = joules(node)
    assert 15 * 480 < before < 15 * 500  # idle: 486 to 497 W (captures)
    node.step(15.5)
    assert joules(node) == before


def test_a_gap_stands_still() -> None:
    node = without_counter()
    node.run(10)
    before, off = joules(node), error(node)
    node.step(3.5)
    assert (joules(node), error(node)) == (before, off)
    node.step()
    assert joules(node) > before


def test_a_reading_that_fails_is_absent_and_the_next_bridges_it() -> None:
    node = without_counter(workload="idle")
    node.run(5)
    before = joules(node)
    for gpu in node.node.gpus:
        gpu.pin_field(AVERAGE, MODULE, None, code=Return.TIMEOUT)
    node.step()
    assert node.value("module_energy_joules_total", serials(node)[0]) is None
    assert node.value("module_energy_error_joules_total", serials(node)[0]) is None
    for gpu in node.node.gpus:
        gpu.unpin_field(AVERAGE, MODULE)
    node.step()
    assert 2 * 480 < joules(node) - before < 2 * 500


def test_impossible_power_is_counted_once_a_gpu() -> None:
    node = without_counter()
    node.run(2)
    node.node.gpus[0].pin_field(AVERAGE, MODULE, 4_000_000_000)  # 4 MW
    node.step()
    assert node.value("module_energy_joules_total", serials(node)[0]) is None
    assert node.reading.errors == {"out_of_range": 1}


def test_power_without_an_average_is_integrated_too() -> None:
    node = without_counter(workload="idle")
    for gpu in node.node.gpus:
        gpu.pin_field(AVERAGE, MODULE, None, code=Return.NOT_SUPPORTED)
    node.step()
    node.run(10)
    assert 10 * 480 < joules(node) < 10 * 500


def test_a_lost_gpu_hands_its_module_on_and_the_counter_never_runs_back() -> None:
    fault = Fault(FaultKind.GPU_LOST, 20, 30, gpu=0)
    node = without_counter(workload="prefill", faults=(fault,))
    # The other GPU reads the module a little differently, as on captured nodes: 486 and 488 W.
    node.node.gpus[1].pin_field(AVERAGE, MODULE, 1_000_000)
    previous = (0.0, 0.0)
    for _ in range(80):
        node.step()
        now = float(joules(node)), float(error(node))
        assert now[0] >= previous[0]
        assert now[1] >= previous[1]
        assert now[0] - previous[0] < 3 * 2900  # no more than the module's limit, over the longest step
        previous = now
    assert [incident.kind for incident in node.incidents if incident.kind != "xid"] == [
        "gpu_lost",
        "gpu_returned",
    ]
    # Of 79 steps no more than those of the hand-overs are missing.
    assert previous[0] > 70 * 480


def test_a_new_session_of_the_same_reader_goes_on() -> None:
    fault = Fault(FaultKind.DRIVER_UNLOADED, 20, 10)
    node = without_counter(workload="idle", faults=(fault,))
    node.run(15)
    before = joules(node)
    assert before > 13 * 480
    node.run(30)
    assert node.is_up()
    # 15 s to 20 s, and from about 30 s on: the time between is not made up.
    assert before + 12 * 480 < joules(node) < before + 22 * 500
