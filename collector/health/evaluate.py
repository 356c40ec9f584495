"""Evaluates every check of a node over its newest values, once a Snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.catalog import BY_NAME
from collector.catalog.checks import CHECKS, GPU_CHECKS, NODE_CHECKS, Check
from collector.health.check_spec import PASSED, Finding, GpuEvidence, NodeEvidence, Rule, Status
from collector.health.checks import GPU_JUDGES, NODE_JUDGES
from collector.health.evidence import GpuMemory, Places
from collector.health.xid_memory import SeenXid
from collector.health.xids import XidCatalogue, load_catalogue
from collector.model import CheckResult, Series, SeriesTable, Value

_GPU_FAILED = BY_NAME["gpu_check_failed"]
_NODE_FAILED = BY_NAME["node_check_failed"]

_WITHOUT_VALUES = frozenset({"gpu_xid_fatal", "gpu_xid_repeated"})
"""Checks that are judged by events, so that they hold while no values are read."""
_OF_A_LOST_GPU = _WITHOUT_VALUES | {"gpu_lost"}

_LOOK = "run `rackwatt check` on the node: it says what cannot be read, and why"
"""What to do about a check that could not be evaluated."""

_Key = tuple[str, str]
"""GPU, or empty for the node; and check."""


@dataclass(slots=True)
class _Standing:
    """What stands of one check of one subject.

    Attributes:
        finding: The newest finding.
        decided: The newest finding that was PASSED or FAILED.
        failed_since_ns: Since when it fails; kept while it cannot be evaluated.
        unknown_since_ns: Since when it cannot be evaluated.
    """

    finding: Finding = PASSED
    decided: Finding = PASSED
    failed_since_ns: int | None = None
    unknown_since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class GpuName:
    """A GPU as its series are labelled."""

    index: str
    uuid: str


@dataclass(slots=True)
class Checker:
    """Judges one node.

    Attributes:
        thresholds: Thresholds by check that the configuration changes.
        catalogue: What Xids mean.
    """

    thresholds: Mapping[str, Value] = field(default_factory=dict)
    catalogue: XidCatalogue = field(default_factory=load_catalogue)
    _rules: dict[str, Rule] = field(init=False)
    _places: Places = field(init=False)
    _memories: dict[str, GpuMemory] = field(default_factory=dict)
    _standings: dict[_Key, _Standing] = field(default_factory=dict)
    _judged: set[_Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Put rows and configured thresholds together."""
        self._rules = {check.id: Rule(check, self._threshold(check)) for check in CHECKS}
        self._places = Places(SeriesTable(()))

    def _threshold(self, check: Check) -> Value:
        return self.thresholds.get(check.id, 0 if check.threshold is None else check.threshold)

    def see_xid(self, gpu_uuid: str, xid: SeenXid) -> None:
        """Take note of an Xid of a GPU."""
        self._memory(gpu_uuid).xids.see(xid)

    def amend_xid(self, gpu_uuid: str, before: SeenXid, after: SeenXid) -> None:
        """Take note that more is known of an Xid than there was."""
        self._memory(gpu_uuid).xids.amend(before, after)

    def see_return(self, gpu_uuid: str) -> None:
        """Take note that a GPU that was lost is back, which takes a reset."""
        self._memory(gpu_uuid).xids.cure()

    def _memory(self, gpu_uuid: str) -> GpuMemory:
        return self._memories.setdefault(gpu_uuid, GpuMemory())

    def evaluate(
        self,
        table: SeriesTable,
        values: Sequence[Value | None],
        *,
        now_ns: int,
        down: str = "",
    ) -> tuple[CheckResult, ...]:
        """Evaluate every check.

        Args:
            table: The series of the node.
            values: One a series.
            now_ns: Nanoseconds of Unix time, never running backwards.
            down: Why the values cannot be used at all; empty if they can.

        Returns:
            What failed, and what is supported and could not be evaluated; in the order of the catalogue, GPU
            by GPU.
        """
        if table is not self._places.table:
            self._places = Places(table)
            self._forget_gone()
        for uuid in self._places.uuids():
            self._memory(uuid)
        gpus = list(self._places.gpus(values, self._memories))
        if not down:
            clean_seconds = float(self._rules["gpu_xid_fatal"].threshold)
            for gpu in gpus:
                memory = self._memories[gpu.uuid]
                memory.update(gpu, now_ns, clean_seconds)
                gpu.waiting_since_ns = memory.waiting_since_ns
        node = NodeEvidence(gpus, self._places.node(values), self.catalogue, now_ns)
        self._judged = set()
        return tuple(self._results(node, now_ns, down))

    def rows(self, gpus: Sequence[GpuName]) -> Iterator[tuple[Series, Value | None]]:
        """Yield the series of all checks: 1 failed, 0 passed, None unknown or not supported."""
        for gpu in gpus:
            for check in GPU_CHECKS:
                labels = (gpu.index, gpu.uuid, check.id, check.impact)
                yield Series(_GPU_FAILED, labels), self._exported(gpu.uuid, check)
        for check in NODE_CHECKS:
            yield Series(_NODE_FAILED, (check.id, check.impact)), self._exported("", check)

    def _exported(self, gpu_uuid: str, check: Check) -> Value | None:
        key = (gpu_uuid, check.id)
        if key not in self._judged:
            return None
        return {Status.FAILED: 1, Status.PASSED: 0}.get(self._standings[key].finding.status)

    def _results(self, node: NodeEvidence, now_ns: int, down: str) -> Iterator[CheckResult]:
        for gpu in node.gpus:
            for check in GPU_CHECKS:
                finding = self._judge_gpu(check, gpu, node, down)
                yield from self._settle(check, gpu, finding, now_ns)
        for check in NODE_CHECKS:
            finding = _unread(check, down) if down else NODE_JUDGES[check.id](self._rules[check.id], node)
            yield from self._settle(check, None, finding, now_ns)

    def _judge_gpu(self, check: Check, gpu: GpuEvidence, node: NodeEvidence, down: str) -> Finding | None:
        judge, rule = GPU_JUDGES[check.id], self._rules[check.id]
        if down:
            finding = judge(rule, gpu, node) if check.id in _WITHOUT_VALUES else _unread(check, down)
            # Nothing else is known of it now, so that an Xid that did not come is no pass.
            passed = finding is not None and finding.status is Status.PASSED
            return None if passed else finding
        if check.id not in _OF_A_LOST_GPU and gpu.cells.get("gpu_up") == 0:
            return None
        return judge(rule, gpu, node)

    def _settle(
        self, check: Check, gpu: GpuEvidence | None, finding: Finding | None, now_ns: int
    ) -> Iterator[CheckResult]:
        """Carry on since when it holds, and yield the result unless it passed."""
        key = (gpu.uuid if gpu is not None else "", check.id)
        if finding is None:
            return
        standing = self._standings.get(key)
        if standing is None:
            standing = self._standings[key] = _Standing()
        self._judged.add(key)
        _carry_on(standing, finding, now_ns)
        current = standing.finding
        since_ns = standing.failed_since_ns if current.status is Status.FAILED else standing.unknown_since_ns
        if current.status is Status.PASSED or since_ns is None:
            return
        yield CheckResult(
            check=check.id,
            impact=check.impact,
            failed=current.status is Status.FAILED,
            gpu_uuid=key[0],
            gpu=gpu.index if gpu is not None else "",
            metric=current.metric or check.metrics[0],
            value=current.value,
            threshold=current.threshold,
            since_ns=since_ns,
            reason=current.reason,
            action=current.action or (_LOOK if current.status is Status.UNKNOWN else check.action),
        )

    def _forget_gone(self) -> None:
        """Forget GPUs that are not known any more: they were exchanged."""
        known = set(self._places.uuids())
        if not known:
            return
        for uuid in [uuid for uuid in self._memories if uuid not in known]:
            del self._memories[uuid]
        for key in [key for key in self._standings if key[0] and key[0] not in known]:
            del self._standings[key]


def _carry_on(standing: _Standing, finding: Finding, now_ns: int) -> None:
    """Bring a standing up to date; a failure that cannot be evaluated for a while goes on after it."""
    if finding.status is Status.HELD:
        finding = standing.decided
    standing.finding = finding
    begins_ns = now_ns if finding.since_ns is None else finding.since_ns
    if finding.status is not Status.UNKNOWN:
        standing.decided = finding
    if finding.status is Status.PASSED:
        standing.failed_since_ns = standing.unknown_since_ns = None
    elif finding.status is Status.FAILED:
        standing.unknown_since_ns = None
        if standing.failed_since_ns is None or finding.since_ns is not None:
            standing.failed_since_ns = begins_ns
    elif standing.unknown_since_ns is None:
        standing.unknown_since_ns = begins_ns


def _unread(check: Check, down: str) -> Finding | None:
    """While nothing is read: say so once a subject, rather than for each of its checks."""
    if check.id not in ("gpu_lost", "node_gpus_missing"):
        return None
    return Finding(Status.UNKNOWN, reason=down, metric=check.metrics[0])
