"""The agent's HTTP server: the exposition, the Snapshot and health documents, probes and a landing page.

Everything is answered from the newest Snapshot; nothing here reads hardware.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from collector.errors import ConfigurationError
from collector.model import Snapshot
from exporters.health_document import HealthWriter
from exporters.http_server import BoundedServer, Limits, problem, respond, sentence
from exporters.landing import LandingPage
from exporters.listening import why_not_listening
from exporters.negotiation import accepts_gzip
from exporters.prometheus import Exposition
from exporters.prometheus import negotiate as negotiate_text
from exporters.snapshot import DocumentWriter, ages_now
from exporters.snapshot import negotiate as negotiate_document

READY_AGE_SECONDS = 5.0
"""Oldest fast data with which the agent counts as ready (CONTRACTS §3, "good poll")."""

SNAPSHOT_AGE_SECONDS = 10.0
"""Oldest Snapshot whose values `/metrics` still serves. An agent publishes about once a second even while
it reads nothing, so beyond this it is stuck, and its last values are no longer true."""

_CURSOR_DIGITS = 19
"""Digits of 2**63 - 1, more than any cursor has."""

_METHODS = ("GET", "HEAD")

Route = Callable[[web.BaseRequest], web.Response]


class AgentHttpExporter:
    """Serves the newest Snapshot over HTTP; an `Exporter`.

    | Path | Answer |
    |---|---|
    | `/metrics` | Prometheus text or OpenMetrics, gzip on request |
    | `/v1/snapshot` | the Snapshot document, JSON or MessagePack; `?slots=`, `?after=` |
    | `/v1/health` | states of node and GPUs, and every check that did not pass, as JSON |
    | `/-/healthy` | 200 as long as the event loop lives |
    | `/-/ready` | 200 while NVML is up and its fast data at most 5 s old, else 503 and why |
    | `/` | a page for people |
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to serve; nothing is bound before `start`.

        Args:
            host: Address or host name to listen on.
            port: TCP port; 0 lets the system choose.
            limits: What the server spends on its clients.
            monotonic: Clock in seconds, by which Snapshots age.
        """
        self._host = host
        self._port = port
        self._limits = limits or Limits()
        self._monotonic = monotonic
        self._server: BoundedServer | None = None
        self._snapshot: Snapshot | None = None
        self._published_seconds = 0.0
        self._exposition = Exposition()
        self._documents = DocumentWriter()
        self._health_writer = HealthWriter()
        self._page = LandingPage()
        self._routes: dict[str, Route] = {
            "/metrics": self._metrics,
            "/v1/snapshot": self._document,
            "/v1/health": self._health,
            "/-/healthy": self._healthy,
            "/-/ready": self._ready,
            "/": self._landing,
        }

    @property
    def port(self) -> int:
        """The bound port; before `start` the configured one."""
        return self._server.port if self._server else self._port

    def publish(self, snapshot: Snapshot) -> None:
        """Take the newest Snapshot; nothing is rendered before somebody asks."""
        self._snapshot = snapshot
        self._published_seconds = self._monotonic()
        self._exposition.publish(snapshot)

    async def start(self) -> None:
        """Bind the address and accept connections.

        Raises:
            ConfigurationError: The address cannot be bound.
        """
        if self._server is not None:
            return
        try:
            self._server = await BoundedServer.listen(self._host, self._port, self._handle, self._limits)
        except OSError as error:
            raise ConfigurationError(why_not_listening(self._host, self._port, error)) from error
        # Started again after `close`, it is found where it was.
        self._port = self._server.port

    async def close(self) -> None:
        """Stop listening and end every connection, within 2 s."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        route = self._routes.get(request.path)
        if route is None:
            known = ", ".join(self._routes)
            return problem(HTTPStatus.NOT_FOUND, f"Nothing is served at this path; these are: {known}.")
        if request.method not in _METHODS:
            allow = ", ".join(_METHODS)
            detail = f"This path answers {allow} only."
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"Allow": allow})
        return route(request)

    def _metrics(self, request: web.BaseRequest) -> web.Response:
        reason = self._why_no_values()
        if reason:
            return sentence(reason, status=HTTPStatus.SERVICE_UNAVAILABLE)
        form = negotiate_text(_header(request, "Accept"))
        gzip = accepts_gzip(_header(request, "Accept-Encoding"))
        headers = {"Vary": "Accept, Accept-Encoding", **({"Content-Encoding": "gzip"} if gzip else {})}
        return respond(self._exposition.body(form, gzip=gzip), form.value, headers=headers)

    def _document(self, request: web.BaseRequest) -> web.Response:
        if self._snapshot is None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, self._why_no_values())
        after = request.query.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= _CURSOR_DIGITS):
            detail = "`after` is not a cursor: it must be a whole number as in `events.next`, such as 0."
            return problem(HTTPStatus.BAD_REQUEST, detail)
        form = negotiate_document(_header(request, "Accept"))
        body = self._documents.write(
            self._snapshot,
            form,
            slots_held=request.query.get("slots", ""),
            after=int(after),
            elapsed_seconds=self._elapsed_seconds(),
        )
        return respond(body, form.value, headers={"Vary": "Accept"})

    def _health(self, request: web.BaseRequest) -> web.Response:
        if self._snapshot is None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, self._why_no_values())
        not_ready = why_not_ready(self._snapshot, self._elapsed_seconds())
        return respond(self._health_writer.write(self._snapshot, not_ready=not_ready), "application/json")

    def _healthy(self, request: web.BaseRequest) -> web.Response:
        return sentence("The agent is alive.")

    def _ready(self, request: web.BaseRequest) -> web.Response:
        reason = why_not_ready(self._snapshot, self._elapsed_seconds())
        if reason:
            return sentence(f"Not ready: {reason}", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return sentence("Ready: NVML is up and its data are fresh.")

    def _landing(self, request: web.BaseRequest) -> web.Response:
        body = self._page.render(
            self._snapshot,
            not_ready=why_not_ready(self._snapshot, self._elapsed_seconds()),
            elapsed_seconds=self._elapsed_seconds(),
            address=request.host,
        )
        return respond(body, "text/html; charset=utf-8", headers=self._page.headers)

    def _why_no_values(self) -> str:
        """Say why there are no values to serve; empty if there are."""
        if self._snapshot is None:
            return "The agent has taken no Snapshot yet; it is starting."
        elapsed = self._elapsed_seconds()
        if elapsed > SNAPSHOT_AGE_SECONDS:
            return f"The agent has taken no Snapshot for {elapsed:.0f} s; its last values are withheld."
        return ""

    def _elapsed_seconds(self) -> float:
        return self._monotonic() - self._published_seconds


def why_not_ready(snapshot: Snapshot | None, elapsed_seconds: float) -> str:
    """Say why an agent with this Snapshot is not ready; empty if it is.

    Args:
        snapshot: The newest Snapshot, or None.
        elapsed_seconds: Time since it was published.
    """
    if snapshot is None:
        return "the agent has taken no Snapshot yet."
    if not snapshot.nvml_up:
        return snapshot.reason or "NVML is not up."
    age = ages_now(snapshot, elapsed_seconds).get("fast")
    if age is None:
        return "the fast values have not been read yet."
    if age > READY_AGE_SECONDS:
        return f"the fast values are {age:.1f} s old, more than {READY_AGE_SECONDS:.0f} s."
    return ""


def _header(request: web.BaseRequest, name: str) -> str:
    """Value of a header; one that comes several times is one list (RFC 9110 §5.3)."""
    return ",".join(request.headers.getall(name, ()))
