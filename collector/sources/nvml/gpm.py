"""GPU performance monitoring: what a GPU did between two samples of its counters."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import pynvml

from collector.sources.nvml.answers import Answers
from collector.sources.nvml.library import Handle, NvmlLibrary

GPM = "gpm"
"""First half of the key under which GPM's answers stand; the second is the metric id."""

_MINIMUM_SPACING_SECONDS = 0.11
"""Samples must be more than 100 ms apart (nvml.h, `nvmlGpmMetricsGet`)."""


class GpmSampler:
    """Two sample buffers of one GPU, used in turn, so that no call ever waits."""

    def __init__(
        self,
        library: NvmlLibrary,
        handle: Handle,
        metric_ids: tuple[int, ...],
        monotonic: Callable[[], float],
    ) -> None:
        """Allocate the buffers.

        Args:
            library: The library.
            handle: The GPU.
            metric_ids: Metrics wanted, `NVML_GPM_METRIC_*`.
            monotonic: Clock in seconds.
        """
        self._library = library
        self._handle = handle
        self._metric_ids = metric_ids
        self._monotonic = monotonic
        self._previous = ctypes.c_void_p()
        self._current = ctypes.c_void_p()
        self._sampled_at: float | None = None
        self._latest: list[tuple[int, float]] = []
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(metric_ids)
        for index, metric_id in enumerate(metric_ids):
            self._request.metrics[index].metricId = metric_id
        for buffer in (self._previous, self._current):
            library.call("nvmlGpmSampleAlloc", ctypes.byref(buffer))

    def read(self, answers: Answers) -> None:
        """Take a sample, and answer for the time since the one before; the first brings nothing.

        Asked again before a sample may be taken, as when a step begins anew because a GPU was lost, it
        answers what it has just found.
        """
        now = self._monotonic()
        if self._sampled_at is None or now - self._sampled_at >= _MINIMUM_SPACING_SECONDS:
            self._latest.clear()
            self._sample(now, answers)
        for metric_id, value in self._latest:
            answers.put((GPM, metric_id), value)

    def _sample(self, now: float, answers: Answers) -> None:
        code = self._library.call("nvmlGpmSampleGet", self._handle, self._current)
        if code != pynvml.NVML_SUCCESS:
            answers.fail((GPM, 0), code)
            return
        if self._sampled_at is not None:
            self._answer(answers)
        self._previous, self._current = self._current, self._previous
        self._sampled_at = now

    def _answer(self, answers: Answers) -> None:
        request = self._request
        request.sample1 = ctypes.cast(self._previous, type(request.sample1))
        request.sample2 = ctypes.cast(self._current, type(request.sample2))
        code = self._library.call("nvmlGpmMetricsGet", ctypes.byref(request))
        if code != pynvml.NVML_SUCCESS:
            answers.fail((GPM, 0), code)
            return
        for index, metric_id in enumerate(self._metric_ids):
            metric = request.metrics[index]
            if metric.nvmlReturn != pynvml.NVML_SUCCESS:
                answers.fail((GPM, metric_id), metric.nvmlReturn)
            elif not math.isnan(metric.value):  # NaN is NVML's blank
                self._latest.append((metric_id, metric.value))

    def close(self) -> None:
        """Free the buffers."""
        for buffer in (self._previous, self._current):
            if buffer.value is not None:
                self._library.call("nvmlGpmSampleFree", buffer)
                buffer.value = None


def supported(library: NvmlLibrary, handle: Handle, probe: Answers) -> bool:
    """Ask whether the GPU has performance monitoring (Hopper and newer).

    Raises:
        GpuLostError: The GPU does not answer any more.
        NvmlUnavailableError: NVML does not.
    """
    answer = pynvml.c_nvmlGpmSupport_t()
    answer.version = pynvml.NVML_GPM_SUPPORT_VERSION
    code = library.call("nvmlGpmQueryDeviceSupport", handle, ctypes.byref(answer))
    if code != pynvml.NVML_SUCCESS:
        probe.fail((GPM, 0), code)
        return False
    return bool(answer.isSupportedDevice)
