"""The locks: every file pinned and hashed, in step with pyproject.toml and with one another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.repository import LOCKS, PYPROJECT, ROOT, normalized, read_lock

RUNTIME, BUILD, DEV, BENCH = (
    ROOT / "deploy" / f"requirements{suffix}.txt" for suffix in ("", "-build", "-dev", "-bench")
)


def group(name: str) -> list[Requirement]:
    return [Requirement(entry) for entry in PYPROJECT["dependency-groups"][name] if isinstance(entry, str)]


def test_all_locks_are_looked_at() -> None:
    assert sorted([RUNTIME, BUILD, DEV, BENCH]) == LOCKS


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_requirement_is_pinned_to_one_version_and_hashed(lock: Path) -> None:
    pins = read_lock(lock)
    assert pins
    for name, pin in pins.items():
        assert re.fullmatch(r"==[0-9][0-9A-Za-z.+!]*", str(pin.requirement.specifier)), name
        assert pin.hashes, f"{name} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in pin.hashes), name


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_lock_names_a_host_a_path_or_an_option_of_the_installer(lock: Path) -> None:
    assert not re.findall(r".*(?:://|@ |^-|\s/\w).*", lock.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        (RUNTIME, [Requirement(entry) for entry in PYPROJECT["project"]["dependencies"]]),
        (BUILD, group("build")),
        (BUILD, [Requirement(entry) for entry in PYPROJECT["build-system"]["requires"]]),
        (DEV, [Requirement(entry) for entry in PYPROJECT["project"]["dependencies"]]),
        (DEV, group("build") + group("test") + group("lint") + group("dev")),
        (BENCH, group("bench")),
    ],
)
def test_a_lock_pins_what_pyproject_asks_for(lock: Path, wanted: list[Requirement]) -> None:
    pins = read_lock(lock)
    for requirement in wanted:
        pin = pins.get(normalized(requirement.name))
        assert pin, f"{lock.name} lacks {requirement}: run `make lock`"
        (version,) = (specifier.version for specifier in pin.requirement.specifier)
        assert requirement.specifier.contains(version), f"{requirement}, but {lock.name} has {version}"


def test_locks_that_share_an_environment_agree() -> None:
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, pin in read_lock(lock).items():
            versions.setdefault(name, set()).add(str(pin.requirement.specifier))
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}
