"""The agent's control socket: orders of people on this machine, over a Unix socket (CONTRACTS §6).

A client connects, writes one line of JSON and reads one line of JSON: `{"command": "release"}`, `resume` or
`status`. The socket's mode is 0600: its owner and root may order, nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
import struct
from pathlib import Path
from typing import Literal

import msgspec

from collector.errors import ConfigurationError
from collector.release import MAXIMUM_SECONDS, ReleaseSwitch, Standing

_logger = logging.getLogger("rackwatt.control")

SOCKET_NAME = "agent.sock"
"""Name of the socket in the agent's `state_dir`."""
MAXIMUM_PATH_BYTES = 107
"""`sun_path` has 108 bytes, the last of which ends it (unix(7))."""
MAXIMUM_LINE_BYTES = 4096
"""Longest request or answer; a real one has some hundred bytes."""
MODE = 0o600

_REQUEST_SECONDS = 5.0
"""Time for a client to send its request, and again to read the answer."""
_MAXIMUM_CLIENTS = 8
_CREDENTIALS = struct.Struct("3i")
"""`struct ucred` of SO_PEERCRED: process, user, group (unix(7))."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is ordered.

    Attributes:
        command: The order; `status` only asks.
        for_seconds: With `release`: seconds after which it ends by itself; None for never.
    """

    command: Literal["release", "resume", "status"]
    for_seconds: float | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """How it stands after the order.

    Attributes:
        error: Why the order was not carried out, and then the rest means nothing; empty if it was.
        changed: Whether the order changed between reading and being released.
        released: Whether the GPUs are released.
        since_ns: Since when, nanoseconds of Unix time.
        until_ns: When the release ends by itself; None for never.
        held_by: What still holds the driver although it is released, in words.
    """

    error: str = ""
    changed: bool = False
    released: bool = False
    since_ns: int | None = None
    until_ns: int | None = None
    held_by: str = ""


class ControlSocket:
    """Listens for orders about a source."""

    def __init__(self, path: Path, switch: ReleaseSwitch) -> None:
        """Prepare; nothing is opened before `start`.

        Args:
            path: Where the socket is made.
            switch: What carries the orders out.
        """
        self._path = path
        self._switch = switch
        self._server: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Where no socket can be made this is said, and the agent runs without one.

        Raises:
            ConfigurationError: Another agent listens there.
        """
        try:
            listener = await asyncio.to_thread(_listen, self._path)
        except OSError as error:
            why = error.strerror or str(error)
            _logger.warning(
                "no control socket at %s (%s): `rackwatt release` cannot reach this agent", self._path, why
            )
            return
        self._inode = _inode(self._path)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAXIMUM_LINE_BYTES)
        _logger.info("orders are taken", extra={"socket": str(self._path)})

    async def close(self) -> None:
        """Take no more orders, and remove the socket if it is still this agent's."""
        await self._switch.close()
        if self._server is None:
            return
        if self._inode == _inode(self._path):
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._server.close()
        self._server = None
        for client in self._clients:
            client.cancel()
        if self._clients:
            await asyncio.wait(self._clients)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._clients) >= _MAXIMUM_CLIENTS:
            writer.transport.abort()
            return
        self._clients.add(task)
        try:
            answer = await self._answer_to(reader, _who(writer))
            writer.write(msgspec.json.encode(answer) + b"\n")
            async with asyncio.timeout(_REQUEST_SECONDS):
                await writer.drain()
            writer.close()
        except (OSError, TimeoutError):
            _logger.debug("a client of the control socket went away")
        except asyncio.CancelledError:
            # The agent ends. To end as cancelled would be said as an error: asyncio asks for the exception of
            # a client's task without asking whether it was cancelled (Python 3.11, asyncio/streams.py).
            _logger.debug("a client of the control socket is left without an answer")
        finally:
            if not writer.transport.is_closing():
                writer.transport.abort()
            self._clients.discard(task)

    async def _answer_to(self, reader: asyncio.StreamReader, who: str) -> Answer:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readuntil(b"\n")
        except TimeoutError:
            return Answer(error=f"no request came within {_REQUEST_SECONDS:.0f} s")
        except asyncio.IncompleteReadError:
            return Answer(error="the request does not end with a line feed")
        except asyncio.LimitOverrunError:
            return Answer(error=f"the request is longer than {MAXIMUM_LINE_BYTES} bytes")
        try:
            request = read_request(line)
        except ValueError as error:
            _logger.warning("a request of %s on the control socket cannot be used: %s", who, error)
            return Answer(error=str(error))
        return await self._carry_out(request, who)

    async def _carry_out(self, request: Request, who: str) -> Answer:
        before = self._switch.standing()
        match request.command:
            case "release":
                _logger.warning("%s releases the GPUs", who)
                after = await self._switch.release(request.for_seconds)
            case "resume":
                _logger.warning("%s resumes the GPUs", who)
                after = await self._switch.resume()
            case "status":
                after = before
        return _answer(before, after)


def read_request(line: bytes) -> Request:
    """Read a request.

    Args:
        line: What came, with or without its line feed.

    Returns:
        The request.

    Raises:
        ValueError: It is no request, or its time is out of bounds.
    """
    try:
        request = msgspec.json.decode(line, type=Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The message repeats foreign text at most by one field's name.
        raise ValueError(f"the request is not understood: {ascii(str(error))[1:-1][:200]}") from None
    seconds = request.for_seconds
    if seconds is None:
        return request
    if request.command != "release":
        raise ValueError(f"for_seconds belongs to release, not to {request.command}")
    if not 1 <= seconds <= MAXIMUM_SECONDS:
        raise ValueError(f"for_seconds {seconds:g} is out of bounds; 1 to {MAXIMUM_SECONDS:.0f} is allowed")
    return request


def _answer(before: Standing, after: Standing) -> Answer:
    return Answer(
        changed=before.released != after.released,
        released=after.released,
        since_ns=after.since_ns,
        until_ns=after.until_ns,
        held_by=after.held_by,
    )


def _who(writer: asyncio.StreamWriter) -> str:
    """Say which process is at the other end, for the log."""
    connection: socket.socket = writer.get_extra_info("socket")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(raw)
    return f"process {process} of user {user}"


def _listen(path: Path) -> socket.socket:
    """Make the socket, in place of one that a dead agent left.

    Raises:
        ConfigurationError: Another agent listens there.
        OSError: It cannot be made.
    """
    if len(os.fsencode(path)) > MAXIMUM_PATH_BYTES:
        raise OSError(
            errno.ENAMETOOLONG,
            f"the path is longer than {MAXIMUM_PATH_BYTES} bytes; choose a shorter state_dir",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Nobody else may connect, not even in the moment between bind and chmod.
    before = os.umask(0o777 & ~MODE)
    try:
        listener.bind(os.fspath(path))
        listener.listen(_MAXIMUM_CLIENTS)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener


def _remove_stale(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise OSError(errno.EEXIST, "something that is no socket is there; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except (TimeoutError, BlockingIOError):
            pass  # it listens, and is busy
    raise ConfigurationError(
        f"another agent runs with this state_dir and listens on {path}; stop it, or give this one a "
        "state_dir of its own"
    )


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
