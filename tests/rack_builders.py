"""Racks for tests: views, polls and a rack whose nodes can be told what happens to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from collector.health.maintenance import Maintenance, MaintenanceWindow
from collector.health.rack_judge import RackJudge
from collector.health.rack_types import ExpectedRack, GpuView, NodeView, Poll, RackStatus
from collector.health.states import GpuState, Impact, state_of_checks
from collector.health.tracker_rules import TrackerRules
from collector.model import CheckResult, Event

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 3600 * SECOND
DAY = 24 * HOUR
T0 = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z."""


IMPACTS = {impact.value: impact for impact in Impact}


def node_names(count: int) -> tuple[str, ...]:
    return tuple(f"n{number:02}" for number in range(1, count + 1))


def nvl72(count: int = 18, **changes: object) -> ExpectedRack:
    rack = ExpectedRack("r01", "gb300-nvl72", node_names(count), gpus_per_node=4)
    return replace(rack, **changes)  # type: ignore[arg-type]  # tests name fields of ExpectedRack


def hgx(count: int = 8, **changes: object) -> ExpectedRack:
    rack = ExpectedRack("h01", "hgx-h100", node_names(count), gpus_per_node=8, rack_wide_fabric=False)
    return replace(rack, **changes)  # type: ignore[arg-type]  # tests name fields of ExpectedRack


def failed_check(check: str, impact: str, *, failed: bool = True, metric: str = "") -> CheckResult:
    return CheckResult(
        check=check,
        impact=impact,
        failed=failed,
        gpu_uuid="",
        gpu="",
        metric=metric,
        value=1,
        threshold=None,
        since_ns=T0,
        reason=f"{check} failed",
        action="do something",
    )


def make_gpu(node: str, index: int, checks: Iterable[CheckResult] = (), *, up: bool = True) -> GpuView:
    uuid = f"GPU-{node}-{index}"
    own = tuple(replace(check, gpu_uuid=uuid, gpu=str(index)) for check in checks)
    state = state_of_checks(own)
    texts = {"name": "NVIDIA GB300", "board_part": "900", "vbios": "97.10", "inforom": "G548.1"}
    return GpuView(
        uuid=uuid,
        index=str(index),
        up=up,
        texts=texts if up else {},
        state=state if up else GpuState.FAILED,
        checks=own,
    )


def make_view(node: str = "n01", *, gpus: int = 4, sequence: int = 1, **changes: object) -> NodeView:
    view = NodeView(
        rack="r01",
        node=node,
        agent_id=f"agent-{node}",
        boot_id=f"boot-{node}",
        sequence=sequence,
        observed_ns=T0,
        nvml_up=True,
        reason="",
        fast_age_seconds=0.5,
        identity={"driver_version": "580.95.05", "kernel": "6.8.0"},
        gpus=tuple(make_gpu(node, index) for index in range(gpus)),
        gpus_expected=gpus,
        cluster_uuid="cafe",
        clique="1",
        fabric_complete=True,
        chassis_serial="C1",
        slot=int(node[1:]),
        tray=int(node[1:]) - 1,
    )
    return replace(view, **changes)  # type: ignore[arg-type]  # tests name fields of NodeView


@dataclass(slots=True)
class SimulatedNode:
    """What happens to a node.

    Attributes:
        view: What its agent says, whenever it answers.
        answers: Whether its agent answers with a good Snapshot.
        error: Why it does not.
        witness: What a second witness says while it does not.
        events: Events of the next poll.
        sent: What it said last.
    """

    view: NodeView
    answers: bool = True
    error: str = "connection timed out"
    witness: bool | None = None
    events: tuple[Event, ...] = ()
    sequence: int = 0
    last_good_ns: int | None = None
    sent: NodeView | None = None

    def poll(self, now_ns: int) -> Poll:
        if self.answers:
            self.sequence += 1
            self.last_good_ns = now_ns
            self.sent = replace(self.view, sequence=self.sequence, observed_ns=now_ns)
        events, self.events = self.events, ()
        return Poll(
            node=self.view.node,
            address=f"{self.view.node}:10072",
            view=self.sent,
            last_good_ns=self.last_good_ns,
            error="" if self.answers else self.error,
            witness=None if self.answers else self.witness,
            events=events,
        )


@dataclass(slots=True)
class SimulatedRack:
    """A rack with its judge; every `step` polls all nodes once, five seconds after the last."""

    expected: ExpectedRack
    now_ns: int = T0
    maintenance: Maintenance = field(default_factory=Maintenance)
    rules: TrackerRules = field(default_factory=TrackerRules)
    exported: dict[str, object] | None = None
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    judge: RackJudge = field(init=False)

    def __post_init__(self) -> None:
        fabric = self.expected.rack_wide_fabric
        for node in self.expected.nodes:
            self.nodes.setdefault(
                node,
                SimulatedNode(
                    make_view(
                        node,
                        gpus=self.expected.gpus_per_node or 4,
                        rack=self.expected.rack,
                        cluster_uuid="cafe" if fabric else "",
                        clique="1" if fabric else "",
                        fabric_complete=True if fabric else None,
                    )
                ),
            )
        self.judge = RackJudge(
            self.expected, maintenance=self.maintenance, rules=self.rules, exported=self.exported
        )

    def change(self, node: str, **changes: object) -> None:
        own = self.nodes[node]
        own.view = replace(own.view, **changes)  # type: ignore[arg-type]  # tests name fields of NodeView

    def fail(self, node: str, check: str = "gpu_xid_fatal", impact: str = "fail") -> None:
        self.change(node, gpus=(make_gpu(node, 0, [failed_check(check, impact)]), *self._rest(node)))

    def mend(self, node: str) -> None:
        self.change(node, gpus=(make_gpu(node, 0), *self._rest(node)))

    def silence(self, *nodes: str, witness: bool | None = None) -> None:
        for node in nodes:
            self.nodes[node].answers = False
            self.nodes[node].witness = witness

    def maintain(self, *nodes: str, seconds: float = 3600.0) -> MaintenanceWindow:
        window = MaintenanceWindow(
            id=f"m{len(self.maintenance.windows())}",
            rack=self.expected.rack,
            nodes=nodes,
            starts_ns=self.now_ns,
            ends_ns=self.now_ns + int(seconds * SECOND),
            created_ns=self.now_ns,
            reason="swap a fan",
            created_by="ops",
        )
        return self.maintenance.declare(window, self.expected.nodes)

    def step(self, seconds: float = 5.0) -> RackStatus:
        self.now_ns += int(seconds * SECOND)
        polls = [node.poll(self.now_ns) for node in self.nodes.values()]
        return self.judge.evaluate(polls, self.now_ns)

    def steps(self, count: int) -> RackStatus:
        for _ in range(count - 1):
            self.step()
        return self.step()

    def _rest(self, node: str) -> tuple[GpuView, ...]:
        return tuple(make_gpu(node, index) for index in range(1, self.expected.gpus_per_node or 4))
