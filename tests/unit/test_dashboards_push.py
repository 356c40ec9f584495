"""`rackwatt dashboards push`: what it writes, what a dry run shows, and how it ends where Grafana refuses."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.cli import main
from dashboards import grafana_api, push
from dashboards.catalogue import BOARDS
from dashboards.grafana_api import Grafana, grafana_url
from tests.grafana_double import TOKEN, GrafanaDouble, grafana

UIDS = [board.identity.uid for board in BOARDS]


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    file = tmp_path / "grafana.token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return str(file)


@pytest.fixture
def double() -> Iterator[GrafanaDouble]:
    with grafana() as double:
        yield double


def pushed(double: GrafanaDouble, token_file: str, *more: str) -> int:
    return main(["dashboards", "push", "--url", double.url, "--token-file", token_file, *more])


def test_boards_are_created_in_their_folder(
    double: GrafanaDouble, token_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pushed(double, token_file, "--message", "from a test") == 0
    assert double.folders == {"rackwatt": "rackwatt"}
    assert sorted(double.boards) == sorted(UIDS)
    assert set(double.folder_of.values()) == {"rackwatt"}
    assert set(double.messages) == {"from a test"}
    assert capsys.readouterr().out.splitlines() == [
        "folder rackwatt: created",
        *(f"{uid}: created" for uid in UIDS),
    ]


def test_a_second_push_writes_nothing(
    double: GrafanaDouble, token_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pushed(double, token_file)
    capsys.readouterr()
    double.requests.clear()
    assert pushed(double, token_file) == 0
    assert {method for method, _ in double.requests} == {"GET"}
    assert capsys.readouterr().out.splitlines() == [f"{uid}: up to date" for uid in UIDS]


def test_what_was_changed_is_renewed(
    double: GrafanaDouble, token_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pushed(double, token_file)
    double.boards["rackwatt-fleet"]["title"] = "Mine"
    capsys.readouterr()
    assert pushed(double, token_file) == 0
    assert double.boards["rackwatt-fleet"]["title"] == "rackwatt: fleet"
    assert double.boards["rackwatt-fleet"]["version"] == 2
    assert "rackwatt-fleet: renewed" in capsys.readouterr().out.splitlines()


def test_another_folder_takes_them(double: GrafanaDouble, token_file: str) -> None:
    pushed(double, token_file)
    assert pushed(double, token_file, "--folder", "gpu-racks") == 0
    assert set(double.folder_of.values()) == {"gpu-racks"}


def test_a_dry_run_shows_differences_and_writes_nothing(
    double: GrafanaDouble, token_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pushed(double, token_file, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "folder rackwatt: would be created\n" in shown
    assert "rackwatt-fleet: would be created, with " in shown
    assert {method for method, _ in double.requests} == {"GET"}

    pushed(double, token_file)
    double.boards["rackwatt-fleet"]["timezone"] = "browser"
    double.requests.clear()
    capsys.readouterr()
    assert pushed(double, token_file, "--dry-run", "--folder", "gpu-racks") == 0
    shown = capsys.readouterr().out
    assert '-  "timezone": "browser",\n+  "timezone": "utc",\n' in shown
    assert "rackwatt-fleet: would move from folder 'rackwatt' to 'gpu-racks'" in shown
    assert {method for method, _ in double.requests} == {"GET"}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            400,
            {"message": "Cannot save provisioned dashboard"},
            "400: it does not take this; a dashboard that",
        ),
        (401, {"message": "Invalid API key"}, "401: the token is not valid"),
        (403, {"message": "Access denied"}, "403: the token may not do this; its service account needs"),
        (412, {"message": "plugin", "status": "plugin-dashboard"}, "412: it refuses to overwrite"),
        (302, {}, "302: is it a Grafana?"),
        (502, {}, "502: it is in trouble itself; see its log"),
    ],
)
def test_a_refusal_is_told_in_words(
    double: GrafanaDouble,
    token_file: str,
    capsys: pytest.CaptureFixture[str],
    status: int,
    body: dict[str, str],
    said: str,
) -> None:
    double.answer = (status, json.dumps(body).encode())
    assert pushed(double, token_file) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"rackwatt: folder rackwatt: {double.url} answers {said}")
    assert body.get("message", "") in told
    # A redirection is not followed: it could carry the token elsewhere.
    assert len(double.requests) == 1


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"dashboard": 3}', b"\xff\xfe", b""])
def test_what_is_no_answer_of_grafana_is_told(
    double: GrafanaDouble, token_file: str, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    double.answer = (200, content)
    assert pushed(double, token_file) == 1
    assert "answers no JSON of a Grafana; is it one?" in capsys.readouterr().err


def test_the_token_is_never_repeated(
    double: GrafanaDouble, token_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    double.answer = (403, json.dumps({"message": f"no\x1b[31m: {TOKEN} " + "x" * 5000}).encode())
    assert pushed(double, token_file) == 1
    told = capsys.readouterr()
    assert TOKEN not in told.err + told.out
    assert "\x1b" not in told.err
    assert len(told.err) < 1000


def test_no_repr_holds_the_token() -> None:
    async def shown() -> str:
        async with Grafana("http://127.0.0.1:1", TOKEN) as client:
            return repr(client)

    wanted = push.Push(
        url="http://127.0.0.1:1", token=TOKEN, trust=True, folder="f", message="m", dry_run=True
    )
    assert TOKEN not in repr(wanted)
    assert asyncio.run(shown()) == "Grafana('http://127.0.0.1:1')"


def test_an_answer_that_is_too_large_is_not_read(
    double: GrafanaDouble,
    token_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grafana_api, "_MAXIMUM_BYTES", 100)
    double.answer = (200, b"x" * 101)
    assert pushed(double, token_file) == 1
    assert "the answer is larger than 100 bytes; is it a Grafana?" in capsys.readouterr().err


def test_nobody_listens(token_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with grafana() as gone:
        url = gone.url
    assert main(["dashboards", "push", "--url", url, "--token-file", token_file]) == 1
    assert capsys.readouterr().err == (
        f"rackwatt: no Grafana answers at {url}: Connection refused; is --url right?\n"
    )


def test_a_host_that_can_have_no_such_name(token_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", "push", "--url", "http://a..b", "--token-file", token_file]) == 1
    assert capsys.readouterr().err == "rackwatt: http://a..b: that is no name of a host; is --url right?\n"


def test_a_grafana_that_hangs(
    double: GrafanaDouble,
    token_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grafana_api, "ANSWER_SECONDS", 0.2)
    double.may_answer.clear()
    assert pushed(double, token_file) == 1
    assert capsys.readouterr().err == f"rackwatt: {double.url} did not answer within 0.2 s\n"


def test_a_grafana_that_breaks_off(
    double: GrafanaDouble, token_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    double.breaks_off = True
    assert pushed(double, token_file) == 1
    assert "broke off, or does not speak HTTP; is it a Grafana?" in capsys.readouterr().err


@pytest.mark.needs_program("openssl")
def test_a_certificate_counts_where_its_authority_is_named(
    token_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public, private = tmp_path / "public.pem", tmp_path / "private.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=grafana "
        f"-addext subjectAltName=IP:127.0.0.1 -out {public} -keyout {private}"
    )
    subprocess.run(command.split(), check=True, capture_output=True, timeout=60)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(public, private)
    with grafana(tls) as double:
        assert pushed(double, token_file) == 1
        assert "name the authority of its certificate with --ca-file" in capsys.readouterr().err
        assert double.requests == []
        assert pushed(double, token_file, "--ca-file", str(public)) == 0
        assert sorted(double.boards) == sorted(UIDS)
        assert pushed(double, token_file, "--ca-file", str(private)) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "http://user:secret@127.0.0.1"],
        ["--url", "ftp://127.0.0.1"],
        ["--url", "grafana"],
        ["--url", "http://127.0.0.1:70000"],
        ["--url", "http://127.0.0.1/?orgId=1"],
        ["--url", "http://127.0.0.1", "--folder", "../etc"],
        ["--url", "http://127.0.0.1", "--folder", ""],
        ["--folder", "rackwatt"],
    ],
)
def test_misuse(words: list[str], token_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dashboards", "push", "--token-file", token_file, *words])
    assert ended.value.code == 2
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["--token-file", "--ca-file"])
def test_a_file_that_is_not_there(
    double: GrafanaDouble, token_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    assert pushed(double, token_file, missing, str(tmp_path / "none")) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert double.requests == []


def test_a_url_loses_its_last_slash() -> None:
    assert grafana_url("https://grafana.example.org/ops/") == "https://grafana.example.org/ops"
