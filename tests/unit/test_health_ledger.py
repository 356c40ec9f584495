"""The ledger: what is recorded can be read, at once and after a restart, and no counter runs back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collector.errors import ConfigurationError
from collector.health.maintenance import MaintenanceWindow
from collector.health.states import NodeState, Verdict
from collector.model import Event
from tests.ledger_stories import Service, close_all, open_ledger
from tests.rack_builders import DAY, HOUR, MINUTE, SECOND, T0, SimulatedRack, nvl72

WINDOW = MaintenanceWindow("m1", "r01", ("n01", "n02"), T0 + HOUR, T0 + 2 * HOUR, T0, "swap a fan", "ops")
XID = Event(cursor=1, time_ns=T0 + 1, kind="xid", gpu_uuid="GPU-n01-0", gpu="0", code=79)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "ledger.sqlite"
    close_all()


def fail_three(service: Service) -> None:
    for node in ("n01", "n02", "n03"):
        service.rack.fail(node)


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_recorded_can_be_read(path: Path, kept: bool) -> None:
    service = Service(path if kept else None)
    service.run(100)
    fail_three(service)
    service.run(50)
    assert service.intervals() == [("AVAILABLE", 5, 105), ("UNAVAILABLE", 105, 150)]
    (first, second) = service.ledger.node_history("r01", 0, T0 + DAY, "n01")
    assert (first.state, second.state) == (NodeState.READY, NodeState.FAILED)
    counters = service.ledger.counters("r01")
    assert (service.seconds("AVAILABLE"), service.seconds("UNAVAILABLE")) == (100, 45)
    assert (counters.node_operating_seconds, counters.node_down_seconds) == (18 * 145 - 3 * 45, 3 * 45)
    assert counters.incidents == 3


def test_what_is_not_flushed_can_be_read_and_is_not_counted(path: Path) -> None:
    service = Service(path)
    for _ in range(3):
        service.ledger.record(service.rack.step())
    assert service.intervals() == [("AVAILABLE", 5, 15)]
    assert service.seconds("AVAILABLE") == 0


def test_counters_are_there_from_the_start(path: Path) -> None:
    counters = open_ledger(path, T0).counters("r01")
    assert counters.verdict_seconds == dict.fromkeys(Verdict, 0.0)
    assert (counters.node_operating_seconds, counters.node_down_seconds, counters.incidents) == (0, 0, 0)


def test_availability_over_a_window(path: Path) -> None:
    service = Service(path)
    service.run(900)
    fail_three(service)
    service.run(100)
    own = service.ledger.availability("r01", starts_ns=T0, ends_ns=T0 + 1000 * SECOND, slo=0.9)
    assert (own.available_seconds, own.unavailable_seconds, own.uncovered_seconds) == (900, 95, 5)
    assert (own.low, own.high, own.point) == (0.9, 0.905, 900 / 995)
    assert (own.coverage, own.insufficient_data) == (0.995, False)
    assert own.budget_seconds == pytest.approx(100)
    assert own.budget_used == pytest.approx(0.95)
    assert (own.incidents, own.open_incidents, own.mttr_seconds) == (3, 3, None)
    assert own.mtbf_seconds == (18 * 900 + 15 * 95) / 3
    late = service.ledger.availability(
        "r01", starts_ns=T0 + 950 * SECOND, ends_ns=T0 + 1000 * SECOND, slo=0.9
    )
    assert (late.low, late.high, late.incidents, late.open_incidents) == (0.0, 0.0, 0, 3)


def test_availability_for_another_block(path: Path) -> None:
    service = Service(path)
    service.run(500)
    service.rack.fail("n01")
    service.run(500)
    unavailable = {
        block: service.ledger.availability(
            "r01", starts_ns=T0, ends_ns=T0 + 1000 * SECOND, slo=0.99, min_block=block
        ).unavailable_seconds
        for block in (None, 17, 18)
    }
    assert unavailable == {None: 0, 17: 0, 18: 495}


def test_a_rack_that_was_never_recorded(path: Path) -> None:
    own = open_ledger(path, T0).availability("r99", starts_ns=T0, ends_ns=T0 + HOUR, slo=0.99)
    assert (own.low, own.high, own.coverage, own.insufficient_data) == (0.0, 1.0, 0.0, True)


def test_maintenance_is_excused(path: Path) -> None:
    service = Service(path)
    service.run(100)
    service.rack.maintain(seconds=100)
    service.run(200)
    own = service.ledger.availability("r01", starts_ns=T0, ends_ns=T0 + 300 * SECOND, slo=0.99)
    # What was seen at a poll holds until the next: AVAILABLE 5 to 105 and 200 to 300, MAINTENANCE between.
    assert (own.excused_seconds, own.available_seconds, own.uncovered_seconds) == (95, 200, 5)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_is_a_gap_and_counters_go_on(path: Path, clean: bool) -> None:
    service = Service(path)
    service.run(100)
    again = service.restart(away_seconds=10, clean=clean)
    assert again.seconds("AVAILABLE") == 95
    again.run(100)
    assert again.intervals() == [("AVAILABLE", 5, 100), ("AVAILABLE", 115, 210)]
    assert again.seconds("AVAILABLE") == 95 + 95
    own = again.ledger.availability("r01", starts_ns=T0, ends_ns=T0 + 210 * SECOND, slo=0.99)
    assert (own.available_seconds, own.uncovered_seconds) == (190, 20)


def test_a_restart_during_an_incident_is_no_new_one(path: Path) -> None:
    service = Service(path)
    service.run(50)
    service.rack.fail("n01")
    since = service.run(50).nodes[0].since_ns
    again = service.restart(away_seconds=1800)
    status = again.run(50)
    assert (status.nodes[0].state, status.nodes[0].since_ns) == (NodeState.FAILED, since)
    assert again.ledger.counters("r01").incidents == 1
    (incident,) = again.ledger.incidents()
    assert (incident.node, incident.starts_ns, incident.ends_ns) == ("n01", since, None)
    kinds = [(event.kind, event.node) for event in again.ledger.events()]
    assert kinds == [("node_state", "n01")]


def test_a_restart_invents_nothing(path: Path) -> None:
    service = Service(path)
    service.run(50)
    again = service.restart(away_seconds=60)
    again.run(50)
    assert (again.ledger.events(), again.ledger.incidents()) == ((), ())


def test_a_service_that_stalls_leaves_a_gap(path: Path) -> None:
    service = Service(path)
    service.run(50)
    service.rack.step(15)
    service.ledger.record(service.rack.step(0))
    assert service.intervals() == [("AVAILABLE", 5, 65)]
    service.rack.now_ns += 16 * SECOND
    service.ledger.record(service.rack.step(0))
    service.run(10)
    assert service.intervals() == [("AVAILABLE", 5, 65), ("AVAILABLE", 81, 91)]
    assert service.seconds("AVAILABLE") == 70


def test_a_clock_that_steps_back_makes_no_negative_interval(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(path)
    service.run(100)
    service.rack.now_ns -= 50 * SECOND
    fail_three(service)
    service.run(40)
    assert service.intervals() == [("AVAILABLE", 5, 100), ("UNAVAILABLE", 100, 100)]
    assert service.seconds("AVAILABLE") == 95
    service.run(30)
    assert service.intervals() == [("AVAILABLE", 5, 100), ("UNAVAILABLE", 100, 120)]
    assert (service.seconds("AVAILABLE"), service.seconds("UNAVAILABLE")) == (95, 20)
    assert caplog.records == []


def test_a_clock_that_is_far_behind_is_said_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(path)
    service.run(100)
    service.rack.now_ns -= 2 * HOUR
    service.run(100)
    assert len(caplog.records) == 1
    assert "the clock is 2.0 hours behind" in caplog.text
    assert service.intervals() == [("AVAILABLE", 5, 100)]


def test_a_restart_with_a_clock_that_is_behind_overlaps_nothing(path: Path) -> None:
    service = Service(path)
    service.run(100)
    again = service.restart(away_seconds=-50)
    again.run(100)
    assert again.intervals() == [("AVAILABLE", 5, 100), ("AVAILABLE", 100, 150)]


def test_events_of_agents_are_kept_once(path: Path) -> None:
    service = Service(path)
    service.rack.nodes["n01"].events = (XID, replace(XID, cursor=2, code=48))
    service.run(5)
    again = service.restart()
    again.rack.nodes["n01"].events = (XID, replace(XID, cursor=3, time_ns=T0 + 2))
    again.run(5)
    told = [(event.kind, event.node, event.code, event.time_ns - T0) for event in again.ledger.events()]
    assert told == [("xid", "n01", 79, 2), ("xid", "n01", 48, 1), ("xid", "n01", 79, 1)]


def test_an_xid_is_kept_with_what_the_kernel_log_told(path: Path) -> None:
    service = Service(path)
    link_down = replace(
        XID, code=149, severity="fatal", subcode="NETIR_LINK_EVT", link=9, detail="Fatal Link 09 down"
    )
    service.rack.nodes["n01"].events = (replace(XID, cursor=1), replace(link_down, cursor=2, time_ns=T0 + 2))
    service.run(5)
    texts = {event.code: event.text for event in service.ledger.events() if event.kind == "xid"}
    assert texts == {149: "fatal NETIR_LINK_EVT on link 9: Fatal Link 09 down", 79: ""}


def test_events_are_filtered_and_paged(path: Path) -> None:
    service = Service(path)
    service.rack.nodes["n01"].events = tuple(replace(XID, time_ns=T0 + number) for number in range(5))
    service.rack.nodes["n02"].events = (replace(XID, kind="gpu_lost", gpu_uuid="GPU-x", code=None),)
    service.run(5)
    ledger = service.ledger
    page = ledger.events(kind="xid", limit=2)
    assert [event.time_ns - T0 for event in page] == [4, 3]
    page = ledger.events(kind="xid", limit=2, before_id=page[-1].id)
    assert [event.time_ns - T0 for event in page] == [2, 1]
    assert [event.node for event in ledger.events(gpu_uuid="GPU-x")] == ["n02"]
    assert [event.node for event in ledger.events(node="n02")] == ["n02"]
    assert len(ledger.events(rack="r01", starts_ns=T0 + 2, ends_ns=T0 + 4)) == 2
    assert ledger.events(rack="r99") == ()


def test_events_from_hostile_hands_are_stored_or_left_out(path: Path) -> None:
    service = Service(path)
    service.rack.nodes["n01"].events = (
        replace(XID, kind="x" * 5000, gpu_uuid="\ud800\x00", code=2**70),
        replace(XID, time_ns=2**70),
        replace(XID, time_ns=-1),
    )
    service.run(5)
    (event,) = service.ledger.events()
    assert (event.kind, event.gpu_uuid, event.code) == ("x" * 128, "?�", None)


def test_changes_are_events(path: Path) -> None:
    service = Service(path)
    service.run(50)
    fail_three(service)
    service.run(10)
    events = service.ledger.events()
    assert [(event.kind, event.node) for event in events] == [
        ("node_state", "n03"),
        ("node_state", "n02"),
        ("node_state", "n01"),
        ("verdict", ""),
    ]
    assert events[0].text == "READY → FAILED: gpu_xid_fatal failed"
    assert events[3].text.startswith("AVAILABLE → UNAVAILABLE: the largest block has 15 of the 16")


def test_a_latch_is_an_event(path: Path) -> None:
    service = Service(path)
    for _ in range(3):
        service.run(5)
        service.rack.fail("n01")
        service.run(5)
        service.rack.mend("n01")
        service.run(605)
    assert [event.node for event in service.ledger.events(kind="latched")] == ["n01"]
    assert service.ledger.counters("r01").incidents == 1  # less than 10 minutes apart


def test_an_incident_ends(path: Path) -> None:
    service = Service(path)
    service.rack.fail("n01")
    service.run(50)
    service.rack.mend("n01")
    service.run(700)
    own = service.ledger.availability("r01", starts_ns=T0, ends_ns=T0 + DAY, slo=0.99)
    assert (own.incidents, own.open_incidents) == (1, 0)
    assert own.mttr_seconds == 650  # 45 s of failing, 5 s until it is seen clean, 10 minutes of recovery
    (incident,) = service.ledger.incidents(rack="r01", node="n01")
    assert incident.ends_ns == T0 + 655 * SECOND
    assert service.ledger.incidents(node="n02") == ()


def test_maintenance_windows_outlive_the_service(path: Path) -> None:
    service = Service(path)
    assert service.ledger.keep_window(WINDOW, T0) is True
    again = service.restart(clean=False)
    assert again.ledger.windows() == (WINDOW,)
    ended = replace(WINDOW, ends_ns=T0 + HOUR + 1)
    again.ledger.keep_window(ended, T0)
    assert again.restart().ledger.windows() == (ended,)


def test_the_memory_of_a_judge_outlives_the_service(path: Path) -> None:
    service = Service(path)
    service.run(50)
    exported = service.rack.judge.export()
    memory = service.restart().ledger.memory("r01")
    assert memory == {**exported, "observed_ns": T0 + 50 * SECOND}
    assert service.ledger.memory("r99") == {}


def test_what_is_too_old_is_pruned(path: Path) -> None:
    service = Service(path)
    service.ledger.keep_window(WINDOW, T0)
    service.rack.fail("n01")
    service.rack.nodes["n02"].events = (XID,)
    service.run(50)
    service.rack.mend("n01")
    service.run(700)
    late = service.rack.now_ns + 399 * DAY
    service.ledger.prune(late)
    assert (len(service.ledger.incidents()), len(service.ledger.windows())) == (1, 1)
    assert len(service.ledger.node_history("r01", 0, late, "n01")) == 2
    before = service.ledger.counters("r01")
    service.ledger.prune(late + DAY + 2 * HOUR)
    service.ledger.flush(late)
    assert (service.ledger.incidents(), service.ledger.windows(), service.ledger.events()) == ((), (), ())
    (still_open,) = service.ledger.node_history("r01", 0, late, "n01")
    assert still_open.state is NodeState.READY
    assert service.ledger.counters("r01") == before
    assert service.restart().ledger.windows() == ()


def test_too_many_events_are_pruned(path: Path) -> None:
    service = Service(path)
    service.ledger._maximum_events = 3
    service.rack.nodes["n01"].events = tuple(replace(XID, time_ns=T0 + number) for number in range(10))
    service.run(5)
    service.ledger.prune(T0)
    assert [event.time_ns - T0 for event in service.ledger.events()] == [9, 8, 7]


def test_a_node_that_is_not_declared_any_more_is_closed(path: Path) -> None:
    service = Service(path)
    service.run(50)
    service.rack.judge.redeclare(nvl72(17))
    service.run(50)
    (gone,) = service.ledger.node_history("r01", 0, T0 + DAY, "n18")
    assert gone.ends_ns == T0 + 55 * SECOND


def test_two_racks_do_not_mix(path: Path) -> None:
    ledger = open_ledger(path, T0)
    one = SimulatedRack(nvl72())
    other = SimulatedRack(replace(nvl72(), rack="r02"))
    for node in ("n01", "n02", "n03"):
        other.fail(node)
    for _ in range(3):
        ledger.record(one.step())
        ledger.record(other.step())
    ledger.flush(T0)
    assert ledger.counters("r01").verdict_seconds[Verdict.AVAILABLE] == 10
    assert ledger.counters("r02").verdict_seconds[Verdict.UNAVAILABLE] == 10
    assert {incident.rack for incident in ledger.incidents()} == {"r02"}
    assert ledger.availability("r01", starts_ns=T0, ends_ns=T0 + MINUTE, slo=0.99).incidents == 0


def test_there_is_one_writer(path: Path) -> None:
    service = Service(path)
    with pytest.raises(ConfigurationError, match="another rack service"):
        open_ledger(path, T0)
    service.restart()
