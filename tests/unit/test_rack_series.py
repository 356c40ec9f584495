"""The series of a rack service: names and labels of CONTRACTS §2, several racks in one exposition."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from collector import catalog
from collector.catalog.rack import DOMAIN_STATES, GPU_STATES, NODE_STATES, RACK, RACK_CHECKS, VERDICTS
from collector.catalog.spec import Entity, Kind, Unit
from collector.efficiency.price import Price
from collector.health.rack_judge import RackJudge
from collector.health.rack_rules import compare_nodes
from collector.health.states import DomainState, GpuState, NodeState, Verdict
from collector.rack.series import RackSeries, RackState
from exporters.prometheus import Renderer, TextFormat
from tests.agent_http_client import run
from tests.rack_builders import T0, hgx, make_gpu, make_view, nvl72
from tests.rack_services import Scene, scene

NAMES = [
    "rack_nodes_expected",
    "rack_nodes{state}",
    "rack_gpus_expected",
    "rack_gpus{state}",
    "rack_nodes_schedulable",
    "rack_largest_block_nodes",
    "rack_min_block_nodes",
    "rack_node_state{node,state}",
    "rack_verdict{verdict}",
    "rack_domain_state{cluster_uuid,clique,state}",
    "rack_maintenance_active",
    "rack_check_failed{check,impact,node}",
    "rack_verdict_seconds_total{verdict}",
    "rack_node_operating_seconds_total",
    "rack_node_down_seconds_total",
    "rack_incidents_total",
    "rack_slo_ratio",
    "rack_energy_joules_total{domain}",
    "rack_energy_error_joules_total{domain}",
    "rack_idle_energy_joules_total{domain}",
    "rack_power_watts{domain}",
    "rack_energy_coverage_ratio{domain}",
    "rack_llm_endpoints_expected",
    "rack_llm_endpoints_up",
    "rack_llm_tokens_total{model,phase}",
    "rack_gpu_hour_usd",
    "rack_gpu_hour_includes_energy",
    "rack_electricity_usd_per_kwh",
    "rack_pue_ratio",
]
"""CONTRACTS §2, "Of the rack service", and what decision 0028 adds: the error of energy, idle energy, tokens,
the SLO, and whether the price of a GPU-hour pays for its energy."""


def parse_plain(text: str) -> list[Metric]:
    return list(plain_families(text))


def parse_openmetrics(text: str) -> list[Metric]:
    # prometheus_client leaves it untyped
    return list(openmetrics_families(text))  # type: ignore[no-untyped-call]


def samples(own: Scene) -> dict[tuple[str, ...], float]:
    """Every sample as Prometheus reads it: name and label values, rack first."""
    text = Renderer().render(own.service.snapshot(), TextFormat.PLAIN).decode()
    return {
        (sample.name.removeprefix("rackwatt_rack_"), *sample.labels.values()): sample.value
        for family in parse_plain(text)
        for sample in family.samples
    }


def test_the_rows_are_those_of_the_contract() -> None:
    written = []
    for metric in RACK:
        assert metric.label_names[0] == "rack"
        labels = ",".join(metric.label_names[1:])
        written.append(metric.name + (f"{{{labels}}}" if labels else ""))
    assert written == NAMES


@pytest.mark.parametrize("metric", RACK, ids=lambda metric: metric.name)
def test_every_row_is_well_formed(metric: catalog.spec.Metric) -> None:
    assert metric.entity is Entity.RACK
    assert re.fullmatch(r"rack_[a-z0-9_]+", metric.name)
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    assert (metric.unit is Unit.SECONDS) == ("_seconds" in metric.name)
    assert metric.help.endswith(".")


def test_the_words_are_those_of_the_judge() -> None:
    assert tuple(state.value for state in NodeState) == NODE_STATES
    assert tuple(state.value for state in GpuState) == GPU_STATES
    assert tuple(state.value for state in DomainState) == DOMAIN_STATES
    assert tuple(verdict.value for verdict in Verdict) == VERDICTS


def test_no_agent_exports_a_row_of_the_rack() -> None:
    assert not set(RACK) & set(catalog.ALL)
    assert not {metric.name for metric in RACK} & set(catalog.BY_NAME)


def test_a_rack_and_its_numbers() -> None:
    async def scenario() -> None:
        async with scene(nvl72(), hgx()) as own:
            own.node("n03").answers = False
            own.steps(6)
            found = samples(own)
            assert found["nodes_expected", "r01"] == 18
            assert found["nodes_expected", "h01"] == 8
            assert found["nodes", "r01", "READY"] == 17
            assert found["nodes", "r01", "UNKNOWN"] == 1
            assert found["gpus_expected", "r01"] == 72
            assert found["gpus", "r01", "OK"] == 68
            assert found["gpus", "r01", "UNKNOWN"] == 4
            assert found["nodes_schedulable", "r01"] == 17
            assert found["largest_block_nodes", "r01"] == 17
            assert found["min_block_nodes", "r01"] == 16
            assert found["node_state", "r01", "n03", "UNKNOWN"] == 1
            assert found["node_state", "r01", "n03", "READY"] == 0
            assert found["verdict", "r01", "AVAILABLE"] == 1
            assert found["domain_state", "r01", "cafe", "1", "DEGRADED"] == 1
            assert found["maintenance_active", "r01"] == 0
            assert found["check_failed", "r01", "poll", "avoid", "n03"] == 1
            assert found["incidents_total", "r01"] == 0

    run(scenario)


def test_only_shown_labels_stand_beside_the_rack() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.step()
            text = Renderer().render(own.service.snapshot(), TextFormat.PLAIN).decode()
            assert '\nrackwatt_rack_nodes_expected{rack="r01"} 18\n' in text
            assert '\nrackwatt_rack_node_state{rack="r01",node="n01",state="READY"} 1\n' in text
            assert text.count("# TYPE rackwatt_rack_verdict gauge\n") == 1

    run(scenario)


def test_openmetrics_reads_it_too() -> None:
    async def scenario() -> None:
        async with scene(nvl72(), hgx()) as own:
            own.step()
            text = Renderer().render(own.service.snapshot(), TextFormat.OPENMETRICS).decode()
            families = {family.name: family for family in parse_openmetrics(text)}
            assert families["rackwatt_rack_incidents"].type == "counter"
            assert len(families["rackwatt_rack_verdict"].samples) == 8

    run(scenario)


def test_the_table_stays_while_nothing_structural_changes() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.step()
            first = own.service.snapshot()
            assert own.service.snapshot() is first
            own.step()
            second = own.service.snapshot()
            assert second is not first
            assert second.table is first.table
            assert second.sequence == first.sequence + 1

    run(scenario)


def test_a_fault_that_is_gone_stays_as_zero() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.node("n02").view = replace(
                own.node("n02").view, identity={"driver_version": "570.1", "kernel": "6"}
            )
            own.step()
            key = ("check_failed", "r01", "version_skew", "warn", "n02")
            assert samples(own)[key] == 1
            own.node("n02").view = replace(own.node("n02").view, identity=own.node("n01").view.identity)
            own.step()
            assert samples(own)[key] == 0

    run(scenario)


def test_a_failed_node_counts_its_gpus_by_their_own_states() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            lost = make_gpu("n02", 0, up=False)
            own.node("n02").view = replace(own.node("n02").view, gpus=(lost, *own.node("n02").view.gpus[1:]))
            own.steps(4)
            await own.service.events()  # counters show what is on disk
            own.step()
            found = samples(own)
            assert found["node_state", "r01", "n02", "FAILED"] == 1
            assert (found["gpus", "r01", "FAILED"], found["gpus", "r01", "OK"]) == (1, 71)
            assert (found["node_down_seconds_total", "r01"] > 0, found["incidents_total", "r01"]) == (True, 1)

    run(scenario)


def test_the_slo_is_that_of_the_rack() -> None:
    async def scenario() -> None:
        async with scene(nvl72(slo=0.995), hgx()) as own:
            own.step()
            found = samples(own)
            assert (found["slo_ratio", "r01"], found["slo_ratio", "h01"]) == (0.995, 0.99)

    run(scenario)


def test_whether_a_gpu_hour_pays_for_energy_is_said_beside_its_price_alone() -> None:
    status = RackJudge(nvl72()).evaluate((), T0)

    def said(price: Price) -> object:
        snapshot = RackSeries("service").snapshot(
            [RackState(expected=nvl72(), status=status, price=price)], T0
        )
        names = [series.metric.name for series in snapshot.table.series]
        return snapshot.values[names.index("rack_gpu_hour_includes_energy")]

    assert said(Price(gpu_hour_usd=3.3)) == 1
    assert said(Price(gpu_hour_usd=3.3, gpu_hour_includes_energy=False)) == 0
    assert said(Price(kwh_usd=0.08, gpu_hour_includes_energy=False)) is None


def test_maintenance_is_shown() -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.step()
            await own.service.create_maintenance("r01", nodes=["n01"], ends_ns=own.clock.wall_ns() + 10**12)
            assert samples(own)["maintenance_active", "r01"] == 1

    run(scenario)


def test_what_rules_over_several_nodes_find_is_exported() -> None:
    views = {
        "n01": make_view("n01"),
        "n02": make_view("n02", slot=1, chassis_serial="C2", identity={"driver_version": "1", "kernel": "2"}),
    }
    found = {reason.check for reasons in compare_nodes(nvl72(), views).values() for reason in reasons}
    assert found
    assert found <= set(RACK_CHECKS)
