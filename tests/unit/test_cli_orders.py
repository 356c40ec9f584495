"""`rackwatt release` and `rackwatt resume`: how they find the agent, and what they say."""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.cli import main, orders, release, resume
from collector.cli.orders import OrderError, ask, find_socket
from collector.control import Answer, Request
from collector.errors import ConfigurationError
from tests.rack_builders import SECOND, T0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="rw-") as name:
        yield Path(name)


@contextmanager
def answering(path: Path, answer: bytes | None) -> Iterator[list[bytes]]:
    """Answer one client with bytes; with None hang until the end."""
    asked: list[bytes] = []
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)

        def work() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(4096))
                if answer is None:
                    done.wait(20)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield asked
        finally:
            done.set()
            thread.join(20)


def arguments(**given: str | None) -> argparse.Namespace:
    return argparse.Namespace(**{"socket": None, "config": None} | given)


def test_the_order_is_one_line_of_json(folder: Path) -> None:
    path = folder / "agent.sock"
    with answering(path, b'{"released": true, "since_ns": 1}\n') as asked:
        assert ask(path, Request("release", 1800.0)) == Answer(released=True, since_ns=1)
    assert asked == [b'{"command":"release","for_seconds":1800.0}\n']


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "ended, or has too many clients, and gave no answer"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as an agent does"),
        (b'{"released": "yes"}\n', "does not answer as an agent does"),
        (b"\xff\xfe\n", "does not answer as an agent does"),
        (b"x" * 100_000, "does not answer as an agent does"),
        (b'{"error": "for_seconds 0.5 is out of bounds"}\n', "the agent refuses: for_seconds 0.5 is out of"),
        (None, "did not answer within 0 s"),
    ],
)
def test_answers_that_are_none_are_said(folder: Path, answer: bytes | None, said: str) -> None:
    path = folder / "agent.sock"
    with answering(path, answer), pytest.raises(OrderError) as refused:
        ask(path, Request("release"), seconds=0.3)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_agent_a_dead_one_and_a_path_that_is_too_long_are_said(folder: Path) -> None:
    path = folder / "agent.sock"
    with pytest.raises(OrderError, match=r"no agent runs here: .* is not there"):
        ask(path, Request("release"))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(OrderError, match="nobody listens on"):
        ask(path, Request("release"))
    with pytest.raises(OrderError, match="longer than the 107 bytes"):
        ask(folder / ("x" * 108), Request("release"))


def test_a_socket_that_may_not_be_opened_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")  # as connect does where the mode forbids it (unix(7))

    monkeypatch.setattr(orders, "_exchange", refuse)
    with pytest.raises(OrderError, match="run this as root or as the agent's user"):
        ask(folder / "agent.sock", Request("release"))


def test_the_socket_is_where_the_agent_keeps_its_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, home = folder / "usual", {"HOME": str(folder / "home")}
    monkeypatch.setattr("collector.config.load.DEFAULT_STATE_DIR", str(usual))
    monkeypatch.setattr("collector.config.load.can_write_directory", lambda _: False)
    file = folder / "agent.yaml"
    file.write_text(f"state_dir: {folder}/state\n")
    assert find_socket(arguments(socket="/run/x.sock", config=str(file)), {}) == Path("/run/x.sock")
    assert find_socket(arguments(config=str(file)), home) == folder / "state" / "agent.sock"
    with pytest.raises(ConfigurationError):
        find_socket(arguments(config=str(folder / "none.yaml")), home)
    file.write_text("rack: r01\n")
    usual.mkdir()
    (usual / "agent.sock").touch()
    # Of an agent that runs as another user: what this user cannot write may yet be the right place.
    assert find_socket(arguments(config=str(file)), home) == usual / "agent.sock"


@pytest.mark.parametrize(
    ("answer", "status", "said", "errors"),
    [
        (
            Answer(changed=True, released=True, since_ns=T0),
            0,
            "released: no process of this agent holds the NVIDIA driver now; `rackwatt resume` takes the "
            "GPUs again, and so does a restart of the agent\n",
            "",
        ),
        (
            Answer(released=True, since_ns=T0, until_ns=T0 + 1800 * SECOND),
            0,
            "already released, since 2026-01-01 00:00:00 UTC: no process of this agent holds the NVIDIA "
            "driver now; `rackwatt resume` takes the GPUs again, or the agent itself at 2026-01-01 00:30:00 "
            "UTC, and so does a restart of the agent\n",
            "",
        ),
        (
            Answer(changed=True, released=True, since_ns=T0, held_by="readers that hang"),
            1,
            "",
            "rackwatt: released, but the NVIDIA driver is still held by readers that hang\n",
        ),
    ],
)
def test_what_a_release_brought_is_said_in_words(
    answer: Answer,
    status: int,
    said: str,
    errors: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[tuple[Path, Request]] = []

    def give(path: Path, request: Request) -> Answer:
        asked.append((path, request))
        return answer

    monkeypatch.setattr(orders, "ask", give)
    assert main(["release", "--socket", "/run/a.sock", "--for", "30m"]) == status
    assert capsys.readouterr() == (said, errors)
    assert asked == [(Path("/run/a.sock"), Request("release", 1800.0))]


def test_what_a_resume_brought_is_said_in_words() -> None:
    assert resume.outcome(Answer(changed=True)).startswith("resumed: the agent takes the GPUs again")
    assert resume.outcome(Answer()) == "nothing to resume: the GPUs were not released"


@pytest.mark.parametrize("words", [("release",), ("resume",)])
def test_no_agent_is_one_line_and_status_1(
    folder: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--socket", str(folder / "agent.sock")]) == 1
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith(f"rackwatt: no agent runs here: {folder}/agent.sock is not there")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("time", ["0s", "25h", "500ms", "soon", "30"])
def test_times_are_bounded(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["release", "--for", time, "--socket", os.devnull])
    assert ended.value.code == 2
    assert "argument --for" in capsys.readouterr().err


def test_the_longest_time_is_a_day() -> None:
    assert release.duration_argument("24h") == 86400
