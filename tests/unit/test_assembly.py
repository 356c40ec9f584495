"""Assembly: layouts and readings become Snapshots, in which nothing is older than it may be."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from collector.assembly import Assembly, LayoutError
from collector.catalog import ALL
from collector.readings import Batch, Block, Incident, Layout, Reading
from tests.agent_http_client import Clock
from tests.readings import (
    FAST,
    LAYOUT,
    LINKS,
    PRESENCE,
    WALL_NS,
    assembly_at,
    down,
    reading,
    shown,
    sourced,
)

ALL_READ = {
    ("node_gpus_present", ()): 2,
    ("gpu_up", ("0", "GPU-aaaa")): 1,
    ("gpu_up", ("1", "GPU-bbbb")): 1,
    ("gpu_power_watts", ("0", "GPU-aaaa")): 412.3,
    ("gpu_energy_joules_total", ("0", "GPU-aaaa")): 1000.0,
    ("gpu_power_watts", ("1", "GPU-bbbb")): 399.5,
    ("nvlink_up", ("0", "GPU-aaaa", "0")): 1,
    ("nvlink_up", ("0", "GPU-aaaa", "1")): 0,
}
UNIX_NS = WALL_NS  # Any time will do.


def begun(clock: Clock) -> Assembly:
    """Make an assembly that has read everything at the clock's present."""
    assembly = assembly_at(clock)
    assembly.apply_layout(LAYOUT)
    assembly.apply_reading(reading(clock.seconds))
    return assembly


def test_nothing_was_read_yet() -> None:
    snapshot = assembly_at(Clock()).snapshot(0)
    assert not snapshot.nvml_up
    assert snapshot.reason == "nothing has been read yet"
    assert snapshot.ages_seconds == {"fast": None, "links": None, "slow": None}
    assert sourced(snapshot) == {}
    assert shown(snapshot)["agent_nvml_up", ()] == 0
    assert ("node_gpus_expected", ()) not in shown(snapshot)


def test_values_stand_where_the_layout_says() -> None:
    snapshot = begun(Clock()).snapshot(0)
    assert sourced(snapshot) == ALL_READ
    assert snapshot.nvml_up
    assert snapshot.reason == ""


def test_who_and_when() -> None:
    assembly = begun(Clock())
    first, second = assembly.snapshot(0), assembly.snapshot(0)
    assert (first.rack, first.node, first.agent_id, first.boot_id) == ("r01", "n03", "agent-1", "boot-1")
    assert (first.sequence, second.sequence) == (1, 2)
    assert (first.time_ns, second.time_ns) == (WALL_NS, WALL_NS + 1)


def test_the_node_and_the_agent_speak_for_themselves() -> None:
    assembly = begun(Clock())
    assembly.apply_reading(
        Reading(1000.0, 1, True, calls=7, errors={"timeout": 1}, sweep_seconds={"fast": 0.03})
    )
    snapshot = assembly.snapshot(3)
    values = shown(snapshot)
    texts = ("host-3", "boot-1", "gb300-nvl72", "580.105.08", "13.0", "6.8.0", "0.1.0", "true")
    assert values["node_info", texts] == 1
    assert tuple(snapshot.identity.values()) == texts
    assert values["node_gpus_expected", ()] == 4
    assert values["agent_nvml_up", ()] == 1
    assert values["agent_reader_restarts_total", ()] == 3
    assert values["agent_nvml_calls_total", ()] == 7
    assert values["agent_read_errors_total", ("timeout",)] == 1
    assert values["agent_sweep_seconds", ("fast",)] == 0.03


def test_series_are_in_the_order_of_the_catalogue_and_each_metric_stands_together() -> None:
    order = [metric.name for metric in ALL]
    names = [series.metric.name for series in begun(Clock()).snapshot(0).table.series]
    assert names == sorted(names, key=order.index)
    assert names.count("gpu_power_watts") == 2


def test_the_age_is_that_of_the_oldest_block() -> None:
    clock = Clock(1000.0)
    assembly = begun(clock)
    assembly.apply_reading(reading(1001.0, [Batch(0, [2, 1, 1]), Batch(1, [400.0, 1400.0])]))
    clock.seconds = 1001.5
    snapshot = assembly.snapshot(0)
    # Block 2, also fast, is still the one of second 1000; nothing is read slowly.
    assert snapshot.ages_seconds == {"fast": 1.5, "links": 1.5, "slow": None}
    assert shown(snapshot)["agent_sample_age_seconds", ("fast",)] == 1.5
    assert ("agent_sample_age_seconds", ("slow",)) not in shown(snapshot)


def test_an_age_is_never_negative() -> None:
    clock = Clock(1000.0)
    assembly = assembly_at(clock)
    assembly.apply_layout(LAYOUT)
    assembly.apply_reading(reading(1000.25))  # begun on another processor's idea of now
    assert assembly.snapshot(0).ages_seconds["fast"] == 0


def test_values_are_served_up_to_five_seconds_and_then_withheld() -> None:
    clock = Clock(1000.0)
    assembly = begun(clock)
    clock.seconds = 1005.0
    snapshot = assembly.snapshot(0)
    assert snapshot.nvml_up
    assert sourced(snapshot) == ALL_READ
    clock.seconds = 1005.01
    snapshot = assembly.snapshot(0)
    assert not snapshot.nvml_up
    assert snapshot.reason == ("the reader has brought nothing for 5 s; a call to the NVIDIA driver may hang")
    assert sourced(snapshot) == {}
    assert shown(snapshot)["agent_nvml_up", ()] == 0
    assert shown(snapshot)["agent_sample_age_seconds", ("fast",)] == pytest.approx(5.01)


def test_a_reader_that_comes_back_brings_its_slower_values_back_too() -> None:
    clock = Clock(1000.0)
    assembly = begun(clock)
    clock.seconds = 1007.0
    assert sourced(assembly.snapshot(0)) == {}
    fast = [Batch(0, [2, 1, 1]), Batch(1, [100.0, 2000.0]), Batch(2, [101.0])]
    assembly.apply_reading(reading(1007.0, fast))
    snapshot = assembly.snapshot(0)
    assert sourced(snapshot) == ALL_READ | {
        ("gpu_power_watts", ("0", "GPU-aaaa")): 100.0,
        ("gpu_energy_joules_total", ("0", "GPU-aaaa")): 2000.0,
        ("gpu_power_watts", ("1", "GPU-bbbb")): 101.0,
    }
    assert snapshot.ages_seconds["links"] == 7.0


def test_what_is_absent_in_the_newest_reading_is_absent() -> None:
    clock = Clock()
    assembly = begun(clock)
    assembly.apply_reading(reading(clock.seconds, [Batch(1, [None, 1001.0])]))
    values = sourced(assembly.snapshot(0))
    assert ("gpu_power_watts", ("0", "GPU-aaaa")) not in values
    assert values["gpu_energy_joules_total", ("0", "GPU-aaaa")] == 1001.0


def test_a_source_that_is_down_clears_everything_but_the_agents_account() -> None:
    clock = Clock()
    assembly = begun(clock)
    assembly.apply_reading(down(clock.seconds, "the NVIDIA kernel driver is not loaded"))
    snapshot = assembly.snapshot(1)
    assert not snapshot.nvml_up
    assert snapshot.reason == "the NVIDIA kernel driver is not loaded"
    assert snapshot.ages_seconds == {"fast": None, "links": None, "slow": None}
    assert sourced(snapshot) == {}
    assert shown(snapshot)["node_gpus_expected", ()] == 4
    assert len(snapshot.table) == len(begun(Clock()).snapshot(0).table)


def test_nothing_from_before_a_failure_comes_back_after_it() -> None:
    clock = Clock()
    assembly = begun(clock)
    assembly.apply_reading(down(clock.seconds, "gone"))
    assembly.apply_layout(LAYOUT)
    assembly.apply_reading(reading(clock.seconds, [Batch(0, [2, 1, 1])]))
    assert set(sourced(assembly.snapshot(0))) == set(PRESENCE)


def test_a_layout_without_its_first_reading_is_not_up() -> None:
    assembly = assembly_at(Clock())
    assembly.apply_layout(LAYOUT)
    assembly.apply_reading(reading(1000.0, []))
    snapshot = assembly.snapshot(0)
    assert not snapshot.nvml_up
    assert snapshot.reason == "the GPUs have not been read yet"


def test_a_reading_of_another_generation_fills_nothing() -> None:
    clock = Clock()
    assembly = begun(clock)
    assembly.apply_reading(reading(clock.seconds + 1, [Batch(1, [1.0, 1.0])], generation=0))
    assembly.apply_reading(reading(clock.seconds + 1, [Batch(0, [9])], generation=2))
    snapshot = assembly.snapshot(0)
    assert sourced(snapshot) == ALL_READ
    assert snapshot.ages_seconds["fast"] == 0


def test_a_reading_before_any_layout_fills_nothing() -> None:
    assembly = assembly_at(Clock())
    assembly.apply_reading(reading(1000.0))
    assert sourced(assembly.snapshot(0)) == {}


SECOND_LAYOUT = msgspec.structs.replace(
    LAYOUT,
    generation=2,
    # The second GPU was lost, and so are its values; a GPU series is new, and the blocks have moved.
    blocks=(
        Block("links", LINKS),
        Block("fast", PRESENCE),
        Block("fast", (("gpu_temperature_celsius", ("0", "GPU-aaaa")), *FAST)),
    ),
)


def test_a_new_layout_keeps_the_values_of_series_that_stay() -> None:
    assembly = begun(Clock())
    before = assembly.snapshot(0)
    assembly.apply_layout(SECOND_LAYOUT)
    snapshot = assembly.snapshot(0)
    assert snapshot.nvml_up
    assert sourced(snapshot) == {
        key: value for key, value in ALL_READ.items() if key != ("gpu_power_watts", ("1", "GPU-bbbb"))
    }
    assert snapshot.table.digest != before.table.digest
    assembly.apply_reading(
        reading(1000.0, [Batch(0, [0, 1]), Batch(1, [1, 1, 0]), Batch(2, [55, 1.5, 2.5])], generation=2)
    )
    assert sourced(assembly.snapshot(0)) == {
        ("nvlink_up", ("0", "GPU-aaaa", "0")): 0,
        ("nvlink_up", ("0", "GPU-aaaa", "1")): 1,
        ("node_gpus_present", ()): 1,
        ("gpu_up", ("0", "GPU-aaaa")): 1,
        ("gpu_up", ("1", "GPU-bbbb")): 0,
        ("gpu_temperature_celsius", ("0", "GPU-aaaa")): 55,
        ("gpu_power_watts", ("0", "GPU-aaaa")): 1.5,
        ("gpu_energy_joules_total", ("0", "GPU-aaaa")): 2.5,
    }


def test_blocks_that_stay_keep_their_age_through_a_new_layout() -> None:
    clock = Clock(1000.0)
    assembly = begun(clock)
    clock.seconds = 1004.0
    assembly.apply_layout(SECOND_LAYOUT)
    assert assembly.snapshot(0).ages_seconds == {"fast": 4.0, "links": 4.0, "slow": None}
    clock.seconds = 1005.5
    assert sourced(assembly.snapshot(0)) == {}


@pytest.mark.parametrize(
    ("series", "words"),
    [
        (("gpu_invented_watts", ("0", "GPU-aaaa")), "'gpu_invented_watts' with 2 labels"),
        (("gpu_power_watts", ("0",)), "'gpu_power_watts' with 1 labels"),
    ],
)
def test_a_layout_of_another_version_is_refused_whole(
    series: tuple[str, tuple[str, ...]], words: str
) -> None:
    assembly = begun(Clock())
    strange = Layout(2, (Block("fast", (*FAST, series)),), (), "", "", "", None)
    with pytest.raises(LayoutError, match=words):
        assembly.apply_layout(strange)
    assert sourced(assembly.snapshot(0)) == ALL_READ


def test_an_xid_gets_series_on_first_sight_and_the_table_changes_only_then() -> None:
    assembly = begun(Clock())
    digests = [assembly.snapshot(0).table.digest]
    for uuid, code in (("GPU-aaaa", 79), ("GPU-aaaa", 79), ("GPU-bbbb", 79), ("GPU-bbbb", 48)):
        assembly.apply_reading(reading(1000.0, incidents=[Incident(UNIX_NS, "xid", uuid, code)]))
        digests.append(assembly.snapshot(0).table.digest)
    changed = [later != earlier for earlier, later in pairwise(digests)]
    assert changed == [True, False, True, True]
    snapshot = assembly.snapshot(0)
    values = shown(snapshot)
    assert values["gpu_xid_total", ("0", "GPU-aaaa", "79")] == 2
    assert values["gpu_xid_total", ("1", "GPU-bbbb", "48")] == 1
    assert values["gpu_xid_last_seen_timestamp_seconds", ("0", "GPU-aaaa", "79")] == 1_764_504_000
    assert sourced(snapshot) == ALL_READ
    names = [series.metric.name for series in snapshot.table.series]
    assert names == sorted(names, key=[metric.name for metric in ALL].index)


def test_xids_stay_when_the_source_is_down_and_when_the_layout_changes() -> None:
    assembly = begun(Clock())
    assembly.apply_reading(reading(1000.0, incidents=[Incident(UNIX_NS, "xid", "GPU-bbbb", 79)]))
    assembly.apply_layout(SECOND_LAYOUT)
    assembly.apply_reading(down(1000.0, "gone"))
    assert shown(assembly.snapshot(0))["gpu_xid_total", ("1", "GPU-bbbb", "79")] == 1


def test_what_is_no_xid_of_a_gpu_is_an_event_without_series() -> None:
    assembly = begun(Clock())
    before = assembly.snapshot(0).table.digest
    incidents = [
        Incident(UNIX_NS, "gpu_lost", "GPU-bbbb"),
        Incident(UNIX_NS, "xid", "", 31),
        Incident(UNIX_NS, "xid", "GPU-aaaa"),
    ]
    assembly.apply_reading(reading(1000.0, incidents=incidents))
    snapshot = assembly.snapshot(0)
    assert snapshot.table.digest == before
    told = [(event.cursor, event.kind, event.gpu, event.code) for event in snapshot.events]
    assert told == [(1, "gpu_lost", "1", None), (2, "xid", "", 31), (3, "xid", "0", None)]


def test_events_are_bounded_and_their_cursors_go_on() -> None:
    assembly = begun(Clock())
    for number in range(1005):
        assembly.apply_reading(reading(1000.0, [], incidents=[Incident(number, "gpu_lost", "GPU-aaaa")]))
    events = assembly.snapshot(0).events
    assert len(events) == 1000
    assert [event.cursor for event in events] == list(range(6, 1006))
    assert events[-1].time_ns == 1004
