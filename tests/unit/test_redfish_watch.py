"""What is told of a rack's shelves, and when."""

from __future__ import annotations

import asyncio
import logging

import pytest

from collector.efficiency.shelf import ShelfReading
from collector.sources.redfish import RedfishTarget, ShelfWatch
from tests.agent_http_client import run
from tests.peer_agents import until
from tests.redfish_services import (
    PATIENT,
    SUPPLIES,
    LiteralService,
    metrics,
    ocp_shelf,
    serving,
    target,
)

NOW_NS = 1_764_505_200_000_000_000
"""2025-11-30T12:20:00Z."""
LATER_NS = NOW_NS + 15_000_000_000


def test_before_the_first_reading_nothing_is_known_of_any_shelf() -> None:
    shelves = [RedfishTarget(name=f"shelf-{number}", url=f"https://shelf-{number}") for number in (2, 1)]
    watch = ShelfWatch({"r01": shelves, "r02": []})
    assert watch.readings("r01") == (ShelfReading("shelf-2"), ShelfReading("shelf-1"))
    assert watch.readings("r02") == watch.readings("r03") == ()


def test_a_reading_has_the_time_of_our_clock_and_an_old_one_stays() -> None:
    async def scenario() -> None:
        now = [NOW_NS]
        service = LiteralService(ocp_shelf())
        async with serving(service):
            watch = ShelfWatch({"r01": [target(service)]}, limits=PATIENT, wall_ns=lambda: now[0])
            await watch.read_all()
            (first,) = watch.readings("r01")
            assert (first.shelf, first.read_ns, first.error) == ("shelf-1", NOW_NS, "")
            assert first.watts == pytest.approx(1879.5)
            now[0] = LATER_NS
            service.documents[f"{SUPPLIES}/1/Metrics"] = metrics("1", None)
            await watch.read_all()
            (second,) = watch.readings("r01")
            assert (second.read_ns, second.watts) == (NOW_NS, first.watts)
            assert second.error == f"{SUPPLIES}/1/Metrics: power supply 1 tells no input power now"
            service.documents[f"{SUPPLIES}/1/Metrics"] = metrics("1", 1000)
            await watch.read_all()
            (third,) = watch.readings("r01")
            assert (third.read_ns, third.error) == (LATER_NS, "")
            assert third.watts == pytest.approx(1942.1)
            await watch.close()

    run(scenario)


def test_shelves_are_read_at_once_and_each_period_and_no_more_after_the_end() -> None:
    async def scenario() -> None:
        service = LiteralService(ocp_shelf())
        path = f"{SUPPLIES}/2/Metrics"
        async with serving(service):
            watch = ShelfWatch({"r01": [target(service)]}, period_seconds=0.05, limits=PATIENT)
            await watch.start()
            await until(lambda: service.requests.count(path) >= 4)
            await watch.close()
            count = len(service.requests)
            await asyncio.sleep(0.2)  # four periods
            assert len(service.requests) == count

    run(scenario)


def test_what_changes_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        service = LiteralService(ocp_shelf())
        async with serving(service):
            watch = ShelfWatch({"r01": [target(service)]}, limits=PATIENT)
            for watts in (1.0, 2.0, None, None, 3.0):
                service.documents[f"{SUPPLIES}/1/Metrics"] = metrics("1", watts)
                await watch.read_all()
            await watch.close()

    with caplog.at_level(logging.INFO, "rackwatt.redfish"):
        run(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "power shelf shelf-1 tells its power",
        f"power shelf shelf-1: {SUPPLIES}/1/Metrics: power supply 1 tells no input power now",
        "power shelf shelf-1 tells its power again",
    ]
