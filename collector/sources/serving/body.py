"""The body of a scrape, unpacked as it comes and never beyond a bound."""

from __future__ import annotations

import zlib

from collector.sources.serving.endpoint import ScrapeError

_GZIP = 16 + zlib.MAX_WBITS
"""`wbits` for a gzip header and trailer (zlib.h, `inflateInit2`)."""

_LOOKED_AT_BYTES = 64
"""White space beyond which no JSON is looked for (chosen)."""


class Body:
    """Collects a body, and stops at a bound on what it unfolds to.

    Attributes:
        unpacked_bytes: How much was unpacked, whether it was kept or not.
    """

    def __init__(self, maximum_bytes: int, *, gzip: bool) -> None:
        """Begin empty.

        Args:
            maximum_bytes: What a body may have, unpacked.
            gzip: Whether it comes packed.
        """
        self.unpacked_bytes = 0
        self._maximum_bytes = maximum_bytes
        self._content = bytearray()
        self._unpacker = zlib.decompressobj(_GZIP) if gzip else None

    def add(self, part: bytes) -> None:
        """Take the next part as it was sent.

        Raises:
            ScrapeError: `too_large` or `malformed`.
        """
        if self._unpacker is not None:
            # One byte more than there is room for tells that there is more.
            part = self._unpack(self._unpacker, part, self._maximum_bytes - self.unpacked_bytes + 1)
        self.unpacked_bytes += len(part)
        if self.unpacked_bytes > self._maximum_bytes:
            raise too_large(self._maximum_bytes)
        self._content += part

    def whole(self) -> bytes:
        """Return the body, unpacked.

        Raises:
            ScrapeError: `malformed`: it is packed and ends too early. `drained_json`: it is JSON.
        """
        if self._unpacker is not None and not self._unpacker.eof:
            raise ScrapeError("malformed", "the answer is gzip that ends too early")
        if self._content[:_LOOKED_AT_BYTES].lstrip().startswith((b"[", b"{")):
            raise drained_json()
        return bytes(self._content)

    @staticmethod
    def _unpack(unpacker: zlib._Decompress, part: bytes, room_bytes: int) -> bytes:
        try:
            unpacked = unpacker.decompress(part, room_bytes)
        except zlib.error as error:
            raise ScrapeError("malformed", f"the answer says it is gzip and is not: {error}") from None
        if unpacker.unused_data:
            raise ScrapeError("malformed", "the answer goes on after the end of its gzip")
        return unpacked


def too_large(maximum_bytes: int) -> ScrapeError:
    """Say that an answer is larger than any engine's metrics."""
    return ScrapeError(
        "too_large", f"the answer is larger than {maximum_bytes / 1024 / 1024:g} MiB; no engine's metrics are"
    )


def drained_json() -> ScrapeError:
    """Say that an answer is JSON, which `/metrics` of TensorRT-LLM hands out once (facts on tokens, §1)."""
    return ScrapeError(
        "drained_json",
        "the answer is JSON; that of TensorRT-LLM is emptied by whoever reads it, so it is not read again "
        "until the agent restarts: use `/prometheus/metrics`",
    )
