"""The start-up guard: another owner of a root package is found, named, and ends the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.errors import InstallationError
from collector.startup import ROOT_PACKAGES, check_package_ownership, owned_root_packages
from tests.packaging.repository import ROOT


def plant(folder: Path, name: str, file_list: str, *, listed_in: str = "RECORD") -> Distribution:
    """Write the metadata of an installed distribution, as pip (dist-info) or setuptools (egg-info) would."""
    kind, metadata = ("dist-info", "METADATA") if listed_in == "RECORD" else ("egg-info", "PKG-INFO")
    info = folder / f"{name}-2.1.{kind}"
    info.mkdir(parents=True)
    (info / metadata).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
    (info / listed_in).write_text(file_list)
    return Distribution.at(info)


@pytest.mark.parametrize(
    ("listed_in", "file_list", "owned"),
    [
        ("RECORD", "collector/__init__.py,sha256=x,12\ncollector/cli.py,sha256=x,3\n", ("collector",)),
        ("RECORD", "garden/a.py,,\nexporters/b.py,,\ncollector/c.py,,\n", ("collector", "exporters")),
        ("RECORD", "dashboards.py,sha256=x,12\n", ("dashboards",)),
        ("RECORD", "exporters.cpython-311-x86_64-linux-gnu.so,sha256=x,12\r\n", ("exporters",)),
        ("RECORD", '"collector/a,b.py",,\n', ("collector",)),
        ("top_level.txt", "garden\ncollector\n", ("collector",)),
        ("RECORD", "collectors/a.py,,\nmy_collector/b.py,,\n", ()),
        ("RECORD", "collector-1.0.dist-info/METADATA,,\ngarden/collector/c.py,,\n", ()),
        ("RECORD", "../../../bin/collector,,\n__editable__.rackwatt.pth,,\n", ()),
        ("top_level.txt", "collectors\ncollector_tools\n", ()),
        ("RECORD", "", ()),
    ],
)
def test_owned_root_packages(tmp_path: Path, listed_in: str, file_list: str, owned: tuple[str, ...]) -> None:
    assert owned_root_packages(plant(tmp_path, "garden", file_list, listed_in=listed_in)) == owned


class Listed(Distribution):
    """A distribution whose RECORD is any text."""

    def __init__(self, record: str) -> None:
        self.record = record

    def read_text(self, filename: str) -> str | None:
        return self.record if filename == "RECORD" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(path)


@given(st.lists(st.text(st.characters(exclude_characters=",/\r\n"), min_size=1), min_size=1), st.data())
def test_a_file_is_owned_by_its_first_folder_alone(folders: list[str], data: st.DataObject) -> None:
    below = data.draw(st.sampled_from(ROOT_PACKAGES))
    record = "".join(f"_{folder}/{below}/x.py,sha256=x,1\n" for folder in folders)
    assert owned_root_packages(Listed(record)) == ()
    assert owned_root_packages(Listed(f"{record}{below}/x.py,sha256=x,1\n")) == (below,)


def test_no_other_owner_is_no_error(tmp_path: Path) -> None:
    own = plant(tmp_path, "Rackwatt", "collector/cli.py,,\nexporters/a.py,,\n")
    other = plant(tmp_path, "garden", "garden/a.py,,\n")
    check_package_ownership([own, other])


def test_the_message_names_the_owner_the_place_the_packages_and_the_way_out(tmp_path: Path) -> None:
    other = plant(tmp_path, "garden-tools", "exporters/a.py,,\ncollector/b.py,,\n")
    with pytest.raises(InstallationError) as caught:
        check_package_ownership([other])
    assert str(caught.value) == (
        f"the distribution garden-tools 2.1 in {tmp_path} also installs the Python packages"
        " collector, exporters, which rackwatt needs for itself: files of one overwrite those of the other."
        " Install rackwatt into a virtual environment of its own:"
        " python3 -m venv rackwatt-venv && rackwatt-venv/bin/pip install rackwatt"
    )


@pytest.mark.parametrize("command", ["agent", "demo"])
def test_the_command_ends_with_status_2_and_one_line(tmp_path: Path, command: str) -> None:
    plant(tmp_path, "garden", "collector/b.py,,\n")
    program = "import sys; from collector.cli import main; sys.exit(main())"
    started = subprocess.run(
        [sys.executable, "-c", program, command, "--listen", "127.0.0.1:0"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert started.returncode == 2, started.stderr
    assert re.fullmatch(r".*the distribution garden 2\.1 in \S+ also installs .*\n", started.stderr)
    assert started.stdout == ""
