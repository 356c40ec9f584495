"""What a rack's health says: verdict for a block, counts, blocks, whom to avoid, whether to drain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.health.rack_types import NodeStatus, RackStatus
from collector.health.states import NodeState, Verdict
from collector.health.verdict import CliqueCount
from exporters.rest.app import create_app
from exporters.rest.settings import RestSettings
from tests.rest_client import ask
from tests.rest_double import ServiceDouble
from tests.rest_literals import GPU_LOST, IN_MAINTENANCE, SILENT, make_node, make_r01


def health(status: RackStatus, query: str = "") -> dict[str, Any]:
    service = ServiceDouble(statuses={status.rack: status})
    answer = ask(create_app(service, RestSettings()), f"/v1/racks/{status.rack}/health{query}")
    assert answer.status == 200, answer.body
    return answer.json()


def split_rack() -> RackStatus:
    """Two declared cliques of 9 nodes; the second has lost a node to each kind of trouble."""
    first = tuple(replace(make_node("r01", number), clique="d.1") for number in range(1, 10))
    trouble = {
        10: (NodeState.FAILED, GPU_LOST),
        11: (NodeState.UNKNOWN, SILENT),
        12: (NodeState.MAINTENANCE, IN_MAINTENANCE),
    }
    second = tuple(
        replace(make_node("r01", number, *trouble.get(number, (NodeState.READY, None))), clique="d.2")
        for number in range(10, 19)
    )
    return replace(
        make_r01(),
        min_block=8,
        largest_block=9,
        nodes=(*first, *second),
        domains=(
            replace(make_r01().domains[0], cluster_uuid="d", clique="1"),
            replace(make_r01().domains[0], cluster_uuid="d", clique="2"),
        ),
        cliques={"d.1": CliqueCount(9), "d.2": CliqueCount(6, unknown=1, maintenance=1)},
    )


@pytest.mark.parametrize(
    ("min_block", "verdict"),
    # 16 schedulable, 1 in maintenance, 1 FAILED, of 18 (CONTRACTS §3).
    [(1, "AVAILABLE"), (16, "AVAILABLE"), (17, "MAINTENANCE"), (18, "UNAVAILABLE")],
)
def test_the_verdict_is_that_of_the_block_that_is_asked_for(min_block: int, verdict: str) -> None:
    body = health(make_r01(), f"?min_block={min_block}")
    assert (body["verdict"], body["min_block"]) == (verdict, min_block)


def test_since_when_is_known_of_the_racks_own_block_only() -> None:
    assert health(make_r01())["since"] == "2026-11-28T10:00:00.000Z"
    assert health(make_r01(), "?min_block=16")["since"] == "2026-11-28T10:00:00.000Z"
    assert health(make_r01(), "?min_block=15")["since"] is None


@pytest.mark.parametrize("min_block", ["0", "19", "-1", "1.5", "x", "", "99999999999999999999"])
def test_a_block_that_the_rack_cannot_have_is_refused(min_block: str) -> None:
    app = create_app(ServiceDouble(), RestSettings())
    answer = ask(app, f"/v1/racks/r01/health?min_block={min_block}")
    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "query.min_block" in str(answer.json()["detail"])


def test_an_unhealthy_rack_is_a_good_answer() -> None:
    nothing = replace(
        make_r01(), verdict=Verdict.UNAVAILABLE, largest_block=0, cliques={"d.1": CliqueCount()}
    )
    assert health(nothing)["verdict"] == "UNAVAILABLE"


def test_nodes_are_counted_once_and_gpus_where_they_can_be_used() -> None:
    # 15 READY and one DEGRADED node of 4 GPUs each; the FAILED node's three do not count.
    assert health(make_r01())["counts"] == {
        "expected": 18,
        "ready": 15,
        "degraded": 1,
        "failed": 1,
        "maintenance": 1,
        "unknown": 0,
        "gpus_usable": 64,
        "gpus_expected": 72,
    }


def never_heard(node: NodeStatus) -> NodeStatus:
    return replace(node, state=NodeState.UNKNOWN, poll=replace(node.poll, view=None))


def test_gpus_of_a_node_that_was_never_heard_are_those_of_its_platform() -> None:
    status = make_r01()
    status = replace(status, nodes=tuple(map(never_heard, status.nodes)), largest_block=0)
    counts = health(status)["counts"]
    assert (counts["gpus_usable"], counts["gpus_expected"]) == (0, 72)


def test_gpus_that_nobody_knows_are_null_and_not_zero() -> None:
    nodes = (never_heard(make_node("other", 1)),)
    status = replace(
        make_r01(), rack="other", nodes=nodes, largest_block=0, cliques={"other": CliqueCount(unknown=1)}
    )
    assert health(status)["counts"]["gpus_expected"] is None


def test_the_largest_block_and_segments() -> None:
    body = health(split_rack())
    assert body["largest_block"] == {
        "domain": "d",
        "clique": "1",
        "nodes": 9,
        # 9 // 16, 9 // 8 ...
        "segments": {"16": 0, "8": 1, "4": 2, "2": 4, "1": 9},
    }
    # 9 and 6 nodes: 9 // 4 + 6 // 4 = 3 (facts/rack.md §6, segments).
    assert body["segments"] == {"16": 0, "8": 1, "4": 3, "2": 7, "1": 15}


def test_a_declared_clique_of_which_nothing_is_heard_has_its_name_and_no_domain() -> None:
    status = make_r01()
    silent = replace(status.domains[0], cluster_uuid="", clique="left", members=())
    status = replace(status, domains=(silent,), cliques={"left": CliqueCount(0, unknown=18)}, largest_block=0)
    block = health(status)["largest_block"]
    assert (block["domain"], block["clique"], block["nodes"]) == (None, "left", 0)


def test_whom_to_avoid_worst_first_and_how_to_drain() -> None:
    avoid = health(split_rack())["avoid"]
    assert [(each["node"], each["state"], each["reason"], each["drain"]) for each in avoid] == [
        ("n10", "FAILED", "gpu_lost", "immediate"),
        ("n11", "UNKNOWN", "poll", "none"),
        ("n12", "MAINTENANCE", "maintenance", "none"),
    ]


def test_a_degraded_node_that_is_not_schedulable_is_avoided_when_idle() -> None:
    status = make_r01()
    nodes = tuple(replace(node, schedulable=False) if node.node == "n05" else node for node in status.nodes)
    avoided = {each["node"]: each for each in health(replace(status, nodes=nodes))["avoid"]}
    assert avoided["n05"]["drain"] == "when_idle"
    # Its only reason is a warning, which is not why it is out.
    assert avoided["n05"]["reason"] is None


def test_evidence_leads_to_answers() -> None:
    app = create_app(ServiceDouble(), RestSettings())
    avoid = ask(app, "/v1/racks/r01/health").json()["avoid"]
    assert isinstance(avoid, list)
    for path in avoid[0]["evidence"]:
        assert ask(app, path).status == 200
    events = ask(app, avoid[0]["evidence"][0]).json()["events"]
    assert isinstance(events, list)
    assert [event["kind"] for event in events] == ["node_state", "gpu_lost", "xid"]


@pytest.mark.parametrize(
    ("status", "query", "budget"),
    [
        (make_r01(), "", {"max_unavailable": 2, "used": 2, "allow": False}),
        (make_r01(), "?min_block=15", {"max_unavailable": 3, "used": 2, "allow": True}),
        (make_r01(), "?min_block=18", {"max_unavailable": 0, "used": 2, "allow": False}),
        (
            replace(make_r01(), frozen=True),
            "?min_block=1",
            {"max_unavailable": 17, "used": 2, "allow": False},
        ),
        # Of two cliques the better one: all its nine nodes are there.
        (split_rack(), "", {"max_unavailable": 1, "used": 0, "allow": True}),
    ],
    ids=["used up", "one left", "impossible", "frozen", "two cliques"],
)
def test_the_drain_budget(status: RackStatus, query: str, budget: dict[str, object]) -> None:
    assert health(status, query)["drain_budget"] == budget


def test_reasons_come_worst_first_and_once() -> None:
    status = replace(make_r01(), reasons=(GPU_LOST,))
    reasons = health(status)["reasons"]
    assert [reason["check"] for reason in reasons] == ["gpu_lost", "maintenance", "gpu_temperature_margin"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_value_that_is_no_number_is_null(value: float | None) -> None:
    reason = health(replace(make_r01(), reasons=(replace(GPU_LOST, value=value),)))["reasons"][0]
    assert reason["value"] is None


def test_text_that_utf8_cannot_hold_breaks_nothing() -> None:
    reason = health(replace(make_r01(), reasons=(replace(GPU_LOST, text="\udcff°"),)))["reasons"][0]
    assert reason["text"] == "?°"


def test_a_time_of_zero_is_no_time() -> None:
    reason = health(replace(make_r01(), reasons=(replace(GPU_LOST, since_ns=0),)))["reasons"][0]
    assert reason["since"] is None
