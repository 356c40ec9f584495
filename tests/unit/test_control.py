"""The control socket: its protocol, what hostile clients cannot do, who may connect, and its file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.control import MAXIMUM_PATH_BYTES, ControlSocket, Request, read_request
from collector.errors import ConfigurationError
from collector.release import ReleaseSwitch
from tests.agent_http_client import run
from tests.rack_builders import SECOND, T0
from tests.unit.test_release import SINCE, NotingSource, Wall


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="rw-") as name:
        yield Path(name)


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[NotingSource]:
    source = NotingSource()
    control = ControlSocket(path, ReleaseSwitch(source, wall_ns=Wall()))
    await control.start()
    try:
        yield source
    finally:
        async with asyncio.timeout(5):
            await control.close()


async def sent(path: Path, data: bytes, *, end: bool = False) -> bytes:
    """Send bytes, and return what is answered until the end."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def ordered(path: Path, **request: object) -> dict[str, object]:
    line = await sent(path, json.dumps(request).encode() + b"\n")
    assert line.count(b"\n") == 1
    answer = json.loads(line)
    assert isinstance(answer, dict)
    return answer


def test_orders_and_their_answers(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / "agent.sock"

    async def scenario() -> None:
        async with listening(path) as source:
            assert await ordered(path, command="status") == {}
            assert await ordered(path, command="release") == {
                "changed": True,
                "released": True,
                "since_ns": T0,
            }
            assert await ordered(path, command="release", for_seconds=60) == {
                "released": True,
                "since_ns": T0,
                "until_ns": T0 + 60 * SECOND,
            }
            source.held_by = "readers that hang"
            assert (await ordered(path, command="status"))["held_by"] == "readers that hang"
            assert await ordered(path, command="resume") == {"changed": True}
            assert await ordered(path, command="resume") == {}
            assert source.said[0] == SINCE
            assert source.said[2:] == ["resume", "resume"]

    run(scenario)
    assert f"process {os.getpid()} of user {os.getuid()} releases the GPUs" in caplog.text


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"", "the request is not understood"),
        (b"release", "the request is not understood"),
        (b"\xff\xfe\x00", "the request is not understood"),
        (b"[" * 4000, "the request is not understood"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `command`"),
        (b'{"command": "reboot"}', "Invalid enum value 'reboot'"),
        (b'{"command": "release", "now": true}', "unknown field `now`"),
        (b'{"command": "release", "for_seconds": "1h"}', "Expected `float | null`, got `str`"),
        (b'{"command": "release", "for_seconds": 0.5}', "0.5 is out of bounds; 1 to 86400 is allowed"),
        (b'{"command": "release", "for_seconds": 86401}', "86401 is out of bounds; 1 to 86400 is allowed"),
        (b'{"command": "release", "for_seconds": -1}', "-1 is out of bounds"),
        (b'{"command": "release", "for_seconds": 1e999}', "the request is not understood"),
        (b'{"command": "resume", "for_seconds": 60}', "for_seconds belongs to release, not to resume"),
    ],
)
def test_what_is_no_request_is_refused_with_its_reason_and_nothing_is_done(
    folder: Path, line: bytes, error: str
) -> None:
    path = folder / "agent.sock"

    async def scenario() -> None:
        async with listening(path) as source:
            answer = json.loads(await sent(path, line + b"\n"))
            assert list(answer) == ["error"]
            assert error in answer["error"]
            assert answer["error"].isascii()
            assert answer["error"].isprintable()
            assert source.said == []

    run(scenario)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader_of_requests(line: bytes) -> None:
    try:
        request = read_request(line)
    except ValueError as error:
        assert len(str(error)) < 300  # noqa: PT017 -- either outcome is right, and both are looked at
    else:
        assert isinstance(request, Request)


@pytest.mark.parametrize(
    ("data", "end", "error"),
    [
        (b'{"command": "release"}', True, "the request does not end with a line feed"),
        (b"", True, "the request does not end with a line feed"),
        (b"x" * 100_000, False, "the request is longer than 4096 bytes"),
        (b"x" * 10, False, "no request came within 0 s"),
    ],
)
def test_requests_are_bounded_in_size_and_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, end: bool, error: str
) -> None:
    path = folder / "agent.sock"
    monkeypatch.setattr("collector.control._REQUEST_SECONDS", 0.3)

    async def scenario() -> None:
        async with listening(path) as source:
            answered = await sent(path, data, end=end)
            # The kernel may end a connection whose bytes were not all read without giving the answer.
            assert error in answered.decode() or (len(data) > 4096 and answered == b"")
            assert source.said == []
            assert await ordered(path, command="status") == {}, "it goes on answering"

    run(scenario)


def test_clients_are_bounded_in_number_and_those_that_say_nothing_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "agent.sock"
    monkeypatch.setattr("collector.control._REQUEST_SECONDS", 0.5)

    async def scenario() -> None:
        async with listening(path):
            idle = [await asyncio.open_unix_connection(path) for _ in range(8)]
            await asyncio.sleep(0.05)
            assert await sent(path, b'{"command": "status"}\n') == b""
            for reader, _ in idle:
                assert b"no request came" in await reader.read()
            assert await ordered(path, command="status") == {}
            for _, writer in idle:
                writer.transport.abort()

    run(scenario)


def test_it_closes_at_once_while_clients_wait_and_leaves_no_file(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "agent.sock"

    async def scenario() -> None:
        async with listening(path) as source:
            source.lets_go.clear()
            waiting = asyncio.create_task(sent(path, b'{"command": "release"}\n'))
            _, silent = await asyncio.open_unix_connection(path)
            await asyncio.sleep(0.05)
        assert await waiting == b""
        silent.transport.abort()
        assert not path.exists()
        source.lets_go.set()
        await asyncio.sleep(0.01)

    run(scenario)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_connect_whatever_the_umask(folder: Path, umask: int) -> None:
    path = folder / "agent.sock"

    async def scenario() -> None:
        async with listening(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert os.umask(umask) == umask, "the process's own umask stands again"

    before = os.umask(umask)
    try:
        run(scenario)
    finally:
        os.umask(before)


def test_a_socket_of_a_dead_agent_is_replaced(folder: Path) -> None:
    path = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    async def scenario() -> None:
        async with listening(path):
            assert await ordered(path, command="status") == {}

    run(scenario)


def test_a_socket_of_a_living_agent_is_refused_and_left_alone(folder: Path) -> None:
    path = folder / "agent.sock"

    async def scenario() -> None:
        async with listening(path):
            second = ControlSocket(path, ReleaseSwitch(NotingSource()))
            with pytest.raises(ConfigurationError, match="another agent runs with this state_dir") as refused:
                await second.start()
            assert str(path) in str(refused.value)
            await second.close()
            assert await ordered(path, command="status") == {}

    run(scenario)


def test_a_socket_that_another_agent_has_made_since_is_left_to_it(folder: Path) -> None:
    path = folder / "agent.sock"

    async def scenario() -> None:
        async with listening(path):
            path.unlink()
            successor = ControlSocket(path, ReleaseSwitch(NotingSource()))
            await successor.start()
        assert await ordered(path, command="status") == {}
        await successor.close()
        assert not path.exists()

    run(scenario)


@pytest.mark.parametrize("what", ["a long path", "a file", "a folder that is a file"])
def test_where_no_socket_can_be_made_it_is_said_and_the_agent_runs(
    folder: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, why = folder / "agent.sock", ""
    match what:
        case "a long path":
            # sun_path of 108 bytes with its end (unix(7)).
            path, why = folder / ("x" * (108 - len(os.fsencode(folder)) - 1)), "longer than 107 bytes"
            assert len(os.fsencode(path)) == MAXIMUM_PATH_BYTES + 1
        case "a file":
            path.write_text("keep me")
            why = "something that is no socket is there"
        case _:
            path.write_text("keep me")
            path, why = path / "agent.sock", "File exists"

    async def scenario() -> None:
        async with listening(path):
            pass

    run(scenario)
    (record,) = [each for each in caplog.records if each.name == "rackwatt.control"]
    assert record.levelno == logging.WARNING
    assert str(path) in record.getMessage()
    assert why in record.getMessage()
    kept = folder / "agent.sock"
    assert not kept.exists() or kept.read_text() == "keep me"


def test_the_longest_path_works(folder: Path) -> None:
    path = folder / ("x" * (107 - len(os.fsencode(folder)) - 1))

    async def scenario() -> None:
        async with listening(path):
            assert await ordered(path, command="status") == {}

    run(scenario)
