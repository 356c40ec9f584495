"""How the daemons of the command line end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from types import FrameType


def stop_on_signals(stop: asyncio.Event, loop: asyncio.AbstractEventLoop, logger: logging.Logger) -> None:
    """Let SIGTERM and SIGINT set an event, and a second one of them end the process on the spot.

    Args:
        stop: The event.
        loop: The loop on which it is waited for.
        logger: Where to say so.
    """

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        # The log is written by the loop, which this also wakes.
        loop.call_soon_threadsafe(logger.info, "stopping")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
