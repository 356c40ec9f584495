"""docs/operations.md says what to do about reasons that the code gives, and about nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EFFICIENCY = ROOT / "collector" / "efficiency"

_JOINED = re.compile(r'"\s*\n\s*f?"')
"""Where a text of the code goes on in the next line."""


def reasons() -> list[str]:
    """Return the beginnings of the rows on blank figures."""
    document = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = document.partition("### When a figure is blank\n")[2].partition("\n### ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


CODE = "\n".join(
    _JOINED.sub("", path.read_text(encoding="utf-8")) for path in sorted(EFFICIENCY.glob("*.py"))
)


def test_there_are_reasons() -> None:
    assert len(reasons()) > 20


@pytest.mark.parametrize("reason", reasons())
def test_a_reason_that_is_explained_is_given(reason: str) -> None:
    assert reason in CODE
