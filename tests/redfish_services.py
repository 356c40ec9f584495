"""Redfish services for tests: literal documents over real HTTP, and servers that misbehave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from collector.simulator.redfish_server import SimulatedRedfishServer
from collector.sources.redfish import RedfishLimits, RedfishTarget
from collector.sources.redfish.client import RedfishClient
from collector.sources.redfish.shelf_watch import ShelfReader

Document = dict[str, Any]  # as a broken service may write it
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | None]]

ROOT = "/redfish/v1"
SHELF = f"{ROOT}/Chassis/PowerShelf"
SUPPLIES = f"{SHELF}/PowerSubsystem/PowerSupplies"

QUICK = RedfishLimits(request_seconds=0.3, reading_seconds=1.0)
"""For services that never answer."""
PATIENT = RedfishLimits(request_seconds=20.0, reading_seconds=20.0)
"""For all others: on a busy machine nothing may depend on time."""


class LiteralService(SimulatedRedfishServer):
    """A service that serves documents by path, or answers as a test says.

    Attributes:
        documents: The documents by path; they may be changed while it serves.
        answer: What it answers instead; None from it, or without it, for the document.
        requests: Paths with queries, in order.
    """

    def __init__(
        self,
        documents: Mapping[str, Document],
        *,
        answer: Answer | None = None,
        user: str = "",
        password: str = "",
    ) -> None:
        super().__init__(user=user, password=password)
        self.documents = dict(documents)
        self.answer = answer
        self.requests: list[str] = []

    def resource(self, path: str) -> Document | None:
        return self.documents.get(path)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        given = await self.answer(request) if self.answer is not None else None
        return given if given is not None else await super().respond(request)


@asynccontextmanager
async def serving(service: SimulatedRedfishServer) -> AsyncIterator[SimulatedRedfishServer]:
    """Let a service listen on a free port of 127.0.0.1."""
    await service.start()
    try:
        yield service
    finally:
        await service.close()


def target(service: SimulatedRedfishServer, name: str = "shelf-1", **more: Any) -> RedfishTarget:
    """Make the target of a service that listens."""
    return RedfishTarget(name=name, url=service.url, **more)


@asynccontextmanager
async def reading(
    service: SimulatedRedfishServer, limits: RedfishLimits = PATIENT, **more: Any
) -> AsyncIterator[ShelfReader]:
    """Serve, and give a reader of the shelf."""
    async with serving(service):
        client = RedfishClient(target(service, **more), limits)
        try:
            yield ShelfReader(client)
        finally:
            await client.close()


def link(path: str) -> Document:
    """Make a reference."""
    return {"@odata.id": path}


def collection(*members: str, **more: object) -> Document:
    """Make a collection."""
    return {"Members": [link(member) for member in members], "Members@odata.count": len(members), **more}


def without(documents: Mapping[str, Document], *paths: str) -> dict[str, Document]:
    """Leave documents out."""
    return {path: document for path, document in documents.items() if path not in paths}


def ocp_shelf() -> dict[str, Document]:
    """Make a shelf of two supplies, in the words of OCP's usage guide of the power shelf profile.

    Names, members and figures of supply 1 and EnvironmentMetrics are those of "Usage Guide and Requirements
    for the OCP Power Shelf Management API v1.0.0"; supply 2 is another one like it.
    """
    documents: dict[str, Document] = {
        ROOT: {"@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot", "Chassis": link(f"{ROOT}/Chassis")},
        f"{ROOT}/Chassis": collection(SHELF),
        SHELF: {
            "@odata.type": "#Chassis.v1_23_0.Chassis",
            "Id": "PowerShelf",
            "ChassisType": "Shelf",
            "SerialNumber": "SERIAL NUMBER STRING",
            "PowerSubsystem": link(f"{SHELF}/PowerSubsystem"),
            "EnvironmentMetrics": link(f"{SHELF}/EnvironmentMetrics"),
        },
        f"{SHELF}/PowerSubsystem": {
            "@odata.type": "#PowerSubsystem.v1_1_0.PowerSubsystem",
            "CapacityWatts": 8000,
            "PowerSupplies": link(SUPPLIES),
        },
        SUPPLIES: collection(f"{SUPPLIES}/1", f"{SUPPLIES}/2"),
        f"{SHELF}/EnvironmentMetrics": {
            "@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
            "PowerWatts": {
                "DataSourceUri": f"{SHELF}/Sensors/ShelfPower",
                "Reading": 6438,
                "ApparentVA": 6300,
                "ReactiveVAR": 100,
                "PowerFactor": 0.93,
            },
        },
    }
    for number, watts in (("1", 937.4), ("2", 942.1)):
        documents[f"{SUPPLIES}/{number}"] = supply(number)
        documents[f"{SUPPLIES}/{number}/Metrics"] = metrics(number, watts)
    return documents


def supply(number: str, state: str | None = "Enabled") -> Document:
    """Make a PowerSupply."""
    return {
        "@odata.id": f"{SUPPLIES}/{number}",
        "@odata.type": "#PowerSupply.v1_5_2.PowerSupply",
        "Id": number,
        "Name": f"Power Supply {number}",
        "Status": {"State": state, "Health": "OK"},
        "PowerCapacityWatts": 2000,
        "Metrics": link(f"{SUPPLIES}/{number}/Metrics"),
    }


def metrics(number: str, watts: float | None) -> Document:
    """Make a PowerSupplyMetrics."""
    return {
        "@odata.type": "#PowerSupplyMetrics.v1_1_0.PowerSupplyMetrics",
        "InputVoltage": {"DataSourceUri": f"{SHELF}/Sensors/PS{number}InputVoltage", "Reading": 230.2},
        "InputPowerWatts": {"DataSourceUri": f"{SHELF}/Sensors/PS{number}InputPower", "Reading": watts},
        "OutputPowerWatts": {"DataSourceUri": f"{SHELF}/Sensors/PS{number}OutputPower", "Reading": watts},
    }
