"""What a source delivers while it is released."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from collector.protocols import Deliver
from collector.readings import Reading

_SAY_SECONDS = 1.0
"""How often it is said: the cadence of the fast values, so that the source is not taken for silent."""


async def say_released(deliver: Deliver, why: Callable[[], str], monotonic: Callable[[], float]) -> None:
    """Deliver that nothing is read, and why, until cancelled.

    Args:
        deliver: Takes the Readings.
        why: Says the reason, which may change.
        monotonic: Clock in seconds.
    """
    while True:
        deliver(Reading(taken_at=monotonic(), generation=0, up=False, reason=why()))
        await asyncio.sleep(_SAY_SECONDS)
