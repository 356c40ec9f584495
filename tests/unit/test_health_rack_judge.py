"""A rack's verdict over stories: what must never be UNAVAILABLE, what must, and what a generation is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.errors import ConfigurationError
from collector.health.rack_judge import RackJudge, min_block_of, verdict_for
from collector.health.rack_types import Poll, RackStatus
from collector.health.states import DomainState, NodeState, Verdict
from collector.health.tracker_rules import TrackerRules
from collector.health.verdict import CliqueCount
from tests.rack_builders import (
    HOUR,
    SECOND,
    SimulatedRack,
    failed_check,
    hgx,
    make_gpu,
    make_view,
    node_names,
    nvl72,
)


def states(status: RackStatus) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in status.nodes:
        counts[node.state.value] = counts.get(node.state.value, 0) + 1
    return counts


def checks(status: RackStatus) -> list[str]:
    return [reason.check for reason in status.reasons]


def test_a_whole_rack_is_available() -> None:
    status = SimulatedRack(nvl72()).step()
    assert (status.verdict, status.largest_block, status.min_block) == (Verdict.AVAILABLE, 18, 16)
    assert (states(status), status.reasons) == ({"READY": 18}, ())
    (domain,) = status.domains
    assert (domain.state, len(domain.expected), len(domain.members)) == (DomainState.HEALTHY, 18, 18)
    assert {node.clique for node in status.nodes} == {"cafe.1"}


def test_before_any_poll_nothing_is_known() -> None:
    status = RackJudge(nvl72()).evaluate([], 1)
    assert (status.verdict, states(status)) == (Verdict.UNKNOWN, {"UNKNOWN": 18})
    assert status.domains[0].state is DomainState.UNKNOWN


# CONTRACTS §3, the table, with nodes in place of numbers: out / unknown / maintenance of 18.
@pytest.mark.parametrize(
    ("out", "unknown", "maintenance", "verdict"),
    [
        (2, 0, 0, "AVAILABLE"),
        (3, 0, 0, "UNAVAILABLE"),
        (3, 0, 1, "UNAVAILABLE"),
        (0, 3, 0, "UNKNOWN"),
        (2, 1, 0, "UNKNOWN"),
        (2, 1, 1, "UNKNOWN"),
        (0, 3, 2, "UNKNOWN"),
        (0, 18, 0, "UNKNOWN"),
        (0, 0, 3, "MAINTENANCE"),
        (2, 0, 1, "MAINTENANCE"),
        (1, 1, 1, "MAINTENANCE"),
        (0, 2, 2, "MAINTENANCE"),
        (0, 0, 18, "MAINTENANCE"),
    ],
)
def test_the_table_of_the_contract(out: int, unknown: int, maintenance: int, verdict: str) -> None:
    rack = SimulatedRack(nvl72())
    rack.step()
    names = list(node_names(18))
    for _ in range(out):
        rack.fail(names.pop())
    rack.silence(*(names.pop() for _ in range(unknown)))
    if maintenance:
        rack.maintain(*(names.pop() for _ in range(maintenance)))
    status = rack.steps(5)
    wanted = {"READY": len(names), "FAILED": out, "UNKNOWN": unknown, "MAINTENANCE": maintenance}
    assert states(status) == {state: count for state, count in wanted.items() if count}
    assert status.verdict is Verdict(verdict)


def test_two_declared_cliques_of_nine() -> None:
    names = node_names(18)
    rack = SimulatedRack(nvl72(cliques={"left": names[:9], "right": names[9:]}))
    for node in names[9:]:
        rack.change(node, clique="2")
    status = rack.step()
    assert (status.verdict, status.min_block, status.largest_block) == (Verdict.AVAILABLE, 8, 9)
    assert [domain.state for domain in status.domains] == [DomainState.HEALTHY] * 2


def test_one_declared_clique_found_split() -> None:
    rack = SimulatedRack(nvl72())
    for node in node_names(18)[10:]:
        rack.change(node, clique="2")
    status = rack.step()
    assert (status.verdict, status.largest_block) == (Verdict.UNAVAILABLE, 10)
    assert [domain.state for domain in status.domains] == [DomainState.SPLIT] * 2
    assert checks(status) == ["block", "split_domain", "split_domain"]


def test_a_silent_node_of_a_split_clique_may_be_in_any_part() -> None:
    rack = SimulatedRack(nvl72(min_block=11))
    for node in node_names(18)[10:]:
        rack.change(node, clique="2")
    rack.step()
    rack.silence("n18")
    status = rack.steps(5)
    assert status.verdict is Verdict.UNKNOWN
    assert status.cliques == {"cafe.1": CliqueCount(10, unknown=1), "cafe.2": CliqueCount(7, unknown=1)}


# --- what must never be UNAVAILABLE ---------------------------------------------------------------------


def never_unavailable(rack: SimulatedRack, count: int = 5) -> RackStatus:
    for _ in range(count):
        status = rack.step()
        assert status.verdict is not Verdict.UNAVAILABLE
    return status


def test_a_rolling_driver_upgrade() -> None:
    rack = SimulatedRack(nvl72())
    never_unavailable(rack)
    for node in node_names(18):
        own = rack.nodes[node]
        own.answers, own.error = False, "NVML: the driver was unloaded"
        assert never_unavailable(rack).verdict is Verdict.AVAILABLE
        own.answers = True
        rack.change(node, boot_id=f"{node} anew", fabric_complete=False, identity={"driver_version": "590.1"})
        assert never_unavailable(rack, 10).verdict is Verdict.AVAILABLE
        rack.change(node, fabric_complete=True)
    status = never_unavailable(rack)
    assert (status.verdict, states(status)) == (Verdict.AVAILABLE, {"READY": 18})


def test_a_driver_upgrade_of_all_nodes_at_once() -> None:
    rack = SimulatedRack(nvl72())
    never_unavailable(rack)
    rack.silence(*node_names(18))
    assert never_unavailable(rack).verdict is Verdict.UNKNOWN
    for node in node_names(18):
        rack.nodes[node].answers = True
        down = [failed_check("gpu_nvlinks_all_down", "fail")]
        rack.change(node, fabric_complete=False, gpus=(make_gpu(node, 0, down), *make_view(node).gpus[1:]))
    assert never_unavailable(rack, 50).verdict is Verdict.UNKNOWN
    for node in node_names(18):
        rack.change(node, fabric_complete=True)
        rack.mend(node)
    assert never_unavailable(rack, 1).verdict is Verdict.AVAILABLE


def test_released_agents() -> None:
    rack = SimulatedRack(nvl72())
    never_unavailable(rack)
    for node in node_names(18)[:4]:
        own = rack.nodes[node]
        own.answers, own.error = False, "released by an operator"
        own.sent = replace(own.view, nvml_up=False, reason="released by an operator", gpus=(), sequence=99)
    status = never_unavailable(rack)
    assert (status.verdict, states(status)) == (Verdict.UNKNOWN, {"READY": 14, "UNKNOWN": 4})
    assert any("released by an operator" in reason.text for reason in status.reasons)


def test_throttling_everywhere() -> None:
    rack = SimulatedRack(nvl72())
    for node in node_names(18):
        rack.fail(node, "gpu_clock_events", "warn")
    status = never_unavailable(rack)
    assert (status.verdict, status.largest_block, states(status)) == (
        Verdict.AVAILABLE,
        18,
        {"DEGRADED": 18},
    )


def test_agents_that_restart() -> None:
    rack = SimulatedRack(nvl72())
    never_unavailable(rack)
    rack.silence(*node_names(18))
    never_unavailable(rack, 2)
    for node in node_names(18):
        rack.nodes[node].answers, rack.nodes[node].sequence = True, 0
        rack.change(node, agent_id=f"{node} anew")
    status = never_unavailable(rack, 1)
    assert (status.verdict, states(status)) == (Verdict.AVAILABLE, {"READY": 18})


def test_an_hgx_rack() -> None:
    rack = SimulatedRack(hgx())
    status = never_unavailable(rack)
    assert (status.verdict, status.largest_block, status.min_block) == (Verdict.AVAILABLE, 8, 7)
    assert [domain.state for domain in status.domains] == [DomainState.HEALTHY] * 8
    assert {node.clique for node in status.nodes} == {""}
    rack.fail("n01")
    assert never_unavailable(rack).largest_block == 7
    rack.silence("n02")
    assert never_unavailable(rack).verdict is Verdict.UNKNOWN
    rack.fail("n03")
    rack.nodes["n02"].answers = True
    assert rack.steps(5).verdict is Verdict.UNAVAILABLE


def test_three_silent_trays() -> None:
    rack = SimulatedRack(nvl72())
    never_unavailable(rack)
    rack.silence("n01", "n02", "n03")
    status = never_unavailable(rack)
    assert (status.verdict, states(status)) == (Verdict.UNKNOWN, {"READY": 15, "UNKNOWN": 3})


def test_one_tray_in_maintenance() -> None:
    rack = SimulatedRack(nvl72(min_block=18))
    never_unavailable(rack)
    rack.maintain("n05")
    rack.silence("n05", witness=True)
    status = never_unavailable(rack)
    assert (status.verdict, states(status)) == (Verdict.MAINTENANCE, {"READY": 17, "MAINTENANCE": 1})


def test_a_rack_switch_that_cuts_off_every_witness() -> None:
    rack = SimulatedRack(nvl72())
    never_unavailable(rack)
    rack.silence(*node_names(18), witness=None)  # No host answers, so a timeout tells nothing.
    assert never_unavailable(rack).verdict is Verdict.UNKNOWN


def test_a_service_that_restarts() -> None:
    rack = SimulatedRack(nvl72())
    rack.fail("n01")
    never_unavailable(rack)
    memory = {**rack.judge.export(), "observed_ns": rack.now_ns}
    again = SimulatedRack(nvl72(), now_ns=rack.now_ns, nodes=rack.nodes, exported=memory)
    before, after = rack.step(), again.step()
    assert (after.verdict, after.since_ns, after.generation) == (
        before.verdict,
        before.since_ns,
        before.generation + 1,
    )
    assert [node.since_ns for node in after.nodes] == [node.since_ns for node in before.nodes]


def test_a_service_that_restarts_forgets_nothing_while_its_first_polls_are_on_their_way() -> None:
    rack = SimulatedRack(nvl72())
    for node in ("n01", "n02", "n03"):
        rack.fail(node)
    rack.step()
    for node in ("n01", "n02", "n03"):
        rack.mend(node)
    before = rack.steps(100)
    exported = {**rack.judge.export(), "observed_ns": rack.now_ns}
    again = SimulatedRack(nvl72(), now_ns=rack.now_ns, nodes=rack.nodes, exported=exported)
    for second in range(5):
        waiting = again.judge.evaluate([], again.now_ns + second * SECOND)
        assert (waiting.verdict, states(waiting)) == (Verdict.UNKNOWN, {"UNKNOWN": 18})
    after = again.step()
    assert (after.verdict, after.since_ns) == (before.verdict, before.since_ns)
    assert [(node.state, node.since_ns) for node in after.nodes] == [
        (node.state, node.since_ns) for node in before.nodes
    ]
    assert again.steps(20).verdict is Verdict.AVAILABLE  # The clean minutes went on.


def test_a_service_that_restarts_and_hears_nothing_knows_nothing() -> None:
    rack = SimulatedRack(nvl72())
    rack.steps(3)
    exported = {**rack.judge.export(), "observed_ns": rack.now_ns}
    judge = RackJudge(nvl72(), exported=exported)
    assert judge.evaluate([], rack.now_ns).verdict is Verdict.UNKNOWN
    status = judge.evaluate([], rack.now_ns + 16 * SECOND)
    assert (status.since_ns, status.nodes[0].since_ns) == (status.observed_ns, status.observed_ns)


@pytest.mark.parametrize(("away_seconds", "state"), [(1, NodeState.UNKNOWN), (20, NodeState.FAILED)])
def test_a_witness_is_heard_after_a_restart_once_the_last_good_poll_is_old(
    away_seconds: int, state: NodeState
) -> None:
    rack = SimulatedRack(nvl72())
    rack.steps(3)
    judge = RackJudge(nvl72(), exported={**rack.judge.export(), "observed_ns": rack.now_ns})
    gone = Poll("n01", "n01:10072", error="connection timed out", witness=True)
    assert judge.evaluate([gone], rack.now_ns + away_seconds * SECOND).nodes[0].state is state
    assert (
        judge.evaluate([gone], rack.now_ns + (away_seconds + 16) * SECOND).nodes[0].state is NodeState.FAILED
    )


def test_a_maintenance_holds_while_first_polls_are_on_their_way() -> None:
    rack = SimulatedRack(nvl72())
    rack.steps(3)
    rack.maintain()
    rack.step()
    judge = RackJudge(nvl72(), maintenance=rack.maintenance, exported=rack.judge.export())
    assert judge.evaluate([], rack.now_ns).verdict is Verdict.MAINTENANCE


# --- what must be UNAVAILABLE ---------------------------------------------------------------------------


def test_three_trays_off_with_a_witness() -> None:
    rack = SimulatedRack(nvl72())
    rack.step()
    rack.silence("n01", "n02", "n03", witness=True)
    status = rack.steps(5)
    assert (status.verdict, states(status)) == (Verdict.UNAVAILABLE, {"READY": 15, "FAILED": 3})
    assert checks(status)[0] == "block"
    assert (
        status.reasons[0].text == "the largest block has 15 of the 16 nodes that it must have; out: 3 FAILED"
    )


def test_an_outage_that_a_maintenance_does_not_explain() -> None:
    rack = SimulatedRack(nvl72())
    rack.step()
    rack.maintain("n01")
    rack.silence("n02", "n03", "n04", witness=True)
    assert rack.steps(5).verdict is Verdict.UNAVAILABLE


def test_a_maintenance_that_overruns() -> None:
    rack = SimulatedRack(nvl72())
    rack.step()
    rack.maintain("n01", "n02", "n03", seconds=60)
    rack.silence("n01", "n02", "n03", witness=True)
    assert rack.step().verdict is Verdict.MAINTENANCE
    assert rack.steps(12).verdict is Verdict.UNAVAILABLE


# --- other questions ------------------------------------------------------------------------------------


def test_a_verdict_for_another_block() -> None:
    rack = SimulatedRack(nvl72())
    rack.fail("n01")
    rack.step()
    rack.silence("n02")
    status = rack.steps(5)
    asked = {block: verdict_for(status, block).value for block in (1, 16, 17, 18)}
    assert asked == {1: "AVAILABLE", 16: "AVAILABLE", 17: "UNKNOWN", 18: "UNAVAILABLE"}
    with pytest.raises(ConfigurationError, match="min_block: 19 is not between 1 and 18"):
        verdict_for(status, 19)


def test_a_configured_block() -> None:
    assert min_block_of(nvl72(min_block=17)) == 17
    with pytest.raises(ConfigurationError, match="min_block: 19"):
        RackJudge(nvl72(min_block=19))


def test_a_split_that_leaves_the_block_is_available_and_said() -> None:
    rack = SimulatedRack(nvl72())
    rack.change("n18", clique="2")
    status = rack.step()
    assert (status.verdict, status.largest_block) == (Verdict.AVAILABLE, 17)
    assert checks(status) == ["split_domain", "split_domain"]


def test_the_generation_rises_only_on_change() -> None:
    rack = SimulatedRack(nvl72())
    first = rack.step().generation
    assert rack.steps(3).generation == first
    rack.fail("n01")
    second = rack.step().generation
    assert second == first + 1
    assert rack.steps(3).generation == second
    rack.nodes["n02"].answers = False
    assert rack.step().generation == second + 1
    frozen = rack.judge.evaluate(
        [node.poll(rack.now_ns) for node in rack.nodes.values()], rack.now_ns, frozen=True
    )
    assert (frozen.generation, frozen.frozen) == (second + 2, True)


def test_a_value_that_changes_is_no_new_generation() -> None:
    rack = SimulatedRack(nvl72())
    rack.fail("n01", "gpu_temperature_margin", "warn")
    first = rack.step()
    own = rack.nodes["n01"].view.gpus[0]
    check = replace(own.checks[0], value=2, reason="2 degrees are left", since_ns=7)
    rack.change("n01", gpus=(replace(own, checks=(check,)), *rack.nodes["n01"].view.gpus[1:]))
    second = rack.step()
    assert second.generation == first.generation
    assert second.nodes[0].reasons[0].text == "2 degrees are left"


def test_the_order_of_polls_does_not_matter() -> None:
    rack = SimulatedRack(nvl72())
    rack.fail("n07")
    polls = [node.poll(rack.now_ns) for node in rack.nodes.values()]
    forward = RackJudge(nvl72()).evaluate(polls, rack.now_ns)
    assert forward == RackJudge(nvl72()).evaluate(polls[::-1], rack.now_ns)
    assert [node.node for node in forward.nodes] == list(node_names(18))


def test_a_poll_of_a_node_that_is_not_declared() -> None:
    rack = SimulatedRack(nvl72())
    polls = [node.poll(rack.now_ns) for node in rack.nodes.values()]
    status = rack.judge.evaluate([*polls, Poll("x99", "x99:10072")], rack.now_ns)
    assert (checks(status), len(status.nodes)) == (["unexpected_node"], 18)


def test_a_latch_is_released_through_the_judge() -> None:
    rack = SimulatedRack(nvl72(), rules=TrackerRules(flap_entries=1))
    rack.fail("n01")
    rack.step()
    rack.mend("n01")
    assert rack.steps(121).nodes[0].latched
    assert (rack.judge.release_latch("n01"), rack.judge.release_latch("x99")) == (True, False)
    assert rack.step().nodes[0].state is NodeState.READY


def test_a_new_declaration_keeps_what_is_known() -> None:
    rack = SimulatedRack(nvl72())
    rack.fail("n01")
    before = rack.step()
    rack.judge.redeclare(nvl72(17, min_block=15))
    after = rack.step()
    assert (after.min_block, len(after.nodes)) == (15, 17)
    assert after.nodes[0].since_ns == before.nodes[0].since_ns
    assert checks(after) == ["unexpected_node"]


def test_an_undeclared_silent_node_counts_in_its_last_clique_or_in_each() -> None:
    names = node_names(18)
    rack = SimulatedRack(nvl72(cliques={"left": names[:9], "right": names[9:17]}))
    for node in names[9:]:
        rack.change(node, clique="2")
    rack.silence("n18")
    status = rack.step()
    assert (status.nodes[17].clique, status.cliques["cafe.1"].unknown, status.cliques["cafe.2"].unknown) == (
        "",
        1,
        1,
    )
    rack.nodes["n18"].answers = True
    rack.step()
    rack.silence("n18")
    status = rack.steps(5)
    assert (status.nodes[17].clique, status.cliques["cafe.1"].unknown, status.cliques["cafe.2"].unknown) == (
        "cafe.2",
        0,
        1,
    )


def test_a_silent_clique_keeps_its_declared_name() -> None:
    names = node_names(18)
    rack = SimulatedRack(nvl72(cliques={"left": names[:9], "right": names[9:]}))
    rack.silence(*names[9:])
    status = rack.step()
    assert status.cliques == {"cafe.1": CliqueCount(9), "right": CliqueCount(0, unknown=9)}
    assert [domain.state for domain in status.domains] == [DomainState.HEALTHY, DomainState.UNKNOWN]


def test_domains_by_their_nodes() -> None:
    rack = SimulatedRack(nvl72(4, min_block=1))
    rack.fail("n01", "gpu_clock_events", "warn")
    assert rack.step().domains[0].state is DomainState.DEGRADED
    for node in node_names(4):
        rack.fail(node, "gpu_fabric_unhealthy", "fail")
    assert rack.step().domains[0].state is DomainState.UNHEALTHY
    rack.maintain()
    status = rack.step()
    assert (status.domains[0].state, status.verdict) == (DomainState.UNKNOWN, Verdict.MAINTENANCE)


def test_reasons_say_since_when_they_hold() -> None:
    rack = SimulatedRack(nvl72())
    rack.step()
    rack.change("n02", identity={"driver_version": "570.1", "kernel": "6.8.0"})
    rack.change("n18", clique="2")
    rack.step()
    began = rack.now_ns
    status = rack.steps(10)
    assert {(reason.check, reason.since_ns) for reason in status.reasons} == {
        ("version_skew", began),
        ("split_domain", began),
    }
    assert status.nodes[1].reasons[0].since_ns == began
    assert status.domains[0].reasons[0].since_ns == began
    rack.change("n02", identity={"driver_version": "580.95.05", "kernel": "6.8.0"})
    rack.step()
    rack.change("n02", identity={"driver_version": "570.1", "kernel": "6.8.0"})
    assert rack.step().nodes[1].reasons[0].since_ns == rack.now_ns


def test_time_in_a_state_is_told() -> None:
    rack = SimulatedRack(nvl72())
    rack.step()
    began = rack.now_ns
    status = rack.step(HOUR / SECOND)
    assert (status.since_ns, status.nodes[0].since_ns) == (began, began)
