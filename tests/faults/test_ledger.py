"""The ledger under faults: kill -9, damaged and vanished files, a full disk, two services."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from collector.errors import ConfigurationError
from collector.health import ledger_store
from collector.health.ledger import Ledger
from collector.health.maintenance import MaintenanceWindow
from collector.health.states import Verdict
from tests.faults.ledger_disks import damaged_files, durable, errors, fill, make_room, overwrite
from tests.ledger_stories import Service, close_all, let_die, open_ledger
from tests.rack_builders import DAY, HOUR, SECOND, T0

ROOT = Path(__file__).parents[2]
WINDOW = MaintenanceWindow("m1", "r01", (), T0 + HOUR, T0 + 2 * HOUR, T0)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "ledger.sqlite"
    close_all()


# --- kill -9 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [1, 4, 9])
def test_kill_loses_at_most_the_last_flush(path: Path, lines: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.ledger_writer", str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    with writer.stdout as said:
        for _ in range(lines):
            flushed = said.readline()
        writer.send_signal(signal.SIGKILL)
        flushed = (said.read().splitlines(keepends=True) or [flushed])[-1]
    assert writer.wait(30) == -signal.SIGKILL
    flushed_ns, available_seconds, incidents, joules = flushed.split()
    ledger = open_ledger(path, T0)
    counters = ledger.counters("r01")
    assert counters.verdict_seconds[Verdict.AVAILABLE] >= float(available_seconds)
    assert counters.incidents >= int(incidents)
    intervals = ledger.history("r01", 0, T0 + 400 * DAY)
    assert intervals[-1].ends_ns >= int(flushed_ns)
    assert sum(own.ends_ns - own.starts_ns for own in intervals) == intervals[-1].ends_ns - T0 - 5 * SECOND
    recorded = ledger.availability("r01", starts_ns=T0, ends_ns=T0 + 400 * DAY, slo=0.99)
    assert recorded.available_seconds == counters.verdict_seconds[Verdict.AVAILABLE]
    assert ledger.memory("r01")["observed_ns"] == intervals[-1].ends_ns
    counted = ledger.usage("r01").energy_joules["gpu"]
    assert counted >= float(joules)
    # What one flush wrote is there as a whole: counters and roll-ups say the same.
    minutes = ledger.rollups("r01", 60, 0, T0 + 400 * DAY)
    assert sum(int(own.data) for own in minutes) == round(counted * 1000)


# --- damage ---------------------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def garble_header(path: Path) -> None:
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])


def garble_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    noise = random.Random(7)  # noqa: S311 - a damage that repeats itself
    for place in range(4096, len(content), 512):
        content[place : place + 64] = noise.randbytes(64)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [overwrite, truncate, garble_header, garble_pages])
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(path)
    service.run(100)
    service.ledger.close(service.rack.now_ns)
    damage(path)
    content = path.read_bytes()
    again = Service(path)
    assert damaged_files(path) == ["ledger.sqlite.damaged-20260101T000000Z"]
    assert path.with_name(damaged_files(path)[0]).read_bytes() == content
    (said,) = errors(caplog)
    assert "is damaged" in said
    assert "begin anew" in said
    again.run(50)
    assert again.intervals() == [("AVAILABLE", 5, 50)]
    assert again.restart().intervals() == [("AVAILABLE", 5, 50)]


def test_two_damaged_files_do_not_overwrite_each_other(path: Path) -> None:
    for _ in range(2):
        overwrite(path)
        let_die(open_ledger(path, T0))
    assert damaged_files(path) == [
        "ledger.sqlite.damaged-20260101T000000Z",
        "ledger.sqlite.damaged-20260101T000000Z-2",
    ]


def test_an_empty_file_is_begun(path: Path) -> None:
    path.touch()
    service = Service(path)
    service.run(50)
    assert service.intervals() == [("AVAILABLE", 5, 50)]


@pytest.mark.parametrize("seed", range(30))
def test_any_damage_leaves_a_service_that_runs(path: Path, seed: int) -> None:
    """Whatever bytes are flipped: it is found or not, but the service starts, records and answers."""
    service = Service(path)
    service.rack.fail("n01")
    service.ledger.keep_window(WINDOW, T0)
    service.run(200)
    service.ledger.close(service.rack.now_ns)
    content = bytearray(path.read_bytes())
    noise = random.Random(seed)  # noqa: S311 - a damage that repeats itself
    for _ in range(noise.choice([1, 10, 100])):
        content[noise.randrange(len(content))] ^= 1 << noise.randrange(8)
    path.write_bytes(content)
    try:
        again = Service(path, now_ns=T0 + HOUR)
    except ConfigurationError as error:  # A flip in the file's marks makes it somebody else's.
        assert "another program" in str(error) or "newer rackwatt" in str(error)  # noqa: PT017
        return
    again.run(50)
    window = {"starts_ns": T0 + HOUR, "ends_ns": T0 + HOUR + 50 * SECOND, "slo": 0.99}
    assert again.ledger.availability("r01", **window).available_seconds == 45  # type: ignore[arg-type]
    again.ledger.events()
    again.ledger.incidents()
    again.ledger.flush(again.rack.now_ns)


def test_damage_that_shows_while_running_keeps_what_memory_holds(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(path)
    service.ledger.keep_window(WINDOW, T0)
    service.rack.fail("n01")
    service.run(100)
    before = service.ledger.counters("r01")
    connection = service.ledger._store._connection
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA cache_size = 0")
    connection.execute("PRAGMA shrink_memory")
    with path.open("r+b") as file:  # In place: the same file as before, with other content.
        size = path.stat().st_size
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    connection.close()
    service.ledger._store._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    service.run(50)
    service.run(50)
    assert len(damaged_files(path)) == 1
    assert durable(service.ledger)
    assert any("is damaged" in said for said in errors(caplog))
    after = service.ledger.counters("r01")
    assert after.verdict_seconds[Verdict.AVAILABLE] == before.verdict_seconds[Verdict.AVAILABLE] + 100
    again = service.restart(clean=False)
    assert again.ledger.counters("r01") == after
    assert again.ledger.windows() == (WINDOW,)
    assert [incident.node for incident in again.ledger.incidents()] == ["n01"]
    assert again.intervals() == [("AVAILABLE", 5, 200)]
    assert again.ledger.memory("r01")["nodes"]


@pytest.mark.parametrize("suffixes", [("",), ("", "-wal", "-shm")])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_or_replaced_while_running_is_begun_anew(
    path: Path, suffixes: tuple[str, ...], replaced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(path)
    service.run(100)
    for suffix in suffixes:
        path.with_name(path.name + suffix).unlink()
    if replaced:
        overwrite(path)
    service.run(50)
    assert durable(service.ledger)
    assert "was removed or replaced" in errors(caplog)[0]
    again = service.restart(clean=False)
    # A log (`-wal`) that was left behind may bring the old content back, and what came since is added.
    recorded = again.ledger.availability("r01", starts_ns=T0, ends_ns=T0 + HOUR, slo=0.99)
    assert (recorded.available_seconds, again.seconds("AVAILABLE")) == (145, 145)


# --- a full disk ----------------------------------------------------------------------------------------


def flap(service: Service, times: int) -> None:
    """Let every node change its state so many times, so that the file has to grow."""
    for number in range(times):
        for node in service.rack.expected.nodes:
            if number % 2:
                service.rack.mend(node)
            else:
                service.rack.fail(node, "gpu_clock_events", "warn")
        service.run(5)


def test_a_full_disk_costs_durability_not_the_service(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(path)
    service.run(100)
    fill(service.ledger)
    flap(service, 100)
    assert not durable(service.ledger)
    (said,) = errors(caplog)
    assert "database or disk is full" in said
    assert service.seconds("AVAILABLE") == 595
    service.ledger.availability("r01", starts_ns=T0, ends_ns=T0 + HOUR, slo=0.99)
    make_room(service.ledger)
    service.run(5)
    assert durable(service.ledger)
    again = service.restart(clean=False)
    assert again.intervals() == [("AVAILABLE", 5, 605)]
    assert again.seconds("AVAILABLE") == 600
    assert len(again.ledger.node_history("r01", 0, T0 + DAY, "n01")) == 101


def test_what_waits_too_long_becomes_a_gap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "MAXIMUM_PENDING", 500)
    service = Service(path)
    service.run(100)
    fill(service.ledger)
    flap(service, 100)
    make_room(service.ledger)
    service.run(5)
    assert durable(service.ledger)
    again = service.restart(clean=False)
    states = again.ledger.node_history("r01", 0, T0 + DAY, "n01")
    assert [(own.starts_ns - T0) // SECOND for own in states[:1]] == [5]
    assert states[-1].ends_ns == T0 + 605 * SECOND
    assert len(states) < 101
    assert all(one.ends_ns <= two.starts_ns for one, two in pairwise(states))
    assert again.seconds("AVAILABLE") == 600


FULL = """
import resource, signal, sys
from pathlib import Path
from tests.ledger_stories import Service
from tests.rack_builders import T0

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
service = Service(Path(sys.argv[1]))
service.run(100)
print(service.ledger.durable, service.intervals())
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
service.run(50)
print(service.ledger.durable, service.intervals())
service.ledger.close(service.rack.now_ns)
"""


def test_a_disk_that_is_full_at_the_start_is_waited_for(path: Path) -> None:
    """A limit on the size of files stands in for the disk: every write beyond it fails."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout.splitlines() == [
        "False [('AVAILABLE', 5.0, 100.0)]",
        "True [('AVAILABLE', 5.0, 150.0)]",
    ], ran
    assert ran.stderr.count("cannot be used now") == 1
    ledger = open_ledger(path, T0)
    assert ledger.counters("r01").verdict_seconds[Verdict.AVAILABLE] == 145


# --- what is refused ------------------------------------------------------------------------------------


def test_a_second_service_is_refused(path: Path) -> None:
    open_ledger(path, T0)
    program = "import sys; from pathlib import Path; from collector.health.ledger import Ledger; "
    ran = subprocess.run(
        [sys.executable, "-c", program + "Ledger(Path(sys.argv[1]), 1)", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"another rack service (process {os.getpid()}) writes it" in ran.stderr.splitlines()[-1]
    assert "ConfigurationError" in ran.stderr


def test_the_database_of_another_program_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(ConfigurationError, match="another program"):
        Ledger(path, T0)
    assert path.read_bytes()[100:] == content[100:]
    assert damaged_files(path) == []


def test_the_ledger_of_a_newer_version_is_left_alone(path: Path) -> None:
    let_die(open_ledger(path, T0))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigurationError, match="newer rackwatt"):
        Ledger(path, T0)
    assert damaged_files(path) == []


def test_a_place_that_cannot_be_a_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match="must be a file that can be read and written"):
        Ledger(tmp_path / "folder", T0)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="state_dir must be a folder"):
        Ledger(tmp_path / "file" / "ledger.sqlite", T0)


def test_a_refused_ledger_is_not_held(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ConfigurationError):
        Ledger(path, T0)
    path.rmdir()
    open_ledger(path, T0)
