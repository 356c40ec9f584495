"""The rack service: what its agents say becomes states, verdicts and availability, kept in a ledger."""

from __future__ import annotations

from collector.rack.answers import AmbiguousNameError, GpuFound, NodeFound, Target
from collector.rack.service import RackService
from collector.rack.settings import RackServiceSettings

__all__ = [
    "AmbiguousNameError",
    "GpuFound",
    "NodeFound",
    "RackService",
    "RackServiceSettings",
    "Target",
]
