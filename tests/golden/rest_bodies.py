"""The REST bodies for the rack service of `tests/rest_double.py`, as files for people to read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from exporters.rest.app import create_app
from exporters.rest.settings import RestSettings
from tests.rest_client import ask
from tests.rest_double import ServiceDouble

BODIES: Mapping[str, str] = {
    "availability.json": "/v1/racks/r01/availability?window=30d&min_block=16",
    "baselines.json": "/v1/baselines",
    "domains.json": "/v1/domains",
    "efficiency.json": "/v1/racks/r01/efficiency",
    "efficiency_of_an_unwatched_rack.json": "/v1/racks/h01/efficiency?window=1h",
    "events.json": "/v1/events?limit=3",
    "gpu.json": "/v1/gpus/GPU-n07-2",
    "health.json": "/v1/racks/r01/health",
    "health_of_another_block.json": "/v1/racks/r01/health?min_block=17",
    "maintenance.json": "/v1/maintenance",
    "node.json": "/v1/nodes/n07",
    "nodes.json": "/v1/racks/h01/nodes",
    "problem.json": "/v1/nodes/n01",
    "rack.json": "/v1/racks/h01",
    "racks.json": "/v1/racks",
    "targets.json": "/sd/prometheus",
}
"""Files and what is asked for them."""


def render(name: str) -> str:
    """Ask for the body of a file, and write it as the file has it."""
    app = create_app(ServiceDouble(), RestSettings())
    return json.dumps(json.loads(ask(app, BODIES[name]).body), indent=2, ensure_ascii=False) + "\n"
