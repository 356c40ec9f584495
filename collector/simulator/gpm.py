"""GPU performance monitoring: samples, and the averages between two of them.

Metric ids and units are those of nvml.h 13.5 (`NVML_GPM_METRIC_*`): percentages from 0 to 100, traffic
in MiB/s; receive comes before transmit for NVLink, transmit before receive for PCIe.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from collector.simulator.codes import GPM_METRICS_GET_VERSION, GPM_SUPPORT_VERSION, Return
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.memory import (
    DOUBLE,
    UINT32,
    UINT64,
    address_of,
    memory,
    put,
    read_uint32,
)

# nvmlGpmMetricsGet_t: version, numMetrics, sample1, sample2, then the metrics.
_HEADER: Final = struct.Struct("<IIQQ")
# nvmlGpmMetric_t: metricId, nvmlReturn, value, three pointers.
_METRIC_BYTES: Final = 40
_RETURN_OFFSET: Final = 4
_VALUE_OFFSET: Final = 8
_MAX_METRICS: Final = 477  # NVML_GPM_METRIC_MAX

# "The interval … should be greater than 100ms": nvml.h, nvmlGpmSampleGet. What NVML answers below that
# is not documented: NO_DATA is chosen.
_MIN_INTERVAL_SECONDS: Final = 0.1
_MEBIBYTE: Final = 2**20
_FIRST_SAMPLE_HANDLE: Final = 0x6700_0000_1000


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of a GPU at a moment.

    Attributes:
        gpu: The GPU.
        elapsed_seconds: The moment, after the node's start.
        load_seconds: Integral of the GPU's load.
        restarts: Tick at which the counters last began.
        transmitted: Bytes transmitted by link.
        received: Bytes received by link.
    """

    gpu: SimulatedGpu
    elapsed_seconds: float
    load_seconds: float
    restarts: int
    transmitted: tuple[int, ...]
    received: tuple[int, ...]


@dataclass(slots=True)
class SampleBuffers:
    """The sample buffers that a library has given out.

    Attributes:
        buffers: What each handle holds; None before the first sample.
        given: How many were ever given out.
    """

    buffers: dict[int, Sample | None] = field(default_factory=dict)
    given: int = 0


@dataclass(frozen=True, slots=True)
class _Interval:
    """Two samples of one GPU, the earlier first."""

    first: Sample
    last: Sample

    @property
    def seconds(self) -> float:
        return self.last.elapsed_seconds - self.first.elapsed_seconds

    @property
    def load(self) -> float:
        return (self.last.load_seconds - self.first.load_seconds) / self.seconds

    def received(self, link: int) -> float:
        return (self.last.received[link] - self.first.received[link]) / self.seconds / _MEBIBYTE

    def transmitted(self, link: int) -> float:
        return (self.last.transmitted[link] - self.first.transmitted[link]) / self.seconds / _MEBIBYTE


_Metric = Callable[[_Interval], float]


def _percent(share: Callable[[SimulatedGpu], float]) -> _Metric:
    return lambda interval: 100 * share(interval.last.gpu) * interval.load


def _mebibytes(rate: Callable[[SimulatedGpu], float]) -> _Metric:
    return lambda interval: rate(interval.last.gpu) * interval.load / _MEBIBYTE


def _of_link(method: Callable[[_Interval, int], float], link: int) -> _Metric:
    return lambda interval: method(interval, link) if link < len(interval.last.received) else float("nan")


_METRICS: Final[Mapping[int, _Metric]] = {
    1: _percent(lambda gpu: gpu.workload.utilization),  # graphics or compute
    2: _percent(lambda gpu: gpu.workload.sm_active),
    3: _percent(lambda gpu: gpu.workload.sm_occupancy),
    4: _percent(lambda gpu: gpu.workload.sm_active * 0.3),  # integer: chosen
    5: _percent(lambda gpu: gpu.workload.tensor_active),  # any tensor
    6: lambda _interval: 0.0,  # DFMA
    7: _percent(lambda gpu: gpu.workload.tensor_active),  # HMMA: all tensor work
    8: lambda _interval: 0.0,  # DMMA
    9: lambda _interval: 0.0,  # IMMA
    10: _percent(lambda gpu: gpu.workload.memory_bandwidth),
    11: lambda _interval: 0.0,  # FP64
    12: _percent(lambda gpu: gpu.workload.sm_active * 0.15),  # FP32: chosen
    13: _percent(lambda gpu: gpu.workload.sm_active * 0.05),  # FP16: chosen
    20: _mebibytes(lambda gpu: gpu.workload.pcie_transmit_bytes_per_second),
    21: _mebibytes(lambda gpu: gpu.workload.pcie_receive_bytes_per_second),
    60: lambda interval: sum(interval.received(link) for link in range(len(interval.last.received))),
    61: lambda interval: sum(interval.transmitted(link) for link in range(len(interval.last.received))),
    **{62 + 2 * link: _of_link(_Interval.received, link) for link in range(18)},
    **{63 + 2 * link: _of_link(_Interval.transmitted, link) for link in range(18)},
}


def query_device_support(gpu: SimulatedGpu, support: object = None) -> Return:
    """`nvmlGpmQueryDeviceSupport`: nvmlGpmSupport_t is version, isSupportedDevice."""
    target = memory(support, 8)
    if target is None:
        return Return.INVALID_ARGUMENT
    if read_uint32(target) != GPM_SUPPORT_VERSION:
        return Return.ARGUMENT_VERSION_MISMATCH
    UINT32.pack_into(target, 4, int(gpu.profile.capabilities.gpm))
    return Return.SUCCESS


def sample_alloc(samples: SampleBuffers, handle: object = None) -> Return:
    """`nvmlGpmSampleAlloc`."""
    value = _FIRST_SAMPLE_HANDLE + samples.given * 0x10
    code = put(handle, UINT64, value)
    if code == Return.SUCCESS:
        samples.given += 1
        samples.buffers[value] = None
    return code


def sample_free(samples: SampleBuffers, handle: object = None) -> Return:
    """`nvmlGpmSampleFree`."""
    if address_of(handle) not in samples.buffers:
        return Return.INVALID_ARGUMENT
    del samples.buffers[address_of(handle)]
    return Return.SUCCESS


def sample_get(samples: SampleBuffers, gpu: SimulatedGpu, handle: object = None) -> Return:
    """`nvmlGpmSampleGet`: fill a buffer with the GPU's counters of now."""
    if address_of(handle) not in samples.buffers:
        return Return.INVALID_ARGUMENT
    links = range(gpu.profile.nvlink.links_per_gpu)
    samples.buffers[address_of(handle)] = Sample(
        gpu=gpu,
        elapsed_seconds=gpu.timekeeper.elapsed_seconds,
        load_seconds=gpu.physics.load_seconds_at(gpu.timekeeper.offset_seconds),
        restarts=gpu.physics.base_tick,
        transmitted=tuple(map(gpu.transmitted_bytes, links)),
        received=tuple(map(gpu.received_bytes, links)),
    )
    return Return.SUCCESS


def metrics_get(samples: SampleBuffers, request: object = None) -> Return:
    """`nvmlGpmMetricsGet`: averages between two samples, each metric with its own return code."""
    head = memory(request, _HEADER.size + _MAX_METRICS * _METRIC_BYTES)
    if head is None:
        return Return.INVALID_ARGUMENT
    version, count, first_handle, last_handle = _HEADER.unpack_from(head, 0)
    if version != GPM_METRICS_GET_VERSION:
        return Return.ARGUMENT_VERSION_MISMATCH
    first, last = samples.buffers.get(first_handle), samples.buffers.get(last_handle)
    if first is None or last is None or first.gpu is not last.gpu or count > _MAX_METRICS:
        return Return.INVALID_ARGUMENT
    interval = _Interval(first, last)
    usable = interval.seconds > _MIN_INTERVAL_SECONDS and first.restarts == last.restarts
    for position in range(count):
        offset = _HEADER.size + position * _METRIC_BYTES
        metric = _METRICS.get(read_uint32(head, offset))
        code = Return.SUCCESS if metric else Return.NOT_SUPPORTED
        if metric and usable:
            DOUBLE.pack_into(head, offset + _VALUE_OFFSET, metric(interval))
        elif metric:
            code = Return.NO_DATA
        UINT32.pack_into(head, offset + _RETURN_OFFSET, code)
    return Return.SUCCESS
