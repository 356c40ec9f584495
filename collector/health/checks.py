"""How each check judges: pure functions over values, and the table that binds them to the catalogue's rows.

Whatever is supported and missing is unknown, never passed; what is not supported is not judged at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.health.check_spec import (
    PASSED,
    Cells,
    Finding,
    GpuEvidence,
    GpuJudge,
    NodeEvidence,
    NodeJudge,
    Rule,
    Status,
    unknown,
)
from collector.health.link_checks import LINK_JUDGES
from collector.health.xid_checks import XID_JUDGES
from collector.model import Value

_MINUTE_NS = 60_000_000_000
_LOAD_RATIO = 0.1
"""Utilization from which on a GPU is under load, so that its PCIe link runs as fast as it can."""

_ACTIONS = {
    "gpu_reset": "reset the GPU",
    "node_reboot": "reboot the node",
    "drain_and_reset": "let the jobs on the GPU end, then reset it",
    "recover_imex_domain": "recover the IMEX domain",
    "bus_reset": "reset the GPU by its bus",
    "system_reboot": "power-cycle the system",
}
"""What each recovery action asks for (nvml.h, nvmlDeviceGpuRecoveryAction_t)."""

_FABRIC_WAITS = ("not_started", "in_progress")
_SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake")


def show(value: Value) -> str:
    """Write a value for a reason: whole numbers plainly, others with up to four digits."""
    return f"{value:g}" if isinstance(value, int) and abs(value) < 10**6 else f"{value:.4g}"


def _gpu_lost(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    if not gpu.cells.has("gpu_up"):
        return None
    up = gpu.cells.get("gpu_up")
    if up is None:
        return unknown("gpu_up")
    return PASSED if up else Finding(Status.FAILED, value=0, reason="the GPU does not answer")


def _active(cells: Cells, metric: str) -> str | None:
    """Return the label of a one-hot metric that is 1; empty if its values are missing; None without it."""
    labels = cells.labels(metric)
    if not labels:
        return None
    return next((label for label in labels if cells.get(metric, label) == 1), "")


def _recovery_action(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    action = _active(gpu.cells, "gpu_recovery_action")
    if action is None:
        return None
    if not action:
        return unknown("gpu_recovery_action")
    if action in ("none", "drain_p2p"):
        return PASSED
    words = action.replace("_", " ")
    return Finding(
        Status.FAILED,
        value=1,
        reason=f"the driver asks for: {words}",
        action=_ACTIONS.get(action, f"do what the driver asks for: {words}"),
    )


def _drain_p2p(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    action = _active(gpu.cells, "gpu_recovery_action")
    if action is None:
        return None
    if not action:
        return unknown("gpu_recovery_action")
    if action != "drain_p2p":
        return PASSED
    return Finding(Status.FAILED, value=1, reason="the driver asks to drain peer-to-peer traffic")


def _level(failed_words: str, *, compare: str, label: str = "") -> GpuJudge:
    """Judge the newest value of the check's first metric against the threshold."""

    def judge(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
        metric = rule.check.metrics[0]
        if not gpu.cells.has(metric, label):
            return None
        value = gpu.cells.get(metric, label)
        if value is None:
            return unknown(metric)
        if not _fails(value, rule.threshold, compare):
            return PASSED
        reason = failed_words.format(value=show(value), threshold=show(rule.threshold))
        return Finding(Status.FAILED, value=value, threshold=rule.threshold, reason=reason)

    return judge


def _fails(value: Value, threshold: Value, compare: str) -> bool:
    if compare == "above":
        return value > threshold
    return value >= threshold if compare == "at_least" else value < threshold


def _flag(reason: str) -> GpuJudge:
    """Judge a flag: 1 fails."""

    def judge(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
        metric = rule.check.metrics[0]
        if not gpu.cells.has(metric):
            return None
        value = gpu.cells.get(metric)
        if value is None:
            return unknown(metric)
        return Finding(Status.FAILED, value=value, reason=reason) if value else PASSED

    return judge


def _rise(words: str, *, compare: str) -> GpuJudge:
    """Judge the growth of a GPU's counter within the check's window."""

    def judge(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
        metric = rule.check.metrics[0]
        if not gpu.cells.has(metric):
            return None
        rise = gpu.rises.get((metric, "", ""))
        grown = rise.within(rule.check.window_seconds) if rise is not None else 0
        if _fails(grown, rule.threshold, compare):
            reason = words.format(value=show(grown), threshold=show(rule.threshold))
            return Finding(Status.FAILED, value=grown, threshold=rule.threshold, reason=reason)
        return unknown(metric) if gpu.cells.get(metric) is None else PASSED

    return judge


def _fabric_state(rule: Rule, gpu: GpuEvidence, node: NodeEvidence) -> Finding | None:
    state = _active(gpu.cells, "gpu_fabric_state")
    if state is None:
        return None
    if not state:
        return unknown("gpu_fabric_state")
    if state not in _FABRIC_WAITS:
        return PASSED
    words = "has not started" if state == "not_started" else "is in progress"
    since_ns = node.now_ns if gpu.waiting_since_ns is None else gpu.waiting_since_ns
    waited = max(0, node.now_ns - since_ns) / 1e9
    reason = f"the fabric registration {words} for {waited:.0f} s"
    late = waited >= rule.threshold
    return Finding(
        Status.FAILED if late else Status.UNKNOWN,
        value=round(waited, 3),
        threshold=rule.threshold,
        reason=reason,
        action="" if late else "wait: it may take some minutes",
        since_ns=since_ns,
    )


def _conditions(*names: str) -> GpuJudge:
    """Judge conditions that the fabric reports: any of them fails."""

    def judge(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
        metric = rule.check.metrics[0]
        supported = [name for name in names if gpu.cells.has(metric, name)]
        if not supported:
            return None
        found = [name for name in supported if gpu.cells.get(metric, name)]
        if found:
            reason = f"the fabric reports: {', '.join(found).replace('_', ' ')}"
            return Finding(Status.FAILED, value=1, reason=reason)
        missing = [name for name in supported if gpu.cells.get(metric, name) is None]
        return unknown(metric, missing[0].replace("_", " ")) if missing else PASSED

    return judge


def _clock_events(rule: Rule, gpu: GpuEvidence, node: NodeEvidence) -> Finding | None:
    metric = rule.check.metrics[0]
    supported = [name for name in _SLOWDOWNS if gpu.cells.has(metric, name)]
    if not supported:
        return None
    minutes = rule.check.window_seconds / 60
    newest = node.now_ns // _MINUTE_NS
    slow = sum(newest - minutes < minute <= newest for minute in gpu.slow_minutes)
    rate = slow / minutes
    if rate >= rule.threshold:
        reason = f"hardware held the clocks down in {slow} of the last {minutes:.0f} minutes"
        return Finding(Status.FAILED, value=rate, threshold=rule.threshold, reason=reason)
    missing = any(gpu.cells.get(metric, name) is None for name in supported)
    return unknown(metric) if missing else PASSED


def _pcie_link(rule: Rule, gpu: GpuEvidence, node: NodeEvidence) -> Finding | None:
    supported = [metric for metric in rule.check.metrics if gpu.cells.has(metric)]
    if not supported:
        return None
    best = {metric: _best_of_peers(metric, gpu, node) for metric in supported}
    below = [metric for metric in supported if _below(gpu.cells.get(metric), best[metric])]
    for metric in below:
        if metric == "gpu_pcie_width_lanes" or _under_load(gpu):
            own, peers = gpu.cells.get(metric), best[metric]
            what = "lanes" if metric == "gpu_pcie_width_lanes" else "generation under load"
            reason = f"PCIe {what}: {own}, where the node's other GPUs have {peers}"
            return Finding(Status.FAILED, value=own, threshold=peers, metric=metric, reason=reason)
    missing = next((metric for metric in supported if gpu.cells.get(metric) is None), None)
    if missing is not None:
        return unknown(missing)
    # Without a peer, or at rest, where links slow down, there is nothing to compare with.
    return Finding(Status.HELD) if below or None in best.values() else PASSED


def _best_of_peers(metric: str, gpu: GpuEvidence, node: NodeEvidence) -> Value | None:
    """Return the highest value of the other GPUs of the same product; None unless all of them have one."""
    peers = [
        peer for peer in node.gpus if peer is not gpu and peer.texts.get("name") == gpu.texts.get("name")
    ]
    values = [peer.cells.get(metric) for peer in peers]
    read = [value for value in values if value is not None]
    own = gpu.cells.get(metric)
    best = max(read, default=None)
    return best if len(read) == len(values) or _below(own, best) else None


def _below(own: Value | None, best: Value | None) -> bool:
    return own is not None and best is not None and own < best


def _under_load(gpu: GpuEvidence) -> bool:
    utilization = gpu.cells.get("gpu_utilization_ratio")
    return utilization is not None and utilization >= _LOAD_RATIO


def _gpus_missing(rule: Rule, node: NodeEvidence) -> Finding | None:
    expected = node.cells.get("node_gpus_expected")
    if expected is None:  # the platform is unknown: there is no number to compare with
        return None
    present = node.cells.get("node_gpus_present")
    if present is None:
        return unknown("node_gpus_present")
    if present >= expected:
        return PASSED
    reason = f"{present} of {expected} GPUs answer"
    return Finding(Status.FAILED, value=present, threshold=expected, reason=reason)


def _persistence_mode(rule: Rule, node: NodeEvidence) -> Finding | None:
    modes = {gpu.index: gpu.texts.get("persistence_mode", "") for gpu in node.gpus if gpu.texts}
    off = [index for index, mode in modes.items() if mode not in ("", "enabled")]
    if off:
        return Finding(Status.FAILED, value=0, reason=f"persistence mode is off on GPU {', '.join(off)}")
    if any(gpu.cells.has("gpu_info") and gpu.cells.get("gpu_info") is None for gpu in node.gpus):
        return unknown("gpu_info")
    if not any(modes.values()):
        return None
    # Of a GPU that is lost nothing is known.
    return PASSED if len(modes) == len(node.gpus) else Finding(Status.HELD)


GPU_JUDGES: Mapping[str, GpuJudge] = {
    "gpu_lost": _gpu_lost,
    "gpu_recovery_action": _recovery_action,
    "gpu_drain_p2p": _drain_p2p,
    "gpu_ecc_uncorrected": _rise("{value} uncorrectable memory errors within 10 minutes", compare="at_least"),
    "gpu_ecc_corrected": _level(
        "{value} memory errors were corrected, more than {threshold}", compare="above"
    ),
    "gpu_row_remap_pending": _flag("memory rows wait for a reset to be remapped"),
    "gpu_row_remap_failure": _flag("a memory row could not be remapped"),
    "gpu_rows_remapped": _level(
        "{value} rows were remapped for uncorrectable errors, {threshold} or more",
        compare="at_least",
        label="uncorrectable",
    ),
    "gpu_fabric_state": _fabric_state,
    "gpu_fabric_unhealthy": _conditions("route_unhealthy", "incorrect_configuration"),
    "gpu_fabric_degraded": _conditions("degraded_bandwidth", "route_recovery", "access_timeout"),
    "gpu_clock_events": _clock_events,
    "gpu_temperature_margin": _level(
        "the margin to slowdown is {value} degrees, less than {threshold}", compare="below"
    ),
    "gpu_memory_temperature": _level(
        "the memory has {value} degrees, more than {threshold}", compare="above"
    ),
    "gpu_pcie_link": _pcie_link,
    "gpu_pcie_replays": _rise(
        "{value} PCIe packets were sent again within a minute, more than {threshold}", compare="above"
    ),
    **LINK_JUDGES,
    **XID_JUDGES,
}
"""How each check of a GPU judges."""

NODE_JUDGES: Mapping[str, NodeJudge] = {
    "node_gpus_missing": _gpus_missing,
    "node_persistence_mode": _persistence_mode,
}
"""How each check of a node judges."""
