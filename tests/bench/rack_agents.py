"""``python -m tests.bench.rack_agents``: a process that plays the agents of many racks.

Every agent is a host of its own in 127.0.0.0/8 with its own listener and connections, as a rack service sees
them in a row of racks. An answer is put together from recorded parts, so that playing a thousand agents takes
little of the machine. What the rack service did is told at `/stats` of another port.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from tests.bench.rack_documents import TRAYS, FakeAgent
from tests.bench.scraping import percentile

POLL_SECONDS: Final = 5.0
"""How often a rack service polls by default (CONTRACTS §6)."""

_MAXIMUM_REQUEST_BYTES: Final = 16_384


class Stats(msgspec.Struct):
    """What was asked since the stats were asked for last.

    Attributes:
        agents: How many agents there are.
        polls: How many polls there were.
        missed: Polls that were due and did not come, or not within half a period.
        tables: How many of them were given the series table.
        interval_p50: Time between two polls of one agent, the median.
        interval_p99: The same that 99 of 100 do not exceed.
        interval_max: The longest; 0 where no agent was polled twice.
        sent_bytes: Bytes of documents.
        series: Series of all agents.
    """

    agents: int
    polls: int
    missed: int
    tables: int
    interval_p50: float
    interval_p99: float
    interval_max: float
    sent_bytes: int
    series: int


class Polls:
    """Counts polls."""

    def __init__(self) -> None:
        self._last: dict[FakeAgent, float] = {}
        self._begin()

    def _begin(self) -> None:
        self._intervals: list[float] = []
        self._polls = self._tables = self._bytes = 0

    def note(self, agent: FakeAgent, now: float, size: int, *, with_table: bool) -> None:
        """Take a poll in."""
        before = self._last.get(agent)
        if before is not None:
            self._intervals.append(now - before)
        self._last[agent] = now
        self._polls += 1
        self._tables += with_table
        self._bytes += size

    def take(self, agents: Sequence[FakeAgent], now: float) -> Stats:
        """Sum up, and begin anew."""
        intervals = self._intervals or [0.0]
        silences = [now - self._last.get(agent, now) for agent in agents]
        stats = Stats(
            agents=len(agents),
            polls=self._polls,
            missed=sum(map(missed_in, (*intervals, *silences))),
            tables=self._tables,
            interval_p50=percentile(intervals, 0.50),
            interval_p99=percentile(intervals, 0.99),
            interval_max=max(intervals),
            sent_bytes=self._bytes,
            series=sum(agent.series for agent in agents),
        )
        self._begin()
        return stats


def missed_in(seconds: float) -> int:
    """Count the polls that should have come in the middle of a time without one."""
    return max(0, int(seconds / POLL_SECONDS - 0.5))


class Connection(asyncio.Protocol):
    """HTTP/1.1 as far as a rack service speaks it: GET without a body, the connection kept."""

    def __init__(self, agent: FakeAgent, polls: Polls) -> None:
        self._agent = agent
        self._polls = polls
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._answer(head)
        if len(self._received) > _MAXIMUM_REQUEST_BYTES:
            self._transport.abort()

    def _answer(self, head: bytes) -> None:
        _, target, _ = head.split(b"\r\n", 1)[0].split(b" ")
        query = dict(pair.partition(b"=")[::2] for pair in target.partition(b"?")[2].split(b"&"))
        now = time.monotonic()
        slots_held = query.get(b"slots", b"")
        body = self._agent.answer(now, time.time_ns(), slots_held, query.get(b"after", b"0"))
        self._polls.note(self._agent, now, len(body), with_table=not slots_held)
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/msgpack\r\nContent-Length: %d\r\n"
            b"Vary: Accept\r\nServer: rackwatt\r\n\r\n" % len(body)
        )
        self._transport.write(body)


async def _serve(agents: Sequence[tuple[FakeAgent, str]], port: int, control_port: int) -> None:
    loop = asyncio.get_running_loop()
    polls = Polls()
    for agent, host in agents:
        await loop.create_server(lambda own=agent: Connection(own, polls), host, port)  # type: ignore[misc] # bound

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = msgspec.json.encode(polls.take([agent for agent, _ in agents], time.monotonic()))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(control, "127.0.0.1", control_port)
    await server.serve_forever()


def host_of(network: int, rack: int, tray: int) -> str:
    """Address of an agent's host, in 127.0.0.0/8.

    Args:
        network: Second number of all addresses, 1 to 254.
        rack: Number of the rack, from 0.
        tray: Number of the tray, from 0.
    """
    return f"127.{network}.{rack + 1}.{tray + 1}"


def places(agents: int) -> list[tuple[int, int]]:
    """Rack and tray of each agent: full racks, and what is left in one more."""
    return [divmod(number, TRAYS) for number in range(agents)]


def main(argv: Sequence[str] | None = None) -> int:
    """Play agents until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rack_agents", description=main.__doc__)
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--network", type=int, required=True, help="second number of their addresses")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--control-port", type=int, required=True)
    options = parser.parse_args(argv)
    agents = [
        (FakeAgent(rack, tray), host_of(options.network, rack, tray)) for rack, tray in places(options.agents)
    ]
    asyncio.run(_serve(agents, options.port, options.control_port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
