"""What an agent remembers over a restart: its name, and the GPUs that it has seen."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from pathlib import Path

import msgspec

from collector.readings import GpuIdentity

_logger = logging.getLogger("rackwatt.state")

_FILE_NAME = "agent.json"
_DAMAGED_SUFFIX = ".damaged"
_MAXIMUM_FILE_BYTES = 1024 * 1024


class KernelMark(msgspec.Struct, frozen=True):
    """How far the kernel log was taken in.

    Attributes:
        boot_id: The boot whose log it is.
        sequence: The last record that counted.
    """

    boot_id: str
    sequence: int


class AgentState(msgspec.Struct, frozen=True):
    """The persistent state.

    Attributes:
        rack: Rack name in use; empty if none was settled.
        node: Node name in use.
        gpus: GPUs that the node has, those that are missing included.
        kernel: How far the kernel log was taken in; None if it never was.
    """

    rack: str = ""
    node: str = ""
    gpus: tuple[GpuIdentity, ...] = ()
    kernel: KernelMark | None = None


class StateStore:
    """Keeps the state in one file, replaced as a whole.

    Attributes:
        state: The newest state.
    """

    def __init__(self, directory: Path | None) -> None:
        """Read what was kept.

        Args:
            directory: Where the file lies; None to keep nothing beyond this process.
        """
        self._directory = directory
        self.state = self._load()

    def _load(self) -> AgentState:
        """Read the file; one that is missing or damaged is an empty state, and the damage is said."""
        if self._directory is None:
            return AgentState()
        path = self._directory / _FILE_NAME
        try:
            with path.open("rb") as file:
                content = file.read(_MAXIMUM_FILE_BYTES)
            return msgspec.json.decode(content, type=AgentState)
        except FileNotFoundError:
            return AgentState()
        except OSError as error:
            _logger.warning("the state in %s cannot be read and is begun anew: %s", path, error)
        except (msgspec.DecodeError, RecursionError) as error:
            aside = path.with_suffix(_DAMAGED_SUFFIX)
            with contextlib.suppress(OSError):
                path.replace(aside)
            _logger.warning("%s is damaged (%s); it is set aside as %s and begun anew", path, error, aside)
        return AgentState()

    def save(self, state: AgentState) -> None:
        """Take over a state, and write it if it changed.

        A folder that cannot be written is said once a change, and costs only the memory over a restart.
        """
        if state == self.state:
            return
        self.state = state
        if self._directory is None:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            _replace(self._directory / _FILE_NAME, msgspec.json.format(msgspec.json.encode(state)))
        except OSError as error:
            _logger.warning(
                "the state cannot be kept in %s: %s; a GPU lost over a restart will not be noticed",
                self._directory,
                error,
            )


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that it is the old one or the new one, whatever happens."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
