"""`rackwatt dashboards build` and `check`: deterministic files, and whether they are fresh."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collector.cli import main
from collector.errors import ConfigurationError
from dashboards import build
from dashboards.build import Generator, differences, dump, generate, write
from dashboards.catalogue import BOARDS
from dashboards.identities import BoardId


def test_the_committed_files_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", "check"]) == 0, capsys.readouterr().out


def test_the_document_names_every_board() -> None:
    document = Path(__file__).parents[2] / "docs" / "dashboards.md"
    listed = re.findall(r"^\| ([^|`]+) \| `(rackwatt-[a-z]+)` \|", document.read_text("utf-8"), re.MULTILINE)
    assert listed == [(board.title.removeprefix("rackwatt: "), board.uid) for board in BoardId]


def test_every_board_has_its_file() -> None:
    names = {path for path in generate() if path.startswith("dashboards/")}
    assert names == {f"dashboards/{board.identity.uid}.json" for board in BOARDS}


def test_files_are_sorted_and_the_same_each_time() -> None:
    texts = generate()
    assert list(texts) == sorted(texts)
    assert texts == generate()
    for path, text in texts.items():
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        if path.endswith(".json"):
            assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_another_process_writes_the_same(tmp_path: Path) -> None:
    # Another seed of hashes: no set may decide about an order.
    command = [sys.executable, "-m", "collector.cli", "dashboards", "build", "--output", str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, capture_output=True, env={"PYTHONHASHSEED": "7"})
    assert differences(tmp_path, generate()) == []


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"dashboards/a.json": "one\ntwo\n", "dashboards/b.json": "three\n"}
    monkeypatch.setattr(build, "GENERATORS", (Generator("dashboards", lambda: texts),))


@pytest.mark.usefixtures("small")
def test_a_difference_is_shown_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "dashboards"
    folder.mkdir()
    (folder / "a.json").write_text("one\n2\n")
    (folder / "c.json").write_text("four\n")
    (tmp_path / "mine.txt").write_text("five\n")
    words = ["--output", str(tmp_path)]

    assert main(["dashboards", "check", *words]) == 1
    said = capsys.readouterr().out
    assert "dashboards/a.json: out of date\n" in said
    assert "  -2\n  +two\n" in said
    assert "dashboards/b.json: missing\n" in said
    assert "dashboards/c.json: nothing generates it\n" in said
    assert said.endswith(
        f"{tmp_path}: 3 files are not as they should be; renew them: rackwatt dashboards build\n"
    )
    assert (folder / "a.json").read_text() == "one\n2\n"

    assert main(["dashboards", "build", *words]) == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "a.json": "one\ntwo\n",
        "b.json": "three\n",
    }
    assert (tmp_path / "mine.txt").read_text() == "five\n"
    capsys.readouterr()
    assert main(["dashboards", "check", *words]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: up to date\n"
    assert main(["dashboards", "build", *words]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: was up to date\n"


def test_a_site_has_its_own_addresses_and_its_own_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--output", str(tmp_path), "--runbook-url", "https://books.example.org/r.html"]
    words += ["--dashboard-url", "https://grafana.example.org/d/", "--slo", "0.999"]
    assert main(["dashboards", "build", *words]) == 0
    alerts = (tmp_path / "rules/rackwatt-alerts.yaml").read_text(encoding="utf-8")
    assert "runbook_url: https://books.example.org/r.html#rackwattrackunavailable" in alerts
    assert "https://grafana.example.org/d/rackwatt-rack" in alerts
    recording = (tmp_path / "rules/rackwatt-recording.yaml").read_text(encoding="utf-8")
    assert "0.999" in recording
    assert main(["dashboards", "check", *words]) == 0
    capsys.readouterr()
    assert main(["dashboards", "check", "--output", str(tmp_path)]) == 1
    assert main(["dashboards", "build", "--output", str(tmp_path), "--slo", "99"]) == 2
    assert "slo: 99 is not a share of time" in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["dashboards", "build", "--output", str(tmp_path / "file")]) == 2
    assert "cannot be written: " in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write(tmp_path / "file", differences(tmp_path / "nothing", generate()))


def test_a_long_difference_is_cut(tmp_path: Path) -> None:
    (found,) = differences(tmp_path, {"dashboards/a.json": "x\n" * 100})
    lines = list(found.lines(5))
    assert len(lines) == 6
    assert lines[-1] == "… and 98 lines more"


@pytest.mark.parametrize(
    "generators",
    [
        (Generator("rules", lambda: {"dashboards/a.json": ""}),),
        (Generator("rules", lambda: {"rules/a": ""}), Generator("rules", lambda: {"rules/a": ""})),
    ],
)
def test_generators_keep_to_their_folders(
    generators: tuple[Generator, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "GENERATORS", generators)
    with pytest.raises(ValueError, match="given twice, or outside"):
        generate()


def test_no_value_is_written_that_is_no_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump({"min": float("nan")})


@pytest.mark.parametrize(
    "start",
    ["collector.cli.program", "collector.cli.compose", "collector.cli.rack_compose", "dashboards.catalogue"],
)
def test_only_rendering_loads_grafanalib(start: str) -> None:
    code = f"import sys, {start}; print('grafanalib' in sys.modules, 'attr' in sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert loaded.stdout.split()[0] == "False"
