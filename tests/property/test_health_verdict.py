"""Properties of the verdict over permutations of tray states (CONTRACTS §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from collector.health.rack_judge import RackJudge, verdict_for
from collector.health.rack_types import ExpectedRack, Poll, RackStatus
from collector.health.states import NodeState, Verdict
from collector.health.verdict import CliqueCount, judge_rack, largest_block
from tests.rack_builders import SECOND, T0, SimulatedRack, hgx, node_names, nvl72

# What can be known of a tray, from worst to best: proven out, unknown, in maintenance, schedulable.
OUT, UNKNOWN, MAINTENANCE, SCHEDULABLE = range(4)
BETTER = [Verdict.UNAVAILABLE, Verdict.UNKNOWN, Verdict.MAINTENANCE, Verdict.AVAILABLE]

trays = st.integers(OUT, SCHEDULABLE)
racks: st.SearchStrategy[Callable[[int], ExpectedRack]] = st.sampled_from([nvl72, hgx])
counts = st.builds(CliqueCount, st.integers(0, 18), st.integers(0, 18), st.integers(0, 18))
cliques = st.dictionaries(st.sampled_from("abc"), counts, max_size=3)


def count(kinds: list[int]) -> dict[str, CliqueCount]:
    return {"q": CliqueCount(kinds.count(SCHEDULABLE), kinds.count(UNKNOWN), kinds.count(MAINTENANCE))}


def tell(expected: ExpectedRack, kinds: list[int]) -> SimulatedRack:
    """Return a rack whose trays are as told, after they were all well."""
    rack = SimulatedRack(expected)
    rack.step()
    for node, kind in zip(expected.nodes, kinds, strict=True):
        if kind == OUT:
            rack.fail(node)
        elif kind == UNKNOWN:
            rack.silence(node)
        elif kind == MAINTENANCE:
            rack.maintain(node)
    return rack


def verdict_of(expected: ExpectedRack, kinds: list[int]) -> RackStatus:
    return tell(expected, kinds).steps(5)


@given(st.data(), racks, st.lists(trays, min_size=1, max_size=18))
def test_the_order_of_trays_and_of_polls_never_matters(
    data: st.DataObject, make: Callable[[int], ExpectedRack], kinds: list[int]
) -> None:
    expected = make(len(kinds))
    status = verdict_of(expected, kinds)
    shuffled = data.draw(st.permutations(kinds))
    other = verdict_of(expected, shuffled)
    assert (other.verdict, other.largest_block, other.cliques) == (
        status.verdict,
        status.largest_block,
        status.cliques,
    )
    rack = tell(expected, kinds)
    polls = [node.poll(rack.now_ns) for node in rack.nodes.values()]
    orders = (polls, data.draw(st.permutations(polls)))
    first, second = (
        RackJudge(expected, maintenance=rack.maintenance).evaluate(order, rack.now_ns) for order in orders
    )
    assert first == second


@given(racks, st.lists(trays, min_size=1, max_size=18))
def test_the_rack_agrees_with_the_formula(make: Callable[[int], ExpectedRack], kinds: list[int]) -> None:
    status = verdict_of(make(len(kinds)), kinds)
    (own,) = status.cliques.values()
    assert own == count(kinds)["q"]
    assert status.verdict is judge_rack(count(kinds), status.min_block)
    assert status.largest_block == kinds.count(SCHEDULABLE)
    assert sum(node.schedulable for node in status.nodes) == kinds.count(SCHEDULABLE)


@given(st.data(), st.lists(trays, min_size=1, max_size=18))
def test_making_a_tray_better_never_makes_the_verdict_worse(data: st.DataObject, kinds: list[int]) -> None:
    block = data.draw(st.integers(1, len(kinds)))
    place = data.draw(st.integers(0, len(kinds) - 1))
    better = kinds.copy()
    better[place] = data.draw(st.integers(kinds[place], SCHEDULABLE))
    before, after = judge_rack(count(kinds), block), judge_rack(count(better), block)
    assert BETTER.index(after) >= BETTER.index(before)


@given(cliques, st.integers(1, 17))
def test_a_smaller_block_never_makes_the_verdict_worse(own: dict[str, CliqueCount], block: int) -> None:
    assert BETTER.index(judge_rack(own, block)) >= BETTER.index(judge_rack(own, block + 1))


@given(cliques, st.integers(1, 18))
def test_the_verdict_says_what_the_counts_allow(own: dict[str, CliqueCount], block: int) -> None:
    verdict = judge_rack(own, block)
    best = max((c.schedulable + c.unknown + c.maintenance for c in own.values()), default=0)
    assert (verdict is Verdict.AVAILABLE) is (largest_block(own) >= block)
    assert (verdict is Verdict.UNAVAILABLE) is (best < block)


@given(st.lists(trays, min_size=18, max_size=18), st.integers(1, 18))
def test_a_question_for_a_block_has_the_answer_of_a_rack_with_that_block(
    kinds: list[int], block: int
) -> None:
    asked = verdict_for(verdict_of(nvl72(), kinds), block)
    assert asked is verdict_of(nvl72(min_block=block), kinds).verdict


@given(st.lists(st.sampled_from(["1", "2", "3"]), min_size=2, max_size=18), st.data())
def test_every_schedulable_tray_counts_in_one_clique(found: list[str], data: st.DataObject) -> None:
    names = node_names(len(found))
    cut = data.draw(st.integers(0, len(found)))
    declared = {"left": names[:cut], "right": names[cut:]} if 0 < cut < len(found) else {}
    rack = SimulatedRack(nvl72(len(found), cliques=declared))
    for node, clique in zip(names, found, strict=True):
        rack.change(node, clique=clique)
    silent = data.draw(st.sets(st.sampled_from(names)))
    rack.silence(*silent)
    status = rack.steps(5)
    assert sum(part.schedulable for part in status.cliques.values()) == len(found) - len(silent)
    assert all(part.unknown <= len(silent) for part in status.cliques.values())
    for own in status.nodes:
        assert (own.state is NodeState.UNKNOWN) is (own.node in silent)


steps = st.lists(
    st.tuples(
        st.sampled_from(["good", "fatal", "silent", "gone", "reboot"]), st.sampled_from([1, 5, 20, 700])
    ),
    max_size=40,
)


@given(steps, st.integers(1, 39))
def test_a_restart_of_the_service_changes_no_state(story: list[tuple[str, int]], cut: int) -> None:
    """One judge goes through; the other hands over to a new one, told only what was exported."""
    through = SimulatedRack(nvl72(1))
    broken = SimulatedRack(nvl72(1))
    for place, (what, seconds) in enumerate(story):
        if place == cut:
            memory = {**broken.judge.export(), "observed_ns": broken.now_ns}
            broken.judge = RackJudge(broken.expected, exported=memory)
            # The first evaluation comes before the first poll.
            waiting = broken.judge.evaluate([Poll("n01", "", error="not polled yet")], broken.now_ns)
            assert waiting.nodes[0].state is NodeState.UNKNOWN
            broken.nodes["n01"].sent = broken.nodes["n01"].last_good_ns = None
            if what in ("silent", "gone"):  # The other judge believes its last good poll for a while.
                return
        for rack in (through, broken):
            node = rack.nodes["n01"]
            node.answers, node.witness = what not in ("silent", "gone"), what == "gone" or None
            (rack.fail if what == "fatal" else rack.mend)("n01")
            if what == "reboot":
                rack.change("n01", boot_id=f"boot {place}")
        one, other = through.step(seconds), broken.step(seconds)
        assert replace(one.nodes[0], poll=Poll("n01", "")) == replace(other.nodes[0], poll=Poll("n01", ""))
        assert (one.verdict, one.since_ns) == (other.verdict, other.since_ns)


@given(steps)
def test_a_node_fails_only_on_evidence_and_is_ready_only_if_it_answers(story: list[tuple[str, int]]) -> None:
    rack = SimulatedRack(nvl72(1))
    failed_before = False
    for place, (what, seconds) in enumerate(story):
        node = rack.nodes["n01"]
        node.answers, node.witness = what not in ("silent", "gone"), what == "gone" or None
        (rack.fail if what == "fatal" else rack.mend)("n01")
        if what == "reboot":
            rack.change("n01", boot_id=f"boot {place}")
        (own,) = rack.step(seconds).nodes
        failed_before = failed_before or what in ("fatal", "gone")
        assert own.state is not NodeState.FAILED or failed_before
        if own.schedulable:
            assert own.poll.last_good_ns is not None
            assert rack.now_ns - own.poll.last_good_ns <= 15 * SECOND
        assert T0 <= own.since_ns <= rack.now_ns
