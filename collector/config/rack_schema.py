"""What can be configured of a rack service (CONTRACTS §6)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from collector.config.schema import InfluxdbSetting, Listen, LogSettings


class RedfishSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A service of Redfish: of a power shelf, or of a node's BMC.

    Attributes:
        url: Where it is: scheme, host and port.
        user: Who we are to it; None to show nothing.
        password_file: Absolute path of the file with the password; None to show nothing.
        ca_file: Absolute path of the certificate authority for `https`; None for the system's.
        system: Id of the system that is the node; None where the service has but one.
    """

    url: str
    user: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    system: str | None = None


class PriceSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What things cost; None where it is not said.

    Attributes:
        gpu_hour_usd: A GPU for an hour, US dollars.
        kwh_usd: A kilowatt-hour, US dollars.
        pue: Power of the whole facility to that of its racks.
        gpu_hour_includes_energy: Whether the price of a GPU pays for its electricity, too; None for yes.
    """

    gpu_hour_usd: float | None = None
    kwh_usd: float | None = None
    pue: float | None = None
    gpu_hour_includes_energy: bool | None = None

    def over(self, general: PriceSetting) -> PriceSetting:
        """Return what is said here, and for the rest what is said in general."""
        return PriceSetting(
            **{
                key: general_value if (own := getattr(self, key)) is None else own
                for key, general_value in msgspec.structs.asdict(general).items()
            }
        )


class AgentEntry(msgspec.Struct, frozen=True):
    """An expected node, and where its agent listens.

    Attributes:
        node: Name of the node.
        address: Host and port.
        bmc: Its BMC; None where nothing asks it.
    """

    node: str
    address: Listen
    bmc: RedfishSetting | None = None


class RackEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One rack.

    Attributes:
        platform: Name of its profile.
        agents: Its nodes in the order of their slots; the inventory against which everything is judged.
        min_block: Smallest usable block of nodes; None for the default.
        slo: Share of time for which the rack should be available.
        cliques: Declared cliques: nodes by name; empty for one clique of all nodes.
        price: What things cost for this rack, where it differs.
        redfish: Its power shelves.
    """

    platform: str
    agents: tuple[AgentEntry, ...]
    min_block: int | None = None
    slo: float = 0.99
    cliques: Mapping[str, tuple[str, ...]] = {}
    price: PriceSetting = PriceSetting()
    redfish: tuple[RedfishSetting, ...] = ()


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
        price: What things cost.
        redfish_poll_seconds: Time between two readings of one power shelf.
        influxdb: The InfluxDB that the racks' series are written to; None for none.
        api_token_file: Absolute path of the file with the token that writers show; None to allow no writes.
        log: The log.
    """

    racks: Mapping[str, RackEntry]
    listen: Listen = Listen("0.0.0.0", 10073)  # noqa: S104 -- schedulers read it from another machine
    state_dir: str | None = None
    poll_seconds: float = 5.0
    witness_port: int | None = None
    agent_auth: AgentAuthentication = AgentAuthentication()
    price: PriceSetting = PriceSetting()
    redfish_poll_seconds: float = 15.0
    influxdb: InfluxdbSetting | None = None
    api_token_file: str | None = None
    log: LogSettings = LogSettings()
