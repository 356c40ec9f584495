"""What an agent alone can say of its node: the states of its GPUs and of the node, from its own checks.

It knows neither maintenance nor a second witness; those are the rack service's (CONTRACTS §3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.health.states import GpuState, Impact, NodeState, impact_of, state_of_checks
from collector.model import CheckResult, Snapshot


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """State of one GPU.

    Attributes:
        index: Index for display.
        uuid: Identity.
        state: Its state.
    """

    index: str
    uuid: str
    state: GpuState


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """State of the node.

    Attributes:
        state: Its state.
        reason: Why it is not READY, in words; empty if it is.
        gpus: Its GPUs, missing ones included.
    """

    state: NodeState
    reason: str
    gpus: tuple[GpuHealth, ...]


def judge_node(snapshot: Snapshot, not_ready: str) -> NodeHealth:
    """Judge a node by its newest Snapshot.

    Args:
        snapshot: The newest Snapshot.
        not_ready: Why its values do not count, as when they are old; empty if they do.
    """
    checks = snapshot.checks
    blind = not_ready or ("" if checks is not None else "no checks are evaluated")
    results = checks or ()
    gpus = tuple(
        GpuHealth(
            index,
            uuid,
            _gpu_state([result for result in results if result.gpu_uuid == uuid], blind=bool(blind)),
        )
        for index, uuid in _gpus(snapshot)
    )
    if blind:
        return NodeHealth(NodeState.UNKNOWN, blind, gpus)
    state = _node_state(results)
    return NodeHealth(state, _reason(results, state), gpus)


def _gpus(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [
        (series.labels[0], series.labels[1])
        for series in snapshot.table.series
        if series.metric.name == "gpu_up"
    ]


def _gpu_state(results: Sequence[CheckResult], *, blind: bool) -> GpuState:
    state = state_of_checks(results)
    # What failed for good, such as an Xid that asks for a reset, holds while nothing is read.
    return state if state is GpuState.FAILED or not blind else GpuState.UNKNOWN


def _node_state(results: Sequence[CheckResult]) -> NodeState:
    state = state_of_checks(results)
    return NodeState.READY if state is GpuState.OK else NodeState(state.value)


def _decides(result: CheckResult, state: NodeState) -> bool:
    """Tell whether a check is one that puts its node into a state."""
    impact = impact_of(result.impact)
    if state is NodeState.FAILED:
        return result.failed and impact is Impact.FAIL
    if state is NodeState.UNKNOWN:
        return not result.failed and impact.unschedulable
    return state is NodeState.DEGRADED and impact in (Impact.AVOID, Impact.WARN)


def _reason(results: Sequence[CheckResult], state: NodeState) -> str:
    """Name the first check that decides, and how many more there are."""
    deciding = [result for result in results if _decides(result, state)]
    if not deciding:
        return ""
    first = deciding[0]
    where = f"GPU {first.gpu}: " if first.gpu_uuid else ""
    more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
    return f"{where}{first.reason}{more}"
