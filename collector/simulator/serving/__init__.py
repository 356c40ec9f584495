"""Simulated serving engines: what vLLM and SGLang say of themselves on a simulated node.

`collector.simulator.serving.server` serves it; it is imported by whoever serves, as it needs aiohttp.
"""

from __future__ import annotations

from collector.simulator.serving.dialects import DIALECTS, Dialect, dialect_of_tray
from collector.simulator.serving.engine import SimulatedEngine

__all__ = ["DIALECTS", "Dialect", "SimulatedEngine", "dialect_of_tray"]
