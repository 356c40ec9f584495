"""Disks that give nothing back: a page that is lost costs its records, a disk that fails costs none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporters.influxdb.spool_types import Loss
from tests.spools import Opener, drain, fill, record_ends, segments

PAGE_BYTES = 4096


@pytest.fixture
def open_spool() -> Iterator[Opener]:
    with Opener() as opener:
        yield opener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@contextmanager
def lost(
    monkeypatch: pytest.MonkeyPatch, is_lost: Callable[[int, int], bool], code: int = errno.EIO
) -> Iterator[None]:
    """Let reads fail that touch what is lost; told by first and last byte."""
    real = os.pread

    def read(descriptor: int, length: int, offset: int) -> bytes:
        if length and is_lost(offset, offset + length - 1):
            raise OSError(code, os.strerror(code))
        return real(descriptor, length, offset)

    with monkeypatch.context() as patch:
        patch.setattr("exporters.influxdb.segments.os.pread", read)
        yield


def test_a_page_that_the_disk_has_lost_costs_the_records_in_it(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(40), padding=2000)
    (path,) = segments(folder)
    ends = record_ends(path.read_bytes())
    begin, end = 3 * PAGE_BYTES, 4 * PAGE_BYTES
    hit = [
        number
        for number, (first, last) in enumerate(zip([0, *ends], ends, strict=False))
        if first < end and last > begin
    ]
    assert 0 < len(hit) < 10
    with lost(monkeypatch, lambda first, last: first < end and last >= begin):
        assert drain(spool) == [number for number in range(40) if number not in hit]
    assert spool.status().damaged == Loss(len(hit), 2 * len(hit))


def test_a_spool_with_a_lost_page_opens(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(40), padding=2000)
    spool.close()
    with lost(monkeypatch, lambda first, last: first < PAGE_BYTES):
        again = open_spool(folder)
        fill(again, range(40, 42))
        found = drain(again)
    assert found == [*range(found[0], 42)]
    assert 0 < found[0] < 10
    assert again.status().damaged == Loss(found[0], 2 * found[0])


def test_a_disk_that_neither_reads_nor_writes_costs_nothing(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that shuts itself down gives EIO for everything, and may be back later."""
    spool = open_spool(folder)
    fill(spool, range(20))

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch, lost(monkeypatch, lambda first, last: True):
        patch.setattr("exporters.influxdb.segments.os.write", broken)
        fill(spool, range(20, 22))
        assert not spool.status().durable
        assert spool.read(10**9) is None
        assert spool.status().records == 22
    spool.sync()
    assert drain(spool) == [*range(22)]
    assert spool.status().damaged == Loss()


def test_what_cannot_be_read_now_is_said_and_costs_nothing(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(5))
    with lost(monkeypatch, lambda first, last: True, errno.ESTALE), pytest.raises(OSError, match="tale"):
        spool.read(10**9)
    assert drain(spool) == [*range(5)]


def test_a_cursor_that_the_disk_has_lost_costs_a_second_sending(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    assert len(drain(spool)) == 10
    spool.close()
    real = Path.open

    def unreadable(path: Path, mode: str = "r") -> object:
        if path.name == "cursor":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", unreadable)
        again = open_spool(folder)
    assert drain(again) == [*range(10)]
