"""The folder of a spool: whose it may be, and that nobody leads its files elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.errors import ConfigurationError
from exporters.influxdb.inspection import read_status
from tests.spools import T0, Opener, drain, fill, segments


@pytest.fixture
def open_spool() -> Iterator[Opener]:
    with Opener() as opener:
        yield opener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def test_a_folder_that_everybody_can_write_is_refused(folder: Path, open_spool: Opener) -> None:
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(ConfigurationError, match="every user of this machine can write it; chmod 0700 it"):
        open_spool(folder)
    folder.chmod(0o770)
    open_spool(folder)


def test_root_does_not_write_the_spool_of_another_user(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would be root's, and the agent of that user could not start any more."""
    folder.mkdir()
    owner = folder.stat().st_uid
    monkeypatch.setattr("exporters.influxdb.spool_folder.os.geteuid", lambda: 0)
    real = Path.stat

    def of_another(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        status = real(path, follow_symlinks=follow_symlinks)
        return os.stat_result((*status[:4], 4711, *status[5:])) if path == folder else status

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", of_another)
        with pytest.raises(ConfigurationError, match="it belongs to user 4711; run this as that user"):
            open_spool(folder)
    assert not list(folder.iterdir())
    assert folder.stat().st_uid == owner


def test_a_cursor_is_not_written_elsewhere(folder: Path, open_spool: Opener, tmp_path: Path) -> None:
    spool = open_spool(folder)
    fill(spool, range(3))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "cursor.new").symlink_to(victim)
    assert drain(spool) == [0, 1, 2]
    spool.close()
    assert victim.read_text() == "precious"
    assert not (folder / "cursor").is_symlink()
    assert open_spool(folder).read(10**9) is None


def test_a_segment_that_goes_while_it_is_looked_at(
    folder: Path, open_spool: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent removes what it has sent while `rackwatt spool status` lists it."""
    spool = open_spool(folder)
    fill(spool, range(3))
    gone = folder / f"{0:020}.segment"
    gone.touch()
    real = os.scandir

    class Scan:
        """Lists the folder, then lets a file vanish."""

        def __init__(self, directory: Path) -> None:
            with real(directory) as entries:
                self._entries = list(entries)
            gone.unlink()

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self._entries)

        def __exit__(self, *_: object) -> None:
            pass

    with monkeypatch.context() as patch:
        patch.setattr("exporters.influxdb.segments.os.scandir", Scan)
        assert read_status(folder, T0).records == 3
    assert len(segments(folder)) == 1
