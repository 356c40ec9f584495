"""The spool: what goes in comes out; what is too much or too old is dropped, and counted."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.errors import ConfigurationError
from exporters.influxdb import spool as spool_module
from exporters.influxdb.records import MAXIMUM_PAYLOAD_BYTES
from exporters.influxdb.spool import MINIMUM_BYTES, Spool
from exporters.influxdb.spool_types import Loss
from tests.spools import DAY, SECOND, T0, Clocks, Opener, drain, fill, numbers_of, payload, segments

ROOT = Path(__file__).resolve().parents[2]
NONE = Loss()


@pytest.fixture
def open_spool() -> Iterator[Opener]:
    with Opener() as opener:
        yield opener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "spool"


def test_what_goes_in_comes_out_byte_for_byte(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    bodies = [b"", b"\n", b"a b=1.0 1\n" * 1000, bytes(range(256)) * 10, "é\n".encode()]
    for number, body in enumerate(bodies):
        spool.append(body, points=number, time_ns=T0 + number)
    spool.sync()
    batch = spool.read(10**9)
    assert batch is not None
    assert batch.payload == b"".join(bodies)
    assert (batch.records, batch.points, batch.oldest_ns) == (5, 10, T0)


def test_a_batch_is_as_large_as_asked_for_and_one_record_at_least(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(1, 101))
    size = len(payload(10))
    for maximum, numbers in ((1, [1]), (3 * size, [1, 2, 3]), (10**9, [*range(1, 101)])):
        batch = spool.read(maximum)
        assert batch is not None
        assert numbers_of(batch.payload) == numbers
    assert drain(spool, 10 * size) == [*range(1, 101)]
    assert spool.read(10**9) is None


def test_reading_does_not_advance(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(1, 11))
    first, again = spool.read(200), spool.read(200)
    assert first == again
    assert first is not None
    spool.acknowledge(first.position)
    following = spool.read(10**9)
    assert following is not None
    assert numbers_of(following.payload)[0] == numbers_of(first.payload)[-1] + 1
    # What was acknowledged later stays so when an earlier place is acknowledged again.
    spool.acknowledge(following.position)
    spool.acknowledge(first.position)
    assert spool.read(10**9) is None


def test_what_was_not_synced_is_not_read_and_counts_all_the_same(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    spool.append(payload(1), points=2, time_ns=T0)
    assert spool.read(10**9) is None
    status = spool.status()
    assert (status.records, status.points, status.unsynced_records, status.durable) == (1, 2, 1, False)
    spool.sync()
    status = spool.status()
    assert (status.records, status.points, status.unsynced_records, status.durable) == (1, 2, 0, True)
    assert status.bytes == sum(path.stat().st_size for path in segments(folder))


def test_an_account_of_what_waits(folder: Path, open_spool: Opener) -> None:
    clocks = Clocks()
    spool = open_spool(folder, clocks)
    assert spool.status().oldest_age_seconds is None
    fill(spool, range(1, 11))
    clocks.advance(60)
    batch = spool.read(1)
    assert batch is not None
    status = spool.status()
    assert (status.records, status.points, status.oldest_age_seconds) == (10, 20, 59.0)
    spool.acknowledge(batch.position)
    status = spool.status()
    assert (status.records, status.points, status.oldest_age_seconds) == (9, 18, 58.0)
    drain(spool)
    status = spool.status()
    assert (status.records, status.points, status.oldest_age_seconds) == (0, 0, None)
    assert (status.dropped_for_size, status.dropped_for_age, status.dropped_for_disk) == (NONE, NONE, NONE)
    assert status.damaged == NONE


def test_a_restart_goes_on_where_it_was(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(1, 11))
    batch = spool.read(3 * len(payload(1)))
    assert batch is not None
    spool.acknowledge(batch.position)
    spool.append(payload(11), points=2, time_ns=T0)
    spool.close()
    again = open_spool(folder)
    assert again.status().records == 8
    fill(again, range(12, 14))
    assert drain(again) == [*range(4, 14)]
    assert len(segments(folder)) == 1  # It goes on in the same file.
    again.close()
    assert open_spool(folder).read(10**9) is None


def test_without_a_cursor_everything_is_sent_again(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(1, 11))
    assert len(drain(spool)) == 10
    fill(spool, range(11, 13))
    spool.close()
    (folder / "cursor").unlink()
    again = open_spool(folder)
    assert again.status().records == 12
    assert drain(again) == [*range(1, 13)]
    assert again.status().damaged == NONE


def test_segments_that_were_sent_are_removed(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
    for start in range(0, 300, 20):
        fill(spool, range(start, start + 20), padding=1000)
    before = segments(folder)
    assert len(before) > 2
    while (batch := spool.read(10_000)) is not None:
        spool.acknowledge(batch.position)
    assert segments(folder) == before[-1:]


def test_a_full_spool_drops_its_oldest_and_counts_them(
    folder: Path, open_spool: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
    for start in range(0, 2000, 20):
        fill(spool, range(start, start + 20), padding=2000)
        assert spool.status().bytes <= MINIMUM_BYTES
    status = spool.status()
    assert sum(path.stat().st_size for path in segments(folder)) == status.bytes
    assert status.bytes > 0.9 * MINIMUM_BYTES  # One segment of 16 is dropped at a time.
    kept = drain(spool)
    assert kept == [*range(kept[0], 2000)]
    assert status.dropped_for_size == Loss(kept[0], 2 * kept[0])
    assert status.records == len(kept)
    assert status.damaged == spool.status().damaged == NONE
    assert [record.message for record in caplog.records if "it is full" in record.message][1:] == []


def test_what_is_dropped_while_it_is_sent_is_not_sent_again(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
    fill(spool, range(20), padding=2000)
    batch = spool.read(10**9)
    assert batch is not None
    for start in range(20, 2000, 20):
        fill(spool, range(start, start + 20), padding=2000)
    before = spool.status().records
    spool.acknowledge(batch.position)
    assert spool.status().records == before
    kept = drain(spool)
    assert kept == [*range(kept[0], 2000)]


def test_a_record_that_is_too_large_is_dropped(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
    spool.append(os.urandom(2 * MINIMUM_BYTES), points=7, time_ns=T0)
    fill(spool, range(1, 3))
    assert spool.status().dropped_for_size == Loss(1, 7)
    assert drain(spool) == [1, 2]


def test_memory_is_bounded_while_nothing_reaches_the_disk(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    size = 64 * 1024
    for number in range(200):
        spool.append(bytes(size), points=2, time_ns=T0 + number)
    kept = spool_module.WAITING_BYTES // size
    status = spool.status()
    assert (status.records, status.points) == (kept, 2 * kept)
    assert status.dropped_for_size == Loss(200 - kept, 2 * (200 - kept))
    spool.append(bytes(MAXIMUM_PAYLOAD_BYTES), points=2, time_ns=T0)  # More than may wait at all.
    assert spool.status().records == kept
    assert spool.status().dropped_for_size == Loss(201 - kept, 2 * (201 - kept))


# --- age ------------------------------------------------------------------------------------------------


def test_what_is_too_old_is_dropped_and_counted(folder: Path, open_spool: Opener) -> None:
    clocks = Clocks()
    spool = open_spool(folder, clocks, maximum_bytes=MINIMUM_BYTES, maximum_age_seconds=3600)
    for start in range(0, 1200, 20):
        fill(spool, range(start, start + 20), padding=500)
    assert len(segments(folder)) > 5
    clocks.advance(3600 + 1000)
    spool.sync()
    assert spool.status().dropped_for_age == Loss(1000, 2000)
    assert spool.status().oldest_age_seconds == 3600
    assert drain(spool) == [*range(1000, 1200)]


def test_a_clock_is_not_believed_at_once(folder: Path, open_spool: Opener) -> None:
    clocks = Clocks()
    spool = open_spool(folder, clocks, maximum_age_seconds=3600)
    fill(spool, range(10), time_ns=T0 - DAY)
    clocks.advance(599)
    spool.sync()
    assert spool.status().dropped_for_age == NONE
    clocks.advance(2)
    spool.sync()
    assert spool.status().dropped_for_age == Loss(10, 20)


@pytest.mark.parametrize("step_seconds", [30 * 86_400, 3600 * 24 * 365])
def test_a_clock_that_leaps_and_comes_back_costs_nothing(
    folder: Path, open_spool: Opener, step_seconds: float
) -> None:
    clocks = Clocks()
    spool = open_spool(folder, clocks)
    fill(spool, range(10))
    clocks.advance(1000)
    spool.sync()
    clocks.step(step_seconds)
    for _ in range(500):
        clocks.advance(1)
        spool.sync()
    assert (spool.status().oldest_age_seconds or 0) > 7 * 86_400
    clocks.step(-step_seconds)
    clocks.advance(1000)
    spool.sync()
    assert spool.status().dropped_for_age == NONE
    assert drain(spool) == [*range(10)]


def test_records_from_the_future_have_no_age(folder: Path, open_spool: Opener) -> None:
    clocks = Clocks()
    spool = open_spool(folder, clocks)
    fill(spool, range(3), time_ns=T0 + 3600 * SECOND)
    assert spool.status().oldest_age_seconds == 0
    assert drain(spool) == [0, 1, 2]


# --- the folder -----------------------------------------------------------------------------------------


def test_everything_is_private(folder: Path, open_spool: Opener) -> None:
    old = os.umask(0)
    try:
        spool = open_spool(folder)
        fill(spool, range(3))
        drain(spool)
        spool.quarantine([b"a b=1"], "no")
    finally:
        os.umask(old)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert {path.suffix or path.name for path in folder.iterdir()} == {".segment", "cursor", "lock", ".lines"}


def test_files_of_others_are_left_alone(folder: Path, open_spool: Opener) -> None:
    folder.mkdir(parents=True)
    for name in ("notes.txt", "1.segment", "00000000000000000001.segment.bak"):
        (folder / name).write_text("mine")
    (folder / "00000000000000000007.segment").mkdir()
    spool = open_spool(folder)
    fill(spool, range(1, 9))
    assert drain(spool) == [*range(1, 9)]
    spool.close()
    assert (folder / "notes.txt").read_text() == (folder / "1.segment").read_text() == "mine"


def test_a_second_writer_is_refused(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    program = (
        "import sys; from pathlib import Path; from exporters.influxdb.spool import Spool; "
        "Spool.open(Path(sys.argv[1]), maximum_bytes=2**20, maximum_age_seconds=1)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"another agent (process {os.getpid()}) writes it" in ran.stderr.splitlines()[-1]
    spool.close()
    open_spool(folder).close()


@pytest.mark.parametrize(
    ("maximum_bytes", "maximum_age_seconds", "message"),
    [(MINIMUM_BYTES - 1, 1.0, "at least 1048576 are needed"), (MINIMUM_BYTES, 0.0, "keeps nothing")],
)
def test_bounds_that_hold_nothing_are_refused(
    folder: Path, maximum_bytes: int, maximum_age_seconds: float, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Spool.open(folder, maximum_bytes=maximum_bytes, maximum_age_seconds=maximum_age_seconds)
    assert not folder.exists()


def test_a_place_that_cannot_be_a_spool_is_refused(tmp_path: Path, open_spool: Opener) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "spool"):
        with pytest.raises(ConfigurationError, match="it must be a folder that can be written"):
            open_spool(path)


def test_neither_appending_nor_the_account_waits_for_the_disk(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    done = threading.Event()

    def ask() -> None:
        spool.append(payload(1), points=2, time_ns=T0)
        spool.status()
        done.set()

    with spool._disk:  # As while a disk hangs in fdatasync.
        thread = threading.Thread(target=ask)
        thread.start()
        assert done.wait(30)
    thread.join()
    spool.sync()
    assert drain(spool) == [1]


def test_many_threads_lose_nothing(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder, maximum_bytes=16 * MINIMUM_BYTES)
    stop = threading.Event()
    found: list[int] = []

    def sync() -> None:
        while not stop.is_set():
            spool.sync()

    def send() -> None:
        while not stop.is_set():
            found.extend(drain(spool, 1000))

    threads = [threading.Thread(target=work) for work in (sync, sync, send)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        spool.append(payload(number), points=2, time_ns=T0)
        spool.status()
    stop.set()
    for thread in threads:
        thread.join(60)
    spool.sync()
    found.extend(drain(spool))
    assert found == [*range(2000)]
