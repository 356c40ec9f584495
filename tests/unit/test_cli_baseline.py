"""`rackwatt baseline`: what it asks, what it shows, and how it ends where the service cannot be asked."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from collector.cli import main, service_client
from collector.cli.service_client import ServiceError, ask, service_at
from exporters.rest.server import RestServer
from exporters.rest.settings import RestSettings
from tests.efficiency_literals import MODEL
from tests.rest_double import ServiceDouble
from tests.rest_literals import TOKEN


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "api.token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


@contextmanager
def rack_service(token_file: Path) -> Iterator[str]:
    """Serve the REST interface of a rack service whose racks are literals."""
    loop = asyncio.new_event_loop()
    server = RestServer(
        ServiceDouble(), RestSettings(host="127.0.0.1", port=0, api_token_file=str(token_file))
    )
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(20)
        yield f"http://127.0.0.1:{server.port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


@contextmanager
def answering(status: int, content_type: str, body: bytes) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Answer every request with bytes; give the headers that came."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append({"path": self.path, **{name.lower(): own for name, own in self.headers.items()}})
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


def columns(line: str) -> list[str]:
    return [part.strip() for part in line.split("  ") if part.strip()]


def test_recording_and_listing(token_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with rack_service(token_file) as url:
        words = ["baseline", "record", "r01", "--window", "10m", "--note", "8k/1k", "--url", url]
        assert main([*words, "--token-file", str(token_file)]) == 0
        head, row = capsys.readouterr().out.splitlines()
        assert columns(head)[:4] == ["ID", "RACK", "MODEL", "RECORDED"]
        shown = columns(row)
        assert shown[:3] == ["b-new1", "r01", MODEL]
        # 10,000 tok/s on 64 GPUs at 0.09375 tok/J, 8192 and 1024 tokens, 33.3 tokens/s/user, waiting 0.75
        assert shown[4:] == ["10000", "64", "0.0938", "8192", "1024", "33.3", "0.75", "8k/1k"]
        assert main(["baseline", "list", "--rack", "r01", "--url", url]) == 0
        listed = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in listed] == ["ID", "b-new1", "b-1"]
        assert main(["baseline", "list", "--rack", "h01", "--url", url]) == 0
        assert capsys.readouterr().out.startswith("no baseline is recorded")


def test_a_refusal_is_told_with_its_reason(token_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = token_file.with_name("wrong.token")
    wrong.write_text("another")
    wrong.chmod(0o600)
    with rack_service(token_file) as url:
        words = ["baseline", "record", "h01", "--window", "10m", "--url", url, "--token-file"]
        assert main([*words, str(token_file)]) == 1
        said = capsys.readouterr().err
        assert said.startswith(
            f"rackwatt: {url} refuses (422): baseline of rack h01: nothing of the window was"
        )
        assert main([*words, str(wrong)]) == 1
        said = capsys.readouterr().err
        assert "refuses (401): The token is not the one" in said
        assert TOKEN not in said
        assert "another" not in said
        assert (
            main(
                ["baseline", "record", "r01", "--window", "5s", "--url", url, "--token-file", str(token_file)]
            )
            == 1
        )
        assert "5s is out of bounds" in capsys.readouterr().err
        assert main(["baseline", "list", "--rack", "r09", "--url", url]) == 1
        assert "There is no rack 'r09'" in capsys.readouterr().err


def test_recording_needs_a_token_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["baseline", "record", "r01", "--window", "10m", "--url", "http://127.0.0.1:1"]
    assert main(words) == 2
    assert "name with --token-file the file that `api_token_file`" in capsys.readouterr().err
    assert main([*words, "--token-file", str(tmp_path / "no-such")]) == 2
    assert "no-such: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".x"])
def test_a_host_that_can_have_no_address(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "list", "--url", f"http://{host}:1"]) == 1
    assert capsys.readouterr().err == (
        f"rackwatt: http://{host}:1: that is no name of a host; name the right one with --url\n"
    )


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "list", "--url", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == (
        "rackwatt: no rack service answers at http://127.0.0.1:1: Connection refused; "
        "name the right one with --url\n"
    )


PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    ("status", "content_type", "body", "said"),
    [
        (200, "text/html", b"<html>", "does not answer with baselines"),
        (200, "application/json", b'{"baselines": [{"id": 3}]}', "does not answer with baselines"),
        (200, "application/json", b"\xff" * 100, "does not answer with baselines"),
        (200, "application/json", b"[" * 200_000, "does not answer with baselines"),
        (200, "application/json", b" " * (8 * 1024 * 1024 + 1), "larger than 8388608 bytes"),
        (404, "text/html", b"gone", "answers 404 without saying why; is it a rack service?"),
        (307, "text/html", b"", "answers 307 without saying why"),
        (500, PROBLEM, b"{", "answers 500 without saying why"),
        (503, PROBLEM, b'{"detail": "too\\u001b[31m\\nslow"}', "refuses (503): too [31m slow"),
        (503, PROBLEM, json.dumps({"detail": "x" * 10_000}).encode(), "refuses (503): " + "x" * 500 + " …"),
    ],
)
def test_what_is_no_rack_service_is_said(
    status: int, content_type: str, body: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(status, content_type, body) as (url, asked):
        assert main(["baseline", "list", "--url", url]) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert len(shown.splitlines()) == 1
    assert [each["path"] for each in asked] == ["/v1/baselines"]


def test_it_asks_for_nothing_compressed_and_behind_a_prefix() -> None:
    with answering(200, "application/json", b'{"baselines": []}') as (url, asked):
        assert main(["baseline", "list", "--url", f"{url}/racks/"]) == 0
    assert (asked[0]["path"], asked[0]["accept-encoding"]) == ("/racks/v1/baselines", "identity")
    assert "authorization" not in asked[0]


def test_a_service_that_hangs_is_left() -> None:
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            done.wait(20)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.raises(ServiceError, match=r"did not answer within 0\.2 s"):
            ask(service_at(f"http://127.0.0.1:{server.server_port}"), "GET", "/", seconds=0.2)
    finally:
        done.set()
        server.shutdown()
        server.server_close()
        thread.join(20)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rack:10073", "is no URL of a rack service; write one such as http://127.0.0.1:10073"),
        ("ftp://rack", "is no URL"),
        ("http://", "is no URL"),
        ("http://rack:99999", "is no URL"),
        ("http://rack:10073/ä", "is no URL"),
        ("http://rack/\n", "is no URL"),
        ("http://user:secret-word@rack", "must not hold a user or a password"),
        ("http://rack?x=1", "holds more than scheme, host, port and path"),
    ],
)
def test_a_wrong_url_is_misuse(url: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["baseline", "list", "--url", url])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "secret-word" not in shown


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://rack", "http://rack:80"),
        ("https://rack", "https://rack:443"),
        ("http://[::1]:10073/", "http://[::1]:10073"),
        ("https://proxy/racks/", "https://proxy:443/racks"),
    ],
)
def test_urls(url: str, text: str) -> None:
    assert str(service_at(url)) == text


@pytest.mark.parametrize("words", [["r/1", "--window", "1m"], ["r01", "--window", "1"], ["r01"], []])
def test_what_is_misspelt_is_misuse(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["baseline", "record", *words])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["baseline"])
    assert ended.value.code == 2


def test_the_usual_service_is_this_machines() -> None:
    assert service_client.DEFAULT_URL == "http://127.0.0.1:10073"
