"""A Redfish service that has no hardware behind it: a power shelf, or the BMC of a host, over HTTP.

Its resources have the shape of DMTF's schemas, as the Open Compute Project's profile of power shelves shows
them ("Usage Guide and Requirements for the OCP Power Shelf Management API"). One server is one service, as in
a rack, where every shelf has a controller of its own.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

import msgspec
from aiohttp import web

from collector.errors import ConfigurationError
from collector.simulator.power_shelf import SUPPLY_CAPACITY_WATTS, SimulatedShelf

Resource = dict[str, object]

ROOT: Final = "/redfish/v1"
SHELF: Final = f"{ROOT}/Chassis/powershelf"
"""Where NVIDIA's GB200 racks have their shelf (facts on tokens, §4)."""

_OPEN_PATHS: Final = frozenset({"/redfish", ROOT})
"""Readable without authentication (DSP0266, "Service root request")."""


class SimulatedRedfishServer:
    """One Redfish service.

    Args:
        shelf: The power shelf that it manages; None for none.
        systems: Power state of each host that it manages, by id.
        user: Who may ask; empty for everybody.
        password: That user's password.

    Attributes:
        power_states: The power states; they may be changed while it serves.
    """

    def __init__(
        self,
        *,
        shelf: SimulatedShelf | None = None,
        systems: Mapping[str, str] | None = None,
        user: str = "",
        password: str = "",
    ) -> None:
        self.power_states = dict(systems or {})
        self._shelf = shelf
        self._expected = b"Basic " + base64.b64encode(f"{user}:{password}".encode()) if user else b""
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Begin to serve.

        Args:
            host: Address to listen on.
            port: TCP port; 0 lets the system choose.

        Raises:
            ConfigurationError: The address cannot be bound.
        """
        self._runner = web.ServerRunner(
            web.Server(self.respond, access_log=None, handler_cancellation=True), shutdown_timeout=0.5
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self.close()
            raise ConfigurationError(f"{host}:{port}: cannot be listened on: {error.strerror}") from error

    async def close(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """Where it serves: `http://127.0.0.1:40123`."""
        if self._runner is None:
            raise RuntimeError("the server has not been started")
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        path = request.path.rstrip("/")
        if not self._may(request, path):
            return _answer(
                _error("Base.1.0.NoValidSession", "There is no valid session or authentication."), 401
            )
        if request.method not in ("GET", "HEAD"):
            return _answer(_error("Base.1.0.GeneralError", "This simulation is for reading only."), 405)
        resource = self.resource(path)
        if resource is None:
            return _answer(_error("Base.1.0.ResourceMissingAtURI", f"There is nothing at {path[:200]}."), 404)
        return _answer(resource, 200)

    def resource(self, path: str) -> Resource | None:
        """Return a resource.

        Args:
            path: Its path, without a slash at the end.

        Returns:
            The resource; None if there is none.
        """
        resources = self._fixed() | self._systems()
        if self._shelf is not None:
            resources |= _shelf_resources(self._shelf, path)
        found = resources.get(path)
        return None if found is None else {"@odata.id": path, **found}

    def _may(self, request: web.BaseRequest, path: str) -> bool:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return not self._expected or path in _OPEN_PATHS or hmac.compare_digest(given, self._expected)

    def _fixed(self) -> dict[str, Resource]:
        chassis = [SHELF] if self._shelf is not None else []
        return {
            "/redfish": {"v1": f"{ROOT}/"},
            ROOT: {
                "@odata.type": "#ServiceRoot.v1_16_0.ServiceRoot",
                "Id": "RootService",
                "Name": "Simulated Redfish service",
                "RedfishVersion": "1.18.0",
                "Chassis": _link(f"{ROOT}/Chassis"),
                "Systems": _link(f"{ROOT}/Systems"),
                "ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": False}},
            },
            f"{ROOT}/Chassis": _collection("ChassisCollection", chassis),
        }

    def _systems(self) -> dict[str, Resource]:
        paths = {f"{ROOT}/Systems/{name}": name for name in self.power_states}
        return {f"{ROOT}/Systems": _collection("ComputerSystemCollection", list(paths))} | {
            path: {
                "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem",
                "Id": name,
                "Name": name,
                "SystemType": "Physical",
                "PowerState": self.power_states[name],
                "Status": {"State": "Enabled", "Health": "OK"},
            }
            for path, name in paths.items()
        }


class SimulatedShelfServers:
    """The power shelves of a rack, each with a server on a port of its own.

    Args:
        shelves: The shelves.
        user: Who may ask; empty for everybody.
        password: That user's password.
    """

    def __init__(self, shelves: Sequence[SimulatedShelf], *, user: str = "", password: str = "") -> None:
        self._servers = [
            SimulatedRedfishServer(shelf=shelf, user=user, password=password) for shelf in shelves
        ]

    async def start(self, host: str = "127.0.0.1", ports: Sequence[int] = ()) -> None:
        """Begin to serve.

        Args:
            host: Address to listen on.
            ports: TCP port of each shelf; none lets the system choose all.

        Raises:
            ConfigurationError: An address cannot be bound; nothing serves then.
        """
        async with AsyncExitStack() as started:
            for server, port in zip(self._servers, ports or [0] * len(self._servers), strict=True):
                await server.start(host, port)
                started.push_async_callback(server.close)
            started.pop_all()

    @property
    def urls(self) -> tuple[str, ...]:
        """Where they serve, in the order of the shelves."""
        return tuple(server.url for server in self._servers)

    async def close(self) -> None:
        """Stop serving."""
        for server in self._servers:
            await server.close()


def _shelf_resources(shelf: SimulatedShelf, path: str) -> dict[str, Resource]:
    """Return the resources of a shelf; power is read for the path that is asked only."""
    supplies = [
        f"{SHELF}/PowerSubsystem/PowerSupplies/{number}" for number in range(1, len(shelf.shares) + 1)
    ]
    resources: dict[str, Resource] = {
        SHELF: {
            "@odata.type": "#Chassis.v1_25_0.Chassis",
            "Id": "powershelf",
            "Name": shelf.name,
            "ChassisType": "Shelf",
            "Manufacturer": "simulated",
            "SerialNumber": f"simulated-{shelf.name}",
            "PowerSubsystem": _link(f"{SHELF}/PowerSubsystem"),
            "EnvironmentMetrics": _link(f"{SHELF}/EnvironmentMetrics"),
            "Status": {"State": "Enabled", "Health": "OK"},
        },
        f"{SHELF}/PowerSubsystem": {
            "@odata.type": "#PowerSubsystem.v1_1_0.PowerSubsystem",
            "Id": "PowerSubsystem",
            "Name": "Power subsystem",
            "CapacityWatts": SUPPLY_CAPACITY_WATTS * len(supplies),
            "PowerSupplies": _link(f"{SHELF}/PowerSubsystem/PowerSupplies"),
        },
        f"{SHELF}/PowerSubsystem/PowerSupplies": _collection("PowerSupplyCollection", supplies),
    }
    for number, supply in enumerate(supplies, start=1):
        resources[supply] = {
            "@odata.type": "#PowerSupply.v1_5_2.PowerSupply",
            "Id": str(number),
            "Name": f"Power supply {number}",
            "PowerCapacityWatts": SUPPLY_CAPACITY_WATTS,
            "Status": {"State": "Enabled", "Health": "OK"},
            "Metrics": _link(f"{supply}/Metrics"),
        }
        if path == f"{supply}/Metrics":
            resources[path] = {
                "@odata.type": "#PowerSupplyMetrics.v1_1_0.PowerSupplyMetrics",
                "Id": "Metrics",
                "Name": f"Metrics of power supply {number}",
                "InputPowerWatts": _reading(shelf.supply_watts()[number - 1]),
            }
    if path == f"{SHELF}/EnvironmentMetrics":
        resources[path] = {
            "@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
            "Id": "EnvironmentMetrics",
            "Name": "Environment metrics",
            "PowerWatts": _reading(shelf.draw().watts),
        }
    return resources


def _link(path: str) -> Resource:
    return {"@odata.id": path}


def _reading(watts: float) -> Resource:
    """Return a reading with a tenth of a watt: chosen."""
    return {"Reading": round(watts, 1)}


def _collection(kind: str, members: Sequence[str]) -> Resource:
    return {
        "@odata.type": f"#{kind}.{kind}",
        "Name": kind,
        "Members": [_link(member) for member in members],
        "Members@odata.count": len(members),
    }


def _error(code: str, message: str) -> Resource:
    return {"error": {"code": code, "message": message}}


def _answer(resource: Resource, status: int) -> web.Response:
    headers = {"OData-Version": "4.0"}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="simulated"'
    return web.Response(
        body=msgspec.json.encode(resource), status=status, content_type="application/json", headers=headers
    )
