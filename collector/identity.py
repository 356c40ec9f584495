"""Who this node is: its names, settled once and kept until the agent restarts (CONTRACTS §6)."""

from __future__ import annotations

import platform
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from collector.errors import ConfigurationError
from collector.state import AgentState

UNASSIGNED = "unassigned"
"""Name of a rack that nothing tells."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""What a rack or node may be called (CONTRACTS §5)."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Names:
    """Rack and node, as labels."""

    rack: str
    node: str


@dataclass(frozen=True, slots=True)
class Host:
    """What the operating system says of itself, and of this agent.

    Attributes:
        hostname: Host name.
        boot_id: The kernel's boot id; empty where there is none.
        kernel: Kernel release.
        agent_version: Version of rackwatt.
        agent_id: Identity of this agent process.
        simulated: Whether the hardware is simulated.
    """

    hostname: str
    boot_id: str
    kernel: str
    agent_version: str
    agent_id: str
    simulated: bool = False


def settle_names(
    *,
    rack: str | None,
    node: str | None,
    environment: Mapping[str, str],
    state: AgentState,
    chassis_serial: str,
    hostname: str,
) -> Names:
    """Settle the names: configuration, environment, what was kept, hardware and host, `unassigned`.

    Args:
        rack: Configured rack.
        node: Configured node.
        environment: `RACKWATT_RACK`, `RACKWATT_NODE`, `NODE_NAME` are looked at.
        state: What was kept.
        chassis_serial: Serial of the rack's chassis, or empty.
        hostname: Host name.

    Raises:
        ConfigurationError: A name of the environment has characters that a name must not have.
    """
    return Names(
        rack=rack
        or _from_environment(environment, "RACKWATT_RACK")
        or state.rack
        or _fitting(chassis_serial)
        or UNASSIGNED,
        node=node
        or _from_environment(environment, "RACKWATT_NODE")
        or _from_environment(environment, "NODE_NAME")
        or state.node
        or _fitting(hostname)
        or UNASSIGNED,
    )


def _from_environment(environment: Mapping[str, str], variable: str) -> str:
    name = environment.get(variable, "")
    if name and not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"environment variable {variable}: {name!r} is no name; use 1 to 64 of A-Z a-z 0-9 . _ -"
        )
    return name


def _fitting(text: str) -> str:
    """Make a name of a text that others chose."""
    return _NOT_IN_NAMES.sub("-", text).strip("-")[:64]


def describe_host(*, simulated: bool = False) -> Host:
    """Ask the operating system."""
    return Host(
        hostname=socket.gethostname(),
        boot_id=_boot_id(),
        kernel=platform.release(),
        agent_version=version("rackwatt"),
        agent_id=uuid.uuid4().hex,
        simulated=simulated,
    )


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()[:64]
    except OSError:
        return ""
