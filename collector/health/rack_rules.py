"""What is wrong between the nodes of a rack: skew, a slot or a GPU twice, a node of another rack."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from collector.health.rack_types import ExpectedRack, NodeView, Reason
from collector.health.states import Impact

_NODE_VERSIONS = {"driver_version": "driver", "kernel": "kernel"}
"""Labels of `node_info` that must be the same on every node, with the word for people."""
_GPU_VERSIONS = {"vbios": "VBIOS", "inforom": "InfoROM"}
"""Labels of `gpu_info` that must be the same on every GPU of one name and board part."""

RULE_CHECKS = frozenset(
    {
        "chassis_mismatch",
        "duplicate_gpu",
        "duplicate_slot",
        "rack_mismatch",
        "unexpected_node",
        "version_skew",
    }
)
"""Ids of the rules over several nodes."""

Findings = Mapping[str, tuple[Reason, ...]]


def compare_nodes(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Findings:
    """Apply the rules that need several nodes.

    Args:
        expected: The rack as declared.
        views: Believable Snapshots by expected node.

    Returns:
        Reasons by expected node, those without any left out. Only a GPU that is counted twice takes a node
        out of the schedulable set; the rest is `warn` (CONTRACTS §3).
    """
    known = {node: views[node] for node in expected.nodes if node in views}
    found: defaultdict[str, list[Reason]] = defaultdict(list)
    for rule in (_names, _version_skew, _gpu_version_skew, _chassis, _duplicate_slot, _duplicate_gpu):
        for reason in rule(expected, known):
            found[reason.node].append(reason)
    return {node: tuple(reasons) for node, reasons in found.items()}


def unexpected_nodes(expected: ExpectedRack, polled: Iterable[str]) -> tuple[Reason, ...]:
    """Return a reason for each node that was polled although the rack does not declare it."""
    return tuple(
        Reason(
            check="unexpected_node",
            impact=Impact.WARN,
            text=f"node {node} is polled, but rack {expected.rack} does not declare it",
            action="Declare it, or take it out of the configuration.",
            node=node,
        )
        for node in sorted(set(polled) - set(expected.nodes))
    )


def _names(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Iterator[Reason]:
    for node, view in views.items():
        if view.node != node:
            yield _warn(
                "unexpected_node",
                node,
                f"the agent of {node} says that it is {view.node!r}",
                "Correct the address in the configuration, or the node's name in its agent's.",
            )
        if view.rack != expected.rack:
            yield _warn(
                "rack_mismatch",
                node,
                f"the agent of {node} says that it is in rack {view.rack!r}, not {expected.rack!r}",
                "Correct `rack` in its agent's configuration, or the agents of this rack.",
            )


def _warn(check: str, node: str, text: str, action: str, *, metric: str = "") -> Reason:
    return Reason(
        check=check,
        impact=Impact.WARN,
        text=text,
        action=action,
        node=node,
        metric=metric,
    )


def _usual(values: Mapping[str, str]) -> tuple[str, int]:
    """Return the value that most have, the greatest of equals, and how many have it."""
    counts = Counter(values.values())
    value = max(counts, key=lambda value: (counts[value], value))
    return value, counts[value]


def _version_skew(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Iterator[Reason]:
    for label, word in _NODE_VERSIONS.items():
        values = {node: view.identity[label] for node, view in views.items() if view.identity.get(label)}
        if not values:
            continue
        usual, having = _usual(values)
        for node, value in values.items():
            if value != usual:
                yield _warn(
                    "version_skew",
                    node,
                    f"{word} {value}, where {having} of {len(values)} nodes have {usual}",
                    f"Bring the {word} to one version over the rack.",
                    metric="node_info",
                )


def _gpu_version_skew(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Iterator[Reason]:
    for label, word in _GPU_VERSIONS.items():
        boards: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for view in views.values():
            for gpu in view.gpus:
                if gpu.texts.get(label):
                    board = (gpu.texts.get("name", ""), gpu.texts.get("board_part", ""))
                    boards[board][gpu.uuid] = gpu.texts[label]
        usual = {board: _usual(values)[0] for board, values in boards.items()}
        for node, view in views.items():
            odd = {
                gpu.texts[label]: gpu
                for gpu in view.gpus
                if gpu.texts.get(label)
                and gpu.texts[label] != usual[gpu.texts.get("name", ""), gpu.texts.get("board_part", "")]
            }
            for value, gpu in sorted(odd.items()):
                most = usual[gpu.texts.get("name", ""), gpu.texts.get("board_part", "")]
                yield _warn(
                    "version_skew",
                    node,
                    f"{word} {value}, where most GPUs of this board have {most}",
                    f"Bring the {word} to one version over the rack.",
                    metric="gpu_info",
                )


def _chassis(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Iterator[Reason]:
    """Compare the serials of the chassis, which trays of one rack share; HGX nodes have one each."""
    if not expected.rack_wide_fabric:
        return
    values = {node: view.chassis_serial for node, view in views.items() if view.chassis_serial}
    if not values:
        return
    usual, having = _usual(values)
    for node, serial in values.items():
        if serial != usual:
            yield _warn(
                "chassis_mismatch",
                node,
                f"chassis serial {serial}, where {having} of {len(values)} nodes have {usual}",
                "Find out in which rack this tray stands, and correct the configuration.",
                metric="gpu_info",
            )


def _duplicate_slot(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Iterator[Reason]:
    places: defaultdict[tuple[str, int, str], list[str]] = defaultdict(list)
    for node, view in views.items():
        if view.slot is not None and view.chassis_serial:
            host = view.gpus[0].texts.get("host", "") if view.gpus else ""
            places[view.chassis_serial, view.slot, host].append(node)
    for (_, slot, _), nodes in places.items():
        for node in nodes if len(nodes) > 1 else ():
            others = ", ".join(other for other in nodes if other != node)
            yield _warn(
                "duplicate_slot",
                node,
                f"slot {slot} is claimed by {others} too",
                "See whether two addresses lead to one agent; else correct the slot in the tray's FRU data.",
                metric="gpu_info",
            )


def _duplicate_gpu(expected: ExpectedRack, views: Mapping[str, NodeView]) -> Iterator[Reason]:
    """Let the node that is who it should be, else the first declared, keep a GPU that two nodes report."""
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for node, view in views.items():
        for uuid in {gpu.uuid for gpu in view.gpus if gpu.up and gpu.uuid}:
            holders[uuid].append(node)
    told: set[str] = set()
    for uuid, nodes in sorted(holders.items()):
        keeper = min(nodes, key=lambda node: (views[node].node != node, expected.nodes.index(node)))
        for node in nodes:
            if node == keeper or node in told:
                continue
            told.add(node)
            yield Reason(
                check="duplicate_gpu",
                impact=Impact.AVOID,
                text=f"GPU {uuid} is reported by {keeper} too; a GPU counts once",
                action="See whether two addresses lead to one agent.",
                node=node,
                gpu_uuid=uuid,
                metric="gpu_up",
            )
