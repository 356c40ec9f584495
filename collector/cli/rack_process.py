"""What a rack service asks of its process: enough open files, and no long rounds of the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
from collections.abc import Callable

_logger = logging.getLogger("rackwatt.rack")

_FILES_PER_AGENT = 2
"""The connection to the agent, and one to its host while a second witness is asked."""
_FURTHER_FILES = 1024
"""Clients of the REST interface, the ledger, the log, and what Python itself opens."""
_LOOK_SECONDS = 1.0


def allow_open_files(agents: int) -> None:
    """Raise the process's own limit of open files to what it may need, as far as the system allows.

    The usual soft limit is 1024, for programs that use select(2); the hard one is far above it
    (systemd.exec(5), "Process Properties", LimitNOFILE). Nothing here uses select.

    Args:
        agents: How many agents are polled.
    """
    wanted = _FILES_PER_AGENT * agents + _FURTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        _logger.warning(
            "%d agents may need %d open files, and %d are allowed; raise the hard limit (LimitNOFILE)",
            agents,
            wanted,
            allowed,
        )


async def spare_what_lasts(why_not_ready: Callable[[], str]) -> None:
    """Once everything is known, let the garbage collector pass over what is there by then.

    Code, and the series tables of a thousand agents, stay as long as the process; a full round over them
    takes 0.1 s, in which nothing is polled or answered. What is freed by its last reference is not concerned.

    Args:
        why_not_ready: Tells what is still awaited; empty if nothing is.
    """
    while why_not_ready():  # noqa: ASYNC110 # it is asked of a service that does not tell by itself
        await asyncio.sleep(_LOOK_SECONDS)
    gc.collect()
    gc.freeze()
