"""Plays the story on the running demo: declares maintenance, and lets agents fall silent.

What happens to hardware is not played here: the simulated nodes know their faults from the start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from collector.cli.demonstration.story import Scene, Silence
from collector.errors import ConfigurationError

_logger = logging.getLogger("rackwatt.demo")

_RETRY_SECONDS = 1.0
_SECOND_NS = 1_000_000_000


class Server(Protocol):
    """Serves an agent's Snapshots on a port."""

    async def start(self) -> None:
        """Serve; raises ConfigurationError if the port is taken."""

    async def close(self) -> None:
        """Serve no more, until started again."""


class Planner(Protocol):
    """Takes declarations of maintenance: a rack service."""

    async def create_maintenance(
        self,
        rack: str,
        *,
        ends_ns: int,
        starts_ns: int | None = None,
        nodes: Iterable[str] = (),
        reason: str = "",
        created_by: str = "",
    ) -> object:
        """Declare a maintenance that begins now."""


@dataclass(frozen=True, slots=True)
class Tempo:
    """Turns times of the story into waiting.

    Attributes:
        started_at: When the story began, on the monotonic clock.
        speed: How many times as fast it is told.
    """

    started_at: float
    speed: float

    async def until(self, story_seconds: float) -> None:
        """Wait until a time of the story; return at once if it has passed."""
        due = self.started_at + story_seconds / self.speed
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def play(
    story: Iterable[Scene],
    tempo: Tempo,
    planner: Planner,
    servers: Mapping[tuple[str, str], Server],
    stop: asyncio.Event,
) -> None:
    """Play what the story does to agents and rack service, until `stop` is set.

    Args:
        story: What happens.
        tempo: When.
        planner: Where maintenance is declared.
        servers: What serves each agent, by rack and node.
        stop: Ends it.
    """
    acts: list[Coroutine[None, None, None]] = []
    for scene in story:
        if scene.maintenance_seconds is not None:
            acts.append(_declare(scene, scene.maintenance_seconds, tempo, planner))
        if scene.silence is not None:
            acts.append(_fall_silent(servers[scene.rack, scene.node], scene.at_seconds, scene.silence, tempo))
    async with asyncio.TaskGroup() as group:
        playing = [group.create_task(act) for act in acts]
        await stop.wait()
        for task in playing:
            task.cancel()


async def _declare(scene: Scene, length_seconds: float, tempo: Tempo, planner: Planner) -> None:
    """Declare a maintenance; its length is real time, whatever the speed."""
    await tempo.until(scene.at_seconds)
    await planner.create_maintenance(
        scene.rack,
        nodes=(scene.node,),
        ends_ns=time.time_ns() + int(length_seconds * _SECOND_NS),
        reason=scene.maintenance_reason,
        created_by="the demo",
    )


async def _fall_silent(server: Server, first_seconds: float, silence: Silence, tempo: Tempo) -> None:
    """Close an agent's port and open it again, over and over; the agent reads on meanwhile."""
    begin_seconds = first_seconds
    while True:
        await tempo.until(begin_seconds)
        await server.close()
        await tempo.until(begin_seconds + silence.lasts_seconds)
        await _serve_again(server)
        begin_seconds += silence.period_seconds


async def _serve_again(server: Server) -> None:
    """Open the port again; somebody else may have it for now."""
    said = False
    while True:
        try:
            await server.start()
        except ConfigurationError as error:
            if not said:
                _logger.error("%s", error)  # noqa: TRY400 -- the message says it all
            said = True
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return
