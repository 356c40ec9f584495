"""The wheel, built and installed without a network: what it brings, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import venv
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.packaging.repository import PYPROJECT, ROOT, repository_files

PACKAGES = {"collector", "dashboards", "exporters"}
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT],
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    subprocess.run(
        [*PIP, "--python", folder / "bin" / "python", "install", "--no-index", "--no-deps", wheel], check=True
    )
    return folder


def test_exactly_three_packages_are_installed(environment: Path) -> None:
    (site_packages,) = environment.glob("lib/python*/site-packages")
    installed = {path.name for path in site_packages.iterdir()}
    assert installed == PACKAGES | {f"rackwatt-{PYPROJECT['project']['version']}.dist-info"}


def test_the_command_is_installed(environment: Path) -> None:
    assert (environment / "bin" / "rackwatt").is_file()


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == {path.as_posix() for path in repository_files() if path.parts[0] in PACKAGES}


def test_the_metadata_names_the_licence_and_the_runtime_dependencies_only(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Name"] == "rackwatt"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert len(metadata.get_all("Requires-Dist", [])) == len(PYPROJECT["project"]["dependencies"])
    assert "Provides-Extra" not in metadata


def test_the_guard_accepts_its_own_distribution(environment: Path) -> None:
    command = "from collector.startup import check_package_ownership; check_package_ownership()"
    subprocess.run([environment / "bin" / "python", "-I", "-c", command], check=True, timeout=60)
