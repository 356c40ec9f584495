"""Snapshots as line protocol, by literals after CONTRACTS §7."""

from __future__ import annotations

from dataclasses import replace

from collector.catalog.rack import RACK
from collector.model import Event, Series, Snapshot, Value
from exporters.influxdb.escaping import string_field, tag_text
from exporters.influxdb.lines import LineWriter
from exporters.influxdb.selection import Selection
from tests.exporter_snapshots import EMPTY, histogram, series, snapshot_of
from tests.line_protocol import parse

GPU = ("2", "GPU-c0ffee")
TAGS = "gpu=2,gpu_uuid=GPU-c0ffee,node=n03,rack=r01"
TIME = 1_764_505_200_123_456_789  # of tests.exporter_snapshots.EMPTY


def lines(snapshot: Snapshot, selection: Selection | None = None) -> str:
    written = LineWriter(selection or Selection()).write(snapshot)
    assert written.points == written.payload.count(b"\n")
    assert written.time_ns == snapshot.time_ns
    return written.payload.decode()


def test_one_of_each_kind() -> None:
    states = ("not_supported", "not_started", "in_progress", "completed")
    snapshot = snapshot_of(
        (series("gpu_up", *GPU), 1),
        (series("gpu_power_watts", *GPU), 412.3),
        (series("gpu_energy_joules_total", *GPU), 1000),
        (series("gpu_clock_event_active", *GPU, "gpu_idle"), 0),
        (series("gpu_clock_event_active", *GPU, "sw_power_cap"), 1),
        (series("gpu_rows_remapped_total", *GPU, "correctable"), 4),
        (series("gpu_xid_total", *GPU, "79"), 3),
        *((series("gpu_fabric_state", *GPU, state), int(state == "completed")) for state in states),
        (series("nvlink_recoveries_total", *GPU, "17", "failed"), 2),
        (series("gpu_check_failed", *GPU, "gpu_lost", "fail"), 0),
        (series("llm_tokens_total", "decode-0", "vllm", "a/model", "engine", "generation"), 10_240.0),
        (series("llm_gpu_info", "decode-0", "vllm", "engine", "0"), 1),
        (series("agent_nvml_up"), 1),
    )
    assert lines(snapshot) == (
        f"gpu,{TAGS} up=1i,power_watts=412.3,energy_joules=1000.0,clock_event_active_gpu_idle=false,"
        'clock_event_active_sw_power_cap=true,rows_remapped_correctable=4i,xid_79=3i,fabric_state="COMPLETED",'
        f"check_failed_gpu_lost=false {TIME}\n"
        f"nvlink,gpu=2,gpu_uuid=GPU-c0ffee,link=17,node=n03,rack=r01 recoveries_failed=2i {TIME}\n"
        "llm,endpoint=decode-0,engine=vllm,model=a/model,node=n03,rack=r01,role=engine "
        f"tokens_generation=10240.0 {TIME}\n"
        f"llm,endpoint=decode-0,engine=vllm,gpu=0,node=n03,rack=r01,role=engine gpu_info=1i {TIME}\n"
        f"agent,node=n03,rack=r01 nvml_up=1i {TIME}\n"
    )


def test_texts_are_fields_so_that_a_new_one_is_no_new_series() -> None:
    texts = ("host-1", "boot-1", "", "580.95", "13.0", '6.8 "x"', "0.1.0", "false")
    assert lines(snapshot_of((series("node_info", *texts), 1))) == (
        'node,node=n03,rack=r01 info_hostname="host-1",info_boot_id="boot-1",info_driver_version="580.95",'
        r'info_cuda_version="13.0",info_kernel="6.8 \"x\"",info_agent_version="0.1.0",info_simulated="false"'
        f" {TIME}\n"
    )


def test_a_histogram_joins_the_point_of_its_labels() -> None:
    own = ("decode-0", "vllm", "m", "engine")
    snapshot = snapshot_of((series("llm_requests_running", *own), 3))
    sample = histogram(
        "llm_time_to_first_token_seconds", *own, bounds=(0.5, 1000000.0), counts=(2, 9.0, 10), total=4.75
    )
    assert lines(replace(snapshot, histograms=(sample,))) == (
        "llm,endpoint=decode-0,engine=vllm,model=m,node=n03,rack=r01,role=engine requests_running=3.0,"
        "time_to_first_token_seconds_le_0.5=2.0,time_to_first_token_seconds_le_1e+06=9.0,"
        f"time_to_first_token_seconds_count=10.0,time_to_first_token_seconds_sum=4.75 {TIME}\n"
    )


def test_a_rack_service_speaks_of_racks_and_their_nodes() -> None:
    rack = {metric.name: metric for metric in RACK}
    nodes = ("READY", "DEGRADED", "FAILED", "MAINTENANCE", "UNKNOWN")
    rows: list[tuple[Series, Value | None]] = [
        (Series(rack["rack_nodes"], ("r07", "READY")), 18),
        *(
            (Series(rack["rack_node_state"], ("r07", "n01", state)), int(state == "FAILED"))
            for state in nodes
        ),
        (Series(rack["rack_verdict"], ("r07", "AVAILABLE")), 1),
        (Series(rack["rack_verdict"], ("r07", "UNKNOWN")), 0),
        (Series(rack["rack_domain_state"], ("r07", "c-1", "0", "HEALTHY")), 1),
        (Series(rack["rack_maintenance_active"], ("r07",)), 0),
        (Series(rack["rack_check_failed"], ("r07", "version_skew", "warn", "")), 1),
        (Series(rack["rack_check_failed"], ("r07", "poll", "info", "n02")), 0),
        (Series(rack["rack_check_failed"], ("r07", "poll", "avoid", "n02")), 1),
        (Series(rack["rack_energy_joules_total"], ("r07", "rack_input")), 7.5),
        (Series(rack["rack_llm_tokens_total"], ("r07", "m", "prompt")), 5),
    ]
    assert lines(snapshot_of(*rows, base=replace(EMPTY, rack="", node=""))).splitlines() == [
        f'rack,rack=r07 nodes_READY=18i,verdict="AVAILABLE",maintenance_active=false,'
        f"check_failed_version_skew=true,energy_joules_rack_input=7.5 {TIME}",
        f'rack,node=n01,rack=r07 node_state="FAILED" {TIME}',
        f'rack,clique=0,cluster_uuid=c-1,rack=r07 domain_state="HEALTHY" {TIME}',
        f"rack,node=n02,rack=r07 check_failed_poll=true {TIME}",
        f"rack,model=m,rack=r07 llm_tokens_prompt=5.0 {TIME}",
    ]


def test_what_is_absent_or_cannot_be_written_is_left_out() -> None:
    snapshot = snapshot_of(
        (series("gpu_up", *GPU), None),
        (series("gpu_power_watts", *GPU), float("nan")),
        (series("gpu_energy_joules_total", *GPU), float("inf")),
        (series("gpu_processes", *GPU), 1.5),
        (series("gpu_memory_used_bytes", *GPU), 2**63),
        (series("gpu_recovery_action", *GPU, "none"), 0),
        (series("gpu_recovery_action", *GPU, "gpu_reset"), 0),
        (series("gpu_info", *GPU, *[""] * 17), 1),
        (series("node_gpus_present"), 2.0),
        (series("node_gpus_expected"), 2**63 - 1),
    )
    whole = "node,node=n03,rack=r01 gpus_present=2i,gpus_expected=9223372036854775807i"
    assert lines(snapshot) == f"{whole} {TIME}\n"


def test_two_states_at_once_are_none() -> None:
    both = ("in_progress", "completed")
    assert lines(snapshot_of(*((series("gpu_fabric_state", *GPU, state), 1) for state in both))) == ""


def test_a_snapshot_without_anything_has_no_lines() -> None:
    assert lines(EMPTY) == ""


# --- events ---------------------------------------------------------------------------------------------

XID = Event(
    1,
    1_000,
    "xid",
    "GPU-c0ffee",
    "2",
    code=145,
    severity="warn",
    subcode="RLW_SRC_TRACK",
    link=4,
    detail='a "b"\n',
)


def with_events(*events: Event, agent_id: str = "agent-1") -> Snapshot:
    return replace(EMPTY, events=events, agent_id=agent_id)


def test_an_event_is_a_point_at_its_own_time() -> None:
    assert lines(with_events(XID, Event(2, 2_000, "gpu_lost", "GPU-c0ffee", "2"))) == (
        "event,gpu=2,gpu_uuid=GPU-c0ffee,kind=xid,node=n03,rack=r01 code=145i,cursor=1i,link=4i,"
        'agent_id="agent-1",detail="a \\"b\\"�",severity="warn",subcode="RLW_SRC_TRACK" 1000\n'
        'event,gpu=2,gpu_uuid=GPU-c0ffee,kind=gpu_lost,node=n03,rack=r01 cursor=2i,agent_id="agent-1" 2000\n'
    )


def test_each_event_is_written_once() -> None:
    writer = LineWriter(Selection())
    later = replace(XID, cursor=2, time_ns=2_000)
    found = [writer.write(with_events(*own)).payload for own in ((XID,), (XID,), (XID, later), (later,), ())]
    assert [payload.count(b"\n") for payload in found] == [1, 0, 1, 0, 0]
    assert b"cursor=2i" in found[2]
    # Another agent counts from 1 again.
    assert writer.write(with_events(XID, agent_id="agent-2")).points == 1


def test_events_of_one_gpu_and_time_stay_apart() -> None:
    alike = [replace(XID, cursor=cursor, code=code) for cursor, code in ((1, 145), (2, 149), (3, 149))]
    other = replace(XID, cursor=4, gpu="3", gpu_uuid="GPU-other")
    writer = LineWriter(Selection())
    found = parse(writer.write(with_events(*alike[:2])).payload)
    found += parse(writer.write(with_events(*alike, other)).payload)
    assert len({(point.tags, point.time_ns) for point in found}) == 4
    assert [point.labels.get("sequence") for point in found] == [None, "1", "2", None]


def test_events_can_be_left_out() -> None:
    assert lines(with_events(XID), Selection(events=False)) == ""


# --- texts ---------------------------------------------------------------------------------------------


def test_texts_are_escaped() -> None:
    assert tag_text("a b,c=d") == r"a\ b\,c\=d"
    assert tag_text("50%\\\n") == "50%25%5C%0A"
    assert tag_text("\udcff") == "?"
    # What InfluxDB refuses with `storage-validate-keys`, and what steers a terminal (UTF-8: RFC 3629).
    assert tag_text("\x9b31m\u200b\N{REPLACEMENT CHARACTER}é") == "%C2%9B31m%E2%80%8B%EF%BF%BDé"
    assert string_field("\x9b31m") == '"\N{REPLACEMENT CHARACTER}31m"'
    assert string_field('a "b" \\ \n') == '"a \\"b\\" \\\\ \N{REPLACEMENT CHARACTER}"'
