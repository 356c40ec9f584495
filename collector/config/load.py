"""From a file, the environment and defaults to an agent's settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from collector.config import values
from collector.config.document import MAX_BYTES, parse_document
from collector.config.rack_schema import RackConfiguration
from collector.config.schema import AgentConfiguration
from collector.config.sections import agent_section, placed, read_section
from collector.errors import ConfigurationError

DEFAULT_FILE = "/etc/rackwatt/agent.yaml"
DEFAULT_STATE_DIR = "/var/lib/rackwatt"
FILE_VARIABLE = "RACKWATT_CONFIG"

_IDENTITY_VARIABLES = (("rack", "RACKWATT_RACK"), ("node", "RACKWATT_NODE"), ("node", "NODE_NAME"))
"""Settings that the environment gives where the file does not, in order of preference (CONTRACTS §6)."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where they come from.

    Attributes:
        configuration: The settings.
        origin: The file, or `defaults`.
    """

    configuration: AgentConfiguration
    origin: str


def load_agent(
    path: str | None,
    environ: Mapping[str, str],
    platforms: Sequence[str],
    default_file: str = DEFAULT_FILE,
) -> Loaded:
    """Load an agent's settings.

    Args:
        path: The file; None looks at the environment's `RACKWATT_CONFIG`, then at `default_file` if it
            exists, and is content with defaults otherwise.
        environ: The environment.
        platforms: Names of the platform profiles.
        default_file: File that is read if it exists and nothing else is named.

    Returns:
        The settings, with what the environment adds.

    Raises:
        ConfigurationError: The file cannot be read or a setting cannot be used; one line a mistake.
    """
    named = path or environ.get(FILE_VARIABLE)
    if named is None and not os.path.lexists(default_file):
        return Loaded(with_environment(AgentConfiguration(), environ), "defaults")
    name = named or default_file
    return Loaded(with_environment(parse_agent(read_file(name), name, platforms), environ), name)


def parse_agent(data: bytes, name: str, platforms: Sequence[str]) -> AgentConfiguration:
    """Parse an agent's configuration file.

    Args:
        data: Content of the file.
        name: Name of the file, for messages.
        platforms: Names of the platform profiles.

    Returns:
        The settings.

    Raises:
        ConfigurationError: Something is wrong; one line a mistake, each with its place.
    """
    settings, mistakes = read_section(parse_document(data, name), agent_section(platforms))
    if not isinstance(settings, AgentConfiguration):
        raise ConfigurationError("\n".join(placed(mistakes, name)))
    return settings


def read_file(name: str) -> bytes:
    """Read a configuration file, one byte more than allowed at most.

    Raises:
        ConfigurationError: The file cannot be read; the message says why.
    """
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"{name}: there is no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"{name}: cannot be read: {reason}") from None


def with_environment(configuration: AgentConfiguration, environ: Mapping[str, str]) -> AgentConfiguration:
    """Fill in what the file leaves open from the environment.

    Args:
        configuration: What the file says.
        environ: The environment; an empty variable counts as none.

    Returns:
        The settings with names of rack and node, where the environment has them.

    Raises:
        ConfigurationError: A variable holds no valid name.
    """
    rack, node = configuration.rack, configuration.node
    for setting, variable in _IDENTITY_VARIABLES:
        text = environ.get(variable)
        if not text or (rack if setting == "rack" else node) is not None:
            continue
        try:
            name = values.identifier(text)
        except ValueError as error:
            raise ConfigurationError(f"environment variable {variable}: {error}") from None
        rack, node = (name, node) if setting == "rack" else (rack, name)
    return msgspec.structs.replace(configuration, rack=rack, node=node)


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """Where the agent keeps its state.

    Attributes:
        path: The directory; it need not exist yet.
        reason: Why it is this one, in words.
    """

    path: str
    reason: str


def can_write_directory(path: str) -> bool:
    """Tell whether this process can write into a directory, or can create it."""
    rights = os.W_OK | os.X_OK
    if os.path.lexists(path):
        return Path(path).is_dir() and os.access(path, rights)
    return os.access(Path(path).parent, rights)


def can_create_directory(path: str) -> bool:
    """Tell whether a directory can be written, or made with those above it that are missing."""
    folder = Path(path)
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return can_write_directory(str(folder))


def choose_state_directory(
    configuration: AgentConfiguration | RackConfiguration,
    environ: Mapping[str, str],
    can_write: Callable[[str], bool] = can_write_directory,
) -> StateDirectory:
    """Choose where to keep state.

    Args:
        configuration: The settings; `state_dir` decides where it is given.
        environ: The environment, for `XDG_STATE_HOME` and `HOME` (XDG Base Directory Specification).
        can_write: Tells whether a directory can be written or created.

    Returns:
        The directory of the settings; else /var/lib/rackwatt if it can be written; else the user's.

    Raises:
        ConfigurationError: None of them is there.
    """
    if configuration.state_dir is not None:
        return StateDirectory(configuration.state_dir, "as configured")
    if can_write(DEFAULT_STATE_DIR):
        return StateDirectory(DEFAULT_STATE_DIR, "the default")
    reason = f"{DEFAULT_STATE_DIR} cannot be written"
    # The specification says to ignore a relative path.
    state_home = environ.get("XDG_STATE_HOME", "")
    if state_home.startswith("/"):
        return StateDirectory(f"{state_home.rstrip('/')}/rackwatt", reason)
    home = environ.get("HOME", "")
    if home.startswith("/"):
        return StateDirectory(f"{home.rstrip('/')}/.local/state/rackwatt", reason)
    raise ConfigurationError(f"state_dir: {reason} and HOME is not set; give state_dir in the configuration")
