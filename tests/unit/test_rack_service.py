"""The rack service over time: starts, restarts, maintenance, defects, slow disks."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from collector.errors import ConfigurationError
from collector.health.ledger import Ledger
from collector.health.rack_judge import RackJudge
from collector.health.rack_types import RackStatus
from collector.health.states import NodeState, Verdict
from collector.model import Event
from collector.rack import AmbiguousNameError
from tests.agent_http_client import run
from tests.peer_agents import until
from tests.rack_builders import HOUR, SECOND, T0, hgx, nvl72
from tests.rack_services import HandClock, Scene, scene


def rack_of(own: Scene, name: str = "r01") -> RackStatus:
    status = own.service.rack(name)
    assert status is not None
    return status


def state(own: Scene, node: str, rack: str = "r01") -> NodeState:
    found = own.service.node(node, rack)
    assert found is not None
    return found.status.state


def xid(cursor: int, code: int = 79) -> Event:
    return Event(cursor=cursor, time_ns=T0, kind="xid", gpu_uuid="GPU-n01-0", gpu="0", code=code)


async def kinds(own: Scene) -> list[str]:
    return [event.kind for event in await own.service.events()]


def test_a_rack_whose_nodes_are_well_is_available() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.step()
            status = rack_of(own)
            assert (status.verdict, status.largest_block, status.min_block) == (Verdict.AVAILABLE, 18, 16)
            assert own.service.ready()
            assert own.service.observed_ns == status.observed_ns
            assert own.service.stale_after_seconds == 15.0

    run(scenario)


def test_until_everybody_was_polled_nothing_is_known_and_nothing_recorded() -> None:
    async def scenario() -> None:
        async with scene(nvl72(), heard=False) as own:
            own.step(4)
            assert rack_of(own).verdict is Verdict.UNKNOWN
            assert own.service.why_not_ready() == "18 agents were not polled yet since the start."
            own.poller.heard = True
            own.step(1)
            assert own.service.ready()
            assert rack_of(own).verdict is Verdict.AVAILABLE
            own.step()
            # The first seconds were nobody's: not UNKNOWN, not an event.
            assert await kinds(own) == []
            seconds = await own.service.availability("r01", 3600)
            assert seconds is not None
            assert (seconds.unknown_seconds, seconds.available_seconds) == (0.0, 5.0)

    run(scenario)


def test_agents_that_are_never_heard_hold_the_service_back_for_three_intervals_only() -> None:
    async def scenario() -> None:
        async with scene(nvl72(), heard=False) as own:
            own.step(15)
            assert not own.service.ready()
            own.step(1)
            assert own.service.ready()
            assert rack_of(own).verdict is Verdict.UNKNOWN

    run(scenario)


def test_a_restart_invents_no_incident(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = HandClock()
        async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
            own.steps(3)
            generation = own.service.generation
        clock.elapsed += 60
        async with scene(nvl72(), directory=tmp_path, clock=clock, heard=False) as own:
            own.step(1)
            own.poller.heard = True
            own.steps(3)
            assert own.service.generation >= generation
            assert await kinds(own) == []
            assert await own.service.incidents() == ()
            counters = {
                sample.labels[1:]: sample.value
                for sample in own.service.snapshot().samples()
                if sample.metric.name == "rack_verdict_seconds_total"
            }
            assert counters[("UNAVAILABLE",)] == 0.0
            assert counters[("UNKNOWN",)] == 0.0

    run(scenario)


def test_a_failed_node_stays_failed_over_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = HandClock()
        async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
            own.steps(2)
            own.node("n03").answers = False
            own.node("n03").witness = True
            own.steps(4)
            assert state(own, "n03") is NodeState.FAILED
        clock.elapsed += 30
        async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
            own.steps(2)
            # It answers again, and has to be clean for ten minutes first.
            assert state(own, "n03") is NodeState.FAILED
            assert len(await own.service.incidents("r01")) == 1
            own.steps(121)
            assert state(own, "n03") is NodeState.READY

    run(scenario)


def test_events_are_kept_once_over_restarts(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = HandClock()
        for _ in range(2):
            async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
                own.node("n01").events = (xid(1), xid(2, code=94))
                own.steps(2)
                clock.elapsed += 60
        async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
            events = await own.service.events(kind="xid")
            assert [(event.node, event.code) for event in events] == [("n01", 94), ("n01", 79)]
            page = await own.service.events(kind="xid", limit=1)
            assert [event.code for event in await own.service.events(kind="xid", after=page[0].id)] == [79]
            assert await own.service.events(rack="r02") == ()
            assert await own.service.events(since_ns=T0 + 1, kind="xid") == ()
            assert len(await own.service.events(until_ns=T0 + 1, node="n01", gpu_uuid="GPU-n01-0")) == 2

    run(scenario)


def test_maintenance_counts_at_once_and_ends_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = HandClock()
        async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
            own.steps(2)
            ends_ns = clock.wall_ns() + HOUR
            window = await own.service.create_maintenance(
                "r01", nodes=["n02", "n02"], ends_ns=ends_ns, reason="swap a fan", created_by="ops"
            )
            assert (window.rack, window.nodes, window.reason) == ("r01", ("n02",), "swap a fan")
            assert state(own, "n02") is NodeState.MAINTENANCE
            assert own.service.maintenance_windows("r01") == (window,)
            assert own.service.maintenance_windows("r02") == ()
        async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
            own.step()
            assert state(own, "n02") is NodeState.MAINTENANCE
            ended = await own.service.end_maintenance(window.id)
            assert ended is not None
            assert 0 <= ended.ends_ns - clock.wall_ns() < SECOND
            assert state(own, "n02") is NodeState.READY
        async with scene(nvl72(), directory=tmp_path, clock=clock) as own:
            assert own.service.maintenance_window(window.id) == ended

    run(scenario)


def test_maintenance_that_cannot_be_is_refused() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            create = own.service.create_maintenance
            with pytest.raises(LookupError):
                await create("r09", ends_ns=T0 + HOUR)
            with pytest.raises(ConfigurationError, match="it ends before it starts"):
                await create("r01", ends_ns=T0 - HOUR)
            with pytest.raises(ConfigurationError, match="rack r01 has no node n99"):
                await create("r01", nodes=["n99"], ends_ns=T0 + HOUR)
            with pytest.raises(ConfigurationError, match="starts before it is declared"):
                await create("r01", starts_ns=T0 - HOUR, ends_ns=T0 + HOUR)
            assert await own.service.end_maintenance("m-nothing") is None
            assert own.service.maintenance_windows() == ()

    run(scenario)


def test_things_are_found_by_name() -> None:
    async def scenario() -> None:
        async with scene(nvl72(), hgx()) as own:
            own.step()
            service = own.service
            assert [status.rack for status in service.racks()] == ["r01", "h01"]
            found = service.node("n12")
            assert found is not None
            assert found.rack.rack == "r01"
            with pytest.raises(AmbiguousNameError, match="racks r01, h01 all have a node n01; name the rack"):
                service.node("n01")
            assert service.node("n99") is None
            assert service.node("n12", "h01") is None
            gpu = service.gpu("GPU-n12-3")
            assert gpu is not None
            assert (gpu.rack.rack, gpu.node.node, gpu.gpu.index) == ("r01", "n12", "3")
            assert service.gpu("GPU-none") is None
            assert service.rack("r09") is None
            assert service.expected("h01") == hgx()
            targets = service.targets()
            assert len(targets) == 26
            assert (targets[0].address, targets[0].rack, targets[0].node) == ("n01:10072", "r01", "n01")
            domains = service.domains()
            assert [domain.clique for rack, domain in domains if rack == "r01"] == ["1"]
            assert len(domains) == 9

    run(scenario)


def test_a_gpu_that_moved_is_found_where_it_answers() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            first, moved = own.node("n01"), own.node("n05").view.gpus[0]
            left_behind = replace(moved, up=False, texts={})
            first.view = replace(first.view, gpus=(left_behind, *first.view.gpus[1:]))
            own.step()
            found = own.service.gpu(moved.uuid)
            assert found is not None
            assert found.node.node == "n05"

    run(scenario)


def test_availability_is_computed_for_another_block_too() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.steps(2)
            own.node("n01").answers = False
            own.node("n01").witness = True
            own.steps(12)
            usual = await own.service.availability("r01", 3600)
            strict = await own.service.availability("r01", 3600, 18)
            assert usual is not None
            assert strict is not None
            assert (usual.unavailable_seconds, strict.unavailable_seconds > 0) == (0.0, True)
            assert usual.incidents == 1
            assert await own.service.availability("r09", 3600) is None
            with pytest.raises(ConfigurationError, match="19 is not between 1 and 18"):
                await own.service.availability("r01", 3600, 19)
            intervals = await own.service.history("r01", 3600)
            assert {interval.verdict for interval in intervals} == {Verdict.AVAILABLE}

    run(scenario)


def test_a_defect_in_one_rack_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = RackJudge.evaluate

    def broken(self: RackJudge, *arguments: object, **options: object) -> RackStatus:
        if self.expected.rack == "r01" and broken_now:
            raise ZeroDivisionError
        return evaluate(self, *arguments, **options)  # type: ignore[arg-type]  # passed on as they come

    broken_now: list[bool] = []
    monkeypatch.setattr(RackJudge, "evaluate", broken)

    async def scenario() -> None:
        async with scene(nvl72(), hgx()) as own:
            own.step()
            broken_now.append(True)
            own.step()
            assert (rack_of(own).observed_ns - T0) // SECOND == 5
            assert (rack_of(own, "h01").observed_ns - T0) // SECOND == 10
            assert (own.service.observed_ns - T0) // SECOND == 5
            assert own.service.why_not_ready() == "racks cannot be judged (r01); the log says why."
            broken_now.clear()
            own.step()
            assert own.service.ready()

    run(scenario)


def test_a_slow_disk_does_not_hold_up_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = threading.Event()
    flush = Ledger.flush

    def slow(self: Ledger, now_ns: int) -> bool:
        assert disk.wait(20)
        return flush(self, now_ns)

    monkeypatch.setattr(Ledger, "flush", slow)

    async def scenario() -> None:
        async with scene(nvl72(), directory=tmp_path) as own:
            try:
                own.steps(3)
                own.node("n01").events = (xid(1),)
                own.steps(50)
                own.node("n02").answers = False
                own.node("n02").witness = True
                own.steps(50)
                assert state(own, "n02") is NodeState.FAILED
                await asyncio.sleep(0.05)
            finally:
                disk.set()
            events = [(event.kind, event.node) for event in await own.service.events()]
            assert ("xid", "n01") in events
            assert ("node_state", "n02") in events
            # 103 steps of 5 s, the first of which begins the record.
            availability = await own.service.availability("r01", 3600)
            assert availability is not None
            assert availability.available_seconds == 102 * 5.0

    run(scenario)


def test_two_services_cannot_write_one_ledger(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scene(nvl72(), directory=tmp_path):
            with pytest.raises(ConfigurationError, match="another rack service"):
                async with scene(nvl72(), directory=tmp_path):
                    pass

    run(scenario)


def test_a_minimum_block_that_cannot_be_is_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match="19 is not between 1 and 18"):
            async with scene(nvl72(min_block=19)):
                pass

    run(scenario)


def test_many_racks_that_turn_bad_at_once_freeze_draining() -> None:
    racks = tuple(nvl72(rack=f"r{number:02d}") for number in range(1, 5))

    async def scenario() -> None:
        async with scene(*racks) as own:
            own.steps(2)
            for rack in ("r01", "r02", "r03"):
                for node in own.poller.nodes[rack].values():
                    node.answers = False
            own.steps(5)
            assert [status.verdict for status in own.service.racks()] == [
                *[Verdict.UNKNOWN] * 3,
                Verdict.AVAILABLE,
            ]
            assert {status.frozen for status in own.service.racks()} == {True}

    run(scenario)


def test_closing_closes_the_poller() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            poller = own.poller
        assert poller.closed

    run(scenario)


def test_racks_are_judged_without_being_asked() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            before = own.service.observed_ns
            own.clock.elapsed += 5
            await until(lambda: own.service.observed_ns > before)

    run(scenario)
