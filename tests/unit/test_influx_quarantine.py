"""Lines that are set aside, and a spool looked at from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.errors import ConfigurationError
from exporters.influxdb.inspection import (
    clear_quarantine,
    part_with_quarantine,
    read_quarantine,
    read_status,
)
from exporters.influxdb.quarantine import MAXIMUM_BYTES as QUARANTINE_BYTES
from tests.spools import SECOND, T0, Opener, fill


@pytest.fixture
def open_spool() -> Iterator[Opener]:
    with Opener() as opener:
        yield opener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "spool"


def test_what_is_set_aside_can_be_read(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    spool.quarantine([b"bad line 1\n", b"bad,line 2"], "400: unable to parse\n\x1b[31m 'bad'")
    spool.quarantine([b"\xff"], "422")
    assert read_quarantine(folder) == (
        "# 2025-11-30T12:20:00Z 400: unable to parse [31m 'bad'\nbad line 1\nbad,line 2\n"
        "# 2025-11-30T12:20:00Z 422\n�\n"
    )
    assert spool.status().quarantined_lines == 3
    assert read_status(folder, T0).quarantined_lines == 3
    assert part_with_quarantine(folder) == read_quarantine(folder)
    clear_quarantine(folder)
    assert read_quarantine(folder) == ""


def test_what_is_set_aside_while_others_are_removed_is_kept(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    spool.quarantine([b"first"], "400")
    assert "first" in part_with_quarantine(folder)
    spool.quarantine([b"second"], "400")
    assert read_status(folder, T0).quarantined_lines == 2
    # A removal that did not come about is made up for, without the newer lines.
    assert "second" not in part_with_quarantine(folder)
    clear_quarantine(folder)
    assert read_quarantine(folder).splitlines()[1:] == ["second"]
    assert "second" in part_with_quarantine(folder)
    clear_quarantine(folder)
    assert read_quarantine(folder) == ""


def test_what_is_set_aside_is_bounded_and_the_newest_is_kept(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    for number in range(5000):
        spool.quarantine([b"x" * 1000 + b" %d" % number], "400")
    files = [path.stat().st_size for path in folder.glob("*.lines")]
    assert len(files) == 2
    assert max(files) <= QUARANTINE_BYTES
    lines = read_quarantine(folder).splitlines()[1::2]
    assert [int(line.split(" ")[1]) for line in lines] == [*range(5000 - len(lines), 5000)]
    assert len(lines) > 1000
    assert spool.status().quarantined_lines == 5000


def test_a_whole_batch_that_is_set_aside_is_bounded_too(folder: Path, open_spool: Opener) -> None:
    """A batch may have 16 MiB: what a server fails with is set aside as it is."""
    spool = open_spool(folder)
    spool.quarantine([b"x" * 1000 + b" %d" % number for number in range(5000)], "server_error: 500")
    files = [path.stat().st_size for path in folder.glob("*.lines")]
    assert len(files) == 2
    assert max(files) <= QUARANTINE_BYTES
    text = read_quarantine(folder)
    assert text.startswith("# 2025-11-30T12:20:00Z server_error: 500\n")
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    assert [int(line.split(" ")[1]) for line in lines] == [*range(5000 - len(lines), 5000)]
    assert len(lines) > 1000


def test_what_is_set_aside_is_on_the_disk_before_it_is_forgotten(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender acknowledges it next, and then no other copy is left."""
    synced: list[int] = []
    monkeypatch.setattr("exporters.influxdb.quarantine.os.fsync", synced.append)
    spool = open_spool(folder)
    spool.quarantine([b"bad"], "400")
    assert len(synced) == 1


def test_a_spool_can_be_looked_at_while_it_is_written(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    batch = spool.read(1)
    assert batch is not None
    spool.acknowledge(batch.position)
    status = read_status(folder, T0 + 100 * SECOND)
    assert (status.records, status.points, status.oldest_age_seconds) == (9, 18, 99.0)
    assert status.bytes == spool.status().bytes


def test_looking_at_no_spool_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="must be the folder of a spool"):
        read_status(tmp_path / "nothing", T0)
