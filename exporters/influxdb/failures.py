"""Why a write failed, told apart for metrics and in words for people."""

from __future__ import annotations

import enum


class Failure(enum.Enum):
    """Kinds of failures; the values are those of the label `error` (collector.catalog.influxdb)."""

    CERTIFICATE = "certificate"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    OVERLOADED = "overloaded"
    REDIRECTED = "redirected"
    REFUSED_LINES = "refused_lines"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    UNAUTHORIZED = "unauthorized"
    UNREACHABLE = "unreachable"
    OTHER = "other"

    @classmethod
    def of_status(cls, status: int | None) -> Failure:
        """Return the kind of an HTTP status that acknowledges nothing, or not all."""
        if status in _OF_STATUS:
            return _OF_STATUS[status]
        if status is not None and 300 <= status < 400:
            return cls.REDIRECTED
        return cls.SERVER_ERROR if status is not None and status >= 500 else cls.OTHER


_OF_STATUS: dict[int | None, Failure] = {
    201: Failure.REFUSED_LINES,
    400: Failure.REFUSED_LINES,
    401: Failure.UNAUTHORIZED,
    403: Failure.FORBIDDEN,
    404: Failure.NOT_FOUND,
    413: Failure.TOO_LARGE,
    422: Failure.REFUSED_LINES,
    429: Failure.OVERLOADED,
    503: Failure.OVERLOADED,
}

ADVICE = {
    Failure.CERTIFICATE: "see to the server's certificate, or give `ca_file`",
    Failure.FORBIDDEN: "give the token the right to write to the bucket",
    Failure.NOT_FOUND: "see to `bucket`, `org` and `url`: there is no such bucket, or no v2 write path",
    Failure.OTHER: "",
    Failure.OVERLOADED: "",
    Failure.REDIRECTED: "write the address that it points to into `url`: redirects are not followed",
    Failure.REFUSED_LINES: "it refuses every line: see to `url`, `org` and `bucket`",
    Failure.SERVER_ERROR: "",
    Failure.TIMEOUT: "",
    Failure.TOO_LARGE: "",
    Failure.UNAUTHORIZED: "see to `token_file`: the server does not know the token",
    Failure.UNREACHABLE: "",
}
"""What a person can do about it; empty where waiting is all."""


def describe_failure(error: BaseException) -> tuple[Failure, str]:
    """Say what went wrong where no HTTP answer came.

    Args:
        error: What urllib3, its own causes included, raised.

    Returns:
        The kind, and words that hold neither address nor secret.
    """
    from urllib3 import exceptions

    if isinstance(error, exceptions.NameResolutionError):
        return Failure.UNREACHABLE, "the host's name cannot be resolved"
    # Of urllib3 2 a kind of ConnectTimeoutError, though no time ran out.
    if isinstance(error, exceptions.NewConnectionError):
        return Failure.UNREACHABLE, f"no connection: {_root(error)}"
    if isinstance(error, exceptions.ConnectTimeoutError):
        return Failure.UNREACHABLE, "no connection within the time limit"
    if isinstance(error, exceptions.SSLError):
        return Failure.CERTIFICATE, f"TLS: {_root(error)}"
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return Failure.TIMEOUT, "the server took the connection and did not answer within the time limit"
    if isinstance(error, exceptions.ProtocolError | OSError):
        return Failure.TIMEOUT, f"the connection broke before the answer: {_root(error)}"
    return Failure.OTHER, f"{type(error).__name__}: {error}"


def _root(error: BaseException) -> str:
    """Return the words of the cause below all wrappers."""
    seen = {id(error)}
    while True:
        inner = error.__cause__ or error.__context__ or _argument(error)
        if inner is None or id(inner) in seen:
            break
        seen.add(id(inner))
        error = inner
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__


def _argument(error: BaseException) -> BaseException | None:
    return next((each for each in error.args if isinstance(each, BaseException)), None)
