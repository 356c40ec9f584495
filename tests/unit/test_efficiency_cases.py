"""The cases of the facts on tokens (§6, last table), as the account of energy and tokens has them."""

from __future__ import annotations

import pytest

from tests.usage_builders import FakeEndpoint, FakeNode, UsageRack, two_engines


def test_no_traffic_takes_energy_and_makes_no_token() -> None:
    """No traffic, 25 kW: 0 tokens over 7.5 MJ in 300 s, all of it idle."""
    node = FakeNode("n01", gpu_watts=1000.0, endpoints=[FakeEndpoint()])
    rack = UsageRack([node], {"shelf-1": 25_000.0})
    rack.look()
    rack.run(300)
    own = rack.rollup()
    assert own.energy["rack_input"].joules == 7.5e6
    assert own.energy["rack_input"].error_joules == 0
    assert own.energy["rack_input"].idle_joules == 7.5e6
    assert own.energy["gpu"].idle_joules == 2000 * 300
    assert rack.counters["idle_energy_mj:rack_input"] == 7.5e9
    assert own.models["r1"].generation_tokens == 0
    assert rack.counters["tokens:generation:r1"] == 0
    assert own.endpoints_up_seconds == own.endpoints_expected_seconds == 300


def test_joules_and_watts_both_missing_are_absent() -> None:
    node = FakeNode("n01", gpus=0, endpoints=[FakeEndpoint(generation_rate=100.0)])
    rack = UsageRack([node], {"shelf-1": 1.0}, gpus_expected=2)
    rack.silent_shelves.add("shelf-1")
    rack.look()
    rack.run(300)
    for domain, units in (("gpu", 2), ("rack_input", 1)):
        energy = rack.rollup().energy[domain]
        assert (energy.joules, energy.covered_seconds) == (0, 0)
        assert energy.expected_seconds == units * 300
        assert rack.account.now().power_watts[domain] is None
        assert rack.account.now().coverage[domain] == 0
    assert "module" not in rack.rollup().energy
    assert rack.account.now().coverage["module"] is None


@pytest.mark.parametrize(
    ("restarts_after", "tokens_per_second"),
    [
        pytest.param(15.0, 4750.0, id="just before a scrape: its 15 s are lost, 5 % of 300 s"),
        pytest.param(0.0, 5000.0, id="just after a scrape: nothing is lost"),
    ],
)
def test_an_engine_that_restarts_loses_no_more_than_one_scrape(
    restarts_after: float, tokens_per_second: float
) -> None:
    """Engine restart, 15 s scrape: 5,000 to 4,750 tokens/s over 5 minutes, never less, nothing negative."""
    engine = FakeEndpoint(generation_rate=5000.0)
    rack = UsageRack([FakeNode("n01", endpoints=[engine])])
    rack.run(150, step=15)
    rack.go_on(restarts_after)
    engine.restart()
    if 15 - restarts_after:
        rack.go_on(15 - restarts_after)
    rack.look()
    rack.run(150, step=15)
    assert rack.counters["tokens:generation:r1"] == tokens_per_second * 300
    assert rack.rollup().models["r1"].generation_tokens == pytest.approx(tokens_per_second * 300)


def test_an_engine_that_is_not_scraped_is_missed() -> None:
    """1 of 2 engines unscraped: -50 % at 5 min without the guard; what the guard needs is half the time."""
    rack = two_engines()
    rack.look()
    rack.run(5)
    rack.nodes[1].endpoints[0].up = False
    rack.run(300)
    now = rack.account.now()
    assert (now.endpoints_expected, now.endpoints_up) == (2, 1)
    own = rack.rollup()
    # Up for the first 5 s and, as what was seen holds until the next look, for 5 s more.
    assert (own.endpoints_expected_seconds, own.endpoints_up_seconds) == (2 * 305, 305 + 10)
    assert own.models["r1"].generation_tokens == pytest.approx(2500 * 305 + 2500 * 5)


def test_an_engine_of_a_silent_node_stays_expected() -> None:
    rack = two_engines()
    rack.look()
    rack.nodes[1].answers = False
    rack.run(300)
    now = rack.account.now()
    assert (now.endpoints_expected, now.endpoints_up) == (2, 1)
    assert now.coverage["gpu"] == 0.5
    assert now.power_watts["gpu"] is None
    own = rack.rollup()
    assert (own.endpoints_expected_seconds, own.endpoints_up_seconds) == (600, 305)
    assert own.energy["gpu"].expected_seconds == 4 * 300
    assert own.energy["gpu"].covered_seconds == 2 * 300


def test_an_endpoint_that_its_node_does_not_name_any_more_is_not_expected() -> None:
    rack = two_engines()
    rack.run(10)
    rack.nodes[1].endpoints.clear()
    rack.run(5)
    assert rack.account.now().endpoints_expected == 1


def test_a_missing_shelf_is_no_cheaper_rack() -> None:
    rack = UsageRack([FakeNode("n01")], {"shelf-1": 60_000.0, "shelf-2": 60_000.0})
    rack.look()
    rack.run(60)
    assert rack.account.now().power_watts["rack_input"] == 120_000
    rack.silent_shelves.add("shelf-2")
    rack.run(60)
    # Its last word holds for a minute.
    assert rack.account.now().power_watts["rack_input"] == 120_000
    rack.run(240)
    assert rack.account.now().power_watts["rack_input"] is None
    assert rack.account.now().coverage["rack_input"] == 0.5
    energy = rack.rollup().energy["rack_input"]
    assert (energy.covered_seconds, energy.expected_seconds) == (360 + 60, 720)
    assert energy.joules == 60_000 * (360 + 60)


def test_an_energy_counter_that_begins_anew_is_counted_and_not_covered() -> None:
    """1 of 2 counters resets: of 300 s, the 5 s of one GPU of four are not covered."""
    rack = two_engines()
    rack.look()
    rack.run(150)
    rack.go_on(5)
    rack.nodes[0].joules[0] = 3000.0  # three of the five seconds since the driver was loaded
    rack.look()
    rack.run(145)
    energy = rack.rollup().energy["gpu"]
    assert energy.joules == pytest.approx(4 * 1000 * 300 - 2000)
    assert rack.joules() == pytest.approx(4 * 1000 * 300 - 2000)
    assert (energy.covered_seconds, energy.expected_seconds) == (4 * 300 - 5, 4 * 300)


def test_a_counter_that_falls_to_an_impossible_value_counts_nothing() -> None:
    rack = two_engines()
    rack.look()
    rack.run(10)
    rack.nodes[0].joules[0] = 900_000.0  # 900 kJ in 5 s are 180 kW
    rack.look()
    assert rack.joules() == 4 * 1000 * 10
    rack.run(5)
    assert rack.joules() == 4 * 1000 * 15


def test_the_first_tokens_of_a_new_pod_are_ignored() -> None:
    """New pod first seen at 1e6 tokens: the first 1e6 are ignored."""
    rack = two_engines()
    rack.look()
    rack.run(60)
    rack.nodes[0].endpoints.append(FakeEndpoint("decode-1", generation=1e6, generation_rate=1000.0))
    rack.run(5)
    assert rack.counters["tokens:generation:r1"] == 5000 * 65
    rack.run(5)
    assert rack.counters["tokens:generation:r1"] == 5000 * 70 + 1000 * 5


def test_a_router_and_its_engines_count_once() -> None:
    rack = two_engines()
    router = FakeEndpoint("frontend", engine="dynamo", role="router", generation_rate=5000.0)
    rack.nodes.append(FakeNode("n03", gpus=0, endpoints=[router]))
    rack.look()
    rack.run(60)
    assert rack.counters["tokens:generation:r1"] == 5000 * 60
    assert rack.account.now().role == "engine"
    assert rack.account.now().endpoints_expected == 2
    assert rack.rollup().role == "engine"
    alone = UsageRack([FakeNode("n03", gpus=0, endpoints=[router])])
    alone.look()
    alone.run(60)
    assert alone.account.now().role == "router"
    assert alone.counters["tokens:generation:r1"] == 5000 * 60
