"""Simulated power shelves: what they draw is what the rack draws, and reading them tells it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collector import profiles
from collector.simulator import ManualClock, SimulatedNode, parse_fault
from collector.simulator.power_shelf import EFFICIENCY, SimulatedShelf, simulate_shelves
from collector.simulator.redfish_server import SimulatedRedfishServer, SimulatedShelfServers
from collector.sources.redfish import RedfishTarget, ShelfWatch, default_name
from tests.agent_http_client import run
from tests.redfish_services import PATIENT, ROOT

GB300 = profiles.load("gb300-nvl72")


def rack(
    clock: ManualClock, *, trays: int = 18, workload: str = "decode", faults: Sequence[str] = ()
) -> tuple[SimulatedNode, ...]:
    return tuple(
        SimulatedNode(
            GB300,
            tray=tray,
            workload=workload,
            clock=clock,
            faults=[parse_fault(text) for text in faults] if tray == 0 else [],
        )
        for tray in range(trays)
    )


def watts(shelves: Sequence[SimulatedShelf]) -> float:
    return sum(shelf.draw().watts for shelf in shelves)


def joules(shelves: Sequence[SimulatedShelf]) -> float:
    return sum(shelf.draw().joules for shelf in shelves)


def test_a_rack_has_the_shelves_of_its_profile() -> None:
    shelves = simulate_shelves(GB300, rack(ManualClock(), trays=1))
    # NVIDIA Mission Control, "BCM Power Shelf Integration", §4: 8 shelves of 6 supplies.
    assert [len(shelf.shares) for shelf in shelves] == [6] * 8
    assert [shelf.name for shelf in shelves][:2] == ["shelf-1", "shelf-2"]
    assert sum(sum(shelf.shares) for shelf in shelves) == pytest.approx(1)


def test_a_server_without_a_rack_of_its_own_has_no_shelves() -> None:
    profile = profiles.load("hgx-h200")
    assert simulate_shelves(profile, [SimulatedNode(profile, clock=ManualClock())]) == ()


def test_an_idle_rack_draws_what_its_parts_draw() -> None:
    clock = ManualClock()
    shelves = simulate_shelves(GB300, rack(clock, workload="idle"))
    clock.advance(100)
    # 36 modules of 491.5 W (profile), 100 W for the rest of each of 18 trays, 3,600 W for 9 switch trays;
    # GPUs are restless by 0.5 %.
    assert watts(shelves) == pytest.approx((36 * 491.5 + 18 * 100 + 3600) / 0.975, rel=0.005)


def test_a_rack_at_full_load_is_of_the_132_kilowatt_class() -> None:
    clock = ManualClock()
    nodes = rack(clock)
    shelves = simulate_shelves(GB300, nodes)
    clock.advance(1)
    watts(shelves)
    for node in nodes:
        for gpu in node.gpus:
            gpu.physics.watts, gpu.physics.load = 1400.0, 1.0
    assert 130_000 < watts(shelves) < 135_000
    assert GB300.rack is not None
    assert GB300.rack.power_kilowatts is not None
    assert watts(shelves) < 1000 * GB300.rack.power_kilowatts


@pytest.mark.parametrize("workload", ["decode", "prefill", "training"])
def test_a_rack_draws_more_than_its_modules_and_they_more_than_its_gpus(workload: str) -> None:
    clock = ManualClock()
    nodes = rack(clock, trays=18, workload=workload)
    shelves = simulate_shelves(GB300, nodes)
    clock.advance(30)
    total = watts(shelves)
    modules = sum(gpu.module_watts for node in nodes for gpu in node.gpus[::2])
    gpus = sum(gpu.physics.watts for node in nodes for gpu in node.gpus)
    # "GPU-only energy misses about 28-35 %" (facts on tokens, §4); a simulated Grace takes less than that.
    assert gpus < modules < total * EFFICIENCY
    assert 0.15 < 1 - gpus / total < 0.35


def test_energy_is_the_integral_of_power_through_faults() -> None:
    clock = ManualClock()
    faults = ["gpu_lost:gpu=1,start=2,duration=3", "driver_unloaded:start=6,duration=2"]
    shelves = simulate_shelves(GB300, rack(clock, trays=2, faults=faults))
    summed = 0.0
    clock.advance(0.05)
    for _ in range(100):
        # Power is constant within a tick of 0.1 s, and this is the middle of one.
        summed += 0.1 * watts(shelves)
        clock.advance(0.1)
    clock.set(10.0)
    assert joules(shelves) == pytest.approx(summed, rel=1e-9)


def test_a_rack_that_is_shared_with_a_reader_tells_both_the_same() -> None:
    clock = ManualClock()
    nodes = rack(clock, trays=1)
    shared, own = simulate_shelves(GB300, nodes), simulate_shelves(GB300, rack(clock, trays=1))
    for _ in range(20):
        clock.advance(0.7)
        nodes[0].gpus[0].energy_joules(clock())
        assert watts(shared) == pytest.approx(watts(own), rel=1e-12)
        assert joules(shared) == pytest.approx(joules(own), rel=1e-12)


def test_power_read_over_http_closes_against_the_exact_energy() -> None:
    seconds, period = 3600, 15

    async def scenario() -> None:
        clock = ManualClock()
        shelves = simulate_shelves(GB300, rack(clock, trays=3), supplies=2)[:2]
        servers = SimulatedShelfServers(shelves)
        await servers.start()
        watch = ShelfWatch(
            {"r01": [RedfishTarget(name=default_name(url), url=url) for url in servers.urls]},
            limits=PATIENT,
            wall_ns=lambda: int(clock() * 1e9),
        )
        try:
            measured, before = 0.0, None
            for _ in range(seconds // period + 1):
                await watch.read_all()
                readings = watch.readings("r01")
                assert [each.error for each in readings] == ["", ""]
                power = sum(each.watts or 0.0 for each in readings)
                # The trapezoid that the rack service integrates by.
                measured += 0.0 if before is None else (before + power) / 2 * period
                before = power
                clock.advance(period)
            clock.set(float(seconds))
            truth = joules(shelves)
            assert measured == pytest.approx(truth, rel=0.005)
            assert truth > 1e6
        finally:
            await watch.close()
            await servers.close()

    run(scenario)


def test_the_total_of_a_shelf_is_what_its_supplies_take() -> None:
    clock = ManualClock()
    shelf = simulate_shelves(GB300, rack(clock, trays=1))[0]
    server = SimulatedRedfishServer(shelf=shelf)
    base = f"{ROOT}/Chassis/powershelf"
    total = server.resource(f"{base}/EnvironmentMetrics")
    parts = [
        server.resource(f"{base}/PowerSubsystem/PowerSupplies/{number}/Metrics") for number in range(1, 7)
    ]
    assert total is not None
    summed = sum(part["InputPowerWatts"]["Reading"] for part in parts if part is not None)  # type: ignore[index]  # JSON
    # Every reading is rounded to 0.1 W.
    assert total["PowerWatts"]["Reading"] == pytest.approx(summed, abs=0.7)  # type: ignore[index]  # JSON


def test_every_resource_that_is_named_is_there() -> None:
    shelf = simulate_shelves(GB300, rack(ManualClock(), trays=1))[0]
    server = SimulatedRedfishServer(shelf=shelf, systems={"System_0": "On"})
    waiting, seen = [ROOT], set[str]()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        resource = server.resource(path)
        assert resource is not None, path
        assert resource["@odata.id"] == path
        waiting += [each for each in links(resource) if each not in seen]
    # Root, two collections, a system; chassis, environment, power, its supplies; 6 of them with metrics.
    assert len(seen) == 4 + 4 + 12


def links(value: object) -> list[str]:
    if isinstance(value, dict):
        own = value.get("@odata.id")
        return [
            *([own] if isinstance(own, str) else []),
            *(each for part in value.values() for each in links(part)),
        ]
    return [each for part in value for each in links(part)] if isinstance(value, list) else []
