"""What `rackwatt release` and `rackwatt resume` share: how they find the agent, and how they ask it."""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from collector.control import MAXIMUM_LINE_BYTES, MAXIMUM_PATH_BYTES, SOCKET_NAME, Answer, Request
from collector.errors import RackwattError

_ANSWER_SECONDS = 20.0
"""Time for an answer: a reader may take 3 s to end, and an order before this one as long."""


class OrderError(RackwattError):
    """The agent cannot be asked, or refuses."""


def find_socket(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Path:
    """Find the socket of the agent of this machine.

    Args:
        arguments: With `socket` and `config`.
        environ: The environment.

    Returns:
        What `--socket` names; else the socket in the `state_dir` that the agent would choose. An agent that
        runs as another user may keep its state where this user cannot write.

    Raises:
        ConfigurationError: The configuration cannot be used.
    """
    if arguments.socket is not None:
        return Path(arguments.socket)
    from collector import profiles
    from collector.config import choose_state_directory, load_agent
    from collector.config.load import DEFAULT_STATE_DIR

    configuration = load_agent(arguments.config, environ, profiles.names()).configuration
    usual = Path(DEFAULT_STATE_DIR, SOCKET_NAME)
    if configuration.state_dir is None and _may_be_there(usual):
        return usual
    return Path(choose_state_directory(configuration, environ).path, SOCKET_NAME)


def _may_be_there(path: Path) -> bool:
    try:
        path.lstat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def ask(path: Path, request: Request, *, seconds: float = _ANSWER_SECONDS) -> Answer:
    """Send an order to the agent and wait for its answer.

    Args:
        path: The agent's control socket.
        request: The order.
        seconds: Longest to wait.

    Returns:
        The answer.

    Raises:
        OrderError: There is no agent, it may not be asked, it does not answer, or it refuses.
    """
    if len(os.fsencode(path)) > MAXIMUM_PATH_BYTES:
        raise OrderError(
            f"{path} is longer than the {MAXIMUM_PATH_BYTES} bytes that a Unix socket may have: the agent "
            "has no control socket there; choose a shorter state_dir"
        )
    try:
        line = _exchange(path, msgspec.json.encode(request) + b"\n", seconds)
    except (FileNotFoundError, NotADirectoryError):
        raise OrderError(
            f"no agent runs here: {path} is not there; if its state_dir is another, say so with --config "
            "FILE or --socket PATH"
        ) from None
    except ConnectionRefusedError:
        raise OrderError(f"no agent runs here: nobody listens on {path}, which a dead one left") from None
    except PermissionError:
        raise OrderError(
            f"{path} may not be opened by this user: run this as root or as the agent's user"
        ) from None
    except (TimeoutError, BlockingIOError):
        raise OrderError(
            f"the agent behind {path} did not answer within {seconds:.0f} s; it may yet do it"
        ) from None
    except OSError as error:
        raise OrderError(f"the agent cannot be asked through {path}: {error.strerror or error}") from None
    return _read(path, line)


def _exchange(path: Path, request: bytes, seconds: float) -> bytes:
    """Write a line and read one, within some time in all."""
    deadline = time.monotonic() + seconds
    line = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        connection.connect(os.fspath(path))
        connection.sendall(request)
        while not line.endswith(b"\n") and len(line) <= MAXIMUM_LINE_BYTES:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            chunk = connection.recv(MAXIMUM_LINE_BYTES)
            if not chunk:
                break
            line += chunk
    return line


def _read(path: Path, line: bytes) -> Answer:
    if not line:
        raise OrderError(f"the agent behind {path} ended, or has too many clients, and gave no answer")
    try:
        answer = msgspec.json.decode(line, type=Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise OrderError(f"what listens on {path} does not answer as an agent does") from None
    if answer.error:
        raise OrderError(f"the agent refuses: {answer.error}")
    return answer
