"""Puts the REST interface together."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from exporters.rest import authentication, index, problems
from exporters.rest.context import Context
from exporters.rest.middleware import Edge
from exporters.rest.protocol import RackAnswers
from exporters.rest.routes import (
    baselines,
    discovery,
    efficiency,
    history,
    later,
    maintenance,
    nodes,
    probes,
    racks,
)
from exporters.rest.settings import MAX_BODY_BYTES, RestSettings

ROUTERS = (
    racks.router,
    history.router,
    efficiency.router,
    baselines.router,
    nodes.router,
    maintenance.router,
    discovery.router,
    probes.router,
    later.router,
    index.router,
)
"""What is served, in the order of the documentation."""

_DESCRIPTION = """\
Whether each rack can be used as the unit that jobs need, what to avoid and why, and what to do about it; and
how many tokens each joule buys.

Every body says when its state was evaluated (`observed_at`) and from which age it must not be acted upon
(`stale_after_s`). What is not known is null, never zero. A rack that is not available is a good answer: 200.
Errors are problem details (RFC 9457).
"""


class _Application(FastAPI):
    """An application whose document describes its errors, too."""

    def openapi(self) -> dict[str, Any]:
        """Give the OpenAPI document; it is made once."""
        document = super().openapi()
        _, definitions = models_json_schema(
            [(problems.Problem, "serialization")], ref_template="#/components/schemas/{model}"
        )
        document["components"]["schemas"].update(definitions["$defs"])
        return document


def create_app(
    service: RackAnswers, settings: RestSettings, *, wall_ns: Callable[[], int] = time.time_ns
) -> FastAPI:
    """Make the application.

    Args:
        service: What answers.
        settings: What is allowed.
        wall_ns: Unix time in nanoseconds, from which a maintenance without a start begins.

    Raises:
        ConfigurationError: The token file cannot be used.
    """
    app = _Application(
        title="rackwatt",
        summary="Rack availability, health, history and efficiency",
        description=_DESCRIPTION,
        version=version("rackwatt"),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        # Both pages would load their scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        # A redirect would repeat the client's Host header.
        redirect_slashes=False,
        max_body_size=MAX_BODY_BYTES,
        # Tracing would cost every request, and an environment variable could send it elsewhere.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.context = Context(service, wall_ns)
    authentication.install(app, settings.api_token_file)
    problems.install(app)
    app.add_middleware(Edge)
    for router in ROUTERS:
        app.include_router(router)
    return app
