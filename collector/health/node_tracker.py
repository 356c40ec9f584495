"""The state of one node over time: hysteresis, flap latch, silence, maintenance (CONTRACTS §3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.health.findings import Findings, find
from collector.health.node_memory import NodeMemory, remember
from collector.health.node_reasons import (
    FABRIC_METRIC,
    FirstSeen,
    fabric_in_progress,
    fabric_overdue,
    fabric_unknown,
    flapping,
    gone,
    recovering,
    silent,
    worst_first,
)
from collector.health.rack_types import NodeStatus, NodeView, Poll, Reason
from collector.health.states import Impact, NodeState
from collector.health.tracker_rules import TrackerRules


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What an evaluation goes by.

    Attributes:
        failing: Reasons for FAILED.
        unknown: Reasons for which nothing can be said although the node answers.
        other: Reasons of impact `warn` and `avoid`.
        clean: Whether nothing speaks for FAILED, and everything could be judged.
        progress: The fabric is in progress, which goes before what fails meanwhile; None if it is not.
    """

    failing: tuple[Reason, ...] = ()
    unknown: tuple[Reason, ...] = ()
    other: tuple[Reason, ...] = ()
    clean: bool = False
    progress: Reason | None = None


class NodeTracker:
    """Follows one node and says what state it is in.

    Time is given: nanoseconds of Unix time. `observe` takes a poll in, `judge` gives the state; `update` does
    both. Rules over several nodes run between the two, on what `observe` returned.

    Attributes:
        node: Name under which the node is expected.
        rules: Times and counts.
    """

    def __init__(self, node: str, rules: TrackerRules, exported: Mapping[str, object] | None = None) -> None:
        """Begin with nothing known, or with what `export` gave.

        Args:
            node: Name under which the node is expected.
            rules: Times and counts.
            exported: What another tracker of the node exported, as after a restart of the service.
        """
        self.node = node
        self.rules = rules
        self._memory = remember(exported) if exported is not None else NodeMemory()
        self._poll = Poll(node=node, address="")
        self._view: NodeView | None = None
        self._sample = ("", -1)
        self._findings = Findings()
        self._agreeing = 0
        self._first_seen = FirstSeen()
        self._heard = self._memory.state is None
        self._began_ns: int | None = None

    @property
    def heard(self) -> bool:
        """Whether a restored tracker has been told anything since, or waited for it long enough.

        Until then the node is UNKNOWN to the outside, but what is remembered of it stays as it is: a service
        that was restarted does not know less of the past because its first polls are still on their way.
        """
        return self._heard

    @property
    def last_clique(self) -> tuple[str, str] | None:
        """NVLink domain and clique that the node last reported; None if it never did."""
        memory = self._memory
        return (memory.cluster_uuid, memory.clique) if memory.cluster_uuid and memory.clique else None

    def update(
        self,
        poll: Poll,
        now_ns: int,
        *,
        maintenance: Reason | None = None,
        rack_findings: Sequence[Reason] = (),
    ) -> NodeStatus:
        """Take a poll in and give the state.

        Args:
            poll: What the poller knows.
            now_ns: The present.
            maintenance: The declared maintenance that the node is in; None if it is in none.
            rack_findings: What rules over several nodes found about this one.
        """
        self.observe(poll, now_ns)
        return self.judge(now_ns, maintenance=maintenance, rack_findings=rack_findings)

    def observe(self, poll: Poll, now_ns: int) -> NodeView | None:
        """Take a poll in.

        Returns:
            The newest good Snapshot, while it may be believed; None after three poll intervals without.
        """
        self._poll = poll
        memory = self._memory
        memory.follow_clock(now_ns)
        if not self._hears(poll, now_ns):
            return None
        if not self._believable(poll.last_good_ns, now_ns):
            self._view = None
            self._agreeing = 0
            if memory.silent_since_ns is None:
                memory.silent_since_ns = now_ns
            return None
        memory.silent_since_ns = None
        if poll.view is not None and self._is_good(poll.view):
            self._take(poll.view, now_ns)
        self._notice_gap(poll.last_good_ns)
        return self._view

    def judge(
        self, now_ns: int, *, maintenance: Reason | None = None, rack_findings: Sequence[Reason] = ()
    ) -> NodeStatus:
        """Give the state by what was observed: see `update`."""
        if not self._heard:
            return self._not_heard(now_ns, maintenance)
        memory = self._memory
        evidence = self._weigh(now_ns, rack_findings)
        self._advance(evidence, now_ns, maintained=maintenance is not None)
        state = self._state(evidence, maintained=maintenance is not None)
        if state is not memory.state:
            memory.state, memory.since_ns = state, now_ns
        reasons = self._reasons(evidence, state, maintenance, now_ns)
        return NodeStatus(
            node=self.node,
            state=state,
            schedulable=state in (NodeState.READY, NodeState.DEGRADED)
            and not any(reason.impact.unschedulable for reason in reasons),
            since_ns=memory.since_ns,
            reasons=reasons,
            clique="",
            latched=memory.latched_since_ns is not None,
            poll=self._poll,
        )

    def release_latch(self) -> bool:
        """Let a latched node in again, as after a repair; return whether it was latched."""
        return self._memory.release_latch()

    def export(self) -> dict[str, object]:
        """Return what must outlive the service, as plain JSON values."""
        return self._memory.export()

    def _hears(self, poll: Poll, now_ns: int) -> bool:
        """Return whether anything was heard since the restart, or should have been."""
        if self._began_ns is None:
            self._began_ns = now_ns
        # A witness is heard as soon as the last good poll, of the time before the restart, is too old.
        gone_for_long = poll.witness is True and not self._believable(self._memory.last_good_ns, now_ns)
        nothing = poll.view is None and poll.last_good_ns is None and not gone_for_long
        waited = abs(now_ns - self._began_ns) > self.rules.silence_ns
        self._heard = self._heard or not nothing or waited
        return self._heard

    def _not_heard(self, now_ns: int, maintenance: Reason | None) -> NodeStatus:
        state = NodeState.UNKNOWN if maintenance is None else NodeState.MAINTENANCE
        memory = self._memory
        said = silent(self.node, self._poll, memory, self.rules)
        return NodeStatus(
            node=self.node,
            state=state,
            schedulable=False,
            since_ns=memory.since_ns if state is memory.state else now_ns,
            reasons=tuple(reason for reason in (maintenance, said) if reason is not None),
            clique="",
            latched=memory.latched_since_ns is not None,
            poll=self._poll,
        )

    def _believable(self, last_good_ns: int | None, now_ns: int) -> bool:
        # A poll from the future is as little believed as an old one: the clock was stepped back.
        return last_good_ns is not None and abs(now_ns - last_good_ns) <= self.rules.silence_ns

    def _is_good(self, view: NodeView) -> bool:
        age = view.fast_age_seconds
        return view.nvml_up and age is not None and age <= self.rules.fast_age_limit_seconds

    def _take(self, view: NodeView, now_ns: int) -> None:
        memory = self._memory
        self._view = view
        sample = (view.agent_id, view.sequence)
        if sample == self._sample:
            return
        self._sample = sample
        if view.boot_id and view.boot_id != memory.boot_id:
            if memory.boot_id:
                self._rebooted()
            memory.boot_id = view.boot_id
        self._findings = find(view, self.node, self.rules.gpus_expected)
        self._agreeing = self._agreeing + 1 if self._findings.suspected else 0
        if view.cluster_uuid and view.clique:
            memory.cluster_uuid, memory.clique = view.cluster_uuid, view.clique
        if view.fabric_complete is not False:
            memory.fabric_since_ns = None
        elif memory.fabric_since_ns is None:
            memory.fabric_since_ns = now_ns

    def _rebooted(self) -> None:
        """Forget what a reboot cures; the entries into FAILED stay counted, as repetition tells something."""
        memory = self._memory
        self._agreeing = 0
        memory.fabric_since_ns = None
        if not self.rules.not_cured_by_reboot.intersection(memory.failed_checks):
            memory.leave_failed()

    def _notice_gap(self, last_good_ns: int | None) -> None:
        """Begin the clean time anew after a silence, also after one of this service."""
        memory = self._memory
        before, memory.last_good_ns = memory.last_good_ns, last_good_ns
        if before is not None and last_good_ns is not None and last_good_ns - before > self.rules.silence_ns:
            memory.clean_since_ns = None

    def _weigh(self, now_ns: int, rack_findings: Sequence[Reason]) -> _Evidence:
        view = self._view
        if view is None:
            dead = self._poll.witness is True
            return _Evidence(failing=(gone(self.node, self._poll, self._memory),) if dead else ())
        findings = self._findings
        failed = (*findings.failed, *rack_findings)
        confirmed = findings.suspected if self._agreeing >= self.rules.samples_to_fail else ()
        failing = (*(reason for reason in failed if reason.impact is Impact.FAIL), *confirmed)
        other = tuple(reason for reason in failed if reason.impact is not Impact.FAIL)
        unknown = findings.unknown
        progress = self._fabric_in_progress(failing)
        if progress is not None and now_ns - progress.since_ns >= self.rules.fabric_grace_ns:
            failing, progress = (*failing, fabric_overdue(progress, self.rules)), None
        if progress is None and self.rules.fabric_required:
            unknown = (*unknown, *fabric_unknown(self.node, view))
        return _Evidence(
            failing=failing,
            unknown=unknown,
            other=other,
            clean=not (failing or findings.suspected or unknown or progress),
            progress=progress,
        )

    def _fabric_in_progress(self, failing: tuple[Reason, ...]) -> Reason | None:
        since_ns = self._memory.fabric_since_ns
        if since_ns is None or any(reason.metric.startswith(FABRIC_METRIC) for reason in failing):
            return None
        return fabric_in_progress(self.node, since_ns)

    def _advance(self, evidence: _Evidence, now_ns: int, *, maintained: bool) -> None:
        """Move the time of FAILED on."""
        memory = self._memory
        if memory.in_maintenance and not maintained:
            memory.release_latch()
        memory.in_maintenance = maintained
        if evidence.failing and evidence.progress is None:
            memory.clean_since_ns = None
            if memory.failed_since_ns is None and not maintained:
                memory.enter_failed(now_ns, self.rules.flap_window_ns, self.rules.flap_entries)
            if memory.failed_since_ns is not None:
                memory.add_failed_checks({reason.check for reason in evidence.failing})
        elif not evidence.clean:
            memory.clean_since_ns = None
        elif memory.failed_since_ns is not None:
            if memory.clean_since_ns is None:
                memory.clean_since_ns = now_ns
            if now_ns - memory.clean_since_ns >= self.rules.clean_ns:
                memory.leave_failed()

    def _state(self, evidence: _Evidence, *, maintained: bool) -> NodeState:
        """Return the first state that applies, in the order of CONTRACTS §3.

        A check without an answer comes after a proven failure, as it does for a GPU.
        """
        if maintained:
            return NodeState.MAINTENANCE
        if self._view is None:
            return NodeState.FAILED if evidence.failing else NodeState.UNKNOWN
        if evidence.progress is not None:
            return NodeState.UNKNOWN
        if evidence.failing or self._memory.failed_since_ns is not None:
            return NodeState.FAILED
        if evidence.unknown:
            return NodeState.UNKNOWN
        if evidence.other or self._memory.latched_since_ns is not None:
            return NodeState.DEGRADED
        return NodeState.READY

    def _reasons(
        self, evidence: _Evidence, state: NodeState, maintenance: Reason | None, now_ns: int
    ) -> tuple[Reason, ...]:
        node, memory = self.node, self._memory
        reasons = [*evidence.failing, *evidence.unknown, *evidence.other, *flapping(node, memory, self.rules)]
        if self._view is None:
            reasons.append(silent(node, self._poll, memory, self.rules))
        elif state is NodeState.FAILED and not evidence.failing:
            reasons.append(recovering(node, memory, self.rules))
        if evidence.progress is not None:
            # What its agent says of the same registration would say it twice.
            reasons = [reason for reason in reasons if not reason.metric.startswith(FABRIC_METRIC)]
        first = [reason for reason in (maintenance, evidence.progress) if reason is not None]
        return self._first_seen.date((*first, *worst_first(reasons)), now_ns)
