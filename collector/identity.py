"""Who this node is: its names, settled once and kept until the agent restarts (CONTRACTS §6)."""

from __future__ import annotations

import platform
import re
import socket
import uuid
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from collector.state import AgentState

UNASSIGNED = "unassigned"
"""Name of a rack that nothing tells."""

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
    state: AgentState,
    chassis_serial: str,
    hostname: str,
) -> Names:
    """Settle the names: what is configured, what was kept, hardware and host, `unassigned`.

    Args:
        rack: Rack by configuration or environment.
        node: Node by configuration or environment.
        state: What was kept.
        chassis_serial: Serial of the rack's chassis, or empty.
        hostname: Host name.
    """
    return Names(
        rack=rack or state.rack or _fitting(chassis_serial) or UNASSIGNED,
        node=node or state.node or _fitting(hostname) or UNASSIGNED,
    )


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
