"""The account of energy and tokens: time, units, endpoints, idle time, and what is remembered."""

from __future__ import annotations

import pytest

from collector.efficiency.account import UsageAccount
from collector.efficiency.rollup import decode
from collector.efficiency.shelf import ShelfReading
from tests.rack_builders import SECOND, T0
from tests.usage_builders import FakeEndpoint, FakeNode, UsageRack, two_engines

MINUTE = 60 * SECOND


# --- time -----------------------------------------------------------------------------------------------


def test_an_increase_is_spread_over_the_minutes_that_it_touches() -> None:
    rack = UsageRack(
        [FakeNode("n01", endpoints=[FakeEndpoint(generation_rate=10.0)])], now_ns=T0 + 58 * SECOND
    )
    rack.look()
    rack.step(5)
    minutes = [decode(rack.rows[60, T0 + number * MINUTE].data) for number in range(2)]
    assert [own.energy["gpu"].joules for own in minutes] == [2000 * 2, 2000 * 3]
    assert [own.energy["gpu"].expected_seconds for own in minutes] == [2 * 2, 2 * 3]
    assert [own.models["r1"].generation_tokens for own in minutes] == [20, 30]
    assert [own.watched_seconds for own in minutes] == [2, 3]
    assert decode(rack.rows[3600, T0].data).energy["gpu"].joules == 2000 * 5


def test_a_gap_is_bridged_by_counters_and_covered_in_retrospect() -> None:
    rack = two_engines()
    rack.look()
    rack.nodes[1].answers = False
    rack.run(540)
    assert rack.rollup().energy["gpu"].covered_seconds == 2 * 540
    rack.nodes[1].answers = True
    rack.run(60)
    energy = rack.rollup().energy["gpu"]
    assert energy.joules == pytest.approx(4 * 1000 * 600)
    assert (energy.covered_seconds, energy.expected_seconds) == pytest.approx((4 * 600, 4 * 600))
    assert decode(rack.rows[60, T0].data).energy["gpu"].joules == pytest.approx(4 * 1000 * 60)
    assert rack.counters["tokens:generation:r1"] == 5000 * 600


def test_an_increase_over_a_long_gap_is_counted_and_in_no_minute() -> None:
    rack = two_engines()
    rack.look()
    rack.nodes[1].answers = False
    rack.run(600)
    rack.nodes[1].answers = True
    rack.run(10)  # the first answer comes after 605 s
    assert rack.joules() == 4 * 1000 * 610
    assert rack.counters["tokens:generation:r1"] == 5000 * 610
    own = rack.rollup()
    assert own.energy["gpu"].joules == 2 * 1000 * 610 + 2 * 1000 * 5
    assert own.energy["gpu"].covered_seconds == 2 * 610 + 2 * 5
    assert own.energy["gpu"].expected_seconds == 4 * 610
    assert own.models["r1"].generation_tokens == 2500 * 610 + 2500 * 5


def test_what_is_told_apart_late_takes_nothing_from_minutes_that_are_written() -> None:
    """Polls of a minute: a bridge of ten minutes, and three more until an engine is no longer heard."""
    silent, serving = FakeNode("n01"), FakeNode("n02", endpoints=[FakeEndpoint()])
    rack = UsageRack([silent, serving], gap_seconds=180.0, now_ns=T0 + 55 * SECOND)
    rack.look()
    silent.answers = False
    rack.run(595)
    again = serving.poll(rack.now_ns, fresh=False)
    silent.answers = True
    for _ in range(40):
        rack.go_on(5)
        rack.account.observe([silent.poll(rack.now_ns), again], (), now_ns=rack.now_ns, gpus_expected=4)
        rack.take()
    # The first minute has 5 s of both nodes.
    first = decode(rack.rows[60, T0].data)
    assert first.watched_seconds == 5
    assert first.energy["gpu"].joules == pytest.approx(4 * 1000 * 5)
    assert first.energy["gpu"].idle_joules == pytest.approx(4 * 1000 * 5)


def test_a_snapshot_that_is_told_again_and_again_grows_old() -> None:
    rack = two_engines()
    rack.look()
    rack.run(60)
    polls = [node.poll(rack.now_ns) for node in rack.nodes]
    for _ in range(60):
        rack.go_on(5)
        rack.account.observe(polls, (), now_ns=rack.now_ns, gpus_expected=4)
    rack.take()
    now = rack.account.now()
    assert (now.endpoints_up, now.power_watts["gpu"], now.coverage["gpu"]) == (0, None, 0)
    # Its last word holds for a minute, as `maximum_gap_seconds` says, and until the look after that.
    assert rack.rollup().endpoints_up_seconds == 2 * (60 + 70)


def test_a_service_that_stood_still_for_long_did_not_watch() -> None:
    rack = two_engines()
    rack.look()
    rack.run(60)
    rack.step(3600)
    assert rack.joules() == 4 * 1000 * 3660
    own = rack.rollup()
    assert own.watched_seconds == 60
    assert own.energy["gpu"].joules == 4 * 1000 * 60


def test_a_clock_that_runs_back_stands_still() -> None:
    rack = two_engines()
    rack.look()
    rack.run(60)
    rack.now_ns -= 30 * SECOND
    for _ in range(5):
        rack.step(5)
    assert rack.rollup().watched_seconds == 60
    assert rack.joules() == 4 * 1000 * 85
    rack.run(10)
    assert rack.rollup().watched_seconds == 65
    assert rack.rollup().energy["gpu"].joules == 4 * 1000 * 95


def test_the_same_snapshot_says_nothing_twice() -> None:
    rack = two_engines()
    rack.look()
    rack.go_on(5)
    polls = [node.poll(rack.now_ns) for node in rack.nodes]
    for number in range(3):
        rack.account.observe(polls, (), now_ns=rack.now_ns + number * SECOND, gpus_expected=4)
    rack.take()
    assert rack.joules() == 4 * 1000 * 5


def test_a_restart_counts_nothing_of_the_time_away_and_goes_on_in_the_same_minute() -> None:
    rack = two_engines()
    rack.look()
    rack.run(20)
    rack.restart(away_seconds=10)
    rack.look()
    rack.run(20)
    assert rack.joules() == 4 * 1000 * 40
    minute = decode(rack.rows[60, T0].data)
    assert (minute.watched_seconds, minute.energy["gpu"].joules) == (40, 4 * 1000 * 40)
    assert minute.energy["gpu"].covered_seconds == minute.energy["gpu"].expected_seconds == 4 * 40


def test_a_restarted_agent_whose_hardware_counts_on_loses_nothing() -> None:
    rack = two_engines()
    rack.look()
    rack.run(10)
    rack.nodes[0].sequence = 0  # another process, that counts its Snapshots anew
    rack.run(10)
    assert rack.joules() == 4 * 1000 * 20


# --- energy ---------------------------------------------------------------------------------------------


def test_a_gpu_that_two_nodes_report_counts_once() -> None:
    rack = two_engines()
    rack.nodes[1].name = "n01"  # so that it reports the GPUs of the first
    twins = [rack.nodes[0].poll(T0), rack.nodes[1].poll(T0)]
    assert twins[0].samples.value("gpu_power_watts", "0", "GPU-n01-0") == 1000
    account = UsageAccount("r01", shelves=(), modules_per_node=0)
    total = 0
    for turn in range(13):
        rack.go_on(5)
        polls = [rack.nodes[0].poll(rack.now_ns), rack.nodes[1].poll(rack.now_ns)]
        object.__setattr__(polls[1], "node", "n02")
        account.observe(polls, (), now_ns=rack.now_ns, gpus_expected=2)
        total += account.take().counters.get("energy_mj:gpu", 0)
        if turn:
            assert account.now().power_watts["gpu"] == 2000
    assert total == 2 * 1000 * 60 * 1000


def test_a_gpu_without_a_counter_is_integrated_with_its_error() -> None:
    rack = UsageRack([FakeNode("n01", gpus=1, counted=False)])
    rack.look()
    rack.nodes[0].gpu_watts = 1400.0
    rack.step(5)
    energy = rack.rollup().energy["gpu"]
    assert (energy.joules, energy.error_joules) == (1200 * 5, 200 * 5)
    assert rack.counters["energy_error_mj:gpu"] == 1000 * 1000
    assert energy.covered_seconds == 5


def test_a_counter_that_is_absent_for_a_moment_bridges_the_time() -> None:
    rack = UsageRack([FakeNode("n01", gpus=1)])
    rack.look()
    rack.nodes[0].counted = False
    rack.run(30)
    assert rack.joules() == 0
    rack.nodes[0].counted = True
    rack.run(5)
    assert (rack.joules(), rack.counters["energy_error_mj:gpu"]) == (35_000, 0)


def test_a_counter_that_is_gone_for_good_gives_way_to_power() -> None:
    rack = UsageRack([FakeNode("n01", gpus=1)])
    rack.look()
    rack.nodes[0].counted = False
    rack.run(300)
    assert 1000 * 200 <= rack.joules() <= 1000 * 240
    rack.nodes[0].counted = True
    rack.run(60)
    assert rack.joules() <= 1000 * 300


def test_modules_and_cpus() -> None:
    node = FakeNode("n01", module_watts=2500.0, cpu_watts=250.0)
    rack = UsageRack([node], modules_per_node=1)
    rack.look()
    node.cpu_watts = 350.0
    rack.run(5)
    node.cpu_watts = 350.0
    rack.run(55)
    own = rack.rollup()
    assert own.energy["module"].joules == 2500 * 60
    assert own.energy["module"].error_joules == 0
    assert own.energy["cpu"].joules == 300 * 5 + 350 * 55
    assert own.energy["cpu"].error_joules == 50 * 5
    now = rack.account.now()
    assert now.power_watts == {"gpu": 2000, "module": 2500, "rack_input": None, "cpu": 350}
    assert now.coverage == {"gpu": 1, "module": 1, "rack_input": None, "cpu": 1}


def test_a_cpu_is_integrated_by_its_agents_clock() -> None:
    node = FakeNode("n01", gpus=0, cpu_watts=300.0, clock_ahead_ns=3600 * SECOND)
    rack = UsageRack([node])
    rack.look()
    node.clock_ahead_ns += 2 * SECOND  # the Snapshot is two seconds fresher than the one before was
    rack.step(5)
    assert rack.rollup().energy["cpu"].joules == 300 * 7
    node.clock_ahead_ns += 60 * SECOND  # somebody set the clock
    rack.step(5)
    assert rack.rollup().energy["cpu"].joules == 300 * 7
    rack.step(5)
    assert rack.rollup().energy["cpu"].joules == 300 * 12
    assert rack.rollup().energy["cpu"].covered_seconds == 10


def test_a_module_that_is_not_there_is_expected() -> None:
    rack = UsageRack([FakeNode("n01", module_watts=2500.0), FakeNode("n02")], modules_per_node=1)
    rack.look()
    rack.run(60)
    energy = rack.rollup().energy["module"]
    assert (energy.covered_seconds, energy.expected_seconds) == (60, 120)
    assert rack.account.now().power_watts["module"] is None


@pytest.mark.parametrize("watts", [-1.0, 2e6])
def test_power_that_no_shelf_can_have_is_no_reading(watts: float) -> None:
    rack = UsageRack([FakeNode("n01")], {"shelf-1": 1000.0})
    rack.look()
    rack.shelf_watts["shelf-1"] = watts
    rack.run(60)
    assert rack.rollup().energy["rack_input"].joules == 0


def test_a_shelf_that_is_not_declared_does_not_count() -> None:
    rack = UsageRack([FakeNode("n01")])
    rack.readings["shelf-9"] = ShelfReading("shelf-9", T0, 1000.0, "")
    rack.run(60)
    assert "rack_input" not in rack.rollup().energy


# --- endpoints and models -------------------------------------------------------------------------------


def test_endpoints_of_the_same_name_on_two_nodes_are_two() -> None:
    rack = two_engines()
    rack.look()
    rack.run(60)
    own = rack.rollup()
    assert own.models["r1"].endpoint_seconds == 120
    assert own.models["r1"].engine_seconds == {"vllm": 120}
    assert own.models["r1"].at_finish_seconds == {}


def test_a_model_has_the_energy_of_the_gpus_that_it_has_alone() -> None:
    rack = two_engines()
    rack.nodes[0].gpus = 3
    rack.nodes[1].endpoints.append(FakeEndpoint("decode-1", model="v3", gpus=("1",)))
    rack.look()
    rack.run(60)
    own = rack.rollup().models
    # On n01 two of three GPUs; on n02 the two endpoints share GPU 1.
    assert (own["r1"].gpu_joules, own["r1"].gpu_seconds) == (2000 * 60, 2 * 60)
    assert (own["r1"].unplaced_seconds, own["v3"].unplaced_seconds) == (60, 60)
    assert own["v3"].gpu_joules == 0


def test_waiting_and_histograms() -> None:
    engine = FakeEndpoint(generation_rate=100.0, waiting=2.0, request_counts=(1, 2, 3), request_sum=40.0)
    rack = UsageRack([FakeNode("n01", endpoints=[engine])])
    rack.look()
    engine.request_counts, engine.request_sum = (3, 6, 9), 100.0
    rack.run(5)
    engine.waiting = 0.0
    engine.request_counts, engine.request_sum = (1, 1, 2), 30.0  # restarted
    rack.run(10)
    own = rack.rollup().models["r1"]
    assert own.finished_requests == 6 + 2
    assert own.request_duration is not None
    assert (own.request_duration.bounds, own.request_duration.counts) == ((1, 10), (3, 5, 8))
    assert own.request_duration.sum == 60 + 30
    assert (own.endpoint_seconds, own.waiting_seconds) == (15, 10)


def test_models_beyond_a_hundred_are_one() -> None:
    engines = [FakeEndpoint(f"e{number}", model=f"m{number}", prompt_rate=1.0) for number in range(103)]
    rack = UsageRack([FakeNode("n01", endpoints=engines)])
    rack.look()
    rack.run(10)
    assert len(rack.rollup().models) == 101
    assert rack.counters["tokens:prompt:other"] == 30
    rack.restart()
    rack.look()
    rack.run(10)
    assert rack.counters["tokens:prompt:other"] == 60


def test_a_model_with_a_name_that_is_no_text_can_be_stored() -> None:
    engine = FakeEndpoint(model="\ud800\x00", prompt_rate=1.0)
    rack = UsageRack([FakeNode("n01", endpoints=[engine])])
    rack.look()
    rack.run(10)
    assert rack.counters["tokens:prompt:?\ufffd"] == 10


# --- idle -----------------------------------------------------------------------------------------------


def test_a_request_between_two_looks_is_no_idle_time() -> None:
    rack = two_engines()
    engines = [node.endpoints[0] for node in rack.nodes]
    for engine in engines:
        engine.generation_rate, engine.running = 0.0, 0.0
    rack.look()
    rack.run(30)
    engines[0].generation += 7.0
    rack.run(30)
    own = rack.rollup()
    # In the seventh interval there was a request.
    assert own.energy["gpu"].joules == 4 * 1000 * 60
    assert own.energy["gpu"].idle_joules == 4 * 1000 * 55
    assert rack.counters["idle_energy_mj:gpu"] == 4 * 1000 * 55 * 1000


def test_nodes_that_are_polled_in_turns_are_idle_only_together() -> None:
    rack = two_engines()
    for node in rack.nodes:
        node.endpoints[0].generation_rate = 0.0
    polls = {node.name: node.poll(rack.now_ns) for node in rack.nodes}
    for second in range(40):
        rack.go_on(1)
        if second == 20:
            rack.nodes[1].endpoints[0].prompt += 5.0
        for number, node in enumerate(rack.nodes):
            if second % 5 == 2 * number:
                polls[node.name] = node.poll(rack.now_ns)
        rack.account.observe(list(polls.values()), (), now_ns=rack.now_ns, gpus_expected=4)
        rack.take()
    energy = rack.rollup().energy["gpu"]
    # n01 is looked at in second 1, 6 … 36; n02 in 1, 3, 8 … 38, first as it was a second before, and had a
    # request between 18 and 23. What n02 took after second 33 is not told apart yet.
    assert energy.joules == 2000 * 35 + 2000 * 38
    assert energy.idle_joules == pytest.approx(2000 * (35 - 5) + 2000 * (33 - 5))


def test_no_endpoint_is_never_idle() -> None:
    rack = UsageRack([FakeNode("n01")])
    rack.look()
    rack.run(60)
    assert rack.rollup().energy["gpu"].idle_joules == 0
    assert (rack.account.now().role, rack.rollup().role) == ("", "")


def test_a_silent_endpoint_is_not_idle() -> None:
    rack = two_engines()
    for node in rack.nodes:
        node.endpoints[0].generation_rate = 0.0
    rack.look()
    rack.run(10)
    rack.nodes[1].answers = False
    rack.run(60)
    assert rack.rollup().energy["gpu"].idle_joules == 4 * 1000 * 10


# --- memory ---------------------------------------------------------------------------------------------


def test_endpoints_are_expected_after_a_restart_while_their_node_is_silent() -> None:
    rack = two_engines()
    rack.nodes[1].cpu_watts = 100.0
    rack.look()
    rack.run(10)
    rack.nodes[1].answers = False
    rack.restart()
    rack.look()
    rack.run(10)
    now = rack.account.now()
    assert (now.endpoints_expected, now.endpoints_up, now.role) == (2, 1, "engine")
    assert now.coverage["cpu"] == 0
    again = rack.account.export()
    rack.restart()
    rack.look()
    assert rack.account.export() == again


def test_counters_exist_before_they_rise() -> None:
    rack = two_engines()
    rack.look()
    assert rack.counters == {
        "energy_mj:gpu": 0,
        "energy_error_mj:gpu": 0,
        "idle_energy_mj:gpu": 0,
        "tokens:prompt:r1": 0,
        "tokens:generation:r1": 0,
    }


def test_time_in_which_tokens_counted_at_their_requests_end() -> None:
    early = FakeEndpoint("new", engine="sglang", generation_rate=10.0)
    late = FakeEndpoint("old", engine="sglang", generation_rate=10.0, at_finish=True)
    rack = UsageRack([FakeNode("n01", endpoints=[early, late])])
    rack.look()
    rack.run(60)
    own = rack.rollup().models["r1"]
    assert (own.engine_seconds, own.at_finish_seconds) == ({"sglang": 120}, {"sglang": 60})
