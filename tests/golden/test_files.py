"""The generated files are up to date, and whatever is not is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import __main__ as command
from tests.golden import node_metrics
from tests.golden.files import FILES, GoldenFile, differing, left_over


def test_every_generated_file_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", node_metrics.NODES)
def test_a_node_tells_the_same_story_each_time(name: str) -> None:
    assert node_metrics.render(name) == node_metrics.render(name)


def golden_of(text: str) -> GoldenFile:
    return GoldenFile(lambda: text)


def test_a_difference_and_a_file_too_many_are_found_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"tests/golden/metrics/a.txt": "one\ntwo\n", "tests/golden/metrics/b.txt": "three\n"}
    folder = tmp_path / "tests/golden/metrics"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("one\n2\n")
    (folder / "c.txt").write_text("four\n")
    monkeypatch.setattr("tests.golden.files.FILES", {name: golden_of(text) for name, text in wanted.items()})
    monkeypatch.setattr(command, "REPOSITORY", tmp_path)
    monkeypatch.setattr(command, "differing", lambda: differing(tmp_path))
    monkeypatch.setattr(command, "left_over", lambda: left_over(tmp_path))

    assert command.main(["--check"]) == 1
    said = capsys.readouterr().out
    assert "tests/golden/metrics/a.txt: out of date; renew it: make golden" in said
    assert "-2\n+two" in said
    assert "tests/golden/metrics/b.txt: out of date" in said
    assert "tests/golden/metrics/c.txt: nothing generates it" in said
    assert (folder / "a.txt").read_text() == "one\n2\n"

    assert command.main([]) == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "a.txt": "one\ntwo\n",
        "b.txt": "three\n",
    }
    capsys.readouterr()
    assert command.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("# HELP a A.\na 0.3\nb 2\n", True),
        ("# HELP a A.\na 0.30000000000000004\nb 2\n", True),
        ("# HELP a A.\na 0.300001\nb 2\n", False),
        ("# HELP a B.\na 0.3\nb 2\n", False),
        ("# HELP a A.\na 0.3\nc 2\n", False),
        ("# HELP a A.\na 0.3\nb 2\nb 2\n", False),
        ("# HELP a A.\na 0.3\nb 2", False),
        ("# HELP a A.\na 0.3\nb two\n", False),
        ("", False),
    ],
)
def test_expositions_may_differ_in_the_last_digits_alone(other: str, *, same: bool) -> None:
    assert node_metrics.alike("# HELP a A.\na 0.3\nb 2\n", other) is same


def test_the_table_has_both_platforms_in_both_formats() -> None:
    names = [Path(name).name for name in FILES if "/metrics/" in name]
    assert names == [
        "gb300-nvl72.txt",
        "gb300-nvl72.openmetrics.txt",
        "hgx-h100.txt",
        "hgx-h100.openmetrics.txt",
    ]
