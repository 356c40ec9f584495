"""What can be configured: frozen settings with defaults that are right on the first run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from collector.catalog.engines import Role
from collector.catalog.spec import Level

AUTOMATIC_PLATFORM = "auto"
"""Value of `platform` for which the hardware decides."""


class Listen(msgspec.Struct, frozen=True):
    """Address that a server listens on.

    Attributes:
        host: Host name or IP address, without brackets.
        port: TCP port; 0 lets the system choose one.
    """

    host: str
    port: int

    def __str__(self) -> str:
        """Write it as in the configuration: `0.0.0.0:10072`, `[::]:10072`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How often what is read, by cadence of the catalogue.

    Attributes:
        fast_seconds: Power, utilization, clocks, temperatures, a GPU's NVLink traffic.
        links_seconds: Each NVLink, errors, fabric, PCIe.
        slow_seconds: What hardly changes: identity and modes.
        serving_seconds: Endpoints of serving engines.
    """

    fast_seconds: float = 1.0
    links_seconds: float = 10.0
    slow_seconds: float = 60.0
    serving_seconds: float = 5.0


class ServingSetting(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of a serving engine.

    Attributes:
        name: Its name; host and port of its address unless one was written.
        url: Where its metrics are.
        engine: Name of its engine; None to recognize it.
        role: Whether it is an engine or a router; None for what its engine usually is.
        gpus: Indices of the GPUs that it computes on.
        ca_file: Absolute path of the certificate authority for `https`; None for the system's.
        token_file: Absolute path of the file with the bearer token that it wants; None for none.
    """

    name: str
    url: str
    engine: str | None = None
    role: Role | None = None
    gpus: tuple[int, ...] = ()
    ca_file: str | None = None
    token_file: str | None = None


class PrometheusSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The Prometheus exposition.

    Attributes:
        enabled: Whether `/metrics` is served.
    """

    enabled: bool = True


class SpoolSetting(msgspec.Struct, frozen=True, kw_only=True):
    """Where points wait on disk until the server has them.

    Attributes:
        path: Absolute path of the folder; None for one in the folder of state.
        max_bytes: Size from which on the oldest are given up.
        max_age_seconds: Age from which on they are given up.
    """

    path: str | None = None
    max_bytes: int = 512 * 2**20
    max_age_seconds: float = 7 * 86_400.0


class InfluxdbSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A server that points are written to (CONTRACTS §7).

    Attributes:
        url: Address of the server, without the write path.
        bucket: Bucket of InfluxDB 2, database of 3, `database/retention-policy` of 1.8.
        org: Organization; empty where the server has none.
        token_file: Absolute path of the file with the token; None to show none.
        ca_file: Absolute path of the certificate authority for `https`; None for the system's.
        level: Up to which level rows are written, of those that are read.
        families: Measurements, and patterns for names of metrics, that are written.
        exclude: What of it is not.
        periods_seconds: How often rows of a cadence are written; usual where it is missing.
        periods_of: Families with a period of their own, in seconds; the first that fits counts.
        events: Whether events are written.
        spool: Where points wait.
    """

    url: str
    bucket: str
    org: str = ""
    token_file: str | None = None
    ca_file: str | None = None
    level: Level = Level.FULL
    families: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    periods_seconds: Mapping[str, float] = {}
    periods_of: tuple[tuple[str, float], ...] = ()
    events: bool = True
    spool: SpoolSetting = SpoolSetting()


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The log, which goes to standard error.

    Attributes:
        format: One of `collector.logs.FORMATS`.
        level: Least severe line that is written, one of `collector.logs.LEVELS`.
    """

    format: str = "human"
    level: str = "info"


XID_SEVERITIES = ("fatal", "warn", "app", "info")
"""Classes of Xids (collector/health/xids.toml)."""


class XidSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed of an Xid; None leaves it as the catalogue has it.

    Attributes:
        severity: Its class.
        repeat: Times in 24 hours on one GPU from which on it counts; 0 never.
    """

    severity: Literal["fatal", "warn", "app", "info"] | None = None
    repeat: int | None = None


class AgentConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an agent (CONTRACTS §6).

    Attributes:
        rack: Name of the rack; None leaves it to what the agent finds.
        node: Name of the node; None leaves it to what the agent finds.
        platform: Name of a profile, or `auto`.
        listen: Where the agent serves.
        state_dir: Absolute path where the agent keeps its state; None for the default place.
        sampling: How often what is read.
        level: How much is exported.
        checks: Thresholds by check, where they are not those of the catalogue.
        xids: What is changed of Xids, by number.
        prometheus: The Prometheus exposition.
        influxdb: The InfluxDB that is written to; None for none.
        serving: Endpoints of serving engines on this node.
        log: The log.
    """

    rack: str | None = None
    node: str | None = None
    platform: str = AUTOMATIC_PLATFORM
    listen: Listen = Listen("0.0.0.0", 10072)  # noqa: S104 -- a scraper reads it from another machine
    state_dir: str | None = None
    sampling: Sampling = Sampling()
    level: Level = Level.STANDARD
    checks: dict[str, int | float] = {}
    xids: dict[int, XidSetting] = {}
    prometheus: PrometheusSettings = PrometheusSettings()
    influxdb: InfluxdbSetting | None = None
    serving: tuple[ServingSetting, ...] = ()
    log: LogSettings = LogSettings()
