"""What the REST interface is told."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_BODY_BYTES = 64 * 1024
"""Largest request body; a maintenance window that names a thousand nodes has about 20 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What the server spends on its clients.

    Attributes:
        connections: Open connections; one more closes the one that is missed least.
        request_seconds: Time that a client has to send its request.
        answer_seconds: Time that a client has to read its answer.
        idle_seconds: Time that a connection is kept for a next request.
        header_bytes: Longest request line with all its headers.
        backlog: Connections that the system holds until they are accepted.
    """

    connections: int = 256
    request_seconds: float = 10.0
    answer_seconds: float = 10.0
    idle_seconds: float = 75.0
    header_bytes: int = 16 * 1024
    backlog: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """Settings of the REST interface.

    Attributes:
        host: Address or host name to listen on.
        port: TCP port; 0 lets the system choose.
        api_token_file: File with the token that writes need; None refuses every write.
        limits: What the server spends on its clients.
    """

    host: str = "127.0.0.1"
    port: int = 10073
    api_token_file: str | None = None
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
