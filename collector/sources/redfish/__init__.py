"""Redfish: power shelves and the power state of hosts (DMTF DSP0266 and its schemas)."""

from __future__ import annotations

from collector.sources.redfish.client import RedfishLimits
from collector.sources.redfish.power_states import BmcTarget, PowerStates
from collector.sources.redfish.shelf_watch import ShelfWatch
from collector.sources.redfish.target import RedfishError, RedfishTarget, default_name

__all__ = [
    "BmcTarget",
    "PowerStates",
    "RedfishError",
    "RedfishLimits",
    "RedfishTarget",
    "ShelfWatch",
    "default_name",
]
