"""Serves simulated engines over HTTP, all on one port: each has a path of its own."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from collector.errors import ConfigurationError
from collector.simulator.serving.engine import SimulatedEngine

METRICS_PATH = "/metrics"
"""Where vLLM and SGLang have their metrics."""
PROMETHEUS_PATH = "/prometheus/metrics"
"""Where TensorRT-LLM has them."""

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""The client library's content type (prometheus_client, CONTENT_TYPE_LATEST)."""


class SimulatedEngineServer:
    """Serves engines; the text is written when it is asked for.

    An engine that is away answers nothing: the connection is closed, as no port would be open on hardware.

    Args:
        engines: The engines by what stands before `/metrics`: `/r01/n03`, or nothing.
    """

    def __init__(self, engines: Mapping[str, SimulatedEngine]) -> None:
        self._engines = {
            f"{prefix}{path}": engine
            for prefix, engine in engines.items()
            for path in (METRICS_PATH, PROMETHEUS_PATH)
        }
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Begin to serve.

        Args:
            host: Address to listen on.
            port: TCP port; 0 lets the system choose.

        Raises:
            ConfigurationError: The address cannot be bound.
        """
        self._runner = web.ServerRunner(web.Server(self._respond, access_log=None), shutdown_timeout=0.5)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self.close()
            raise ConfigurationError(f"{host}:{port}: cannot be listened on: {error.strerror}") from error

    async def close(self) -> None:
        """Serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def url(self, prefix: str = "", path: str = METRICS_PATH) -> str:
        """Return where an engine's metrics are.

        Args:
            prefix: What stands before the path, as given.
            path: `METRICS_PATH` or `PROMETHEUS_PATH`.
        """
        if self._runner is None:
            raise RuntimeError("the server has not been started")
        host, port = self._runner.addresses[0][:2]
        return (
            f"http://[{host}]:{port}{prefix}{path}" if ":" in host else f"http://{host}:{port}{prefix}{path}"
        )

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        engine = self._engines.get(request.path)
        if engine is None:
            return web.Response(status=404, text="there is no engine at this path\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(
                status=405, text="metrics are for reading only\n", headers={"Allow": "GET, HEAD"}
            )
        text = engine.text()
        if text is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)
        return web.Response(body=text.encode(), headers={"Content-Type": _TEXT})
