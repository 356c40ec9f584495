"""The server that is written to: one synchronous write at a time by influxdb-client, and what came of it.

InfluxDB 2 and 3, VictoriaMetrics and InfluxDB 1.8 take the same request, POST /api/v2/write.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from exporters.influxdb.backoff import retry_after_seconds
from exporters.influxdb.failures import Failure, describe_failure

if TYPE_CHECKING:
    from exporters.influxdb.transport import Transport

CONNECT_SECONDS = 5.0
"""How long a connection may take (chosen)."""
READ_SECONDS = 10.0
"""How long a server may be silent (chosen: influxdb-client's own default)."""
REQUEST_SECONDS = 30.0
"""How long a whole request may take, however its answer trickles (chosen)."""

NO_ORGANIZATION = "-"
"""What stands for an organization where a server has none; influxdb-client insists on one."""

_SHOWN_CHARACTERS = 400
"""Longest answer that is passed on, in a log line or beside a line that was refused."""


class Outcome(enum.Enum):
    """What an answer asks of the sender."""

    WRITTEN = "written"
    REFUSED = "refused"
    TOO_LARGE = "too_large"
    HELD = "held"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a write.

    Attributes:
        outcome: What is to be done.
        failure: Its kind, for the count of failures; None where it was written.
        words: What is wrong and what would be right, printable, bounded, without a secret.
        status: The HTTP status; None where there was none.
        retry_after_seconds: How long the server asks to wait; None if it does not.
    """

    outcome: Outcome
    failure: Failure | None = None
    words: str = ""
    status: int | None = None
    retry_after_seconds: float | None = None


WRITTEN = Answer(Outcome.WRITTEN)

_ACKNOWLEDGED = 204
"""What every server answers to what it took: InfluxDB 1.8 and 2 (API reference, PostWrite), 3 (/api/v2/write)
and VictoriaMetrics (seen)."""

_OUTCOMES = {
    201: Outcome.REFUSED,
    400: Outcome.REFUSED,
    401: Outcome.HELD,
    403: Outcome.HELD,
    404: Outcome.HELD,
    413: Outcome.TOO_LARGE,
    422: Outcome.REFUSED,
}
"""What each status asks for; redirects and other successes are held, all else is a failure that may pass. 400
refuses the whole request, 422 a part of it (facts on reliability, §1), and so does 201 of InfluxDB Cloud
("Troubleshoot
issues writing data")."""


class Writer(Protocol):
    """Writes batches; one at a time."""

    def write(self, body: bytes) -> Answer:
        """Write lines, within a bounded time, and say what came of it; a server makes it raise nothing."""

    def abort(self) -> None:
        """End a write that is under way in another thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to write.

    Attributes:
        url: Address of the server, with the path under which it stands, without a user or password.
        bucket: Bucket of InfluxDB 2, database of 3, `database/retention-policy` of 1.8.
        org: Organization; empty where the server has none.
        token: Returns the token; None where the server wants none.
        ca_file: Path of the certificate authority for `https`; None for the system's.
    """

    url: str
    bucket: str
    org: str = ""
    token: Callable[[], str] | None = None
    ca_file: str | None = None


class InfluxWriter:
    """Writes by influxdb-client, which is loaded with the first write."""

    def __init__(self, target: Target, *, wall_ns: Callable[[], int] = time.time_ns) -> None:
        """Keep where to write.

        Args:
            target: The server.
            wall_ns: Unix time in nanoseconds.
        """
        self._target = target
        self._wall_ns = wall_ns
        self._transport: Transport | None = None

    def write(self, body: bytes) -> Answer:
        """Write lines; a server's answer, or that there was none, is an Answer, too."""
        target = self._target
        token = target.token() if target.token is not None else ""
        # Here, because influxdb-client costs a process some 14 MiB that it need not have without a sink.
        from influxdb_client.client.exceptions import InfluxDBError

        try:
            transport = self._transport = self._transport or self._open()
            taken, said = transport.write(
                body, bucket=target.bucket, org=target.org or NO_ORGANIZATION, token=token
            )
        except InfluxDBError as error:
            status = getattr(error, "status", None)
            if not status:
                # The client wraps failures of TLS so, and they are no answer.
                return _unanswered(error.__context__ or error, token)
            words = _shown(str(error.message or ""), token)
            return _judge(status, words, retry_after_seconds(error.retry_after, self._wall_ns()))
        except Exception as error:  # noqa: BLE001 -- whatever a server does to urllib3 is an answer, too
            return _unanswered(error, token)
        return WRITTEN if taken == _ACKNOWLEDGED else _judge_success(taken, _shown(said, token))

    def abort(self) -> None:
        """End the request that is under way, from another thread."""
        if self._transport is not None:
            self._transport.abort()

    def _open(self) -> Transport:
        from exporters.influxdb.transport import Transport

        return Transport(
            self._target.url,
            ca_file=self._target.ca_file,
            connect_seconds=CONNECT_SECONDS,
            read_seconds=READ_SECONDS,
            request_seconds=REQUEST_SECONDS,
        )


def _unanswered(error: BaseException, token: str) -> Answer:
    failure, words = describe_failure(error)
    # What connects and then fails may do so because of what it was sent.
    outcome = Outcome.FAILED if failure in {Failure.TIMEOUT, Failure.OTHER} else Outcome.UNREACHABLE
    return Answer(outcome, failure, _shown(words, token))


def _judge_success(status: int, words: str) -> Answer:
    """Judge a success that is no acknowledgement: a part was taken, or something else stands there."""
    if status in _OUTCOMES:
        return _judge(status, words, None)
    told = (
        f"HTTP {status}: an InfluxDB answers {_ACKNOWLEDGED} to what it took; see to `url`, something else"
        " stands there"
    )
    return Answer(Outcome.HELD, Failure.OTHER, told, status)


def _judge(status: int, words: str, wait_seconds: float | None) -> Answer:
    failure = Failure.of_status(status)
    redirected = failure is Failure.REDIRECTED
    outcome = Outcome.HELD if redirected else _OUTCOMES.get(status, Outcome.FAILED)
    told = f"HTTP {status}: {words}" if words else f"HTTP {status}"
    return Answer(outcome, failure, told, status, wait_seconds)


def _shown(text: str, token: str) -> str:
    """Make foreign words fit for one line, without the token that a server may repeat."""
    if token:
        text = text.replace(token, "[hidden]")
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
