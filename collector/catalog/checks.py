"""What is judged on a node: one row a check, as pure data. The judging itself is in `collector.health`.

Thresholds are defaults, which the configuration may change. A check has one impact (CONTRACTS §3).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

ImpactWord = Literal["info", "warn", "avoid", "fail"]
"""What a failed check means for its subject (CONTRACTS §3)."""


class Subject(enum.Enum):
    """What a check is about. NVLink checks export on their GPU; the link stands in the reason."""

    GPU = "gpu"
    NVLINK = "nvlink"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row.

    Attributes:
        id: Its name in metrics, REST and configuration.
        subject: What it is about.
        impact: What its failure means.
        metrics: Metrics that are judged, without prefix; the first is the one that results name.
        help: When it fails, in words.
        action: What to do once it failed.
        threshold: Default of what is compared with; None where there is nothing to compare.
        unit: Unit of the threshold, in words.
        lowest: Smallest threshold that can be configured.
        highest: Largest threshold that can be configured.
        window_seconds: Time over which a rise or a rate is looked at; 0 for what holds at an instant.
        source: Where the rule and its threshold come from.
    """

    id: str
    subject: Subject
    impact: ImpactWord
    metrics: tuple[str, ...]
    help: str
    action: str
    threshold: int | float | None = None
    unit: str = ""
    lowest: float = 0
    highest: float = float(2**63)
    window_seconds: float = 0
    source: str


_TEN_MINUTES = 600.0
"""A rise counts until ten minutes were clean, as in gpud's sticky windows."""
_DAY = 86_400.0

_STATES = (
    Check(
        id="gpu_lost",
        subject=Subject.GPU,
        impact="fail",
        metrics=("gpu_up",),
        help="a known GPU does not answer, or is not enumerated any more",
        action="reboot the node; if the GPU stays away, have it serviced",
        source="gpud, gcm, Azure health checks: any GPU missing fails the node",
    ),
    Check(
        id="gpu_recovery_action",
        subject=Subject.GPU,
        impact="fail",
        metrics=("gpu_recovery_action",),
        help="the driver asks for a reset or reboot before the GPU can be used again",
        action="do what the driver asks for",
        source="nvml.h, nvmlDeviceGpuRecoveryAction_t",
    ),
    Check(
        id="gpu_drain_p2p",
        subject=Subject.GPU,
        impact="avoid",
        metrics=("gpu_recovery_action",),
        help="the driver asks to let peer-to-peer traffic run out",
        action="place no new job here; when the running ones have ended, reset the GPU",
        source="nvml.h, NVML_GPU_RECOVERY_ACTION_DRAIN_P2P",
    ),
)

_MEMORY = (
    Check(
        id="gpu_ecc_uncorrected",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_ecc_uncorrected_total",),
        help="ECC could not correct memory errors within the last 10 minutes",
        action="restart the job that was hit; reset the GPU if rows wait to be remapped",
        threshold=1,
        unit="errors in 10 minutes",
        window_seconds=_TEN_MINUTES,
        lowest=1,
        source="gcm: uncorrectable above 0",
    ),
    Check(
        id="gpu_ecc_corrected",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_ecc_corrected_total",),
        help="ECC had to correct a flood of memory errors since the driver was loaded",
        action="watch the GPU; have its memory tested at the next maintenance",
        threshold=20_000_000,
        unit="errors since the driver was loaded",
        source="Azure health checks for H200: DRAM corrected above 2e7",
    ),
    Check(
        id="gpu_row_remap_pending",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_row_remap_pending",),
        help="memory rows wait for a reset to be remapped",
        action="reset the GPU when its jobs have ended",
        source="nvml.h, NVML_FI_DEV_REMAPPED_PENDING; Azure health checks",
    ),
    Check(
        id="gpu_row_remap_failure",
        subject=Subject.GPU,
        impact="fail",
        metrics=("gpu_row_remap_failure",),
        help="a memory row could not be remapped",
        action="have the GPU replaced",
        source="nvml.h, NVML_FI_DEV_REMAPPED_FAILURE; Azure health checks",
    ),
    Check(
        id="gpu_rows_remapped",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_rows_remapped_total",),
        help="so many rows were remapped for uncorrectable errors that spares run out",
        action="plan to have the GPU replaced",
        threshold=512,
        unit="rows",
        lowest=1,
        source="DCGM: 512 rows warn; Azure health checks: above 512",
    ),
)

_LINKS = (
    Check(
        id="gpu_nvlinks_missing",
        subject=Subject.NVLINK,
        impact="avoid",
        metrics=("gpu_nvlinks_up", "gpu_nvlinks_expected", "nvlink_up"),
        help="fewer NVLinks are up than the GPU has",
        action="reset the GPU; if the links stay down, look at cable, connector and peer",
        source="NVIDIA Health Validation: 18 links, none inactive",
    ),
    Check(
        id="gpu_nvlinks_all_down",
        subject=Subject.NVLINK,
        impact="fail",
        metrics=("gpu_nvlinks_up", "gpu_nvlinks_expected"),
        help="not one NVLink of the GPU is up",
        action="look at fabric manager and NVLink switches, then reset the GPU",
        source="NVIDIA Health Validation: 18 links, none inactive",
    ),
    Check(
        id="nvlink_recovery_failed",
        subject=Subject.NVLINK,
        impact="fail",
        metrics=("nvlink_recoveries_total",),
        help="an NVLink failed to recover within the last 10 minutes",
        action="reset the GPU; if it comes again, look at cable, connector and peer",
        threshold=1,
        unit="failed recoveries in 10 minutes",
        window_seconds=_TEN_MINUTES,
        lowest=1,
        source="nvml.h, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS; DCGM fails from 1 on",
    ),
    Check(
        id="nvlink_errors",
        subject=Subject.NVLINK,
        impact="warn",
        metrics=("gpu_nvlink_errors_total", "nvlink_errors_total"),
        help="error counters of NVLinks rose within the last 10 minutes",
        action="watch the link; if it goes on, look at cable, connector and peer",
        threshold=1,
        unit="errors in 10 minutes",
        window_seconds=_TEN_MINUTES,
        lowest=1,
        source="DCGM, NVLink 5: any rise",
    ),
    Check(
        id="nvlink_symbol_ber",
        subject=Subject.NVLINK,
        impact="warn",
        metrics=("nvlink_symbol_ber_ratio",),
        help="symbol errors remain on an NVLink after error correction",
        action="watch the link; if it goes on, look at cable, connector and peer",
        threshold=15e-238,
        unit="errors a symbol",
        highest=1,
        source="DCGM, Blackwell: symbol BER above 15e-238",
    ),
    Check(
        id="nvlink_effective_ber",
        subject=Subject.NVLINK,
        impact="warn",
        metrics=("nvlink_effective_ber_ratio",),
        help="the bit error ratio of an NVLink after error correction is too high",
        action="watch the link; if it goes on, look at cable, connector and peer",
        threshold=1e-12,
        unit="errors a bit",
        highest=1,
        source="DCGM: effective BER above 1e-12",
    ),
)

_FABRIC = (
    Check(
        id="gpu_fabric_state",
        subject=Subject.GPU,
        impact="fail",
        metrics=("gpu_fabric_state",),
        help="the GPU's registration with the NVLink fabric does not come to its end",
        action="look at fabric manager, IMEX and NVLink switches, then reset the GPU",
        threshold=300,
        unit="seconds in progress",
        source="CONTRACTS §3: in progress is unknown for less than 5 minutes",
    ),
    Check(
        id="gpu_fabric_unhealthy",
        subject=Subject.GPU,
        impact="fail",
        metrics=("gpu_fabric_condition",),
        help="the fabric has no healthy route to the GPU, or the GPU is configured wrongly in it",
        action="look at NVLink switches and partition, then reset the GPU",
        source="nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_{ROUTE_UNHEALTHY,INCORRECT_CONFIGURATION}",
    ),
    Check(
        id="gpu_fabric_degraded",
        subject=Subject.GPU,
        impact="avoid",
        metrics=("gpu_fabric_condition",),
        help="the fabric serves the GPU with less bandwidth, is finding a new route, or times out",
        action="place no new job here until the fabric is whole; look at links and NVLink switches",
        source="nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_{DEGRADED_BW,ROUTE_RECOVERY,ACCESS_TIMEOUT_RECOVERY}",
    ),
)

_OPERATION = (
    Check(
        id="gpu_clock_events",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_clock_event_active",),
        help="hardware held the clocks down again and again within the last 10 minutes",
        action="look at cooling, power supply and power cap",
        threshold=0.6,
        unit="minutes with a clock event, a minute",
        window_seconds=_TEN_MINUTES,
        highest=1,
        source="gpud: 0.6 hardware slowdown events a minute over 10 minutes",
    ),
    Check(
        id="gpu_temperature_margin",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_temperature_margin_celsius",),
        help="few degrees are left until the GPU slows itself down",
        action="look at cooling",
        threshold=5,
        unit="degrees Celsius",
        lowest=-100,
        highest=200,
        source="our own: slowdown is near (T.Limit, nvmlDeviceGetMarginTemperature)",
    ),
    Check(
        id="gpu_memory_temperature",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_memory_temperature_celsius",),
        help="the memory is hotter than it may run for long",
        action="look at cooling",
        threshold=95,
        unit="degrees Celsius",
        lowest=1,
        highest=200,
        source="nvidia-smi on boards with HBM: Memory Max Operating Temp 95 C; gpud: above the limit",
    ),
    Check(
        id="gpu_pcie_link",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_pcie_width_lanes", "gpu_pcie_generation"),
        help="the PCIe link runs with fewer lanes than the node's other GPUs, or slower under load",
        action="reseat the GPU or its riser at the next maintenance",
        source="our own: compared with peers, as the device's maximum is not what its slot has",
    ),
    Check(
        id="gpu_pcie_replays",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_pcie_replays_total",),
        help="PCIe packets have to be sent again at a high rate",
        action="reseat the GPU or its riser at the next maintenance",
        threshold=31,
        unit="replays a minute",
        window_seconds=60.0,
        source="DCGM: above 31 a minute on generation 5 with 16 lanes",
    ),
)

_XIDS = (
    Check(
        id="gpu_xid_fatal",
        subject=Subject.GPU,
        impact="fail",
        metrics=("gpu_xid_total",),
        help="a fatal Xid has not been cured by a reset, a driver reload or a reboot",
        action="do what the Xid's catalogue row says",
        threshold=600,
        unit="seconds without one, while the driver asks for nothing, after which it counts as cured",
        source="NVIDIA Xid catalogue; classes in collector/health/xids.toml",
    ),
    Check(
        id="gpu_xid_repeated",
        subject=Subject.GPU,
        impact="warn",
        metrics=("gpu_xid_total",),
        help="the same Xid came again and again on one GPU within 24 hours",
        action="run diagnostics on the GPU",
        threshold=5,
        unit="times in 24 hours, where the Xid's catalogue row has no number of its own",
        window_seconds=_DAY,
        lowest=2,
        source="NVSentinel: the same Xid 5 times in 24 hours; Xid 31 twice on the same GPU",
    ),
)

GPU_CHECKS: tuple[Check, ...] = (*_STATES, *_MEMORY, *_LINKS, *_FABRIC, *_OPERATION, *_XIDS)
"""Checks of a GPU and of its NVLinks, in the order of expositions."""

NODE_CHECKS: tuple[Check, ...] = (
    Check(
        id="node_gpus_missing",
        subject=Subject.NODE,
        impact="fail",
        metrics=("node_gpus_present", "node_gpus_expected"),
        help="fewer GPUs answer than the platform has",
        action="reboot the node; if a GPU stays away, have it serviced",
        source="gpud, gcm, Azure health checks: any mismatch of the count",
    ),
    Check(
        id="node_persistence_mode",
        subject=Subject.NODE,
        impact="warn",
        metrics=("gpu_info",),
        help="the driver lets go of GPUs that nobody uses",
        action="run nvidia-persistenced on the node",
        source="gpud, gcm, Azure health checks: persistence mode on",
    ),
)
"""Checks of a node as a whole that its agent can judge alone."""

CHECKS: tuple[Check, ...] = (*GPU_CHECKS, *NODE_CHECKS)
"""Every check of an agent."""

CHECK_BY_ID: dict[str, Check] = {check.id: check for check in CHECKS}
"""Checks by id."""
