"""Nodes and GPUs as bodies."""

from __future__ import annotations

from collections.abc import Iterable

from collector.health.rack_types import GpuView, NodeStatus
from collector.model import CheckResult, Sample, Value
from collector.rack.answers import GpuFound
from exporters.rest.models import nodes as bodies
from exporters.rest.models.common import Envelope
from exporters.rest.views.common import exposed, moment, or_none, reasons


def node(rack: str, status: NodeStatus) -> bodies.NodePart:
    """Write a node."""
    poll, view = status.poll, status.poll.view
    return bodies.NodePart(
        node=status.node,
        rack=rack,
        state=status.state.value,
        schedulable=status.schedulable,
        since=moment(status.since_ns),
        reasons=reasons(status.reasons),
        latched=status.latched,
        slot=view.slot if view else None,
        tray=view.tray if view else None,
        cluster_uuid=or_none(view.cluster_uuid) if view else None,
        clique=or_none(view.clique) if view else None,
        agent=or_none(poll.address),
        answers=view is not None and not poll.error,
        silent_since=moment(poll.last_good_ns) if poll.error else None,
        error=or_none(poll.error),
        identity=dict(view.identity) if view else {},
        gpus_expected=view.gpus_expected if view else None,
        gpus=[_summary(gpu) for gpu in view.gpus] if view else [],
    )


def gpu(envelope: Envelope, found: GpuFound) -> bodies.GpuBody:
    """Write a GPU."""
    own, samples = found.gpu, tuple(found.node.poll.samples.of_gpu(found.gpu.uuid))
    return bodies.GpuBody(
        **dict(envelope),
        gpu_uuid=own.uuid,
        gpu=own.index,
        rack=found.rack.rack,
        node=found.node.node,
        node_state=found.node.state.value,
        state=own.state.value,
        up=own.up,
        recovery_action=_word(samples, "gpu_recovery_action"),
        fabric_state=_word(samples, "gpu_fabric_state"),
        nvlinks=bodies.LinksUp(
            up=_whole(samples, "gpu_nvlinks_up"), expected=_whole(samples, "gpu_nvlinks_expected")
        ),
        info=dict(own.texts),
        checks=[_check(check) for check in own.checks],
    )


def _summary(own: GpuView) -> bodies.GpuSummary:
    return bodies.GpuSummary(gpu_uuid=own.uuid, gpu=own.index, state=own.state.value)


def _check(check: CheckResult) -> bodies.CheckBody:
    return bodies.CheckBody(
        check=check.check,
        impact=check.impact,
        failed=check.failed,
        text=check.reason,
        action=check.action,
        metric=exposed(check.metric),
        value=check.value,
        threshold=check.threshold,
        since=moment(check.since_ns),
    )


def _word(samples: Iterable[Sample], metric: str) -> str | None:
    """Give the label of a state that is 1."""
    return next(
        (sample.labels[-1] for sample in samples if sample.metric.name == metric and sample.value == 1), None
    )


def _whole(samples: Iterable[Sample], metric: str) -> int | None:
    value: Value | None = next((each.value for each in samples if each.metric.name == metric), None)
    return None if value is None else int(value)
