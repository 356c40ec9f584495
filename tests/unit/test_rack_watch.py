"""The watch of a rack service: what it took from its agents is recorded, whatever happens in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from collector.health.rack_judge import RackJudge
from collector.health.rack_types import RackStatus
from collector.model import Event
from tests.agent_http_client import run
from tests.peer_agents import until
from tests.rack_builders import SECOND, T0, nvl72
from tests.rack_services import Scene, scene

HOUR = 3600 * SECOND


def xid(cursor: int, code: int = 79) -> Event:
    return Event(cursor=cursor, time_ns=T0 + cursor, kind="xid", gpu_uuid="GPU-n01-0", gpu="0", code=code)


def played(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def play() -> None:
        async with scene(nvl72()) as own:
            own.steps(2)
            await scenario(own)

    run(play)


async def codes(own: Scene) -> list[int | None]:
    return [event.code for event in reversed(await own.service.events(kind="xid"))]


def test_an_event_that_came_with_a_maintenance_is_not_forgotten() -> None:
    async def scenario(own: Scene) -> None:
        own.node("n01").events = (xid(1),)
        # It counts at once: the rack is judged beside the usual times, and again before anything is recorded.
        await own.service.create_maintenance("r01", ends_ns=own.clock.wall_ns() + HOUR, nodes=["n02"])
        own.node("n01").events = (xid(2, code=94),)
        own.step()
        assert await codes(own) == [79, 94]
        own.steps(2)
        assert await codes(own) == [79, 94]  # once

    played(scenario)


def test_an_event_of_a_round_that_failed_is_recorded_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = RackJudge.evaluate

    def broken(self: RackJudge, *arguments: object, **options: object) -> RackStatus:
        raise ZeroDivisionError("a defect")

    async def scenario(own: Scene) -> None:
        own.node("n01").events = (xid(1),)
        monkeypatch.setattr(RackJudge, "evaluate", broken)
        own.service._watch.evaluate_rack("r01")
        monkeypatch.setattr(RackJudge, "evaluate", evaluate)
        own.step()
        assert await codes(own) == [79]

    played(scenario)


def test_maintenance_that_ended_long_ago_is_forgotten() -> None:
    async def scenario(own: Scene) -> None:
        await own.service.create_maintenance("r01", ends_ns=own.clock.wall_ns() + HOUR, nodes=["n02"])
        own.step(2 * 3600)
        assert len(own.service.maintenance_windows("r01")) == 1
        own.step(400 * 86400)
        assert own.service.maintenance_windows("r01") == ()

    played(scenario)


def test_it_is_ready_once_every_rack_was_judged_after_every_agent_was_polled() -> None:
    async def scenario() -> None:
        async with scene(nvl72(), nvl72(rack="r02"), heard=False) as own:
            assert "36 agents" in own.service.why_not_ready()
            own.poller.heard = True
            own.service._watch._settle()
            assert "judged" in own.service.why_not_ready()
            await until(lambda: not own.service.why_not_ready())
            verdicts = {status.verdict.value for status in own.service.racks()}
            assert verdicts == {"AVAILABLE"}

    run(scenario)
