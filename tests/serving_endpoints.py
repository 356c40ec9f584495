"""Serving endpoints for tests: servers that answer as they are told, and a reader that needs no engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from collector.catalog.engines import Role
from collector.catalog.llm import SCRAPE_ERRORS
from collector.model import Value
from collector.protocols import Feed
from collector.sources.serving.endpoint import (
    EndpointReading,
    HistogramReading,
    ModelReading,
    ScrapeError,
    ServingEndpoint,
)

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

GOOD = b"tokens 7\n"
"""What `PlainReader` takes."""


def answered(body: bytes, **headers: str) -> Answer:
    """Answer with a body; underscores in header names stand for hyphens."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        every = {"Content-Type": "text/plain; version=0.0.4", **headers}
        return web.Response(
            body=body, headers={name.replace("_", "-"): value for name, value in every.items()}
        )

    return answer


@dataclass
class FakeEngine:
    """A server that plays a serving engine.

    Attributes:
        answer: What it answers.
        requests: Headers of each request, names in lower case.
        port: Where it listens.
    """

    answer: Answer = field(default_factory=lambda: answered(GOOD))
    requests: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        self.requests.append({name.lower(): value for name, value in request.headers.items()})
        return await self.answer(request)

    def endpoint(
        self, name: str = "decode-0", *, token: Callable[[], str] | None = None, gpus: tuple[int, ...] = ()
    ) -> ServingEndpoint:
        """Return how it is configured."""
        return ServingEndpoint(name=name, url=f"http://127.0.0.1:{self.port}/metrics", token=token, gpus=gpus)


@asynccontextmanager
async def listening(*engines: FakeEngine) -> AsyncIterator[None]:
    """Let engines listen, each on a free port."""
    runners: list[web.ServerRunner] = []
    try:
        for engine in engines:
            runner = web.ServerRunner(
                web.Server(engine.handle, handler_cancellation=True), shutdown_timeout=0.1
            )
            runners.append(runner)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", engine.port).start()
            engine.port = runner.addresses[0][1]
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


def reading(
    tokens: float = 7.0,
    *,
    model: str = "llama",
    engine: str = "vllm",
    role: Role = Role.ENGINE,
    histogram: HistogramReading | None = None,
) -> EndpointReading:
    """Make what a scrape brings, of one model."""
    values = {("llm_tokens_total", "generation"): tokens, ("llm_requests_running", ""): 2.0}
    histograms = {} if histogram is None else {"llm_time_to_first_token_seconds": histogram}
    return EndpointReading(engine, role, (ModelReading(model, values, histograms),))


class PlainReader:
    """Reads `tokens 7`, and nothing else."""

    def read(self, body: bytes) -> EndpointReading:
        """Read an answer."""
        name, _, value = body.decode("utf-8", errors="replace").strip().partition(" ")
        if name != "tokens" or not value.isdigit():
            raise ScrapeError("malformed", "this is not `tokens` and a number")
        return reading(float(value))


def value_of(feed: Feed, name: str, *labels: str) -> Value | None:
    """Return the value of the only series of a metric that has these label values among its own.

    Raises:
        LookupError: There is none, or several.
    """
    found = [
        value
        for series, value in feed.rows()
        if series.metric.name == name and set(labels) <= set(series.labels)
    ]
    if len(found) != 1:
        raise LookupError(f"{len(found)} series of {name} with {labels}")
    return found[0]


def errors_of(feed: Feed, endpoint: str) -> dict[str, Value | None]:
    """Return the error counters of an endpoint that are not zero."""
    every = {error: value_of(feed, "llm_scrape_errors_total", endpoint, error) for error in SCRAPE_ERRORS}
    return {error: value for error, value in every.items() if value != 0}
