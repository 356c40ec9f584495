"""docker-compose.yml as tests see it: services, what they mount, and their files with other addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
COMPOSE_FILE = ROOT / "docker-compose.yml"

Document = dict[str, Any]  # a YAML document

# host:container, or address:host:container.
_PORT = re.compile(r"(?:(?P<address>[\d.]+):)?(?P<published>\d+):(?P<target>\d+)")


@dataclass(frozen=True)
class Mount:
    """What a service finds at a path.

    Attributes:
        source: Path in this repository, or name of a volume.
        target: Path in the container.
        read_only: Whether the container cannot write to it.
    """

    source: str
    target: str
    read_only: bool

    @property
    def is_volume(self) -> bool:
        """Whether it is a named volume."""
        return not self.source.startswith(".")

    @property
    def path(self) -> Path:
        """The file or folder in this repository."""
        assert not self.is_volume, self
        return ROOT / self.source


@dataclass(frozen=True)
class Port:
    """A port that a service publishes on the host."""

    address: str
    published: int
    target: int


def read_yaml(path: Path) -> Document:
    """Read a YAML file that holds a mapping."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict), path
    return document


def stack() -> Document:
    """Read docker-compose.yml, its anchors resolved."""
    return read_yaml(COMPOSE_FILE)


def services() -> dict[str, Document]:
    """Return the services by name, those of profiles included."""
    found: dict[str, Document] = stack()["services"]
    return found


def is_ours(service: Document) -> bool:
    """Tell whether a service runs the image of this repository."""
    return "build" in service


def runs_once(service: Document) -> bool:
    """Tell whether a service ends by itself."""
    return bool(service["restart"] == "no")


def trays() -> dict[str, Document]:
    """Return the simulated agents."""
    return {name: each for name, each in services().items() if "--simulate" in each.get("command", [])}


def mounts(service: Document) -> list[Mount]:
    """Return what a service mounts, but for what lies in memory."""
    found = []
    for text in service.get("volumes", []):
        source, target, *mode = text.split(":")
        assert mode in ([], ["ro"]), text
        found.append(Mount(source, target, bool(mode)))
    return found


def file_of(service: Document, target: str) -> Path:
    """Return the file or folder of this repository that a service finds at a path."""
    (found,) = (mount for mount in mounts(service) if mount.target == target)
    return found.path


def ports(service: Document) -> list[Port]:
    """Return the ports that a service publishes."""
    found = []
    for text in service.get("ports", []):
        match = _PORT.fullmatch(text)
        assert match, text
        found.append(Port(match["address"] or "0.0.0.0", int(match["published"]), int(match["target"])))  # noqa: S104 - compared, not bound
    return found


def readdress(text: str, addresses: Mapping[tuple[str, int], str], paths: Mapping[str, str]) -> str:
    """Replace `service:port` in a text by an address, and paths of the container by other ones.

    Args:
        text: What a file holds, or an argument.
        addresses: `host:port` by name and port of the service.
        paths: Paths by the path that they replace.

    Returns:
        The text as it is to be used. An agent in a list, `"n01:10072"`, becomes `"n01=127.0.0.1:4000"`, since
        its host is the node's name there.
    """
    own = {f"{name}:{port}": address for (name, port), address in addresses.items()}
    agents = {
        f'"{name}:{port}"': f'"{name}={own[f"{name}:{port}"]}"' for name, port in addresses if name in trays()
    }
    return _replace(text, {**agents, **own, **paths})


def _replace(text: str, others: Mapping[str, str]) -> str:
    """Replace words in one pass, the longest first, so that nothing is replaced twice."""
    words = "|".join(re.escape(word) for word in sorted(others, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])(?:{words})(?![\w-])", lambda match: others[match[0]], text)
