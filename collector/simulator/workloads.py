"""What simulated GPUs do: one table of workloads.

A workload is a load between 0 and 1 that moves in time, and what the hardware shows at load 1.
Everything shown is proportional to the load, so that utilization, power, traffic and temperature move
together. "Chosen" marks a figure that no source gives, picked to be believable.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from collector.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of work. Shares are ratios from 0 to 1; everything but the load itself is at load 1.

    Attributes:
        name: Name on the command line.
        load_level: Mean of the load.
        load_swing: Amplitude of its periodic part.
        period_seconds: Period of that part: batches, or training steps.
        load_noise: Amplitude of its random part.
        utilization: Share of time with a kernel running, NVML's utilization and GPM's graphics.
        sm_active: Share of SMs busy.
        sm_occupancy: Share of warps active.
        tensor_active: Share of time in tensor operations.
        memory_bandwidth: Share of the memory bandwidth used.
        power_share: Share of the span from idle power to the power limit.
        nvlink_transmit_share: Share of a link's nominal rate, transmitted.
        nvlink_receive_share: Share of a link's nominal rate, received.
        pcie_transmit_bytes_per_second: PCIe traffic from the GPU.
        pcie_receive_bytes_per_second: PCIe traffic to the GPU.
        memory_used_share: Share of the usable memory that is allocated, whatever the load.
        has_engine: Whether it is the work of a serving engine, which answers with metrics.
    """

    name: str
    load_level: float
    load_swing: float
    period_seconds: float
    load_noise: float
    utilization: float
    sm_active: float
    sm_occupancy: float
    tensor_active: float
    memory_bandwidth: float
    power_share: float
    nvlink_transmit_share: float
    nvlink_receive_share: float
    pcie_transmit_bytes_per_second: float
    pcie_receive_bytes_per_second: float
    memory_used_share: float
    has_engine: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs at all."""
        return self.load_level == 0


WORKLOADS: Final[Mapping[str, Workload]] = {
    each.name: each
    for each in (
        # Idle figures of every capture: utilization 0, memory used 0 (NVIDIA/k8s-test-infra); PCIe 0.35 to
        # 2.5 MB/s on HGX, 0 on GB, taken as 0.
        Workload(
            name="idle",
            load_level=0.0,
            load_swing=0.0,
            period_seconds=10.0,
            load_noise=0.0,
            utilization=0.0,
            sm_active=0.0,
            sm_occupancy=0.0,
            tensor_active=0.0,
            memory_bandwidth=0.0,
            power_share=0.0,
            nvlink_transmit_share=0.0,
            nvlink_receive_share=0.0,
            pcie_transmit_bytes_per_second=0.0,
            pcie_receive_bytes_per_second=0.0,
            memory_used_share=0.0,
            has_engine=True,
        ),
        # Compute-bound bursts. Measured on H100 at low concurrency: 184 W mean, 439 W peak, variation 0.66
        # (SemiAnalysisAI/InferenceX issue 828); busier here, as a disaggregated prefill pool is: chosen.
        Workload(
            name="prefill",
            load_level=0.70,
            load_swing=0.25,
            period_seconds=3.0,
            load_noise=0.05,
            utilization=0.95,
            sm_active=0.85,
            sm_occupancy=0.35,
            tensor_active=0.62,
            memory_bandwidth=0.35,
            power_share=0.80,
            nvlink_transmit_share=0.22,
            nvlink_receive_share=0.21,
            pcie_transmit_bytes_per_second=60e6,
            pcie_receive_bytes_per_second=400e6,
            memory_used_share=0.82,
        ),
        # Memory-bound and steady. H100 at concurrency 64: 397 W, utilization 55 % (same issue), that is
        # (397 - 69) / (700 - 69) = 0.52 of the span at load 0.8. SM, tensor, memory and traffic: chosen.
        Workload(
            name="decode",
            load_level=0.80,
            load_swing=0.08,
            period_seconds=7.0,
            load_noise=0.06,
            utilization=0.69,
            sm_active=0.60,
            sm_occupancy=0.25,
            tensor_active=0.22,
            memory_bandwidth=0.70,
            power_share=0.65,
            nvlink_transmit_share=0.12,
            nvlink_receive_share=0.115,
            pcie_transmit_bytes_per_second=40e6,
            pcie_receive_bytes_per_second=90e6,
            memory_used_share=0.90,
            has_engine=True,
        ),
        # H100 under sustained full load: utilization 100 %, 588 to 636 W (nvidia_gpu_exporter captures);
        # the share leaves a superchip within its module limit. SM, tensor, memory and traffic: chosen.
        Workload(
            name="training",
            load_level=0.88,
            load_swing=0.10,
            period_seconds=4.0,
            load_noise=0.02,
            utilization=1.0,
            sm_active=0.92,
            sm_occupancy=0.40,
            tensor_active=0.70,
            memory_bandwidth=0.55,
            power_share=0.95,
            nvlink_transmit_share=0.40,
            nvlink_receive_share=0.39,
            pcie_transmit_bytes_per_second=1.2e9,
            pcie_receive_bytes_per_second=0.9e9,
            memory_used_share=0.93,
        ),
    )
}


def find_workload(name: str) -> Workload:
    """Return a workload by name.

    Args:
        name: One of `WORKLOADS`.

    Returns:
        The workload.

    Raises:
        ConfigurationError: There is none of that name; the message names the nearest one.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    near = difflib.get_close_matches(name, WORKLOADS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigurationError(f"unknown workload {name!r}: {hint}known: {', '.join(WORKLOADS)}")
