"""Agents for tests of a rack service: Snapshot documents as plain data, and servers that play agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from collector.sources.peers.document import Document, decode
from collector.sources.peers.peer import PeerAddress

NOW_NS = 1_764_505_200_000_000_000
"""2025-11-30T12:20:00Z, the present of tests without a network."""

DIGEST = "00112233445566aa"
INFO_TEXTS = (
    "NVIDIA GB300",  # name
    "1650090000000",  # serial
    "900-2G548-0081-000",  # board_part
    "97.10.4A.00.1A",  # vbios
    "G548.0301.00.03",  # inforom
    "00000008:06:00.0",  # pci_bus_id
    "2",  # module
    "5",  # slot
    "4",  # tray
    "1",  # host
    "1823408340692",  # chassis_serial
    "cluster-1",  # cluster_uuid
    "7",  # clique
    "Blackwell",  # architecture
    "enabled",  # ecc_mode
    "disabled",  # mig_mode
    "enabled",  # persistence_mode
)
"""Label values of `gpu_info`, in the order of CONTRACTS §2."""

Fields = dict[str, Any]  # a document as a broken agent may write it
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def slots_and_values(gpus: int = 2) -> tuple[list[list[str]], list[int | float | None]]:
    """Make a small table with its values: GPUs in a complete fabric, and the number that is expected."""
    rows: list[tuple[list[str], int | float | None]] = []
    keys = [[str(index), f"GPU-{index}"] for index in range(gpus)]
    rows += [(["gpu_up", *key], 1) for key in keys]
    rows += [(["gpu_info", *key, *INFO_TEXTS], 1) for key in keys]
    rows += [(["gpu_power_watts", *key], 412.3) for key in keys]
    for key in keys:
        rows += [
            (["gpu_fabric_state", *key, state], int(state == "completed"))
            for state in ("not_supported", "not_started", "in_progress", "completed")
        ]
    rows.append((["node_gpus_expected"], gpus))
    return [slot for slot, _ in rows], [value for _, value in rows]


def fields(**changes: object) -> Fields:
    """Make a document of node n01 of rack r01, all well, as plain data."""
    slots, values = slots_and_values()
    document: Fields = {
        "schema": 1,
        "rack": "r01",
        "node": "n01",
        "agent_id": "agent-1",
        "boot_id": "boot-1",
        "seq": 1,
        "observed_at": "2025-11-30T12:20:00.000Z",
        "time_ns": NOW_NS,
        "nvml_up": True,
        "reason": "",
        "age_seconds": {"fast": 0.25, "links": 3.0, "slow": None},
        "identity": {"hostname": "n01", "driver_version": "580.173.02"},
        "slots_hash": DIGEST,
        "slots": slots,
        "values": values,
        "histograms": [],
        "checks": [],
        "events": {"next": 0, "items": []},
    }
    return {**document, **changes}


def without(document: Fields, *names: str) -> Fields:
    """Leave fields out."""
    return {name: value for name, value in document.items() if name not in names}


def check(**changes: object) -> Fields:
    """Make a check that failed on GPU-1."""
    return {
        "check": "gpu_row_remap_failure",
        "impact": "fail",
        "failed": True,
        "gpu_uuid": "GPU-1",
        "gpu": "1",
        "metric": "gpu_row_remap_failure",
        "value": 1,
        "threshold": 0,
        "since_ns": NOW_NS,
        "reason": "a row could not be remapped",
        "action": "replace the GPU",
        **changes,
    }


def histogram(**changes: object) -> list[object]:
    """Make a histogram of a serving engine."""
    parts: Fields = {
        "metric": "llm_time_to_first_token_seconds",
        "labels": ["decode-0", "vllm", "a/model", "engine"],
        "bounds": [0.5, 1.0],
        "counts": [3, 4, 6.0],
        "sum": 4.75,
    }
    return list({**parts, **changes}.values())


def event(cursor: int, **changes: object) -> Fields:
    """Make an Xid event."""
    return {
        "cursor": cursor,
        "time_ns": NOW_NS - 1_000_000_000,
        "kind": "xid",
        "gpu": "0",
        "gpu_uuid": "GPU-0",
        "code": 79,
        **changes,
    }


def packed(document: Fields) -> bytes:
    """Write a document as an agent does."""
    return msgspec.msgpack.encode(document)


def decoded(**changes: object) -> Document:
    """Make a document and read it as the rack service does."""
    return decode(packed(fields(**changes)))


def address(
    node: str = "n01", *, host: str = "127.0.0.1", port: int = 10072, rack: str = "r01"
) -> PeerAddress:
    """Make the address of an expected node."""
    return PeerAddress(rack, node, host, port)


@dataclass
class FakeAgent:
    """A server that plays an agent.

    Attributes:
        document: What it tells, if it plays a good one.
        answer: What it answers instead, if it does not.
        requests: Query strings that were asked, in order.
        headers: Headers of the newest request.
        port: Where it listens.
    """

    document: Fields = field(default_factory=fields)
    answer: Answer | None = None
    requests: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    port: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; each has a newer Snapshot than the one before."""
        self.requests.append(request.query_string)
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        if self.answer is not None:
            return await self.answer(request)
        self.document["seq"] += 1
        body = self.document
        if request.query.get("slots") == body["slots_hash"]:
            body = without(body, "slots")
        after = int(request.query.get("after", "0"))
        items = [item for item in body["events"]["items"] if item["cursor"] > after]
        return document_response(packed({**body, "events": {**body["events"], "items": items}}))


def document_response(body: bytes, **headers: str) -> web.Response:
    """Answer with a document."""
    every = {"Content-Type": "application/msgpack", **headers}
    return web.Response(body=body, headers={name.replace("_", "-"): value for name, value in every.items()})


@asynccontextmanager
async def serving(*agents: FakeAgent, host: str = "127.0.0.1") -> AsyncIterator[None]:
    """Let agents listen, each on a free port."""
    runners: list[web.ServerRunner] = []
    try:
        for agent in agents:
            runner = web.ServerRunner(
                web.Server(agent.handle, handler_cancellation=True), shutdown_timeout=0.1
            )
            runners.append(runner)
            await runner.setup()
            site = web.TCPSite(runner, host, agent.port)
            await site.start()
            agent.port = runner.addresses[0][1]
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


async def until(condition: Callable[[], object], *, seconds: float = 15.0) -> None:
    """Wait until something is the case; a test that waits for ever is wrong.

    Raises:
        TimeoutError: It is not, after a time that no test needs.
    """
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for knows nothing of events
            await asyncio.sleep(0.01)


def names_of(items: Sequence[object], attribute: str) -> list[object]:
    """Return one attribute of each."""
    return [getattr(item, attribute) for item in items]
