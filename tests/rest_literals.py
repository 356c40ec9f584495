"""Two racks as of 2026-11-30T10:00:00Z, made of literals, with their events and maintenance.

r01, a GB300 NVL72 with one clique: n07 is FAILED (GPU 2 lost), n12 is in MAINTENANCE, n05 is DEGRADED and
schedulable, the other 15 are READY; 16 of 18 are schedulable, and 16 are needed. h01, three HGX nodes: n01
READY, n02 UNKNOWN since it is silent, n03 READY; 2 are needed.
"""

from __future__ import annotations

from collector.catalog import BY_NAME
from collector.health.ledger_rows import LedgerEvent
from collector.health.maintenance import MaintenanceWindow
from collector.health.rack_types import DomainStatus, GpuView, NodeStatus, NodeView, Poll, RackStatus, Reason
from collector.health.samples import Samples, SampleTable
from collector.health.states import DomainState, GpuState, Impact, NodeState, Verdict
from collector.health.verdict import CliqueCount
from collector.model import CheckResult

SECOND_NS = 1_000_000_000
NOW_NS = 1_796_032_800 * SECOND_NS
"""2026-11-30T10:00:00Z."""
HOUR_NS = 3600 * SECOND_NS

NODES = (
    *("n01", "n02", "n03", "n04", "n05", "n06", "n07", "n08", "n09"),
    *("n10", "n11", "n12", "n13", "n14", "n15", "n16", "n17", "n18"),
)
DOMAIN = "5b3e7c1a-9f64-4f0e-8a0d-2c7f1e9b6d42"
TOKEN = "token-of-the-tests"  # noqa: S105 - the tests' own

GPU_LOST = Reason(
    check="gpu_lost",
    impact=Impact.FAIL,
    text="GPU 2 does not answer",
    action="reboot the node",
    node="n07",
    gpu_uuid="GPU-n07-2",
    metric="gpu_up",
    value=0,
    threshold=1,
    since_ns=NOW_NS - HOUR_NS,
)
IN_MAINTENANCE = Reason(
    check="maintenance",
    impact=Impact.AVOID,
    text="declared maintenance m-1: exchange a fan",
    action="Wait for its end, or end it.",
    node="n12",
    since_ns=NOW_NS - 2 * HOUR_NS,
)
HOT = Reason(
    check="gpu_temperature_margin",
    impact=Impact.WARN,
    text="GPU 0 is 3.5 °C below its limit; 5 °C or more is right",
    action="look at its cooling",
    node="n05",
    gpu_uuid="GPU-n05-0",
    metric="gpu_temperature_margin_celsius",
    value=3.5,
    threshold=5,
    since_ns=NOW_NS - 60 * SECOND_NS,
)
SILENT = Reason(
    check="poll",
    impact=Impact.AVOID,
    text="no good poll for 45 s: connection timed out",
    action="look at the agent and the network",
    node="n02",
    since_ns=NOW_NS - 45 * SECOND_NS,
)
LOST_CHECK = CheckResult(
    check="gpu_lost",
    impact="fail",
    failed=True,
    gpu_uuid="GPU-n07-2",
    gpu="2",
    metric="gpu_up",
    value=0,
    threshold=1,
    since_ns=NOW_NS - HOUR_NS,
    reason="GPU 2 does not answer",
    action="reboot the node",
)


def make_gpus(node: str, lost: frozenset[int], count: int) -> tuple[GpuView, ...]:
    return tuple(
        GpuView(
            uuid=f"GPU-{node}-{index}",
            index=str(index),
            up=index not in lost,
            texts={} if index in lost else {"name": "NVIDIA GB300", "serial": f"165{index}"},
            state=GpuState.FAILED if index in lost else GpuState.OK,
            checks=(LOST_CHECK,) if index in lost else (),
        )
        for index in range(count)
    )


def make_samples(node: str) -> Samples:
    """Give what GPU 0 says of its driver's wish, its fabric and its links; nothing of the others."""
    rows = (
        ("gpu_recovery_action", "none", 1),
        ("gpu_recovery_action", "reset", 0),
        ("gpu_fabric_state", "in_progress", 0),
        ("gpu_fabric_state", "completed", 1),
        ("gpu_nvlinks_up", "", 18),
        ("gpu_nvlinks_expected", "", 18),
    )
    labels = [("0", f"GPU-{node}-0", *((own,) if own else ())) for _, own, _ in rows]
    return Samples(SampleTable([BY_NAME[name] for name, _, _ in rows], labels), [row[2] for row in rows])


def make_node(
    rack: str,
    number: int,
    state: NodeState = NodeState.READY,
    reason: Reason | None = None,
    *,
    gpus: int = 4,
    lost: frozenset[int] = frozenset(),
) -> NodeStatus:
    node = f"n{number:02d}"
    silent = state is NodeState.UNKNOWN
    view = NodeView(
        rack=rack,
        node=node,
        agent_id="agent",
        boot_id="boot",
        sequence=7,
        observed_ns=NOW_NS,
        nvml_up=True,
        reason="",
        fast_age_seconds=0.5,
        identity={"hostname": node, "platform": "gb300-nvl72", "driver_version": "580.95.05"},
        gpus=make_gpus(node, lost, gpus),
        gpus_expected=gpus,
        cluster_uuid=DOMAIN if rack == "r01" else "",
        clique="1" if rack == "r01" else "",
        slot=number,
        tray=number - 1,
    )
    return NodeStatus(
        node=node,
        state=state,
        schedulable=state in (NodeState.READY, NodeState.DEGRADED),
        since_ns=reason.since_ns if reason else NOW_NS - 24 * HOUR_NS,
        reasons=(reason,) if reason else (),
        clique=f"{DOMAIN}.1" if rack == "r01" else "",
        latched=False,
        poll=Poll(
            node=node,
            address=f"{node}:10072",
            view=view,
            last_good_ns=NOW_NS - (45 if silent else 1) * SECOND_NS,
            error="connection timed out" if silent else "",
            samples=Samples() if silent else make_samples(node),
        ),
    )


def make_r01() -> RackStatus:
    special = {
        5: (NodeState.DEGRADED, HOT),
        7: (NodeState.FAILED, GPU_LOST),
        12: (NodeState.MAINTENANCE, IN_MAINTENANCE),
    }
    nodes = tuple(
        make_node(
            "r01",
            number,
            *special.get(number, (NodeState.READY, None)),
            lost=frozenset({2}) if number == 7 else frozenset(),
        )
        for number in range(1, 19)
    )
    return RackStatus(
        rack="r01",
        verdict=Verdict.AVAILABLE,
        since_ns=NOW_NS - 48 * HOUR_NS,
        min_block=16,
        largest_block=16,
        observed_ns=NOW_NS,
        generation=41,
        nodes=nodes,
        domains=(
            DomainStatus(
                cluster_uuid=DOMAIN,
                clique="1",
                state=DomainState.DEGRADED,
                expected=NODES,
                members=NODES,
                schedulable=tuple(node for node in NODES if node not in ("n07", "n12")),
                reasons=(GPU_LOST, IN_MAINTENANCE, HOT),
            ),
        ),
        reasons=(),
        cliques={f"{DOMAIN}.1": CliqueCount(schedulable=16, maintenance=1)},
    )


def make_h01() -> RackStatus:
    nodes = (
        make_node("h01", 1, gpus=8),
        make_node("h01", 2, NodeState.UNKNOWN, SILENT, gpus=8),
        make_node("h01", 3, gpus=8),
    )
    return RackStatus(
        rack="h01",
        verdict=Verdict.AVAILABLE,
        since_ns=NOW_NS - HOUR_NS,
        min_block=2,
        largest_block=2,
        observed_ns=NOW_NS,
        generation=1,
        nodes=nodes,
        domains=tuple(
            DomainStatus(
                cluster_uuid="",
                clique=node.node,
                state=DomainState.UNKNOWN if node.reasons else DomainState.HEALTHY,
                expected=(node.node,),
                members=() if node.reasons else (node.node,),
                schedulable=() if node.reasons else (node.node,),
                reasons=node.reasons,
            )
            for node in nodes
        ),
        reasons=(),
        cliques={"h01": CliqueCount(schedulable=2, unknown=1)},
    )


def make_events() -> tuple[LedgerEvent, ...]:
    """Give five events, newest first."""
    return (
        LedgerEvent(5, "h01", "n02", NOW_NS - 30 * SECOND_NS, "node_state", "", "", None, "READY to UNKNOWN"),
        LedgerEvent(4, "r01", "n07", NOW_NS - HOUR_NS, "node_state", "", "", None, "READY to FAILED"),
        LedgerEvent(3, "r01", "n07", NOW_NS - HOUR_NS, "gpu_lost", "GPU-n07-2", "2", None, ""),
        LedgerEvent(2, "r01", "n07", NOW_NS - HOUR_NS - SECOND_NS, "xid", "GPU-n07-2", "2", 79, ""),
        LedgerEvent(1, "r01", "", NOW_NS - 48 * HOUR_NS, "verdict", "", "", None, "UNKNOWN to AVAILABLE"),
    )


WINDOW = MaintenanceWindow(
    id="m-1",
    rack="r01",
    nodes=("n12",),
    starts_ns=NOW_NS - 2 * HOUR_NS,
    ends_ns=NOW_NS + 2 * HOUR_NS,
    created_ns=NOW_NS - 3 * HOUR_NS,
    reason="exchange a fan",
    created_by="dc-operations",
)
