"""What a site may want otherwise in the rules that are generated."""

from __future__ import annotations

from dataclasses import dataclass

from collector.errors import ConfigurationError

LOWEST_SLO = 0.95
"""Chosen, so that every burn rate of the alerts can be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What rules depend on.

    Attributes:
        slo: Share of time for which a rack should be available whose rack service does not say it; the
            default is that of the rack service. From 0.95 on, as below 0.93 not even a whole hour of downtime
            reaches the fast burn rate of 14.4.
        runbook_url: What stands before `#alertname`: a path within the repository, or where it is served.
        dashboard_url: What stands before the uid of a dashboard, such as `/d/` of a Grafana.
        agent_job: Scrape job of the agents, as docs/rest.md has it.
        rack_job: Scrape job of the rack services.
        gpu_hour_includes_energy: Whether the price of a GPU-hour pays for its energy where the rack service
            does not say it; if not, the energy is added.

    Raises:
        ConfigurationError: The SLO is not from 0.95 to below 1, or a name cannot stand in a rule.
    """

    slo: float = 0.99
    runbook_url: str = "docs/runbooks.md"
    dashboard_url: str = "/d/"
    agent_job: str = "rackwatt-agents"
    rack_job: str = "rackwatt-racks"
    gpu_hour_includes_energy: bool = True

    def __post_init__(self) -> None:
        if not LOWEST_SLO <= self.slo < 1:
            raise ConfigurationError(
                f"slo: {self.slo:g} is not a share of time from {LOWEST_SLO:g} to below 1, such as 0.99"
            )
        for name in ("runbook_url", "dashboard_url", "agent_job", "rack_job"):
            value = getattr(self, name)
            if not value or any(sign in value for sign in "\"'\\{}#\n"):
                raise ConfigurationError(
                    f"{name}: {value!r} cannot stand in a rule; expected text without quotes, braces and #"
                )


DEFAULTS = Parameters()
"""What the committed rules are made with."""
