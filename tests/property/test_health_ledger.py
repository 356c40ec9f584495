"""Properties of availability and of the ledger: the seconds add up, and low <= point <= high."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.health.availability import (
    Availability,
    IncidentCount,
    VerdictInterval,
    compute_availability,
    verdict_times,
)
from collector.health.ledger_account import read_cliques, storable, write_cliques
from collector.health.node_memory import remember
from collector.health.rack_types import RackStatus
from collector.health.states import NodeState, Verdict
from collector.health.verdict import CliqueCount, judge_rack
from tests.ledger_stories import close_all, let_die, open_ledger
from tests.rack_builders import SECOND, T0, SimulatedRack, nvl72

verdicts = st.sampled_from(Verdict)
counts = st.builds(CliqueCount, st.integers(0, 18), st.integers(0, 18), st.integers(0, 18))


@st.composite
def histories(draw: st.DrawFn) -> list[VerdictInterval]:
    """Intervals in order, with gaps, of any number of nanoseconds."""
    time = T0
    made = []
    for verdict in draw(st.lists(verdicts, max_size=12)):
        starts = time + draw(st.integers(0, 10**15))
        time = starts + draw(st.integers(0, 10**15))
        made.append(VerdictInterval("r01", verdict, 16, (draw(counts),), starts, time))
    return made


def check(own: Availability, window_ns: int) -> None:
    parts = (
        own.available_seconds,
        own.unavailable_seconds,
        own.excused_seconds,
        own.unknown_seconds,
        own.uncovered_seconds,
    )
    assert all(part >= 0 for part in parts)
    assert abs(sum(parts) - window_ns / SECOND) <= 1e-6 * window_ns / SECOND
    if own.low is None or own.high is None or own.coverage is None:
        assert own.excused_seconds == window_ns / SECOND
        assert own.insufficient_data
    else:
        assert 0 <= own.low <= own.high <= 1
        assert 0 <= own.coverage <= 1
        assert own.insufficient_data is (own.coverage < 0.95)
        if own.point is not None:
            assert own.low <= own.point <= own.high
            assert own.coverage > 0


@given(
    histories(),
    st.integers(-(10**15), 10**16),
    st.integers(1, 10**16),
    st.none() | st.integers(1, 18),
    st.floats(0, 1),
)
def test_the_seconds_add_up_to_the_window(
    history: list[VerdictInterval], offset: int, window_ns: int, min_block: int | None, slo: float
) -> None:
    starts = T0 + offset
    own = compute_availability(
        rack="r01",
        starts_ns=starts,
        ends_ns=starts + window_ns,
        slo=slo,
        min_block=min_block,
        verdicts=verdict_times(history, starts, starts + window_ns, min_block),
        nodes=dict.fromkeys(NodeState, 0),
        incidents=IncidentCount(),
    )
    check(own, window_ns)


@given(histories(), st.integers(1, 10**16), st.integers(1, 17))
def test_a_smaller_block_is_available_at_least_as_long(
    history: list[VerdictInterval], window_ns: int, block: int
) -> None:
    smaller, larger = (verdict_times(history, T0, T0 + window_ns, size) for size in (block, block + 1))
    assert smaller[Verdict.AVAILABLE] >= larger[Verdict.AVAILABLE]
    assert smaller[Verdict.UNAVAILABLE] <= larger[Verdict.UNAVAILABLE]


@given(st.lists(counts, max_size=9))
def test_counts_are_read_as_they_were_written(own: list[CliqueCount]) -> None:
    read = read_cliques(write_cliques(own))
    assert sorted(map(repr, read)) == sorted(map(repr, own))


@given(st.text(st.characters(), max_size=50), st.integers(0, 60))
def test_any_text_can_be_stored(text: str, length: int) -> None:
    stored = storable(text, length)
    assert len(stored) <= length
    assert "\x00" not in stored
    stored.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda own: st.lists(own, max_size=3) | st.dictionaries(st.text(), own, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(remember({}).export())), json_values))
def test_any_memory_can_be_remembered(memory: dict[str, object]) -> None:
    once = remember(memory).export()
    assert remember(once).export() == once


# A step of a service: for how many seconds (backwards too), with how many nodes out, silent and maintained.
moments = st.lists(
    st.tuples(
        st.integers(-100, 100),
        st.sampled_from([1, 5, 15]),
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(0, 4),
        st.sampled_from(["", "flush", "restart", "crash"]),
    ),
    min_size=1,
    max_size=30,
)

TEMPLATE = SimulatedRack(nvl72(8)).step()


def status(now_ns: int, out: int, unknown: int, maintenance: int) -> RackStatus:
    kinds = [NodeState.FAILED] * out + [NodeState.UNKNOWN] * unknown + [NodeState.MAINTENANCE] * maintenance
    kinds = (kinds + [NodeState.READY] * 8)[:8]
    own = CliqueCount(
        kinds.count(NodeState.READY), kinds.count(NodeState.UNKNOWN), kinds.count(NodeState.MAINTENANCE)
    )
    return replace(
        TEMPLATE,
        observed_ns=now_ns,
        min_block=7,
        verdict=judge_rack({"q": own}, 7),
        cliques={"q": own},
        nodes=tuple(replace(node, state=kind) for node, kind in zip(TEMPLATE.nodes, kinds, strict=True)),
    )


@settings(max_examples=50)
@given(moments)
def test_whatever_happens_the_ledger_adds_up(story: list[tuple[int, int, int, int, int, str]]) -> None:
    """Clock steps, gaps, restarts and crashes: no overlap, nothing negative, no counter that runs back."""
    with TemporaryDirectory() as folder:
        try:
            follow(Path(folder) / "ledger.sqlite", story)
        finally:
            close_all()


def follow(path: Path, story: list[tuple[int, int, int, int, int, str]]) -> None:
    ledger = open_ledger(path, T0)
    now = T0
    before = ledger.counters("r01")
    for jump, seconds, out, unknown, maintenance, what in story:
        now += (seconds if what in ("", "flush") else jump) * SECOND
        if what == "restart":
            ledger.close(now)
            ledger = open_ledger(path, now)
        elif what == "crash":
            let_die(ledger)
            ledger = open_ledger(path, now)
        ledger.record(status(now, out, unknown, maintenance))
        if what == "flush":
            ledger.flush(now)
        after = ledger.counters("r01")
        for verdict in Verdict:
            assert after.verdict_seconds[verdict] >= before.verdict_seconds[verdict]
        assert after.node_operating_seconds >= before.node_operating_seconds
        assert after.node_down_seconds >= before.node_down_seconds
        assert after.incidents >= before.incidents
        before = after
    ledger.flush(now)
    intervals = ledger.history("r01", 0, 2**62)
    assert all(own.starts_ns <= own.ends_ns for own in intervals)
    assert all(one.ends_ns <= two.starts_ns for one, two in pairwise(intervals))
    end = max(now, *(own.ends_ns for own in intervals)) + SECOND
    start = T0 - 30 * 100 * SECOND - SECOND  # before the farthest that a story can go back
    for block in (None, 1, 7, 8):
        own = ledger.availability("r01", starts_ns=start, ends_ns=end, slo=0.99, min_block=block)
        check(own, end - start)
    own = ledger.availability("r01", starts_ns=start, ends_ns=end, slo=0.99)
    counted = ledger.counters("r01")
    assert own.available_seconds == counted.verdict_seconds[Verdict.AVAILABLE]
    assert own.unavailable_seconds == counted.verdict_seconds[Verdict.UNAVAILABLE]
    assert own.node_down_seconds == counted.node_down_seconds
    assert own.node_operating_seconds == counted.node_operating_seconds
    assert own.incidents == counted.incidents
    ledger.close(now)
