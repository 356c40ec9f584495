"""Rules over several nodes, the mass-failure guard, and declared maintenance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.errors import ConfigurationError
from collector.health.maintenance import (
    MAXIMUM_WINDOW_NS,
    Maintenance,
    MaintenanceWindow,
    check_window,
    window_of,
)
from collector.health.mass_failure import MassFailureGuard
from collector.health.rack_rules import compare_nodes, unexpected_nodes
from collector.health.rack_types import NodeView, RackStatus
from collector.health.states import Impact, Verdict
from tests.rack_builders import HOUR, MINUTE, SECOND, T0, hgx, make_view, node_names, nvl72


def views(count: int = 4, **changes: dict[str, object]) -> dict[str, NodeView]:
    made = {node: make_view(node) for node in node_names(count)}
    for node, fields in changes.items():
        made[node] = replace(made[node], **fields)  # type: ignore[arg-type]  # fields of NodeView
    return made


def found(made: dict[str, NodeView]) -> list[tuple[str, str, Impact]]:
    findings = compare_nodes(nvl72(len(made)), made)
    return [(node, own.check, own.impact) for node, reasons in findings.items() for own in reasons]


def test_equal_nodes_have_nothing() -> None:
    assert compare_nodes(nvl72(4), views()) == {}
    assert compare_nodes(nvl72(4), {}) == {}


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (
            {"driver_version": "570.1", "kernel": "6.8.0"},
            "driver 570.1, where 3 of 4 nodes have 580.95.05",
        ),
        (
            {"driver_version": "580.95.05", "kernel": "6.9"},
            "kernel 6.9, where 3 of 4 nodes have 6.8.0",
        ),
    ],
)
def test_a_version_that_differs_is_a_warning_on_the_odd_node(identity: dict[str, str], text: str) -> None:
    made = views(n03={"identity": identity})
    assert found(made) == [("n03", "version_skew", Impact.WARN)]
    assert compare_nodes(nvl72(4), made)["n03"][0].text == text


def test_a_version_that_is_not_known_is_no_skew() -> None:
    assert found(views(n03={"identity": {}})) == []


def test_a_tie_names_the_older_half() -> None:
    old: dict[str, object] = {"identity": {"driver_version": "570.1", "kernel": "6.8.0"}}
    assert found(views(n01=old, n02=old)) == [
        ("n01", "version_skew", Impact.WARN),
        ("n02", "version_skew", Impact.WARN),
    ]


@pytest.mark.parametrize("label", ["vbios", "inforom"])
def test_firmware_is_compared_among_gpus_of_one_board(label: str) -> None:
    view = make_view("n02")
    odd = replace(view.gpus[1], texts={**view.gpus[1].texts, label: "0.1"})
    assert found(views(n02={"gpus": (view.gpus[0], odd, *view.gpus[2:])})) == [
        ("n02", "version_skew", Impact.WARN)
    ]
    other_board = tuple(
        replace(gpu, texts={**gpu.texts, "board_part": "901", label: "0.1"}) for gpu in view.gpus
    )
    assert found(views(n02={"gpus": other_board})) == []


def test_a_slot_that_two_nodes_claim() -> None:
    assert found(views(n02={"slot": 1})) == [
        ("n01", "duplicate_slot", Impact.WARN),
        ("n02", "duplicate_slot", Impact.WARN),
    ]
    assert found(views(n01={"slot": None}, n02={"slot": None})) == []


def test_a_gpu_on_two_nodes_counts_once() -> None:
    made = views(n02={"gpus": make_view("n01").gpus})
    assert found(made) == [("n02", "duplicate_gpu", Impact.AVOID)]


def test_the_node_that_is_who_it_should_be_keeps_the_gpu() -> None:
    made = views(n01={"gpus": make_view("n02").gpus, "node": "n02"})
    assert ("n01", "duplicate_gpu", Impact.AVOID) in found(made)
    assert ("n02", "duplicate_gpu", Impact.AVOID) not in found(made)


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        ({"node": "x01"}, "unexpected_node"),
        ({"rack": "r99"}, "rack_mismatch"),
        ({"chassis_serial": "C2"}, "chassis_mismatch"),
    ],
)
def test_a_node_that_is_not_who_it_should_be(fields: dict[str, object], check: str) -> None:
    assert found(views(n04=fields)) == [("n04", check, Impact.WARN)]


def test_hgx_nodes_have_a_chassis_each() -> None:
    made = {node: make_view(node, rack="h01", chassis_serial=node) for node in node_names(4)}
    assert compare_nodes(hgx(4), made) == {}


def test_nodes_that_nobody_declared() -> None:
    reasons = unexpected_nodes(nvl72(2), ["n01", "x02", "x01"])
    assert [(reason.node, reason.impact) for reason in reasons] == [
        ("x01", Impact.WARN),
        ("x02", Impact.WARN),
    ]


# --- mass failure: facts/rack.md §6, more than 50 % of racks within 5 minutes, from four racks on


def fleet(verdicts: str) -> list[RackStatus]:
    words = {"A": Verdict.AVAILABLE, "U": Verdict.UNAVAILABLE, "?": Verdict.UNKNOWN, "M": Verdict.MAINTENANCE}
    return [
        RackStatus(f"r{place}", words[letter], 0, 1, 1, 0, 1, (), (), ())
        for place, letter in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("before", "after", "frozen"),
    [
        ("AAAA", "UUUA", True),
        ("AAAA", "???A", True),
        ("AAAA", "UUAA", False),  # half is not more than half
        ("AAA", "UUU", False),  # fewer than four racks
        ("AAAA", "MMMM", False),  # declared
        ("????", "AAAA", False),  # a start is no failure
        ("UUUU", "UUUU", False),
    ],
)
def test_more_than_half_of_the_racks_freeze_draining(before: str, after: str, frozen: bool) -> None:
    guard = MassFailureGuard()
    assert guard.update(fleet(before), T0) is False
    assert guard.update(fleet(after), T0 + 5 * SECOND) is frozen


def test_racks_that_fail_one_after_the_other_freeze_within_five_minutes_only() -> None:
    guard = MassFailureGuard()
    guard.update(fleet("AAAA"), T0)
    guard.update(fleet("UAAA"), T0 + 1 * MINUTE)
    guard.update(fleet("UUAA"), T0 + 2 * MINUTE)
    assert guard.update(fleet("UUUA"), T0 + 7 * MINUTE) is False
    guard = MassFailureGuard()
    guard.update(fleet("AAAA"), T0)
    guard.update(fleet("UAAA"), T0 + 1 * MINUTE)
    guard.update(fleet("UUAA"), T0 + 2 * MINUTE)
    assert guard.update(fleet("UUUA"), T0 + 6 * MINUTE) is True


def test_what_is_frozen_thaws_when_half_are_well_or_somebody_says_so() -> None:
    guard = MassFailureGuard()
    guard.update(fleet("AAAA"), T0)
    assert guard.update(fleet("UUUA"), T0) is True
    assert guard.update(fleet("UUUA"), T0 + HOUR) is True
    assert guard.update(fleet("UUAA"), T0 + HOUR) is False
    guard.update(fleet("UUUU"), T0 + HOUR)
    assert guard.update(fleet("????"), T0 + HOUR) is True
    guard.release()
    assert guard.update(fleet("????"), T0 + HOUR) is False


# --- maintenance ----------------------------------------------------------------------------------------

WINDOW = MaintenanceWindow("m1", "r01", ("n01",), T0 + HOUR, T0 + 2 * HOUR, T0, "swap a fan", "ops")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id": "no/id"}, "as its id"),
        ({"id": ""}, "as its id"),
        ({"starts_ns": T0 - 1}, "before it is declared"),
        ({"ends_ns": T0 + HOUR}, "ends before it starts"),
        ({"ends_ns": T0 + HOUR + MAXIMUM_WINDOW_NS + 1}, "longer than 31 days"),
        ({"starts_ns": 2**63, "ends_ns": 2**63 + 1}, "between 1970 and 2262"),
        ({"nodes": ("n01", "x01")}, "has no node x01"),
        ({"reason": "x" * 1025}, "reason is longer than 1024"),
        ({"created_by": "x" * 1025}, "created_by is longer than 1024"),
    ],
)
def test_a_window_that_cannot_be_declared(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        check_window(replace(WINDOW, **changes), node_names(18))  # type: ignore[arg-type]  # its fields


def test_a_window_excuses_from_its_start_to_its_end() -> None:
    excused = [WINDOW.excuses(T0 + minutes * MINUTE) for minutes in (59, 60, 119, 120)]
    assert excused == [False, True, True, False]


def test_a_window_that_was_declared_after_its_start_excuses_nothing() -> None:
    assert replace(WINDOW, created_ns=WINDOW.starts_ns + 1).excuses(T0 + 90 * MINUTE) is False


def test_windows_of_nodes_and_of_the_whole_rack() -> None:
    maintenance = Maintenance()
    maintenance.declare(WINDOW, node_names(18))
    maintenance.declare(replace(WINDOW, id="m2", rack="r02"), node_names(18))
    active = maintenance.active("r01", T0 + 90 * MINUTE)
    assert (window_of("n01", active), window_of("n02", active)) == (WINDOW, None)
    whole = maintenance.declare(replace(WINDOW, id="m3", nodes=(), ends_ns=T0 + 3 * HOUR), node_names(18))
    active = maintenance.active("r01", T0 + 90 * MINUTE)
    assert (window_of("n01", active), window_of("n02", active)) == (whole, whole)
    assert [window.id for window in maintenance.windows("r01")] == ["m1", "m3"]


def test_an_id_is_used_once() -> None:
    maintenance = Maintenance([WINDOW])
    with pytest.raises(ConfigurationError, match="there is one of this id"):
        maintenance.declare(WINDOW, node_names(18))


def test_a_window_is_ended() -> None:
    maintenance = Maintenance([WINDOW, replace(WINDOW, id="m2"), replace(WINDOW, id="m3")])
    assert maintenance.end("nothing", T0) is None
    ended = maintenance.end("m1", T0 + 90 * MINUTE)
    assert ended is not None
    assert ended.ends_ns == T0 + 90 * MINUTE
    assert maintenance.get("m1") == ended
    not_begun = maintenance.end("m2", T0)
    assert not_begun is not None
    assert not_begun.ends_ns == not_begun.starts_ns
    over = maintenance.end("m3", T0 + 9 * HOUR)
    assert over == replace(WINDOW, id="m3")


def test_windows_are_forgotten() -> None:
    maintenance = Maintenance([WINDOW])
    maintenance.forget(T0 + 2 * HOUR)
    assert maintenance.windows() == (WINDOW,)
    maintenance.forget(T0 + 2 * HOUR + 1)
    assert maintenance.windows() == ()
