"""Bodies: made once an evaluation at most, told apart by ETag, not sent to those who have them.

**What an ETag stands for.** A body names the time of its evaluation, which moves on with every poll. The tag
leaves that time out and hashes everything else, so it is weak (RFC 9110 §8.8.1): equal tags mean equal
content, seen at another time. Because a 304 must not hide how fresh the content is, every answer says it in
`Rackwatt-Observed-At`, a 304 too; and because nothing but the client may conclude from its own copy that it
is still good, bodies are `no-store`.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from exporters.negotiation import accepts_gzip

OBSERVED_AT_HEADER = "Rackwatt-Observed-At"
"""Header with the time of the evaluation that an answer is about."""

_GZIP_LEVEL = 3
_GZIP_WBITS = 31
"""zlib.compress: 15 bits of window plus 16 for a gzip header, whose time stays 0: equal in, equal out."""
_GZIP_FROM_BYTES = 1400
"""Bodies below fit into one Ethernet frame as they are."""

_TIME_BEGINS = b'{"observed_at":'
_TIME_ENDS = b',"stale_after_s":'
"""What stands around the time of the evaluation in every body (`exporters.rest.models.common.Envelope`)."""


@dataclass(frozen=True, slots=True)
class Representation:
    """A body, ready to be sent.

    Attributes:
        body: The bytes.
        observed_at: Time of the evaluation, RFC 3339; empty if there was none yet.
        etag: Weak entity tag.
    """

    body: bytes
    observed_at: str
    etag: str
    _compressed: list[bytes] = field(default_factory=list)

    def gzip(self) -> bytes:
        """Give the body compressed; it is compressed once."""
        if not self._compressed:
            self._compressed.append(zlib.compress(self.body, _GZIP_LEVEL, _GZIP_WBITS))
        return self._compressed[0]


def represent(model: BaseModel, observed_at: str | None) -> Representation:
    """Encode a body.

    Args:
        model: The body.
        observed_at: Time of the evaluation that it is about; None if there was none yet.
    """
    body = model.model_dump_json().encode()
    # Prometheus' target list is the one body without an envelope.
    tagged = body.partition(_TIME_ENDS)[2] if body.startswith(_TIME_BEGINS) else body
    digest = hashlib.blake2b(tagged, digest_size=8).hexdigest()
    return Representation(body, observed_at or "", f'W/"{digest}"')


def answer(request: Request, representation: Representation, *, status: int = 200) -> Response:
    """Send a body, or 304 to a client that names its tag (RFC 9110 §13.1.2, weak comparison)."""
    headers = {"ETag": representation.etag, "Vary": "Accept-Encoding"}
    if representation.observed_at:
        headers[OBSERVED_AT_HEADER] = representation.observed_at
    if status == 200 and names(header(request, "If-None-Match"), representation.etag):
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = "application/json"
    body = representation.body
    if len(body) >= _GZIP_FROM_BYTES and accepts_gzip(header(request, "Accept-Encoding")):
        body = representation.gzip()
        headers["Content-Encoding"] = "gzip"
    return Response(body, status_code=status, headers=headers)


def header(request: Request, name: str) -> str:
    """Value of a header; one that comes several times is one list (RFC 9110 §5.3)."""
    return ",".join(request.headers.getlist(name))


def names(if_none_match: str, etag: str) -> bool:
    """Tell whether a list of entity tags holds a tag, weak or strong; `*` holds every one."""
    opaque = etag.removeprefix("W/")
    tags = (tag.strip() for tag in if_none_match.split(","))
    return any(tag == "*" or tag.removeprefix("W/") == opaque for tag in tags)


class Cache:
    """Representations of each body's newest evaluation, bounded in number."""

    def __init__(self, maximum: int = 512) -> None:
        """Begin empty.

        Args:
            maximum: Most bodies that are kept; past it the oldest goes.
        """
        self._maximum = maximum
        self._kept: dict[Hashable, tuple[Hashable, Representation]] = {}

    def get(self, evaluation: Hashable, key: Hashable, make: Callable[[], Representation]) -> Representation:
        """Give a body, made now if this evaluation has none yet.

        Args:
            evaluation: What tells the evaluations that a body may come from apart.
            key: What tells bodies apart: the route and its arguments.
            make: Makes the body.
        """
        evaluated, found = self._kept.pop(key, (None, None))
        if found is None or evaluated != evaluation:
            found = make()
        while len(self._kept) >= self._maximum:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (evaluation, found)
        return found
