"""Energy, tokens and baselines in the ledger: kept over restarts, pruned, and taken over from version 1."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.health.ledger import Ledger
from collector.health.ledger_usage import (
    StoredRollup,
    UsageCounters,
    UsageUpdate,
    energy_counter,
    error_counter,
    idle_counter,
    token_counter,
)
from collector.health.states import NodeState, Verdict
from tests.ledger_stories import close_all, let_die, open_ledger
from tests.ledger_version_1 import write_version_1
from tests.rack_builders import DAY, HOUR, MINUTE, SECOND, T0

FIRST = UsageUpdate(
    {
        energy_counter("gpu"): 1_500,
        error_counter("gpu"): 0,
        idle_counter("gpu"): 500,
        token_counter("prompt", "org/r1:fp4"): 70,
        token_counter("generation", "org/r1:fp4"): 7,
    },
    (StoredRollup(60, T0, "a minute"), StoredRollup(3600, T0, "an hour")),
)
LATER = UsageUpdate(
    {energy_counter("gpu"): 2_500}, (StoredRollup(60, T0, "more"), StoredRollup(60, T0 + MINUTE, "next"))
)
BOTH = UsageCounters(
    energy_joules={"gpu": 4.0},
    energy_error_joules={"gpu": 0.0},
    idle_joules={"gpu": 0.5},
    tokens={("org/r1:fp4", "prompt"): 70.0, ("org/r1:fp4", "generation"): 7.0},
)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "ledger.sqlite"
    close_all()


def minutes(ledger: Ledger, rack: str = "r01") -> list[tuple[int, str]]:
    return [((own.starts_ns - T0) // MINUTE, own.data) for own in ledger.rollups(rack, 60, T0, T0 + DAY)]


@pytest.mark.parametrize("kept", [True, False])
def test_counters_show_what_was_flushed_and_rollups_what_was_told(path: Path, kept: bool) -> None:
    ledger = open_ledger(path if kept else None, T0)
    ledger.add_usage("r01", FIRST, T0)
    assert ledger.usage("r01") == UsageCounters()
    assert minutes(ledger) == [(0, "a minute")]
    ledger.flush(T0)
    ledger.add_usage("r01", LATER, T0)
    assert ledger.usage("r01").energy_joules == {"gpu": 1.5}
    assert minutes(ledger) == [(0, "more"), (1, "next")]
    ledger.flush(T0)
    assert ledger.usage("r01") == BOTH
    assert minutes(ledger) == [(0, "more"), (1, "next")]
    assert ledger.rollups("r01", 3600, T0, T0 + 1) == (StoredRollup(3600, T0, "an hour"),)
    assert ledger.rollups("r01", 60, T0 + 1, T0 + MINUTE) == ()
    assert (ledger.usage("r99"), minutes(ledger, "r99")) == (UsageCounters(), [])


@pytest.mark.parametrize("clean", [True, False])
def test_energy_and_tokens_outlive_the_service(path: Path, clean: bool) -> None:
    ledger = open_ledger(path, T0)
    ledger.add_usage("r01", FIRST, T0)
    ledger.flush(T0)
    ledger.add_usage("r01", LATER, T0)
    if clean:
        ledger.close(T0)
    else:
        let_die(ledger)
    again = open_ledger(path, T0)
    assert again.usage("r01").energy_joules == ({"gpu": 4.0} if clean else {"gpu": 1.5})
    assert minutes(again) == ([(0, "more"), (1, "next")] if clean else [(0, "a minute")])
    again.add_usage("r01", UsageUpdate({energy_counter("gpu"): 1}), T0)
    again.flush(T0)
    assert again.usage("r01").energy_joules == ({"gpu": 4.001} if clean else {"gpu": 1.501})
    # The counters of verdicts are others.
    assert again.counters("r01").verdict_seconds == dict.fromkeys(Verdict, 0.0)


def test_no_counter_runs_back_or_over(path: Path) -> None:
    ledger = open_ledger(path, T0)
    ledger.add_usage("r01", UsageUpdate({energy_counter("gpu"): 1000}), T0)
    ledger.add_usage("r01", UsageUpdate({energy_counter("gpu"): -1000}), T0)
    ledger.flush(T0)
    assert ledger.usage("r01").energy_joules == {"gpu": 1.0}
    ledger.add_usage("r01", UsageUpdate({energy_counter("gpu"): 2**63}), T0)
    assert ledger.flush(T0)
    assert ledger.usage("r01").energy_joules == {"gpu": (2**63 - 1) / 1000}


def test_updates_can_be_joined() -> None:
    joined = FIRST.followed_by(LATER)
    assert joined.counters == {**FIRST.counters, energy_counter("gpu"): 4_000}
    assert joined.rollups == (
        StoredRollup(60, T0, "more"),
        StoredRollup(3600, T0, "an hour"),
        StoredRollup(60, T0 + MINUTE, "next"),
    )


def test_minutes_are_kept_for_a_week_and_hours_as_long_as_the_rest(path: Path) -> None:
    ledger = open_ledger(path, T0)
    ledger.add_usage("r01", FIRST.followed_by(LATER), T0)
    ledger.flush(T0)
    ledger.prune(T0 + 7 * DAY)
    assert minutes(ledger) == [(0, "more"), (1, "next")]
    ledger.prune(T0 + 7 * DAY + MINUTE)
    assert minutes(ledger) == [(1, "next")]
    ledger.prune(T0 + 400 * DAY)
    assert (minutes(ledger), len(ledger.rollups("r01", 3600, T0, T0 + DAY))) == ([], 1)
    ledger.prune(T0 + 400 * DAY + 1)
    assert ledger.rollups("r01", 3600, T0, T0 + DAY) == ()
    ledger.flush(T0)
    assert ledger.usage("r01") == BOTH


def test_a_text_that_sqlite_cannot_store_is_stored_as_it_can(path: Path) -> None:
    ledger = open_ledger(path, T0)
    ledger.add_usage("r01", UsageUpdate({}, (StoredRollup(60, T0, "\ud800\x00"),)), T0)
    assert ledger.flush(T0)
    assert minutes(ledger) == [(0, "?\ufffd")]


def test_a_row_that_cannot_be_read_is_not_there(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = open_ledger(path, T0)
    ledger.add_usage("r01", FIRST, T0)
    ledger.flush(T0)
    ledger._store._connection.execute("PRAGMA ignore_check_constraints = 1")
    ledger._store._connection.execute("UPDATE rollups SET data = x'ff'")
    assert minutes(ledger) == []
    assert "a roll-up that cannot be read" in caplog.text


def test_baselines_are_kept_and_forgotten_at_once(path: Path) -> None:
    ledger = open_ledger(path, T0)
    assert ledger.baselines() == ()
    assert ledger.keep_baseline("b2", '{"id": 2}', T0)
    assert ledger.keep_baseline("b1", '{"id": 1}', T0)
    assert ledger.keep_baseline("b2", '{"id": 22}', T0)
    let_die(ledger)
    again = open_ledger(path, T0)
    assert again.baselines() == ('{"id": 1}', '{"id": 22}')
    assert again.forget_baseline("b1", T0)
    assert again.forget_baseline("b9", T0)
    let_die(again)
    assert open_ledger(path, T0).baselines() == ('{"id": 22}',)


def test_a_ledger_of_version_1_is_taken_over_with_all_it_has(path: Path) -> None:
    write_version_1(path)
    ledger = open_ledger(path, T0 + HOUR)
    (verdict,) = ledger.history("r01", T0, T0 + DAY)
    assert (verdict.verdict, verdict.min_block) == (Verdict.AVAILABLE, 16)
    assert (verdict.starts_ns, verdict.ends_ns) == (T0 + 5 * SECOND, T0 + 100 * SECOND)
    assert [own.state for own in ledger.node_history("r01", T0, T0 + DAY)] == [
        NodeState.FAILED,
        NodeState.READY,
    ]
    (incident,) = ledger.incidents()
    assert (incident.node, incident.check, incident.text) == ("n01", "gpu_xid_fatal", "Xid 79")
    (event,) = ledger.events()
    assert (event.id, event.code) == (7, 79)
    (window,) = ledger.windows()
    assert (window.id, window.nodes, window.created_by) == ("m1", ("n02",), "ops")
    assert ledger.counters("r01").verdict_seconds[Verdict.AVAILABLE] == 95
    assert ledger.counters("r01").incidents == 1
    assert ledger.memory("r01") == {"nodes": {"n01": {}}, "observed_ns": T0 + 100 * SECOND}
    assert (ledger.usage("r01"), ledger.baselines(), minutes(ledger)) == (UsageCounters(), (), [])
    ledger.add_usage("r01", FIRST, T0 + HOUR)
    assert ledger.flush(T0 + HOUR)
    ledger.close(T0 + HOUR)
    again = open_ledger(path, T0 + HOUR)
    assert minutes(again) == [(0, "a minute")]
    assert again.counters("r01").verdict_seconds[Verdict.AVAILABLE] == 95


def test_an_old_ledger_has_the_tables_of_a_new_one(path: Path) -> None:
    write_version_1(path)
    new = path.with_name("new.sqlite")
    for file in (path, new):
        let_die(open_ledger(file, T0))
    old_tables, new_tables = (_tables(file) for file in (path, new))
    assert old_tables == new_tables


def _tables(path: Path) -> list[tuple[str, str, str]]:
    connection = sqlite3.connect(path)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        assert version == 2
        names = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        return [
            (name, column[1], column[2])
            for name in names
            for column in connection.execute("SELECT * FROM pragma_table_info(?)", (name,))
        ]
    finally:
        connection.close()
