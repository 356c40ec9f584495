"""influxdb-client over a connection of ours: bounded in time and bytes, without proxy and redirects.

The client reads an answer whole, whatever it decompresses to, follows redirects with the token, and decodes
strictly. So it gets a stand-in for its connection pool that does none of that.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import urllib3
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from urllib3.connection import HTTPConnection

_MAXIMUM_ANSWER_BYTES = 64 * 1024
"""What is read of an answer (chosen); servers send some hundred bytes, and none with a success."""

# The client's WritePrecision is no enumeration; its members are texts.
_NANOSECONDS: Any = "ns"

_ERROR_HEADERS = ("X-Platform-Error-Code", "X-Influxdb-Error", "X-Influx-Error")
"""Where InfluxDB says what is wrong, too (influxdb-client, InfluxDBError)."""


class Transport:
    """One connection to one server. Used by one thread, except for `abort`."""

    def __init__(
        self,
        url: str,
        *,
        ca_file: str | None,
        connect_seconds: float,
        read_seconds: float,
        request_seconds: float,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            url: Address of the server.
            ca_file: Path of the certificate authority; None for the system's.
            connect_seconds: How long a connection may take.
            read_seconds: How long the server may be silent.
            request_seconds: How long a whole request may take.
        """
        self._link = _Link(url, ca_file, urllib3.Timeout(connect=connect_seconds, read=read_seconds))
        self._request_seconds = request_seconds
        self._aborted = False
        self._client = InfluxDBClient(url, token="", enable_gzip=True)
        self._client.api_client.rest_client.pool_manager = self._link  # type: ignore[assignment] # as said above
        self._api = self._client.write_api(write_options=SYNCHRONOUS)

    def write(self, body: bytes, *, bucket: str, org: str, token: str) -> tuple[int, str]:
        """Write lines.

        Args:
            body: The lines.
            bucket: Where to.
            org: Organization.
            token: Token; empty to show none.

        Returns:
            The HTTP status, one from 200 to 299, and the words that came with it.

        Raises:
            InfluxDBError: The server answered anything but success.
            urllib3.exceptions.HTTPError: There was no answer.
            TimeoutError: The answer was not whole in time, or `abort` was called.
        """
        headers = self._client.api_client.default_headers
        if token:
            headers["Authorization"] = f"Token {token}"
        else:
            headers.pop("Authorization", None)
        self._aborted = False
        # A server that trickles its answer stays within every other limit.
        watchdog = threading.Timer(self._request_seconds, self.abort)
        watchdog.daemon = True
        watchdog.start()
        try:
            self._api.write(bucket, org, body, write_precision=_NANOSECONDS)
        finally:
            watchdog.cancel()
        if self._aborted:
            # What had come by then was taken for a whole answer.
            raise TimeoutError
        return self._link.answered

    def abort(self) -> None:
        """End the request that is under way, from any thread."""
        self._aborted = True
        self._link.abort()


@dataclass(frozen=True, slots=True)
class _BoundedAnswer:
    """What the client sees of an answer."""

    status: int
    reason: str
    data: bytes
    headers: Mapping[str, str]


class _Link:
    """Stands in for the client's pool manager: one host, one connection.

    Attributes:
        answered: Status and words of the last answer: the client passes those of a success on to nobody.
    """

    def __init__(self, url: str, ca_file: str | None, timeout: urllib3.Timeout) -> None:
        secure = {"cert_reqs": "CERT_REQUIRED", "ca_certs": ca_file} if url.startswith("https:") else {}
        self.answered = (0, "")
        self._timeout = timeout
        self._connection: HTTPConnection | None = None
        self._pool = urllib3.connection_from_url(url, maxsize=1, block=True, retries=False, **secure)
        make: Callable[..., HTTPConnection] = self._pool.ConnectionCls  # type: ignore[assignment] # a class

        def connect(*args: object, **options: object) -> HTTPConnection:
            self._connection = make(*args, **options)
            return self._connection

        self._pool.ConnectionCls = connect  # type: ignore[assignment] # urllib3 does nothing but call it

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        **_: object,
    ) -> _BoundedAnswer:
        """Do what the client asks for, and hand it a short answer in UTF-8."""
        answer = self._pool.urlopen(
            method,
            urllib3.util.parse_url(url).request_uri,
            body=body,
            headers=headers,
            redirect=False,
            timeout=self._timeout,
            preload_content=False,
            decode_content=False,
        )
        try:
            data = answer.read(_MAXIMUM_ANSWER_BYTES + 1, decode_content=False)
            if len(data) > _MAXIMUM_ANSWER_BYTES:
                answer.close()
        except BaseException:
            answer.close()
            raise
        finally:
            answer.release_conn()
        message = _message(answer.headers, data[:_MAXIMUM_ANSWER_BYTES])
        self.answered = (answer.status, message)
        shown = json.dumps({"message": message}).encode() if message else b""
        return _BoundedAnswer(answer.status, answer.reason or "", shown, answer.headers)

    def clear(self) -> None:
        """Close the connection; the client calls it when it is done."""
        self._pool.close()

    def abort(self) -> None:
        """Shut the connection's socket, so that whoever waits for it fails at once."""
        end = self._connection.sock if self._connection is not None else None
        if isinstance(end, socket.socket):
            with suppress(OSError):
                # Not the TLS object's own method, which would wait for the peer.
                socket.socket.shutdown(end, socket.SHUT_RDWR)


def _message(headers: Mapping[str, str], data: bytes) -> str:
    """Take the words of an answer: of its JSON, else of its header, else all of it."""
    text = data.decode("utf-8", errors="replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        for key in ("message", "error"):
            if isinstance(document.get(key), str) and document[key]:
                return _with_details(document[key], document)
    for name in _ERROR_HEADERS:
        if headers.get(name):
            return str(headers[name])
    return text


def _with_details(message: str, document: Mapping[str, object]) -> str:
    """Add what InfluxDB 3 says of single lines: `data`, a list with `error_message` each."""
    data = document.get("data")
    first = data[0] if isinstance(data, list) and data else data
    detail = first.get("error_message") if isinstance(first, dict) else None
    return f"{message}: {detail}" if isinstance(detail, str) and detail else message
