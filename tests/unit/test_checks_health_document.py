"""`GET /v1/health` of an agent, and checks and events in the Snapshot document."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from collector.health.agent_view import judge_node
from collector.health.states import GpuState, NodeState
from collector.model import CheckResult, Event, Snapshot
from exporters.health_document import HealthWriter
from exporters.snapshot import DocumentFormat, DocumentWriter
from tests.agent_http_client import Answer, Client, Clock, run, serving
from tests.exporter_snapshots import EMPTY, UUIDS, series, snapshot_of

SINCE_NS = 1_764_504_000_000_000_000


def a_check(
    check: str = "gpu_row_remap_pending", impact: str = "warn", *, failed: bool = True, gpu: int | None = 0
) -> CheckResult:
    return CheckResult(
        check=check,
        impact=impact,
        failed=failed,
        gpu_uuid=UUIDS[gpu] if gpu is not None else "",
        gpu=str(gpu) if gpu is not None else "",
        metric="gpu_row_remap_pending",
        value=1 if failed else None,
        threshold=None,
        since_ns=SINCE_NS,
        reason="memory rows wait",
        action="reset the GPU",
    )


def a_snapshot(*checks: CheckResult) -> Snapshot:
    rows = [(series("gpu_up", str(index), uuid), 1) for index, uuid in enumerate(UUIDS)]
    base = replace(EMPTY, checks=checks, ages_seconds={"fast": 0.5, "links": 1.0, "slow": 1.0})
    return snapshot_of(*rows, base=base)


@pytest.mark.parametrize(
    ("checks", "gpus", "node"),
    [
        ((), ("OK", "OK"), "READY"),
        ((a_check(),), ("DEGRADED", "OK"), "DEGRADED"),
        ((a_check(impact="avoid"),), ("DEGRADED", "OK"), "DEGRADED"),
        ((a_check(impact="info"),), ("OK", "OK"), "READY"),
        ((a_check(impact="fail", gpu=1),), ("OK", "FAILED"), "FAILED"),
        ((a_check(impact="avoid", failed=False, gpu=1),), ("OK", "UNKNOWN"), "UNKNOWN"),
        ((a_check(impact="warn", failed=False, gpu=1),), ("OK", "DEGRADED"), "DEGRADED"),
        (
            (a_check(impact="fail"), a_check(impact="fail", failed=False, gpu=1)),
            ("FAILED", "UNKNOWN"),
            "FAILED",
        ),
        ((a_check(impact="fail"), a_check(impact="fail", failed=False)), ("FAILED", "OK"), "FAILED"),
        ((a_check(impact="warn"), a_check(impact="avoid", failed=False)), ("UNKNOWN", "OK"), "UNKNOWN"),
        ((a_check(impact="warn", gpu=None),), ("OK", "OK"), "DEGRADED"),
        ((a_check(impact="fail", gpu=None),), ("OK", "OK"), "FAILED"),
        ((a_check(impact="fail", gpu=None, failed=False),), ("OK", "OK"), "UNKNOWN"),
    ],
)
def test_states_follow_the_checks(checks: tuple[CheckResult, ...], gpus: tuple[str, str], node: str) -> None:
    health = judge_node(a_snapshot(*checks), "")
    assert tuple(gpu.state.value for gpu in health.gpus) == gpus
    assert health.state.value == node
    assert bool(health.reason) == (node != "READY")


def test_a_node_that_is_not_ready_is_unknown_and_so_are_its_gpus() -> None:
    health = judge_node(a_snapshot(a_check(impact="fail")), "the fast values are 9.0 s old")
    assert (health.state, health.reason) == (NodeState.UNKNOWN, "the fast values are 9.0 s old")
    assert [gpu.state for gpu in health.gpus] == [GpuState.FAILED, GpuState.UNKNOWN]


def test_an_agent_without_checks_is_unknown() -> None:
    health = judge_node(replace(a_snapshot(), checks=None), "")
    assert (health.state, health.reason) == (NodeState.UNKNOWN, "no checks are evaluated")


def test_the_document() -> None:
    snapshot = a_snapshot(a_check(), a_check("node_gpus_missing", "fail", gpu=None))
    document = json.loads(HealthWriter().write(snapshot, not_ready=""))
    assert document == {
        "observed_at": document["observed_at"],
        "stale_after_s": 5,
        "generation": 1,
        "rack": EMPTY.rack,
        "node": EMPTY.node,
        "state": "FAILED",
        "reason": "memory rows wait",
        "gpus": [
            {"gpu": "0", "gpu_uuid": UUIDS[0], "state": "DEGRADED"},
            {"gpu": "1", "gpu_uuid": UUIDS[1], "state": "OK"},
        ],
        "checks": [
            {
                "check": "gpu_row_remap_pending",
                "status": "failed",
                "impact": "warn",
                "gpu": "0",
                "gpu_uuid": UUIDS[0],
                "metric": "gpu_row_remap_pending",
                "value": 1,
                "threshold": None,
                "since": "2025-11-30T12:00:00.000Z",
                "reason": "memory rows wait",
                "action": "reset the GPU",
            },
            {
                "check": "node_gpus_missing",
                "status": "failed",
                "impact": "fail",
                "gpu": "",
                "gpu_uuid": "",
                "metric": "gpu_row_remap_pending",
                "value": 1,
                "threshold": None,
                "since": "2025-11-30T12:00:00.000Z",
                "reason": "memory rows wait",
                "action": "reset the GPU",
            },
        ],
    }


def test_the_generation_rises_with_changes_only() -> None:
    writer = HealthWriter()
    steps = (
        (a_snapshot(), 1),
        (replace(a_snapshot(), sequence=99, time_ns=SINCE_NS), 1),
        (a_snapshot(a_check()), 2),
        (a_snapshot(replace(a_check(), value=2)), 2),
        (a_snapshot(), 3),
    )
    for snapshot, generation in steps:
        assert json.loads(writer.write(snapshot, not_ready=""))["generation"] == generation


def ask(snapshot: Snapshot | None, *, seconds: float = 0.0) -> Answer:
    answers: list[Answer] = []

    async def scenario() -> None:
        clock = Clock()
        async with serving(snapshot, clock=clock) as exporter, Client(exporter) as client:
            clock.seconds += seconds
            answers.append(await client.ask("/v1/health", "GET"))

    run(scenario)
    return answers[0]


def test_it_is_served_also_of_an_unhealthy_node() -> None:
    answer = ask(a_snapshot(a_check(impact="fail")))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert json.loads(answer.body)["state"] == "FAILED"


def test_old_values_are_unknown() -> None:
    document = json.loads(ask(a_snapshot(), seconds=5).body)
    assert document["state"] == "UNKNOWN"
    assert document["reason"] == "the fast values are 5.5 s old, more than 5 s."


def test_without_a_snapshot_there_is_a_problem() -> None:
    answer = ask(None)
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")


def test_checks_and_details_of_events_stand_in_the_snapshot_document() -> None:
    event = Event(1, SINCE_NS, "xid", UUIDS[0], "0", 149, "fatal", "NETIR_LINK_EVT", 4, "Link 04")
    snapshot = replace(a_snapshot(replace(a_check(), value=float("nan"), reason="a\ud800b")), events=(event,))
    document = json.loads(DocumentWriter().write(snapshot, DocumentFormat.JSON))
    assert document["events"]["items"] == [
        {
            "cursor": 1,
            "time_ns": SINCE_NS,
            "kind": "xid",
            "gpu": "0",
            "gpu_uuid": UUIDS[0],
            "code": 149,
            "severity": "fatal",
            "subcode": "NETIR_LINK_EVT",
            "link": 4,
            "detail": "Link 04",
        }
    ]
    assert document["checks"] == [
        {
            "check": "gpu_row_remap_pending",
            "impact": "warn",
            "failed": True,
            "gpu": "0",
            "gpu_uuid": UUIDS[0],
            "metric": "gpu_row_remap_pending",
            "value": None,
            "threshold": None,
            "since_ns": SINCE_NS,
            "reason": "a?b",
            "action": "reset the GPU",
        }
    ]
