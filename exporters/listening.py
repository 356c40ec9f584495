"""What to tell a person when an address cannot be listened on."""

from __future__ import annotations

import errno
import os

_ADVICE = {
    errno.EADDRINUSE: "stop what listens there, or listen on another port",
    errno.EACCES: "listen on a port above 1023, or grant CAP_NET_BIND_SERVICE",
}
_USUAL_ADVICE = "listen on an address of this machine, or on 0.0.0.0 for all"


def why_not_listening(host: str, port: int, error: OSError) -> str:
    """Put a failed bind into words: where, why, and what would be right."""
    # asyncio's own message repeats the address, so the text of the number is taken; name resolution has none.
    known = error.errno in errno.errorcode
    reason = os.strerror(error.errno) if error.errno is not None and known else error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0, _USUAL_ADVICE)
    return f"cannot listen on {host}:{port}: {reason}; {advice} (`listen:` or --listen HOST:PORT)"
