"""The rack bench's own arithmetic, and the agents that it plays, judged by what polls real ones."""

from __future__ import annotations

import asyncio
import time

import pytest

from collector.health.rack_types import NodeView
from collector.sources.peers import Peer, PeerAddress
from collector.sources.peers.document import decode
from tests.bench import rack_report
from tests.bench.processes import Memory
from tests.bench.rack_agents import Connection, Polls, Stats, host_of, missed_in, places
from tests.bench.rack_documents import FAULTY_RACKS, FAULTY_TRAY, FakeAgent
from tests.bench.rack_measuring import RackLoad
from tests.bench.rack_report import RackResults

MIB = 1024 * 1024
WALL_NS = 1_764_505_200_000_000_000


def polled(agent: FakeAgent, *, times: int = 2) -> NodeView:
    """Poll an agent as a rack service does, a second apart."""
    peer = Peer(PeerAddress(f"r{agent.rack + 1:02d}", f"n{agent.tray + 1:02d}", "127.0.0.1", 1))
    for second in range(times):
        query = dict(pair.split("=") for pair in peer.query().split("&"))
        slots_held, after = query.get("slots", ""), query["after"]
        body = agent.answer(100.0 + second, time.time_ns(), slots_held.encode(), after.encode())
        assert (len(body) > 50_000) is (second == 0)  # only the first brings the table
        peer.take(decode(body), monotonic=100.0 + second, wall_ns=time.time_ns())
        assert peer.error == ""
    assert peer.view is not None
    return peer.view


def test_a_played_agent_is_a_good_node_of_its_own_rack() -> None:
    first, other = polled(FakeAgent(0, 0)), polled(FakeAgent(7, 0))
    for view in (first, other):
        assert [gpu.state.value for gpu in view.gpus] == ["OK"] * 4
        assert view.fabric_complete
        assert view.fast_age_seconds is not None
        assert view.fast_age_seconds < 1
    assert first.sequence == 101  # its second second
    assert not {gpu.uuid for gpu in first.gpus} & {gpu.uuid for gpu in other.gpus}
    assert first.cluster_uuid != other.cluster_uuid
    assert first.chassis_serial != other.chassis_serial
    assert (first.slot, first.tray) == (other.slot, other.tray) == (1, 0)


def test_one_tray_of_some_racks_has_a_failed_link() -> None:
    view = polled(FakeAgent(FAULTY_RACKS - 1, FAULTY_TRAY))
    (gpu,) = [gpu for gpu in view.gpus if gpu.state.value == "FAILED"]
    assert gpu.index == "1"
    assert "gpu_nvlinks_missing" in {check.check for check in gpu.checks}
    assert all(check.gpu_uuid == gpu.uuid for check in gpu.checks)


def test_values_change_from_second_to_second() -> None:
    agent = FakeAgent(0, 0)
    first, second = (decode(agent.answer(now, WALL_NS, b"", b"0")) for now in (100.0, 101.0))
    assert first.values != second.values
    assert second.seq == first.seq + 1


def test_agents_fill_racks_and_every_one_has_a_host_of_its_own() -> None:
    own = places(1000)
    assert own[:2] == [(0, 0), (0, 1)]
    assert own[-1] == (55, 9)  # 55 racks of 18 are 990
    assert len({host_of(3, rack, tray) for rack, tray in own}) == 1000
    assert host_of(3, 55, 9) == "127.3.56.10"


@pytest.mark.parametrize(
    ("seconds", "missed"), [(0.0, 0), (5.0, 0), (7.4, 0), (7.6, 1), (10.0, 1), (12.4, 1), (15.1, 2)]
)
def test_a_poll_is_missed_when_it_is_half_a_period_late(seconds: float, missed: int) -> None:
    assert missed_in(seconds) == missed


def test_polls_are_counted_by_agent_and_from_one_report_to_the_next() -> None:
    one, two = FakeAgent(0, 0), FakeAgent(0, 1)
    polls = Polls()
    for agent, now in ((one, 0.0), (two, 1.0), (one, 5.0), (two, 16.0)):
        polls.note(agent, now, 100, with_table=now < 5)
    stats = polls.take([one, two], 16.0)
    assert (stats.agents, stats.polls, stats.tables, stats.sent_bytes) == (2, 4, 2, 400)
    assert (stats.interval_p50, stats.interval_max) == (5.0, 15.0)
    assert stats.missed == 2 + 1  # two within 15 s, and one of the agent that has been silent for 11 s
    assert polls.take([one, two], 16.0).polls == 0


def load(agents: int = 1000, racks: int = 56, **changes: object) -> RackLoad:
    values: dict[str, object] = {
        "racks": racks,
        "agents": agents,
        "series": agents * 992,
        "seconds": 60.0,
        "cpu_percent": 20.0,
        "stand_in_percent": 2.0,
        "memory": Memory(200 * MIB, 256 * MIB),
        "polls": stats(agents),
        "health_seconds": (0.002,) * 980 + (0.02,) * 20,
        "health_bytes": 2048,
        "state_age_seconds": (0.5,) * 1000,
        "start_seconds": 6.0,
    }
    return RackLoad(**(values | changes))  # type: ignore[arg-type] # the tests below give the right types


def stats(agents: int = 1000, **changes: object) -> Stats:
    values: dict[str, object] = {
        "agents": agents,
        "polls": agents * 12,
        "missed": 0,
        "tables": 0,
        "interval_p50": 5.0,
        "interval_p99": 5.1,
        "interval_max": 5.2,
        "sent_bytes": 1,
        "series": agents * 992,
    }
    return Stats(**(values | changes))  # type: ignore[arg-type] # the tests below give the right types


def results(most: RackLoad) -> RackResults:
    return RackResults((load(18, 1, cpu_percent=0.5), most), "A processor, 2 cores", "2026-01-31")


def test_a_poll_costs_all_that_is_made_of_it() -> None:
    assert load().poll_milliseconds == pytest.approx(1.0)  # 20 % of 60 s for 12,000 polls


def test_results_on_the_bounds_keep_them() -> None:
    assert rack_report.broken_bounds(results(load())) == []


@pytest.mark.parametrize(
    ("most", "line"),
    [
        (load(999), "agents of one rack service: 999, bound 1,000"),
        (
            load(health_seconds=(0.002,) * 980 + (0.021,) * 20),
            "`/v1/racks/{rack}/health`, p99: 21.0 ms, bound 20.0 ms",
        ),
        (load(polls=stats(missed=1)), "polls missed: 1, bound 0"),
        (load(polls=stats(interval_max=7.6)), "longest time between two polls: 7.60 s, bound 7.50 s"),
        (load(cpu_percent=50.1), "processor of the rack service: 50.1 % of a core, bound 50.0 % of a core"),
        (load(memory=Memory(1, 513 * MIB)), "memory of the rack service: 513 MiB, bound 512 MiB"),
    ],
)
def test_each_bound_can_break(most: RackLoad, line: str) -> None:
    assert rack_report.broken_bounds(results(most)) == [line]


def test_tables_say_how_the_cost_grows() -> None:
    tables = rack_report.markdown(results(load()))
    assert "| As racks are added | 18 agents, 1 rack | 1,000 agents, 56 racks | last ÷ first |" in tables
    assert "| processor, % of a core | 0.50 | 20.00 | 40.00 |" in tables
    assert "| `/v1/racks/{rack}/health`, p99 | 20.0 ms | ≤ 20.0 ms | yes |" in tables
    assert "992 series that change every second, polled each 5 s" in tables
    assert "A processor, 2 cores" in tables


def test_the_stand_in_speaks_http() -> None:
    async def scenario() -> tuple[bytes, Stats]:
        polls, agent = Polls(), FakeAgent(0, 0)
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(agent, polls), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        received = b""
        for _ in range(2):  # over one connection
            writer.write(b"GET /v1/snapshot?after=0&slots=0000000000000000 HTTP/1.1\r\nHost: n01\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
            received = await reader.readexactly(length)
        writer.close()
        server.close()
        return received, polls.take([agent], time.monotonic())

    received, counted = asyncio.run(scenario())
    assert decode(received).node == "n01"
    assert (counted.polls, counted.tables) == (2, 0)
