"""The import contracts catch what they are for: each planted import breaks the contract named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.repository import PYPROJECT, ROOT

PACKAGES = ("collector", "exporters", "dashboards")
LINT = (Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo")

LAYERS = "Imports go down the layers of the house"
PYNVML = "pynvml is imported in collector.sources.nvml and collector.simulator only"
SIMULATOR = "The simulator knows neither the catalogue, nor the sources, nor the model"
READER = "The reader process stays slim"
GRAFANALIB = "grafanalib is imported in dashboards.panels only"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def broken_contracts(tree: Path) -> set[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    linted = subprocess.run(
        LINT, cwd=tree, env={**environment, "COLUMNS": "200"}, capture_output=True, text=True, timeout=60
    )
    broken = set(re.findall(r"^(.+) BROKEN\b.*$", linted.stdout, flags=re.MULTILINE))
    assert linted.returncode == (1 if broken else 0), linted.stdout + linted.stderr
    return broken


def test_the_tree_keeps_every_contract(tree: Path) -> None:
    assert broken_contracts(tree) == set()


@pytest.mark.parametrize(
    ("planted_in", "statement", "contract"),
    [
        ("exporters/planted.py", "import pynvml", PYNVML),
        ("collector/sources/planted.py", "from pynvml import nvmlInit_v2", PYNVML),
        ("collector/simulator/planted.py", "import collector.catalog", SIMULATOR),
        ("collector/simulator/planted.py", "from collector.model import Snapshot", SIMULATOR),
        ("collector/sources/nvml/planted.py", "import aiohttp", READER),
        ("dashboards/planted.py", "import grafanalib.core", GRAFANALIB),
        ("collector/agent/planted.py", "import exporters", LAYERS),
        ("collector/catalog/planted.py", "import collector.model", LAYERS),
        ("collector/sources/planted.py", "import collector.simulator", LAYERS),
        ("exporters/planted.py", "import dashboards", LAYERS),
    ],
)
def test_a_planted_import_breaks(tree: Path, planted_in: str, statement: str, contract: str) -> None:
    planted = tree / planted_in
    if not planted.parent.is_dir():  # A module rather than a package: plant at its end.
        planted = planted.parent.with_suffix(".py")
    before = planted.read_text() if planted.exists() else None
    planted.write_text(f"{before or ''}\n{statement}\n")
    try:
        assert contract in broken_contracts(tree)
    finally:
        planted.unlink() if before is None else planted.write_text(before)


def test_every_module_of_the_collector_stands_in_a_layer() -> None:
    (layers,) = (
        contract["layers"]
        for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    named = {name.strip(" ()") for layer in layers for name in layer.replace(":", "|").split("|")}
    modules = {
        f"collector.{path.stem}"
        for path in (ROOT / "collector").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").is_file()) and path.stem != "__init__"
    }
    assert modules - named == set()
