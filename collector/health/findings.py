"""What one good Snapshot says of its node, without memory: failed checks, unknown ones, missing GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collector.health.rack_types import GpuView, NodeView, Reason
from collector.health.states import GpuState, Impact, impact_of
from collector.model import CheckResult

GPU_COUNT_CHECKS = frozenset({"gpu_lost", "node_gpus_missing"})
"""Checks that need two good polls although their impact is `fail`: a GPU that one sweep missed may be back in
the next (facts/rack.md §3, "GPU lost / count: FAILED after 2 samples")."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a node, by how far it can be believed.

    Attributes:
        failed: Checks that failed, of impact `warn`, `avoid` or `fail`.
        suspected: Grounds for FAILED that count once two good polls agree.
        unknown: What keeps the state from being known: an `avoid` or `fail` check without an answer.
    """

    failed: tuple[Reason, ...] = ()
    suspected: tuple[Reason, ...] = ()
    unknown: tuple[Reason, ...] = ()


def find(view: NodeView, node: str, gpus_expected: int | None) -> Findings:
    """Judge one good Snapshot.

    A `warn` check without an answer counts as if it had failed: its failure would leave the node schedulable,
    so not knowing it cannot do more. An `info` check changes nothing either way.

    Args:
        view: The Snapshot.
        node: Name under which the node is expected; its reasons carry it, whatever the agent calls itself.
        gpus_expected: GPUs that the node should have, where the Snapshot does not say.
    """
    failed: list[Reason] = []
    suspected: list[Reason] = []
    unknown: list[Reason] = []
    for result, up in _results(view):
        reason = _reason(node, result)
        if reason is None:
            continue
        if not result.failed:
            if up:
                (unknown if reason.impact.unschedulable else failed).append(reason)
        elif reason.impact is Impact.FAIL and result.check in GPU_COUNT_CHECKS:
            suspected.append(reason)
        else:
            failed.append(reason)
    for gpu in view.gpus:
        _add_bare_state(view, node, gpu, failed, suspected, unknown)
    if not suspected:
        suspected.extend(_missing_gpus(view, node, gpus_expected))
    return Findings(tuple(failed), tuple(suspected), tuple(unknown))


def _results(view: NodeView) -> Iterator[tuple[CheckResult, bool]]:
    """Yield the checks of the node and of its GPUs, each with whether its subject answers."""
    for result in view.checks:
        yield result, True
    for gpu in view.gpus:
        for result in gpu.checks:
            yield result, gpu.up


def _reason(node: str, result: CheckResult) -> Reason | None:
    impact = impact_of(result.impact)
    if impact is Impact.INFO:
        return None
    return Reason(
        check=result.check,
        impact=impact,
        text=result.reason,
        action=result.action,
        node=node,
        gpu_uuid=result.gpu_uuid,
        metric=result.metric,
        value=result.value,
        threshold=result.threshold,
        since_ns=result.since_ns,
    )


def _add_bare_state(
    view: NodeView,
    node: str,
    gpu: GpuView,
    failed: list[Reason],
    suspected: list[Reason],
    unknown: list[Reason],
) -> None:
    """Believe a GPU's state where no check of it explains it."""
    if not gpu.up or gpu.checks or gpu.state is GpuState.OK:
        return
    impact, into = {
        GpuState.DEGRADED: (Impact.WARN, failed),
        GpuState.FAILED: (Impact.FAIL, suspected),
        GpuState.UNKNOWN: (Impact.AVOID, unknown),
    }[gpu.state]
    into.append(
        Reason(
            check="gpu_state",
            impact=impact,
            text=f"GPU {gpu.index} is {gpu.state.value}, and its agent names no check",
            action="Update the agent, so that it evaluates the checks.",
            node=node,
            gpu_uuid=gpu.uuid,
            metric="gpu_up",
        )
    )


def _missing_gpus(view: NodeView, node: str, gpus_expected: int | None) -> Iterator[Reason]:
    expected = view.gpus_expected if view.gpus_expected is not None else gpus_expected
    present = sum(gpu.up for gpu in view.gpus)
    lost = [gpu for gpu in view.gpus if not gpu.up]
    should = len(view.gpus) if expected is None else expected
    if present >= should:
        return
    names = ", ".join(f"GPU {gpu.index or gpu.uuid}" for gpu in lost)
    yield Reason(
        check="missing_gpu",
        impact=Impact.FAIL,
        text=f"{present} of {should} GPUs answer" + (f"; lost: {names}" if names else ""),
        action="Look for Xid 79 in the kernel log, then restart the node; if it stays, call for service.",
        node=node,
        gpu_uuid=lost[0].uuid if len(lost) == 1 else "",
        metric="node_gpus_present",
        value=present,
        threshold=should,
    )
