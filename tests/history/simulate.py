"""Makes a history: turns the clock, and writes what Prometheus would have scraped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from collector.rack import RackService
from collector.simulator import ManualClock
from dashboards.rules.parameters import DEFAULTS
from exporters.rest.app import create_app
from exporters.rest.settings import RestSettings
from tests.history.exposition import Target, end
from tests.history.plans import HOUR_SECONDS, LEAD_SECONDS, Plan
from tests.history.service import WatchedRack
from tests.history.tray import AGENT_PORT, BEGIN_NS, SCRAPE_SECONDS, START_SECONDS, wall_ns_of
from tests.rest_client import call

_SERVICE_PORT = 10073
_MORE_A_SECOND = 2e-7
"""Far below the millisecond of a timestamp over all of a history (chosen)."""

BEGIN_SECONDS = BEGIN_NS // 10**9
END_SECONDS = BEGIN_SECONDS + LEAD_SECONDS + HOUR_SECONDS
"""Unix time of the last scrape, at which the hour ends."""


@dataclass(frozen=True)
class History:
    """What was made.

    Attributes:
        plan: What it shows.
        file: The samples, as OpenMetrics.
        racks: The racks as they are at its end; their nodes tell the truth of any earlier moment, too.
        rest: Bodies of the REST interface at its end, by path.
    """

    plan: Plan
    file: Path
    racks: Mapping[str, WatchedRack]
    rest: Mapping[str, Mapping[str, object]]


def simulate(plan: Plan, folder: Path) -> History:
    """Make a history.

    Args:
        plan: What it shows.
        folder: Where its file is written.
    """
    return asyncio.run(_simulate(plan, folder))


async def _simulate(plan: Plan, folder: Path) -> History:
    # One second more, as calls wait for a moment at times.
    clock = ManualClock(START_SECONDS, limit=START_SECONDS + plan.seconds + 1)
    racks = [WatchedRack(rack, plan, clock, _ledger_folder(rack.name, plan, folder)) for rack in plan.racks]
    targets = [_Targets(rack) for rack in racks]
    path = folder / f"{plan.name}.txt"
    with path.open("wb") as file:
        for rack, own in zip(racks, targets, strict=True):
            if plan.has_past:
                past = rack.past()
                async for time_ns in past.scrapes():
                    own.scrape_service(past.service, time_ns, file)
        for second in range(0, plan.seconds + 1, plan.poll_seconds):
            # A little more each time: the ledger takes what is at least five seconds after the last.
            clock.set(START_SECONDS + second + second * _MORE_A_SECOND)
            scraped = second % SCRAPE_SECONDS == 0
            for rack, own in zip(racks, targets, strict=True):
                if scraped:
                    rack.read_slow()
                if second == 0:
                    await rack.service.start()
                await rack.step()
                if scraped:
                    own.scrape(wall_ns_of(clock), file)
        end(file)
    rest: dict[str, Mapping[str, object]] = {}
    for rack in racks:
        rest |= await _answers(rack)
        await rack.service.close()
    return History(plan, path, {rack.plan.name: rack for rack in racks}, rest)


def _ledger_folder(rack: str, plan: Plan, folder: Path) -> Path | None:
    """Make a folder for a ledger that is handed on; one that is not needs none."""
    if not plan.has_past:
        return None
    own = folder / f"{plan.name}-{rack}-ledger"
    own.mkdir()
    return own


class _Targets:
    """What Prometheus scrapes of a rack."""

    def __init__(self, rack: WatchedRack) -> None:
        name, cluster = rack.plan.name, rack.plan.cluster
        self._rack = rack
        self._agents = {
            tray.name: Target(
                DEFAULTS.agent_job,
                f"{tray.name}:{AGENT_PORT}",
                {"rack": name, "node": tray.name},
                cluster=cluster,
            )
            for tray in rack.trays
        }
        self._service = Target(DEFAULTS.rack_job, f"rack-{name}:{_SERVICE_PORT}", {}, cluster=cluster)

    def scrape(self, time_ns: int, file: BinaryIO) -> None:
        silent = self._rack.silent()
        for tray in self._rack.trays:
            snapshot = None if silent[tray.name] else tray.snapshot
            self._agents[tray.name].scrape(snapshot, time_ns, file)
        self.scrape_service(self._rack.service, time_ns, file)

    def scrape_service(self, service: RackService, time_ns: int, file: BinaryIO) -> None:
        self._service.scrape(service.snapshot(), time_ns, file)


async def _answers(rack: WatchedRack) -> Mapping[str, Mapping[str, object]]:
    """Ask the REST interface what the dashboards show, too."""
    name = rack.plan.name
    app = create_app(rack.service, RestSettings(host="127.0.0.1", port=_SERVICE_PORT))
    asked = (
        f"/v1/racks/{name}/health",
        f"/v1/racks/{name}/nodes",
        f"/v1/racks/{name}/availability?window=1h",
        f"/v1/racks/{name}/availability?window=30d",
        f"/v1/racks/{name}/efficiency?window=5m",
        f"/v1/racks/{name}/efficiency?window=1h",
    )
    found: dict[str, Mapping[str, object]] = {}
    for path in asked:
        answer = await call(app, path)
        assert answer.status == 200, (path, answer.body)
        found[path] = answer.json()
    return found
