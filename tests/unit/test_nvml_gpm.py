"""Performance monitoring: two buffers in turn, never closer than the driver allows, never waiting."""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from typing import Any

import pytest

from collector.catalog import BY_NAME
from collector.sources.nvml import gpm
from collector.sources.nvml.answers import Answers
from collector.sources.nvml.decode import to_unit
from collector.sources.nvml.library import GpuLostError, Handle, NvmlLibrary
from tests.nvml_node import Clock
from tests.scripted_nvml import ScriptedNvml, answer, scripted, target

SM, PCIE_TX = 2, 20  # nvml.h: NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_PCIE_TX_PER_SEC
NO_DATA, UNKNOWN, GPU_IS_LOST = 21, 999, 15


class GpmDriver:
    """A driver with numbered samples, and metrics as a test says."""

    def __init__(self) -> None:
        self.allocated: set[int] = set()
        self.sampled: list[int] = []
        self.pairs: list[tuple[int, int]] = []
        self.metrics: dict[int, tuple[int, float]] = {SM: (0, 79.25), PCIE_TX: (0, 107.5)}
        self.sample_code = 0
        self.metrics_code = 0

    def library(self) -> NvmlLibrary:
        return NvmlLibrary(
            ScriptedNvml(
                nvmlGpmSampleAlloc=self.alloc,
                nvmlGpmSampleFree=self.free,
                nvmlGpmSampleGet=self.sample,
                nvmlGpmMetricsGet=self.compute,
            )
        )

    def alloc(self, reference: object) -> int:
        target(reference).value = 0x6700 + len(self.allocated)
        self.allocated.add(target(reference).value)
        return 0

    def free(self, buffer: object) -> int:
        self.allocated.remove(handle_of(buffer))
        return 0

    def sample(self, _handle: object, buffer: object) -> int:
        assert handle_of(buffer) in self.allocated
        if self.sample_code == 0:
            self.sampled.append(handle_of(buffer))
        return self.sample_code

    def compute(self, reference: object) -> int:
        request = target(reference)
        assert request.version == 1  # nvml.h: NVML_GPM_METRICS_GET_VERSION
        self.pairs.append((handle_of(request.sample1), handle_of(request.sample2)))
        for place in range(request.numMetrics):
            metric = request.metrics[place]
            metric.nvmlReturn, metric.value = self.metrics[metric.metricId]
        return self.metrics_code


def handle_of(buffer: Any) -> int:  # a ctypes pointer of any kind
    return ctypes.cast(buffer, ctypes.c_void_p).value or 0


class Sampler:
    """A sampler on a driven clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.driver = GpmDriver()
        self.sampler = gpm.GpmSampler(self.driver.library(), Handle(1), (SM, PCIE_TX), self.clock)

    def after(self, seconds: float) -> Answers:
        self.clock.advance(seconds)
        answers = Answers(Counter())
        self.sampler.read(answers)
        return answers


def test_first_sample_brings_nothing_and_the_second_the_time_between() -> None:
    sampler = Sampler()
    assert sampler.after(0).numbers == {}
    answers = sampler.after(1)
    assert answers.numbers == {("gpm", SM): 79.25, ("gpm", PCIE_TX): 107.5}
    # 79.25 % and 107.5 MiB/s (nvml.h).
    assert to_unit(79.25, BY_NAME["gpu_sm_active_ratio"], 1, 100) == 0.7925
    assert to_unit(107.5, BY_NAME["gpu_pcie_transmitted_bytes_per_second"], 2**20, 1) == 112_721_920.0


def test_buffers_are_used_in_turn_the_earlier_first() -> None:
    sampler = Sampler()
    for _ in range(4):
        sampler.after(1)
    first, second = sampler.driver.sampled[:2]
    assert sampler.driver.sampled == [first, second, first, second]
    assert sampler.driver.pairs == [(first, second), (second, first), (first, second)]


def test_samples_are_more_than_100_ms_apart() -> None:
    sampler = Sampler()
    sampler.after(0)
    for seconds in (0.02, 0.05, 0.03):  # 20, 70 and 100 ms after the first: "more than", nvml.h
        assert sampler.after(seconds).numbers == {}
    assert len(sampler.driver.sampled) == 1
    assert sampler.after(0.02).numbers != {}
    assert len(sampler.driver.sampled) == 2


def test_asked_again_at_once_it_answers_what_it_found() -> None:
    sampler = Sampler()
    sampler.after(0)
    found = sampler.after(1).numbers
    assert sampler.after(0).numbers == found
    assert len(sampler.driver.sampled) == 2


def test_blank_is_absent_and_no_error() -> None:
    sampler = Sampler()
    sampler.driver.metrics[SM] = (0, math.nan)
    sampler.after(0)
    answers = sampler.after(1)
    assert answers.numbers == {("gpm", PCIE_TX): 107.5}
    assert answers.errors == {}


@pytest.mark.parametrize(("code", "errors"), [(3, {}), (NO_DATA, {"other": 1}), (UNKNOWN, {"unknown": 1})])
def test_each_metric_has_its_own_return_code(code: int, errors: dict[str, int]) -> None:
    sampler = Sampler()
    sampler.driver.metrics[SM] = (code, 50.0)
    sampler.after(0)
    answers = sampler.after(1)
    assert answers.numbers == {("gpm", PCIE_TX): 107.5}
    assert answers.errors == errors


def test_a_sample_that_fails_is_absent_once() -> None:
    sampler = Sampler()
    sampler.after(0)
    sampler.after(1)
    sampler.driver.sample_code = UNKNOWN
    failed = sampler.after(1)
    assert (failed.numbers, failed.errors) == ({}, {"unknown": 1})
    sampler.driver.sample_code = 0
    assert sampler.after(1).numbers == {("gpm", SM): 79.25, ("gpm", PCIE_TX): 107.5}
    # The average then spans both periods: from the sample before the one that failed.
    first, second = sampler.driver.sampled[:2]
    assert sampler.driver.pairs[-1] == (second, first)


def test_metrics_that_fail_are_absent_once() -> None:
    sampler = Sampler()
    sampler.after(0)
    sampler.driver.metrics_code = UNKNOWN
    failed = sampler.after(1)
    assert (failed.numbers, failed.errors) == ({}, {"unknown": 1})
    sampler.driver.metrics_code = 0
    assert ("gpm", SM) in sampler.after(1).numbers


def test_lost_gpu_is_raised() -> None:
    sampler = Sampler()
    sampler.driver.sample_code = GPU_IS_LOST
    with pytest.raises(GpuLostError):
        sampler.after(0)


def test_buffers_are_given_back_once() -> None:
    sampler = Sampler()
    assert len(sampler.driver.allocated) == 2
    sampler.sampler.close()
    sampler.sampler.close()
    assert sampler.driver.allocated == set()


@pytest.mark.parametrize(("supported", "expected"), [(1, True), (0, False)])
def test_support_is_asked(supported: int, expected: bool) -> None:
    def script(_handle: object, reference: object) -> int:
        assert target(reference).version == 1  # nvml.h: NVML_GPM_SUPPORT_VERSION
        target(reference).isSupportedDevice = supported
        return 0

    probe = Answers(Counter())
    assert gpm.supported(scripted(nvmlGpmQueryDeviceSupport=script), Handle(1), probe) is expected
    assert probe.failed == set()


def test_support_that_could_not_be_asked_is_not_settled() -> None:
    probe = Answers(Counter())
    assert gpm.supported(scripted(nvmlGpmQueryDeviceSupport=answer(10)), Handle(1), probe) is False
    assert probe.failed == {("gpm", 0)}
    missing = Answers(Counter())
    assert gpm.supported(scripted(), Handle(1), missing) is False
    assert missing.failed == set()
