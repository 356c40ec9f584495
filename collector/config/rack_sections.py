"""The keys of a rack service's configuration as tables, in the manner of `sections`."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from collector.config import values
from collector.config.document import ListNode, MappingNode, Node, Scalar, show
from collector.config.influx_keys import INFLUXDB
from collector.config.lists import section_list
from collector.config.price_keys import PRICE
from collector.config.rack_schema import (
    AgentAuthentication,
    AgentEntry,
    RackConfiguration,
    RackEntry,
    RedfishSetting,
)
from collector.config.reading import unexpected
from collector.config.redfish_keys import BMC, SHELVES
from collector.config.schema import Listen
from collector.config.sections import (
    LOG,
    NOT_YET,
    ConflictError,
    Key,
    Mistake,
    Section,
    Tree,
    describe,
    read_section,
)
from collector.config.urls import host_and_port

# Bounds of the poll. 1 s: an agent has a new Snapshot about once a second. 60 s: a node would be believed for
# three minutes after its last word (CONTRACTS §3, three poll intervals).
_POLL_BOUNDS = (1.0, 60.0)
# 5 s: a shelf's controller is slow. 60 s: efficiency over five minutes wants four readings (facts on tokens,
# §4).
_REDFISH_POLL_BOUNDS = (5.0, 60.0)
_MAXIMUM_RACKS = 1000
_MAXIMUM_AGENTS = 1024
"""Of one rack. The largest has 18 compute trays; racks of servers have some dozens."""
_MAXIMUM_MIN_BLOCK = 1_000_000

_OF_AN_AGENT = "belongs to an agent, `rackwatt agent`; remove it"
_LATER = ("prometheus_url", "web_config")

ComputeTrays = Callable[[str], int | None]
"""Returns the compute trays of a platform's rack; None where the platform has no rack of its own."""


def rack_service_section(platforms: Sequence[str], compute_trays: ComputeTrays) -> Section:
    """Make the table of a rack service's keys.

    Args:
        platforms: Names of the profiles.
        compute_trays: Tells how many nodes a rack of a platform has.
    """
    rack = _rack_section(platforms, compute_trays)
    return Section(
        {
            "listen": Key(values.listen_address, "an address such as 0.0.0.0:10073"),
            "state_dir": Key(values.absolute_path, "a path such as /var/lib/rackwatt"),
            "poll": Key(lambda text: values.duration_seconds(text, *_POLL_BOUNDS), "a duration such as 5s"),
            "witness": Key(_witness, "a port such as tcp:22"),
            "agent_auth": Section(
                {"bearer_token_file": Key(values.absolute_path, "a path such as /etc/rackwatt/agent.token")},
                lambda read: msgspec.convert(read, AgentAuthentication),
            ),
            "price": PRICE,
            "redfish_poll": Key(
                lambda text: values.duration_seconds(text, *_REDFISH_POLL_BOUNDS), "a duration such as 15s"
            ),
            "influxdb": INFLUXDB,
            "racks": Tree(lambda node, path: _read_racks(node, path, rack)),
            "api_token_file": Key(values.absolute_path, "a path such as /etc/rackwatt/api.token"),
            "log": LOG,
        },
        _finish,
        refused=dict.fromkeys(_LATER, NOT_YET)
        | dict.fromkeys(
            ("rack", "node", "platform", "sampling", "level", "prometheus", "checks", "serving"),
            _OF_AN_AGENT,
        ),
    )


def _finish(read: Mapping[str, object]) -> RackConfiguration:
    renamed = {"poll": "poll_seconds", "witness": "witness_port", "redfish_poll": "redfish_poll_seconds"}
    settings = {renamed.get(key, key): value for key, value in read.items()}
    if not settings.get("racks"):
        raise ConflictError("racks", "there is none; declare one such as 'racks: {r01: {platform: ...}}'")
    configuration = msgspec.convert(settings, RackConfiguration)
    addresses = Counter(entry.address for rack in configuration.racks.values() for entry in rack.agents)
    address, count = max(addresses.items(), key=lambda item: item[1])
    if count > 1:
        raise ConflictError(
            "racks", f"{address} stands for {count} nodes; every node has an agent of its own"
        )
    _check_shelves(configuration.racks.values())
    return configuration


def _check_shelves(racks: Iterable[RackEntry]) -> None:
    """See that no power shelf counts twice."""
    urls = [shelf.url.rstrip("/") for rack in racks for shelf in rack.redfish]
    counts = Counter(map(host_and_port, urls))
    for url in urls:
        if (count := counts[host_and_port(url)]) > 1:
            raise ConflictError("racks", f"the power shelf {show(url)} stands {count} times; once is right")


def _witness(text: str) -> int | None:
    if text == "none":
        return None
    kind, separator, port = text.partition(":")
    if kind != "tcp" or not separator:
        raise ValueError(f"{show(text)} is no witness; write tcp:PORT, such as tcp:22, or none")
    address = values.listen_address(f"host:{port}")
    if address.port == 0:
        raise ValueError(f"{show(text)}: a host does not answer at port 0; write tcp:22")
    return address.port


def _read_racks(node: Node, path: str, rack: Section) -> tuple[object, list[Mistake]]:
    if not isinstance(node, MappingNode):
        raise unexpected("racks by name", node)
    if len(node.entries) > _MAXIMUM_RACKS:
        raise ValueError(f"{len(node.entries)} racks; {_MAXIMUM_RACKS} at most are for one rack service")
    racks: dict[str, object] = {}
    mistakes: list[Mistake] = []
    for key, value in node.entries:
        try:
            name = values.identifier(key.text)
        except ValueError as error:
            mistakes.append(Mistake(key.place, f"{path.rstrip('.')}: {error}"))
            continue
        if not isinstance(value, MappingNode):
            found = describe(value)
            mistakes.append(
                Mistake(value.place, f"{path}{name}: expected keys ({', '.join(rack.keys)}), found {found}")
            )
            continue
        racks[name], own = read_section(value, rack, f"{path}{name}.")
        mistakes += own
    return racks, mistakes


def _rack_section(platforms: Sequence[str], compute_trays: ComputeTrays) -> Section:
    return Section(
        {
            "platform": Key(lambda text: values.choice(text, platforms), f"one of {', '.join(platforms)}"),
            "agents": _AGENTS,
            "min_block": Key(_whole, "a whole number such as 16"),
            "slo": Key(_share, "a share of time such as 0.99"),
            "cliques": Tree(_read_cliques),
            "price": PRICE,
            "redfish": SHELVES,
        },
        lambda read: _finish_rack(read, compute_trays),
    )


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:8]) <= _MAXIMUM_MIN_BLOCK and len(text) < 8):
        raise ValueError(f"{show(text)} is not a whole number of nodes, such as 16")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text) if len(text) < 20 else 2.0
    except ValueError:
        share = 2.0
    if not 0 < share < 1:
        raise ValueError(f"{show(text)} is not a share of time between 0 and 1, such as 0.99")
    return share


def _agent(item: Node) -> AgentEntry:
    """Read `HOST:PORT`, whose host is the node's name, or `NODE=HOST:PORT`."""
    if not isinstance(item, Scalar) or item.is_empty:
        raise unexpected("an address such as n01:10072", item)
    name, separator, rest = item.text.rpartition("=")
    address = _agent_address(rest)
    if separator:
        return AgentEntry(values.identifier(name), address)
    return AgentEntry(_node_of(address), address)


def _node_of(address: Listen) -> str:
    """Take the host for the node's name, as written."""
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        return values.identifier(address.host)
    raise ValueError(f"{address} does not name the node; write NODE={address}, such as n01={address}")


def _agent_address(text: str) -> Listen:
    address = values.listen_address(text)
    if address.port == 0:
        raise ValueError(f"{show(text)}: an agent does not listen on port 0; 10072 is usual")
    return address


def _finish_agent(read: Mapping[str, object]) -> AgentEntry:
    address = read.get("address")
    if not isinstance(address, Listen):
        raise ConflictError("address", "is missing; write where the agent listens, such as n01:10072")
    node = read.get("node")
    try:
        name = node if isinstance(node, str) else _node_of(address)
    except ValueError as error:
        raise ConflictError("address", str(error)) from None
    bmc = read.get("bmc")
    return AgentEntry(name, address, bmc if isinstance(bmc, RedfishSetting) else None)


_AGENTS = section_list(
    Section(
        {
            "node": Key(values.identifier, "a name such as n01"),
            "address": Key(_agent_address, "an address such as n01:10072"),
            "bmc": BMC,
        },
        _finish_agent,
    ),
    AgentEntry,
    maximum=_MAXIMUM_AGENTS,
    expects='a list such as ["n01:10072", "n02:10072"]',
    short=_agent,
)


def _read_cliques(node: Node, path: str) -> tuple[object, list[Mistake]]:
    if not isinstance(node, MappingNode):
        raise unexpected("cliques by name, each a list of nodes", node)
    cliques: dict[str, tuple[str, ...]] = {}
    mistakes: list[Mistake] = []
    for key, value in node.entries:
        try:
            cliques[values.identifier(key.text)] = tuple(_nodes(value))
        except ValueError as error:
            mistakes.append(Mistake(value.place, f"{path}{show(key.text)}: {error}"))
    return cliques, mistakes


def _nodes(node: Node) -> Iterator[str]:
    if not isinstance(node, ListNode) or not node.items:
        raise unexpected("a list of nodes such as [n01, n02]", node)
    for item in node.items:
        if not isinstance(item, Scalar) or item.is_empty:
            raise unexpected("a node such as n01", item)
        yield values.identifier(item.text)


def _finish_rack(read: Mapping[str, object], compute_trays: ComputeTrays) -> RackEntry:
    for key, example in (("platform", "gb300-nvl72"), ("agents", '["n01:10072"]')):
        if not read.get(key):
            raise ConflictError(key, f"is missing or empty; write one such as {key}: {example}")
    rack = msgspec.convert(read, RackEntry)
    nodes = [entry.node for entry in rack.agents]
    twice = [name for name, count in Counter(nodes).items() if count > 1]
    if twice:
        raise ConflictError("agents", f"node {twice[0]} stands {nodes.count(twice[0])} times; once is right")
    trays = compute_trays(rack.platform)
    if trays is not None and len(nodes) > trays:
        raise ConflictError(
            "agents", f"{len(nodes)} nodes, but a rack of {rack.platform} has {trays} compute trays"
        )
    if rack.min_block is not None and not 1 <= rack.min_block <= len(nodes):
        raise ConflictError(
            "min_block", f"{rack.min_block} is not between 1 and {len(nodes)}, the nodes of the rack"
        )
    if rack.cliques:
        _check_cliques(rack)
    return rack


def _check_cliques(rack: RackEntry) -> None:
    """See that every node is in one clique, and every node of a clique in the rack."""
    nodes = {entry.node for entry in rack.agents}
    members = Counter(node for clique in rack.cliques.values() for node in clique)
    for node, count in members.items():
        if node not in nodes:
            raise ConflictError("cliques", f"{node} is no node of the rack; {values.nearest(node, nodes)}")
        if count > 1:
            raise ConflictError("cliques", f"{node} stands in several cliques; a node is in one")
    missing = sorted(nodes - set(members))
    if missing:
        raise ConflictError("cliques", f"{missing[0]} is in none; every node is in one")
