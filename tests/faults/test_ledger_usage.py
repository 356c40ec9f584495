"""Energy and tokens in a ledger under faults: damage, a full disk, an update that fails half way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.health import ledger_file, ledger_schema, ledger_usage
from collector.health.ledger_usage import StoredRollup, UsageUpdate
from collector.health.states import Verdict
from tests.faults.ledger_disks import damaged_files, durable, errors, fill, make_room, overwrite
from tests.ledger_stories import close_all, let_die, open_ledger
from tests.ledger_version_1 import write_version_1
from tests.rack_builders import DAY, MINUTE, T0


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "ledger.sqlite"
    close_all()


def usage(minute: int, more: str = "") -> UsageUpdate:
    """Return one joule, and the minute in which it was spent."""
    rollup = StoredRollup(60, T0 + minute * MINUTE, f"minute {minute}{more}")
    return UsageUpdate({"energy_mj:gpu": 1000}, (rollup,))


def test_damage_that_shows_while_running_keeps_the_newest_energy_and_tokens(path: Path) -> None:
    ledger = open_ledger(path, T0)
    ledger.keep_baseline("b1", "a baseline", T0)
    for minute in range(25):
        ledger.add_usage("r01", usage(minute), T0)
        ledger.flush(T0)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    overwrite(path)
    assert ledger.flush(T0)
    assert len(damaged_files(path)) == 1
    let_die(ledger)
    again = open_ledger(path, T0)
    assert again.usage("r01").energy_joules == {"gpu": 25.0}
    assert [own.data for own in again.rollups("r01", 60, 0, T0 + DAY)] == [
        f"minute {n}" for n in range(5, 25)
    ]
    assert again.baselines() == ("a baseline",)


def test_energy_and_tokens_wait_for_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(path, T0)
    ledger.add_usage("r01", usage(0), T0)
    assert ledger.flush(T0)
    fill(ledger)
    for minute in range(1, 400):
        ledger.add_usage("r01", usage(minute, "x" * 2000), T0)
        ledger.flush(T0)
    assert not durable(ledger)
    assert ledger.usage("r01").energy_joules == {"gpu": 400.0}
    assert len(ledger.rollups("r01", 60, 0, T0 + DAY)) == 400
    make_room(ledger)
    assert ledger.flush(T0)
    let_die(ledger)
    again = open_ledger(path, T0)
    assert again.usage("r01").energy_joules == {"gpu": 400.0}
    assert len(again.rollups("r01", 60, 0, T0 + DAY)) == 400


def test_too_many_rollups_that_wait_lose_the_oldest(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ledger_usage, "MAXIMUM_WAITING", 10)
    ledger = open_ledger(path, T0)
    for minute in range(30):
        ledger.add_usage("r01", usage(minute), T0)
    assert [own.data for own in ledger.rollups("r01", 60, 0, T0 + DAY)] == [
        f"minute {n}" for n in range(20, 30)
    ]
    (said,) = errors(caplog)
    assert "its oldest roll-ups are lost" in said


def fail_half_way(connection: sqlite3.Connection) -> None:
    """Fail in a file when its new tables are made, before it bears the new version."""
    (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
    with pytest.MonkeyPatch.context() as patch:
        if file:
            broken = (*ledger_schema.TABLES[2], "INSERT INTO nowhere VALUES (1)")
            patch.setitem(ledger_schema.TABLES, 2, broken)
        ledger_schema.prepare(connection)


def test_a_disk_that_does_not_take_new_tables_keeps_the_old_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_version_1(path)
    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "prepare", fail_half_way)
        ledger = open_ledger(path, T0)
        ledger.add_usage("r01", usage(0), T0)
        assert not ledger.flush(T0)
    assert "cannot be used now" in errors(caplog)[0]
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'rollups'").fetchone() == (0,)
    connection.close()
    assert ledger.flush(T0)
    let_die(ledger)
    again = open_ledger(path, T0)
    assert again.counters("r01").verdict_seconds[Verdict.AVAILABLE] == 95
    assert again.usage("r01").energy_joules == {"gpu": 1.0}
    assert [own.data for own in again.rollups("r01", 60, 0, T0 + DAY)] == ["minute 0"]
    assert again.events()[0].id == 7
    assert damaged_files(path) == []
