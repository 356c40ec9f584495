"""A rack of 18 agents and its rack service, all in processes of their own: what happens, and what it says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e.rack_processes import TRAYS, Body, Loopback, RackService, Trays, silent_port, until

pytestmark = pytest.mark.e2e

DOWN_SECONDS = 17.0
"""How long the service is down: more than the 15 s that the ledger bridges (`collector.rack.records`)."""


@pytest.fixture(scope="module")
def trays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trays]:
    own = Trays(Loopback(), tmp_path_factory.mktemp("trays"))
    try:
        own.heal()
        yield own
        assert set(own.end()) == {0}
    finally:
        own.kill()


@pytest.fixture
def rack(trays: Trays, tmp_path: Path) -> Iterator[RackService]:
    """A rack service that knows all nodes to be READY, with an empty past."""
    trays.heal()
    service = RackService(trays, tmp_path)
    try:
        service.start()
        until("the rack is AVAILABLE", lambda: service.health()["counts"]["ready"] == TRAYS)
        yield service
        assert service.process.terminate() == 0
        assert not re.search(r"Traceback|\bERROR\b", service.process.log), service.process.log
    finally:
        service.kill()


def reason(rack: RackService, node: str, check: str, words: str = "") -> Body:
    """Wait until a node has a reason of a check with some words, and return it."""
    found: list[Body] = []

    def is_there() -> bool:
        found[:] = rack.node(node)["reasons"]
        found.sort(key=lambda each: (each["check"], words in each["text"]) != (check, True))
        return bool(found) and found[0]["check"] == check and words in found[0]["text"]

    until(f"{node} has a reason {check} with {words!r}", is_there)
    return found[0]


def is_state(rack: RackService, state: str, *nodes: str) -> bool:
    states = rack.states()
    return all(states[node] == state for node in nodes)


def test_every_way_to_ask_gives_the_same_answer(rack: RackService, trays: Trays) -> None:
    health = rack.health()
    assert health["verdict"] == "AVAILABLE"
    assert health["counts"]["gpus_usable"] == health["counts"]["gpus_expected"] == 72
    assert (health["min_block"], health["largest_block"]["nodes"]) == (16, 18)
    assert health["schedulable"] == [tray.node for tray in trays.all]
    assert health["avoid"] == health["reasons"] == []
    assert rack.health("?min_block=18")["verdict"] == "AVAILABLE"
    assert rack.status("/v1/racks/r01/health?min_block=19") == 422
    (domain,) = rack.get("/v1/domains")["domains"]
    assert (domain["state"], len(domain["members"])) == ("HEALTHY", 18)
    assert rack.metric("rack_verdict", verdict="AVAILABLE") == 1
    assert rack.metric("rack_gpus", state="OK") == 72
    assert rack.metric("rack_nodes_schedulable") == 18
    assert {node["slot"] for node in rack.get("/v1/racks/r01")["nodes"]} == {*range(1, 9), *range(18, 28)}
    targets = rack.get("/sd/prometheus")
    assert [group["labels"]["node"] for group in targets] == [tray.node for tray in trays.all]  # type: ignore[index] # a list
    until("it counts as available", lambda: rack.availability()["available_s"] > 1)
    assert rack.availability()["unknown_s"] == 0  # the service's own start is no time of the rack


def test_an_agent_that_hangs_or_restarts_is_unknown_and_no_incident(rack: RackService, trays: Trays) -> None:
    trays["n03"].stop()
    trays["n04"].kill()
    until("both are UNKNOWN", lambda: is_state(rack, "UNKNOWN", "n03", "n04"))
    # The hosts of both refuse a connection, and that is an answer.
    assert "its host answers" in reason(rack, "n03", "poll", "did not answer")["text"]
    assert "its host answers" in reason(rack, "n04", "poll", "refused")["text"]
    assert rack.health()["verdict"] == "AVAILABLE"  # 16 of 18 are left
    assert rack.health("?min_block=17")["verdict"] == "UNKNOWN"
    assert {each["drain"] for each in rack.health()["avoid"]} == {"none"}

    trays["n03"].go_on()
    trays["n04"].start()
    until("both are READY", lambda: is_state(rack, "READY", "n03", "n04"))
    assert rack.metric("rack_incidents_total") == 0
    assert rack.availability()["unavailable_s"] == 0
    told = [event["text"] for event in rack.events("&kind=node_state&node=n04")]
    assert any("UNKNOWN" in text for text in told)
    assert not any("FAILED" in text for text in told)


def test_three_silent_trays_are_unknown_until_maintenance_is_declared(
    rack: RackService, trays: Trays
) -> None:
    nodes = ["n16", "n17", "n18"]
    for node in nodes:
        trays[node].kill()
    until("the verdict is UNKNOWN", lambda: rack.health()["verdict"] == "UNKNOWN")
    assert is_state(rack, "UNKNOWN", *nodes)
    assert rack.health()["largest_block"]["nodes"] == 15
    assert rack.metric("rack_verdict", verdict="UNKNOWN") == 1

    wanted = {"rack": "r01", "nodes": nodes, "duration": "1h", "reason": "new cables"}
    assert rack.write("POST", "/v1/maintenance", wanted, token="")[0] == 401
    assert rack.write("POST", "/v1/maintenance", wanted, token="of somebody else")[0] in (401, 403)  # noqa: S106
    assert rack.health()["verdict"] == "UNKNOWN"
    status, window = rack.write("POST", "/v1/maintenance", wanted)
    assert status == 201
    until("the verdict is MAINTENANCE", lambda: rack.health()["verdict"] == "MAINTENANCE")
    assert is_state(rack, "MAINTENANCE", *nodes)
    assert reason(rack, "n17", "maintenance", "new cables")
    assert [each["id"] for each in rack.get("/v1/maintenance?rack=r01")["windows"]] == [window["id"]]
    assert rack.metric("rack_maintenance_active") == 1
    until("the time is excused", lambda: rack.availability()["excused_s"] > 0)

    assert rack.write("DELETE", f"/v1/maintenance/{window['id']}")[0] == 200
    until("the verdict is UNKNOWN again", lambda: rack.health()["verdict"] == "UNKNOWN")
    for node in nodes:
        trays[node].start()
    until("the rack is AVAILABLE", lambda: rack.health()["counts"]["ready"] == TRAYS)
    availability = rack.availability()
    assert availability["unknown_s"] > 0
    assert availability["unavailable_s"] == 0
    assert rack.metric("rack_incidents_total") == 0


def test_faults_are_named_and_a_tray_without_power_makes_the_rack_unavailable(
    rack: RackService, trays: Trays
) -> None:
    trays["n05"].restart("gpu_lost:gpu=2,start=5")
    trays["n06"].restart("link_down:gpu=1,link=7,start=5")
    until("both are FAILED", lambda: is_state(rack, "FAILED", "n05", "n06"))

    because = reason(rack, "n05", "gpu_lost")
    assert (because["impact"], because["metric"]) == ("fail", "rackwatt_gpu_up")
    assert because["action"]
    gpu = rack.get(f"/v1/gpus/{because['gpu_uuid']}")
    assert (gpu["gpu"], gpu["node"], gpu["up"], gpu["state"]) == ("2", "n05", False, "FAILED")
    until("its Xid is an event", lambda: rack.events("&node=n05&kind=xid"))
    (event,) = rack.events("&node=n05&kind=xid")
    assert (event["code"], event["gpu_uuid"]) == (79, because["gpu_uuid"])

    assert reason(rack, "n06", "gpu_nvlinks_missing", "link 7 down")
    until("the link's Xid is an event", lambda: rack.events("&node=n06&kind=xid"))
    assert rack.events("&node=n06&kind=xid")[0]["code"] == 149
    health = rack.health()
    assert (health["verdict"], health["largest_block"]["nodes"]) == ("AVAILABLE", 16)
    assert health["counts"]["gpus_usable"] == 64  # 4 a node, without those of n05 and n06
    assert rack.health("?min_block=17")["verdict"] == "UNAVAILABLE"
    drains = [(each["node"], each["drain"]) for each in health["avoid"]]
    assert drains == [("n05", "immediate"), ("n06", "immediate")]

    with silent_port(trays["n01"].host, rack.witness_port):
        trays["n01"].stop()
        until("the rack is UNAVAILABLE", lambda: rack.health()["verdict"] == "UNAVAILABLE")
        assert reason(rack, "n01", "witness")["impact"] == "fail"
        until("three incidents count", lambda: rack.metric("rack_incidents_total") == 3)
        until("the time counts", lambda: rack.availability()["unavailable_s"] > 1)
        (block,) = [each for each in rack.health()["reasons"] if each["check"] == "block"]
        assert (block["value"], block["threshold"]) == (15, 16)


def test_a_restart_of_the_rack_service_invents_nothing_and_forgets_nothing(
    rack: RackService, trays: Trays
) -> None:
    trays["n05"].restart("gpu_lost:gpu=2")
    until("n05 is FAILED", lambda: is_state(rack, "FAILED", "n05"))
    until("its incident counts", lambda: rack.metric("rack_incidents_total") == 1)
    status, window = rack.write(
        "POST", "/v1/maintenance", {"rack": "r01", "nodes": ["n09"], "duration": "1h", "reason": "new fan"}
    )
    assert status == 201
    until("n09 is in maintenance", lambda: is_state(rack, "MAINTENANCE", "n09"))
    until("its time counts", lambda: rack.metric("rack_node_down_seconds_total") > 2)
    before = rack.availability()
    counted = _counters(rack)
    generation, events = rack.health()["generation"], rack.events()

    rack.kill()
    died = time.monotonic()
    trays["n05"].restart()  # repaired meanwhile
    trays["n07"].restart()
    time.sleep(DOWN_SECONDS)
    down_seconds = time.monotonic() - died
    rack.start()

    assert is_state(rack, "READY", "n07")
    assert is_state(rack, "MAINTENANCE", "n09")
    assert is_state(rack, "FAILED", "n05")
    assert reason(rack, "n05", "recovering")["impact"] == "fail"
    assert window["id"] in {each["id"] for each in rack.get("/v1/maintenance")["windows"]}
    assert rack.health()["generation"] > generation
    assert [event["id"] for event in rack.events()[-len(events) :]] == [event["id"] for event in events]
    until("it counts on", lambda: rack.availability()["available_s"] > before["available_s"] + 1)
    after = _counters(rack)
    assert after["rack_incidents_total"] == 1
    assert all(after[name] >= value for name, value in counted.items()), (counted, after)
    availability = rack.availability()
    assert availability["unavailable_s"] == 0
    # The window moved over as much as passed; the rest of what is missing now is the gap. It began up to 5 s
    # before the kill, with the last flush, and ended with the first record after the start.
    gap = availability["uncovered_s"] - before["uncovered_s"] + _seconds(before, availability)
    assert down_seconds - 1 < gap < down_seconds + 5 + 10


def _counters(rack: RackService) -> dict[str, float]:
    names = ("rack_incidents_total", "rack_node_operating_seconds_total", "rack_node_down_seconds_total")
    verdicts = ("AVAILABLE", "UNAVAILABLE", "MAINTENANCE", "UNKNOWN")
    return {name: rack.metric(name) for name in names} | {
        verdict: rack.metric("rack_verdict_seconds_total", verdict=verdict) for verdict in verdicts
    }


def _seconds(before: Body, after: Body) -> float:
    """Time between the ends of two windows."""
    first, second = (datetime.fromisoformat(body["ends_at"]) for body in (before, after))
    return (second - first).total_seconds()
