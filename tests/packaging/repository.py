"""Where the repository is, which files belong to it, and what its locks pin."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "deploy").glob("requirements*.txt"))
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Folders that the commands of the Makefile make (.gitignore), for a tree that comes without git.
_MADE = {".git", ".venv", "build", "dist", "__pycache__"}


class Pin(NamedTuple):
    """One entry of a lock: the requirement, and the hashes that its file may have."""

    requirement: Requirement
    hashes: tuple[str, ...]


def repository_files() -> list[Path]:
    """Return the files that belong to the repository, relative to its root."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        paths = [Path(name) for name in listing.decode().split("\0") if name]
    else:
        everything = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        paths = [path for path in everything if not any(map(_is_made, path.parts))]
    return sorted(path for path in paths if (ROOT / path).is_file())


def read_lock(lock: Path) -> dict[str, Pin]:
    """Return a lock's pins by project name, in the form of PEP 503."""
    text = re.sub(r"^\s*#.*$", "", lock.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    pins = [_read_pin(line) for line in text.splitlines() if line.strip()]
    return {normalized(pin.requirement.name): pin for pin in pins}


def normalized(name: str) -> str:
    """Return a project name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_pin(line: str) -> Pin:
    requirement, *hashes = re.split(r"\s+--hash=", line.strip())
    return Pin(Requirement(requirement), tuple(hashes))


def _is_made(name: str) -> bool:
    return name in _MADE or name.endswith("_cache") or name == ".hypothesis"
