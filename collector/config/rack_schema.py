"""What can be configured of a rack service (CONTRACTS §6)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from collector.config.schema import Listen, LogSettings


class AgentEntry(msgspec.Struct, frozen=True):
    """An expected node, and where its agent listens.

    Attributes:
        node: Name of the node.
        address: Host and port.
    """

    node: str
    address: Listen


class RackEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One rack.

    Attributes:
        platform: Name of its profile.
        agents: Its nodes in the order of their slots; the inventory against which everything is judged.
        min_block: Smallest usable block of nodes; None for the default.
        slo: Share of time for which the rack should be available.
        cliques: Declared cliques: nodes by name; empty for one clique of all nodes.
    """

    platform: str
    agents: tuple[AgentEntry, ...]
    min_block: int | None = None
    slo: float = 0.99
    cliques: Mapping[str, tuple[str, ...]] = {}


class AgentAuthentication(msgspec.Struct, frozen=True, kw_only=True):
    """What the rack service shows to agents.

    Attributes:
        bearer_token_file: Absolute path of the file that holds the token; None to show none.
    """

    bearer_token_file: str | None = None


class RackConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a rack service.

    Attributes:
        racks: The racks by name.
        listen: Where the rack service serves.
        state_dir: Absolute path where it keeps its ledger; None for the default place.
        poll_seconds: Time between two polls of one agent.
        witness_port: TCP port by which a silent node's host is asked; None to ask nothing.
        agent_auth: What it shows to agents.
        api_token_file: Absolute path of the file with the token that writers show; None to allow no writes.
        log: The log.
    """

    racks: Mapping[str, RackEntry]
    listen: Listen = Listen("0.0.0.0", 10073)  # noqa: S104 -- schedulers read it from another machine
    state_dir: str | None = None
    poll_seconds: float = 5.0
    witness_port: int | None = None
    agent_auth: AgentAuthentication = AgentAuthentication()
    api_token_file: str | None = None
    log: LogSettings = LogSettings()
