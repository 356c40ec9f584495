"""The README's metric table is the catalogue's."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli import main

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_lists_the_metrics_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["metrics", "--check", str(README)])
    assert status == 0, capsys.readouterr().out
