"""Each cadence is read as often as it should be, its sweeps spread over the GPUs, missed ones skipped."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from collector.readings import SeriesKey
from collector.sources.nvml.options import ReaderOptions
from tests.nvml_node import HINTS, NodeWatch, watch


def times_by_gpu(node: NodeWatch, cadence: str) -> dict[str, list[float]]:
    """Return when each GPU's block of a cadence was read, after the first sweep."""
    found: dict[str, list[float]] = {}
    for (own, first), times in node.times.items():
        if own == cadence and of_a_gpu(first):
            found.setdefault(first[1][0], []).extend(times[1:])
    return {gpu: sorted(times) for gpu, times in found.items()}


def of_a_gpu(series: SeriesKey) -> bool:
    return len(series[1]) > 1 and series[0] != "gpu_up"


@pytest.mark.parametrize(("platform", "gpus"), [("hgx-h100", 8), ("gb300-nvl72", 4)])
def test_first_step_reads_everything_once(platform: str, gpus: int) -> None:
    node = watch(platform)
    node.step()
    assert len(node.reading.batches) == len(node.layout.blocks)
    assert sorted(batch.block for batch in node.reading.batches) == list(range(len(node.layout.blocks)))
    assert len(node.named("gpu_info")) == gpus


@pytest.mark.parametrize(("platform", "gpus"), [("hgx-h100", 8), ("gb300-nvl72", 4)])
def test_five_minutes(platform: str, gpus: int) -> None:
    node = watch(platform)
    node.step()
    node.run(300)
    fast, links, slow = (times_by_gpu(node, cadence) for cadence in ("fast", "links", "slow"))
    assert {gpu: len(times) for gpu, times in fast.items()} == {str(gpu): 300 for gpu in range(gpus)}
    assert {gpu: len(times) for gpu, times in links.items()} == {str(gpu): 30 for gpu in range(gpus)}
    assert {gpu: len(times) for gpu, times in slow.items()} == {str(gpu): 5 for gpu in range(gpus)}
    for times in links.values():
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {10.0}
    for times in slow.values():
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {60.0}


def test_sweeps_of_links_are_spread_over_ten_seconds() -> None:
    node = watch("hgx-h100")
    node.step()
    node.run(10)
    ticks = sorted(times[0] - 1001 for times in times_by_gpu(node, "links").values())
    # Due each 1.25 s, read by the next tick.
    assert ticks == [2, 3, 4, 5, 7, 8, 9, 10]


def test_sweeps_of_identity_are_spread_over_a_minute() -> None:
    node = watch("hgx-h100")
    node.step()
    node.run(60)
    ticks = sorted(times[0] - 1001 for times in times_by_gpu(node, "slow").values())
    # Due each 7.5 s, read by the next tick.
    assert ticks == [8, 15, 23, 30, 38, 45, 53, 60]


def test_missed_sweeps_are_skipped_and_the_grid_kept() -> None:
    node = watch("hgx-h100")
    node.step()
    node.run(15)
    before = {gpu: len(times) for gpu, times in times_by_gpu(node, "links").items()}
    node.step(95.0)  # a call that hung, or a machine that slept
    node.run(30)
    for gpu, times in times_by_gpu(node, "links").items():
        later = times[before[gpu] :]
        # One at once for all that were missed, then three on the grid as before.
        assert later[0] == 1001 + 15 + 95
        assert len(later) == 4
        assert {second - first for first, second in itertools.pairwise(later[1:])} == {10.0}
        assert (later[1] - times[0]) % 10 == 0


def test_periods_are_options() -> None:
    options = ReaderOptions(fast_seconds=0.5, links_seconds=5.0, slow_seconds=20.0, platforms=HINTS)
    node = watch("hgx-h100", options=options)
    node.step()
    for _ in range(80):  # 40 s
        node.step(0.5)
    assert {len(times) for times in times_by_gpu(node, "fast").values()} == {80}
    assert {len(times) for times in times_by_gpu(node, "links").values()} == {8}
    assert {len(times) for times in times_by_gpu(node, "slow").values()} == {2}


def test_a_reading_says_when_it_was_taken_and_how_long_its_sweeps_took() -> None:
    node = watch("gb300-nvl72")
    node.step()
    assert node.reading.taken_at == 1001.0
    assert set(node.reading.sweep_seconds) == {"fast", "links", "slow"}
    assert set(node.reading.sweep_seconds.values()) == {0.0}  # the clock stands still while a test reads


def test_sweep_seconds_add_up_over_the_gpus() -> None:
    node = watch("gb300-nvl72")
    node.step()
    node.recorder.before["nvmlDeviceGetUtilizationRates"] = lambda: node.clock.advance(0.25)
    node.step()
    assert node.reading.sweep_seconds["fast"] == 1.0  # 4 x 0.25 s
    assert node.reading.sweep_seconds["links"] == 0.0


def test_a_changed_identity_is_a_new_layout() -> None:
    node = watch("gb300-nvl72")
    node.run(2)
    generation = node.layout.generation
    for gpu in node.node.gpus:
        gpu.profile = replace(gpu.profile, fabric=replace(gpu.profile.fabric, clique_id=17))
    node.run(60)
    assert node.layout.generation > generation
    assert {gpu.texts["clique"] for gpu in node.layout.gpus} == {"17"}
    assert len(node.named("gpu_info")) == 4
    assert {labels[14] for labels in node.named("gpu_info")} == {"17"}
