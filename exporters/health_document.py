"""The health document: `GET /v1/health` of an agent, as JSON (CONTRACTS §5)."""

from __future__ import annotations

import msgspec

from collector.health.agent_view import NodeHealth, judge_node
from collector.model import CheckResult, Snapshot, Value
from exporters.snapshot import check_item, rfc3339, text_of

STALE_AFTER_SECONDS = 5
"""Age from which on nothing in the document counts (CONTRACTS §3, "good poll")."""


class GpuItem(msgspec.Struct, frozen=True):
    """A GPU of the document."""

    gpu: str
    gpu_uuid: str
    state: str


class CheckEntry(msgspec.Struct, frozen=True):
    """A check that did not pass.

    Attributes:
        check: Its id.
        status: `failed`, or `unknown` if it could not be evaluated.
        impact: What its failure means: `info`, `warn`, `avoid`, `fail`.
        gpu: Index of the GPU; empty for the node.
        gpu_uuid: The GPU; empty for the node.
        metric: Metric that was judged, without prefix.
        value: Value that was read, or null.
        threshold: What it was compared with, or null.
        since: Since when it holds, RFC 3339 in UTC.
        reason: What is wrong, in words.
        action: What to do.
    """

    check: str
    status: str
    impact: str
    gpu: str
    gpu_uuid: str
    metric: str
    value: Value | None
    threshold: Value | None
    since: str
    reason: str
    action: str


class HealthDocument(msgspec.Struct, frozen=True):
    """The document.

    Attributes:
        observed_at: When the Snapshot was taken that it judges, RFC 3339 in UTC.
        stale_after_s: Age in seconds from which on it does not count any more.
        generation: Rises with every change of states and checks; begins anew with the agent.
        rack: Name of the rack.
        node: Name of the node.
        state: READY, DEGRADED, FAILED, UNKNOWN.
        reason: Why it is not READY, in words; empty if it is.
        gpus: State of each GPU: OK, DEGRADED, FAILED, UNKNOWN.
        checks: Checks that failed or could not be evaluated.
    """

    observed_at: str
    stale_after_s: int
    generation: int
    rack: str
    node: str
    state: str
    reason: str
    gpus: list[GpuItem]
    checks: list[CheckEntry]


class HealthWriter:
    """Writes the document, and counts its changes."""

    def __init__(self) -> None:
        self._generation = 0
        self._essence: object = None

    def write(self, snapshot: Snapshot, *, not_ready: str) -> bytes:
        """Encode the health of a node.

        Args:
            snapshot: The newest Snapshot.
            not_ready: Why its values do not count; empty if they do.
        """
        health = judge_node(snapshot, not_ready)
        checks = snapshot.checks or ()
        self._count_change(health, checks)
        document = HealthDocument(
            observed_at=rfc3339(snapshot.time_ns),
            stale_after_s=STALE_AFTER_SECONDS,
            generation=self._generation,
            rack=text_of(snapshot.rack),
            node=text_of(snapshot.node),
            state=health.state.value,
            reason=text_of(health.reason),
            gpus=[GpuItem(text_of(gpu.index), text_of(gpu.uuid), gpu.state.value) for gpu in health.gpus],
            checks=[_entry(check) for check in checks],
        )
        return msgspec.json.encode(document)

    def _count_change(self, health: NodeHealth, checks: tuple[CheckResult, ...]) -> None:
        essence = (health.state, health.gpus, [(c.check, c.gpu_uuid, c.failed, c.since_ns) for c in checks])
        if essence != self._essence:
            self._essence = essence
            self._generation += 1


def _entry(check: CheckResult) -> CheckEntry:
    item = check_item(check)
    return CheckEntry(
        check=item.check,
        status="failed" if item.failed else "unknown",
        impact=item.impact,
        gpu=item.gpu,
        gpu_uuid=item.gpu_uuid,
        metric=item.metric,
        value=item.value,
        threshold=item.threshold,
        since=rfc3339(item.since_ns),
        reason=item.reason,
        action=item.action,
    )
