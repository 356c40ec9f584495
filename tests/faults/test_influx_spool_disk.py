"""Disks that are full, or that fail: what the spool keeps, and what it says."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporters.influxdb.inspection import read_quarantine
from exporters.influxdb.spool import MINIMUM_BYTES
from exporters.influxdb.spool_types import Loss
from tests.spools import Opener, drain, fill, let_die, record_ends, segments


@pytest.fixture
def open_spool() -> Iterator[Opener]:
    with Opener() as opener:
        yield opener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@contextmanager
def failing(name: str, code: int, monkeypatch: pytest.MonkeyPatch, after: int = 0) -> Iterator[None]:
    """Let a function of `os` fail, after it has worked some times."""
    real = getattr(os, name)
    left = after

    def fail(*arguments: object) -> object:
        nonlocal left
        left -= 1
        if left >= 0:
            return real(*arguments)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(f"exporters.influxdb.segments.os.{name}", fail)
        yield


def test_a_disk_without_any_room_keeps_the_newest_in_memory(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    with failing("write", errno.ENOSPC, monkeypatch):
        fill(spool, range(10, 20))
    status = spool.status()
    assert status.dropped_for_disk == Loss(10, 20)
    assert (status.records, status.unsynced_records, status.durable) == (10, 10, False)
    assert "No space left" in status.error
    spool.sync()
    assert (spool.status().error, spool.status().durable) == ("", True)
    assert drain(spool) == [*range(10, 20)]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EFBIG])
def test_a_disk_that_fails_costs_no_record(
    code: int, folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    with failing("write", code, monkeypatch):
        fill(spool, range(10, 20))
    assert spool.status().dropped_for_disk == Loss()
    assert os.strerror(code) in spool.status().error
    fill(spool, range(20, 30))
    assert drain(spool) == [*range(30)]
    assert spool.status().damaged == Loss()


def test_a_failing_sync_is_said_and_the_next_goes_to_a_new_file(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    with failing("fdatasync", errno.EIO, monkeypatch):
        for number in range(10, 13):
            fill(spool, range(number, number + 1))
            assert not spool.status().durable
    assert spool.status().write_failures == 3
    assert len([said for said in caplog.records if "cannot be used now" in said.message]) == 1
    fill(spool, range(13, 15))
    assert spool.status().durable
    assert len(segments(folder)) == 4
    assert drain(spool) == [*range(15)]


def test_a_half_written_record_is_cut_off(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) > 50:
            return real(descriptor, data[:50])
        raise OSError(errno.EIO, "failed")

    with monkeypatch.context() as patch:
        patch.setattr("exporters.influxdb.segments.os.write", half)
        fill(spool, range(10, 12))
    (path,) = segments(folder)
    assert len(record_ends(path.read_bytes())) == 10
    spool.sync()
    assert drain(spool) == [*range(12)]


def test_a_cursor_that_cannot_be_kept_costs_a_second_sending(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr("exporters.influxdb.journal.save_cursor", full)
        assert drain(spool) == [*range(10)]
        assert spool.read(10**9) is None
        let_die(spool)
    assert drain(open_spool(folder)) == [*range(10)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk takes the right to mount one: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full_keeps_the_newest(small_disk: Path, open_spool: Opener) -> None:
    """Another program fills the disk, and then makes room again (facts on reliability, §5, row 6)."""
    spool = open_spool(small_disk / "spool")
    for start in range(0, 600, 10):
        fill(spool, range(start, start + 10), padding=1000)
    assert spool.status().dropped_for_disk == Loss()
    log = small_disk / "log"
    log.write_bytes(bytes(shutil.disk_usage(small_disk).free))
    for start in range(600, 3000, 10):
        fill(spool, range(start, start + 10), padding=1000)
    spool.quarantine([b"x" * 8192], "there may be no room for this")
    status = spool.status()
    dropped = status.dropped_for_disk.records
    assert dropped > 0
    assert status.dropped_for_disk.points == 2 * dropped
    assert (status.durable, status.unsynced_records) == (True, 0)
    log.unlink()
    fill(spool, range(3000, 3010), padding=1000)
    assert drain(spool) == [*range(dropped, 3010)]
    spool.quarantine([b"y"], "400")
    assert read_quarantine(small_disk / "spool").endswith("400\ny\n")
    assert spool.status().damaged == Loss()
    let_die(spool)


def test_every_file_that_was_written_is_synced(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many records at once go to several files: power may fail right after, whichever they are in."""
    synced: dict[int, int] = {}
    real = os.fdatasync

    def note(descriptor: int) -> None:
        real(descriptor)
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size

    monkeypatch.setattr("exporters.influxdb.segments.os.fdatasync", note)
    spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
    fill(spool, range(300), padding=1000)
    assert spool.status().durable
    written = {path.stat().st_ino: path.stat().st_size for path in segments(folder)}
    assert len(written) > 2
    assert synced == written


def test_a_disk_that_stays_full_costs_a_segment_a_second_at_most(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is removed may be free later only, or be taken by somebody else: new records can wait."""
    spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
    for start in range(0, 600, 10):
        fill(spool, range(start, start + 10), padding=1000)
    before = len(segments(folder))
    assert before > 4
    with failing("write", errno.ENOSPC, monkeypatch):
        for number in range(600, 603):
            fill(spool, range(number, number + 1))
        assert len(segments(folder)) == before - 3
    spool.sync()
    status = spool.status()
    assert (status.durable, status.unsynced_records) == (True, 0)
    kept = drain(spool)
    assert kept == [*range(status.dropped_for_disk.records, 603)]


def test_a_file_that_a_failed_record_left_is_no_obstacle(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a record in a new file, which can neither be cut off nor removed while the disk fails."""
    spool = open_spool(folder)
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) > 50:
            return real(descriptor, data[:50])
        raise OSError(errno.EIO, "failed")

    with monkeypatch.context() as patch:
        patch.setattr("exporters.influxdb.segments.os.write", half)
        with failing("ftruncate", errno.EIO, monkeypatch):
            fill(spool, range(2))
    assert len(segments(folder)) == 1
    spool.sync()
    assert (spool.status().error, spool.status().durable) == ("", True)
    assert drain(spool) == [0, 1]
    assert spool.status().damaged == Loss()


def test_an_empty_file_that_could_not_be_removed_is_no_obstacle(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)

    def stays(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stays)
        with failing("write", errno.EROFS, monkeypatch):
            fill(spool, range(2))
    assert [path.stat().st_size for path in segments(folder)] == [0]
    spool.sync()
    assert (spool.status().error, spool.status().durable) == ("", True)
    assert drain(spool) == [0, 1]


def test_what_waits_in_memory_at_the_end_is_said_to_be_lost(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = open_spool(folder)
    with failing("write", errno.EIO, monkeypatch):
        fill(spool, range(3))
        spool.close()
    assert "3 records (6 points) that waited in memory are lost" in caplog.text
