"""What a rack service answers, beyond the types of `collector.health`, and finding things in it by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.errors import RackwattError
from collector.health.rack_types import GpuView, NodeStatus, RackStatus


class AmbiguousNameError(RackwattError):
    """Several racks have a node of this name.

    Attributes:
        racks: The racks.
    """

    def __init__(self, node: str, racks: tuple[str, ...]) -> None:
        """Say which racks have it."""
        super().__init__(f"racks {', '.join(racks)} all have a node {node}; name the rack, too")
        self.racks = racks


@dataclass(frozen=True, slots=True)
class NodeFound:
    """A node, and where it is.

    Attributes:
        rack: Its rack.
        status: What is known of it.
    """

    rack: RackStatus
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class GpuFound:
    """A GPU, and where it is.

    Attributes:
        rack: Its rack.
        node: Its node.
        gpu: What its agent said of it last; how far that is to be believed, its node's state tells.
    """

    rack: RackStatus
    node: NodeStatus
    gpu: GpuView


@dataclass(frozen=True, slots=True)
class Target:
    """An agent for Prometheus to scrape.

    Attributes:
        address: Host and port.
        rack: Rack that it is expected to belong to.
        node: Node that it is expected to be.
    """

    address: str
    rack: str
    node: str


def find_node(racks: Mapping[str, RackStatus], name: str, rack: str | None) -> NodeFound | None:
    """Find a node by name.

    Args:
        racks: The newest state of every rack.
        name: Name of the node.
        rack: Its rack; None to look in all.

    Raises:
        AmbiguousNameError: No rack is named, and several have such a node.
    """
    found = [
        NodeFound(status, node)
        for status in racks.values()
        if rack in (None, status.rack)
        for node in status.nodes
        if node.node == name
    ]
    if len(found) > 1:
        raise AmbiguousNameError(name, tuple(each.rack.rack for each in found))
    return found[0] if found else None


def find_gpu(racks: Iterable[RackStatus], gpu_uuid: str) -> GpuFound | None:
    """Find a GPU by its UUID: where it answers, else where it was last seen."""
    found = [
        GpuFound(status, node, gpu)
        for status in racks
        for node in status.nodes
        if node.poll.view is not None
        for gpu in node.poll.view.gpus
        if gpu.uuid == gpu_uuid
    ]
    return max(found, key=lambda each: each.gpu.up, default=None)
