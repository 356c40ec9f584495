"""What the repository may hold: the agreed entries, and nothing of the machine it was written on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.repository import ROOT, repository_files

# DESIGN's house: whoever adds an entry at the top says here what for.
TOP_LEVEL = {
    ".ci",
    ".dockerignore",
    ".editorconfig",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "collector",
    "dashboards",
    "deploy",
    "docker-compose.yml",
    "docs",
    "exporters",
    "pyproject.toml",
    "tests",
}

# Written with a class of one letter, so that this file does not hold what it looks for.
FORBIDDEN = {
    "host of a package registry": re.compile(
        rb"p[y]pi\.org|python[h]osted\.org|registry\.npm[j]s|proxy\.golan[g]\.org|crates\.i[o]\b"
        rb"|repo[0-9]?\.mave[n]\.|de[b]\.debian\.org|/simpl[e]/"
    ),
    # /home/kubernetes is no person's: Google's container-optimized OS keeps the GPU driver there.
    "path of one machine": re.compile(
        rb"(?<![\w.])/(?:roo[t]|wor[k]|User[s]|home/(?!kubernetes/bin/nvidia)[a-z]+)/"
    ),
}


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_holds(kind: str) -> None:
    found = [
        f"{path}: {match.group().decode()}"
        for path in repository_files()
        for match in FORBIDDEN[kind].finditer((ROOT / path).read_bytes())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("host of a package registry", b"--index-url https://" + b"pypi" + b".org/x"),
        ("host of a package registry", b"https://mirror.example/" + b"simple/x"),
        ("path of one machine", b'open("/' + b'root/a")'),
        ("path of one machine", b"# built in /" + b"home/anna/src"),
    ],
)
def test_the_search_finds_what_it_is_for(kind: str, text: bytes) -> None:
    assert FORBIDDEN[kind].search(text)


def test_the_top_level_holds_the_agreed_entries_only() -> None:
    assert {path.parts[0] for path in repository_files()} - TOP_LEVEL == set()


def test_scripts_can_be_started() -> None:
    scripts = [path for path in repository_files() if (ROOT / path).read_bytes().startswith(b"#!")]
    assert Path(".ci/run") in scripts
    assert [path for path in scripts if not (ROOT / path).stat().st_mode & 0o100] == []
