"""Configuration: what the user wrote, checked, as frozen settings."""

from __future__ import annotations

from collector.config.load import (
    Loaded,
    StateDirectory,
    can_create_directory,
    can_write_directory,
    choose_state_directory,
    load_agent,
    parse_agent,
)
from collector.config.rack_load import load_rack_service, parse_rack_service
from collector.config.rack_schema import RackConfiguration, RackEntry
from collector.config.schema import (
    AgentConfiguration,
    Listen,
    LogSettings,
    PrometheusSettings,
    Sampling,
)
from collector.config.values import duration_seconds, listen_address, reachable_address, show_duration

__all__ = [
    "AgentConfiguration",
    "Listen",
    "Loaded",
    "LogSettings",
    "PrometheusSettings",
    "RackConfiguration",
    "RackEntry",
    "Sampling",
    "StateDirectory",
    "can_create_directory",
    "can_write_directory",
    "choose_state_directory",
    "duration_seconds",
    "listen_address",
    "load_agent",
    "load_rack_service",
    "parse_agent",
    "parse_rack_service",
    "reachable_address",
    "show_duration",
]
