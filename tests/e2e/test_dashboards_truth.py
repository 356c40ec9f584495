"""What key panels show, against what the simulated racks really did, and against REST at the same instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from collector.simulator.gpu import SimulatedGpu
from tests.history.asking import View
from tests.history.hours import Hour, Truth
from tests.history.plans import STORY_SECONDS
from tests.history.simulate import BEGIN_SECONDS, END_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.needs_program("prometheus", "promtool")]

WINDOW_SECONDS = 300
"""Window of the recorded rates."""
RATE_WITHIN = 0.02
"""A rate of 5 minutes: evaluated up to 30 s before it is looked at, of scrapes up to 15 s before that, and of
batches of 20 s and more."""

Body = Mapping[str, Any]  # Any: a JSON document


@pytest.fixture(scope="module")
def normal(hours: dict[str, Hour]) -> Hour:
    return hours["normal"]


@pytest.fixture(scope="module")
def faults(hours: dict[str, Hour]) -> Hour:
    return hours["faults"]


def _a_second(of: Callable[[float], float], seconds: int = WINDOW_SECONDS, end: int = END_SECONDS) -> float:
    """Return the mean rise a second of what only rises."""
    before, after = of(Truth.moment(end - seconds)), of(Truth.moment(end))
    return (after - before) / seconds


def _gpus(hour: Hour, rack: str) -> list[SimulatedGpu]:
    return [gpu for tray in hour.truth.racks[rack].trays for gpu in tray.node.gpus]


def _gpu_watts(hour: Hour, rack: str) -> float:
    return _a_second(lambda now: sum(gpu.energy_joules(now) for gpu in _gpus(hour, rack)))


def _input_watts(hour: Hour, rack: str, seconds: int = WINDOW_SECONDS) -> float:
    shelves = hour.truth.racks[rack].shelves
    return _a_second(lambda now: sum(shelf.draw(now).joules for shelf in shelves), seconds)


def _tokens(hour: Hour, rack: str, *, prompts: bool, seconds: int = WINDOW_SECONDS) -> float:
    engines = [tray.engine for tray in hour.truth.racks[rack].trays if tray.engine is not None]

    def counted(now: float) -> float:
        tallies = [own for engine in engines for own in engine.tallies(now)]
        return sum(own.generation_tokens + (own.prompt_tokens if prompts else 0) for own in tallies)

    return _a_second(counted, seconds)


# -- a normal hour ------------------------------------------------------------------------------------------


def test_power_of_the_fleet(normal: Hour) -> None:
    really = _gpu_watts(normal, "r01") + _gpu_watts(normal, "r02")
    assert normal.value("fleet/power/A") == pytest.approx(really, rel=RATE_WITHIN)
    assert normal.value("fleet/power/B") == 1
    assert normal.value("fleet/power-of-racks/A", rack="r02") == pytest.approx(
        _gpu_watts(normal, "r02"), rel=RATE_WITHIN
    )


def test_power_of_a_gpu(normal: Hour) -> None:
    (node,) = [tray.node for tray in normal.truth.racks["r01"].trays if tray.name == "n02"]
    # NVML's power is the mean of the last second.
    really = _a_second(node.gpus[3].energy_joules, 1)
    shown = normal.value("node/gpu-power/A", node="n02", gpu="3")
    assert shown == pytest.approx(really, rel=1e-3)
    assert normal.value("node/gpus/E", node="n02", gpu="3") == shown


def test_input_power_of_a_rack(normal: Hour) -> None:
    really = _input_watts(normal, "r01")
    assert normal.value("tokens/input-power/A") == pytest.approx(really, rel=RATE_WITHIN)
    assert normal.value("tokens/denominator/A", rack="r01") == pytest.approx(really, rel=RATE_WITHIN)


def test_tokens_of_a_rack(normal: Hour) -> None:
    generated, total = (_tokens(normal, "r01", prompts=prompts) for prompts in (False, True))
    assert normal.value("tokens/generation-tokens/A") == pytest.approx(generated, rel=RATE_WITHIN)
    assert normal.value("tokens/total-tokens/A") == pytest.approx(total, rel=RATE_WITHIN)
    # 8 GPUs at 18,131.6 tokens/s (InferenceX, GB300 FP4, 8k/1k), as the load has it on average.
    assert normal.value("tokens/total-tokens/A") == pytest.approx(8 * 18_131.6, rel=0.02)


def test_tokens_for_each_joule(normal: Hour) -> None:
    really = _tokens(normal, "r01", prompts=False) / _input_watts(normal, "r01")
    shown = normal.value("tokens/tokens-per-joule/A")
    assert shown == pytest.approx(really, rel=RATE_WITHIN)
    assert normal.value("tokens/joules-per-token/A") == pytest.approx(1 / shown)
    # A kWh is $0.08 and PUE 1.2 (tests/history/service.py); a million tokens.
    really_usd = 1e6 / really / 3.6e6 * 0.08 * 1.2
    assert normal.value("tokens/energy-cost/A") == pytest.approx(really_usd, rel=RATE_WITHIN)


def test_efficiency_is_that_of_rest(normal: Hour) -> None:
    body: Body = normal.rest["/v1/racks/r01/efficiency?window=1h"]
    (figures,) = [
        own for own in body["domains"] if (own["tokens"], own["domain"]) == ("generation", "rack_input")
    ]
    # REST takes whole minutes, the last of which ended a minute ago.
    shown = normal.value("tokens/ranking-racks/A", rack="r01")
    assert shown == pytest.approx(figures["tokens_per_joule"], rel=0.005)
    really = _tokens(normal, "r01", prompts=False, seconds=3600) / _input_watts(normal, "r01", 3600)
    assert shown == pytest.approx(really, rel=0.005)


def test_throughput_of_nvlinks(normal: Hour) -> None:
    gpus = _gpus(normal, "r01")
    sent = _a_second(lambda now: sum(gpu.nvlink_transmitted_bytes(now) for gpu in gpus))
    received = _a_second(lambda now: sum(gpu.nvlink_received_bytes(now) for gpu in gpus))
    shown = normal.value("nvlink/rack-throughput/A", rack="r01")
    assert shown == pytest.approx(sent + received, rel=RATE_WITHIN)
    # The limit of an NVL72: 72 GPUs of 18 links, 50 GB/s each way (the profile), whichever of them are there.
    assert normal.value("nvlink/rack-throughput/LIMIT") == 72 * 18 * 100e9
    of_one = _a_second(gpus[0].nvlink_transmitted_bytes)
    assert normal.value("nvlink/gpu-transmitted/A", node="n01", gpu="0") == pytest.approx(
        of_one, rel=RATE_WITHIN
    )


def test_all_is_well(normal: Hour) -> None:
    assert normal.value("fleet/racks/A", verdict="AVAILABLE") == 2
    assert normal.value("fleet/nodes/A", state="READY") == 3
    assert normal.value("fleet/gpus/B", state="OK") == normal.value("fleet/gpus/A") == 16
    assert normal.value("nvlink/links/C") == 0
    # 8 GB300 and 8 H200 with 18 links each (their profiles).
    assert normal.value("nvlink/links/A") == 16 * 18
    assert normal.prometheus.at("count(count_over_time(ALERTS[1h]))", END_SECONDS) == ()


# -- the hour of the demo's faults --------------------------------------------------------------------------


def test_the_link_that_is_down(faults: Hour) -> None:
    (node,) = [tray.node for tray in faults.truth.racks["r01"].trays if tray.name == "n03"]
    with node.gpus[1].timekeeper.lock:
        node.gpus[1].timekeeper.move_to(Truth.moment(END_SECONDS))
        node.gpus[1].sync()
        assert node.gpus[1].physics.down_links == frozenset({9})
    assert faults.value("nvlink/links/C") == 1
    assert faults.value("nvlink/down-now/A", node="n03", gpu="1", link="9") == 0
    assert faults.value("nvlink/node-by-link/A", node="r01 n03", link="09") == 1
    # It went down 8 times for a while (the story), and then for good.
    assert faults.value("nvlink/failed-links/A", node="n03", gpu="1", link="9") == 8
    assert faults.value("node/gpus/J", node="n03", gpu="1") == 1


def test_xids(faults: Hour) -> None:
    counted = {
        (each.labels["node"], each.labels["gpu"], each.labels["xid"]): each.value
        for each in faults.ask("rack/xids/B")
    }
    # A link that fails is Xid 149: 8 flaps, and the end. A GPU that falls off the bus is Xid 79.
    assert counted == {("n03", "1", "149"): 9, ("n07", "2", "79"): 1}
    seen = {each.labels["xid"]: each.value / 1000 for each in faults.ask("rack/xids/A")}
    # The story: 30 s and 240 s after that; 105 s.
    begin = BEGIN_SECONDS + STORY_SECONDS
    assert seen["149"] == pytest.approx(begin + 30 + 240, abs=2)
    assert seen["79"] == pytest.approx(begin + 105, abs=2)


def test_verdicts_over_the_hour(faults: Hour) -> None:
    codes = {
        round(time): value
        for each in faults.ask("fleet/verdicts/A")
        for time, value in zip(each.times, each.values, strict=True)
        if each.labels["rack"] == "r01"
    }
    # AVAILABLE is 0, MAINTENANCE 1 (dashboards/boards/recordings.py). n12 falls silent 150 s after the story
    # began and each 300 s, for 120 s, and is UNKNOWN after 15 s; with n03 excused that is MAINTENANCE.
    first = BEGIN_SECONDS + STORY_SECONDS + 150
    for silence in range(first, END_SECONDS - 240, 300):
        assert codes[silence + 90] == 1, silence
        assert codes[silence + 225] == 0, silence
    assert {value for time, value in codes.items() if time < first} == {0}
    assert set(codes.values()) == {0, 1}


def test_availability_of_30_days(faults: Hour) -> None:
    body: Body = faults.rest["/v1/racks/r01/availability?window=30d"]
    point, coverage = (faults.value(f"rack/availability/{ref}", rack="r01") for ref in "BC")
    assert point == pytest.approx(body["point"], abs=1e-5)
    assert coverage == pytest.approx(body["coverage"], abs=1e-4)
    # Unavailable for 2 hours, and 10 minutes until it is believed; unknown for 3 hours; excused for the
    # silences of n12, since when n03 is in maintenance: 7 of 105 s.
    known = 30 * 86_400 - 3 * 3600 - 7 * 105
    assert point == pytest.approx(1 - 7800 / known, abs=1e-5)
    assert faults.value("rack/availability/C", rack="r02") == pytest.approx(1, abs=1e-4)
    low, high = (faults.value(f"rack/availability-windows/{ref}", rack="r01", window="30d") for ref in "BC")
    assert low < point < high
    # A budget of 1 % of what is not excused.
    assert faults.value("rack/budget/A", rack="r01") == pytest.approx(1 - body["budget_used"], abs=1e-3)
    assert faults.value("rack/failures/A", rack="r01") == body["incidents"] == 5


def test_states_are_those_of_rest(faults: Hour) -> None:
    bodies: list[Body] = [faults.rest[f"/v1/racks/{rack}/health"] for rack in ("r01", "r02")]
    for state in ("READY", "DEGRADED", "FAILED", "MAINTENANCE", "UNKNOWN"):
        counted = sum(body["counts"][state.lower()] for body in bodies)
        assert faults.value("fleet/nodes/A", state=state) == counted
    for body in bodies:
        assert faults.value("fleet/racks/A", verdict=body["verdict"]) == 2
    # n03 and n07 each have a GPU that failed, and h02 one that overheats.
    shown = {
        state: faults.value("fleet/gpus/B", state=state) for state in ("OK", "DEGRADED", "FAILED", "UNKNOWN")
    }
    assert shown == {"OK": 21, "DEGRADED": 1, "FAILED": 2, "UNKNOWN": 0}
    assert faults.value("fleet/gpus/A") == 24


def test_the_lost_gpu_is_lost_and_nothing_else_is_said_of_it(faults: Hour) -> None:
    view = View(chosen={"node": "n07"})
    assert faults.value("node/gpus/A", view, gpu="2") == 0
    assert [each.labels["gpu"] for each in faults.ask("node/gpus/E", view)] == ["0", "1", "3"]
    assert faults.value("nvlink/silent/B") == 1


def test_the_hot_gpu(faults: Hour) -> None:
    gpu = faults.truth.racks["r02"].trays[0].node.gpus[5]
    celsius = gpu.temperature_celsius(Truth.moment(END_SECONDS))
    shown = faults.value("node/gpu-temperature-celsius/A", node="h02", gpu="5")
    # NVML tells whole degrees.
    assert shown == pytest.approx(celsius, abs=1)
    # It settles 4 degrees above its limit (collector/simulator/physics.py).
    assert faults.value("rack/margin/A", rack="r02") == -4


def test_what_fires(faults: Hour) -> None:
    firing = faults.prometheus.at('ALERTS{alertstate="firing"}', END_SECONDS)
    # n03 is in maintenance, and what is excused does not fire.
    assert {(each.labels["alertname"], each.labels.get("node", "")) for each in firing} == {
        ("RackwattGpuCheckFail", "n07"),
        ("RackwattNodeCheckFailed", "n07"),
        ("RackwattNodeFailed", "n07"),
        ("RackwattHardwareSlowdown", "h02"),
        ("RackwattThermalMarginLow", "h02"),
    }
    fired = faults.prometheus.at(
        'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))', END_SECONDS
    )
    assert {each.labels["alertname"] for each in fired} >= {
        "RackwattXidFatal",
        "RackwattNvlinkRecoveryFailed",
    }
