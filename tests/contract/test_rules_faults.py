"""One fault is one alert, and one page: what several rules make of a fault together, by promtool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rule_figures import R01, SLO, Figures, endpoints, hold, joules

pytestmark = pytest.mark.needs_program("promtool")


def lost(node: str) -> dict[str, str]:
    labels = f'{R01},node="{node}",gpu="0",gpu_uuid="GPU-{node}",check="gpu_lost",impact="fail"'
    return {f"rackwatt_gpu_check_failed{{{labels}}}": "1+0x40"}


FIRING = 'ALERTS{{alertname="Rackwatt{}",alertstate="firing"}}'
NVML = f'rackwatt_agent_nvml_up{{{{{R01},node="{{}}"}}}}'
AGE = f'rackwatt_agent_sample_age_seconds{{{{{R01},node="{{}}",cadence="fast"}}}}'


def domain(state: str) -> dict[str, str]:
    labels = f'{R01},cluster_uuid="u-1",clique="1",state="{state}"'
    return {f"rackwatt_rack_domain_state{{{labels}}}": "1+0x40"}


def node_state(node: str, state: str) -> dict[str, str]:
    return {f'rackwatt_rack_node_state{{{R01},node="{node}",state="{state}"}}': "1+0x40"}


def found(check: str, impact: str, node: str) -> str:
    return f'rackwatt_rack_check_failed{{{R01},node="{node}",check="{check}",impact="{impact}"}}'


def agent(node: str, up: str) -> dict[str, str]:
    return {f'up{{job="rackwatt-agents",{R01},node="{node}",instance="{node}:10072"}}': up}


def llm_up(node: str, role: str, up: str) -> dict[str, str]:
    labels = f'{R01},node="{node}",endpoint="{role}-{node}",engine="vllm",role="{role}"'
    return {f"rackwatt_llm_up{{{labels}}}": up}


BURN = "rack:availability_burn:ratio{}"
BURNS = 'ALERTS{alertname=~"RackwattAvailabilityBurn.*",alertstate="firing"}'


def outage(*, before: int, lasts: int, one_of: int = 1) -> dict[str, str]:
    """Let minutes pass AVAILABLE, then some of which one of so many is not, then an hour AVAILABLE."""
    minutes = [False] * before + [minute % one_of == 0 for minute in range(lasts)] + [False] * 60
    totals = {True: 0, False: 0}
    seconds: dict[bool, list[str]] = {True: ["0"], False: ["0"]}
    for is_down in minutes:
        totals[is_down] += 60
        for verdict in (True, False):
            seconds[verdict].append(str(totals[verdict]))
    verdicts = {True: "UNAVAILABLE", False: "AVAILABLE"}
    counted = "rackwatt_rack_verdict_seconds_total"
    return {
        SLO: f"0.99+0x{len(minutes)}",
        f'{counted}{{{R01},verdict="MAINTENANCE"}}': f"0+0x{len(minutes)}",
        **{
            f'{counted}{{{R01},verdict="{verdicts[verdict]}"}}': " ".join(each_second)
            for verdict, each_second in seconds.items()
        },
        **{
            f'rackwatt_rack_verdict{{{R01},verdict="{verdicts[verdict]}"}}': " ".join(
                str(int(is_down is verdict)) for is_down in minutes
            )
            for verdict in (True, False)
        },
    }


FAULTS = {
    "no alert on a node in maintenance": Figures(
        {
            'rackwatt_rack_node_state{rack="r01",node="n01",state="MAINTENANCE"}': "1+0x40",
            **lost("n01"),
            **lost("n02"),
        },
        {
            'ALERTS{alertname="RackwattGpuCheckFail",node="n01"}': None,
            'ALERTS{alertname="RackwattGpuCheckFail",node="n02",alertstate="firing"}': 1.0,
        },
    ),
    "a failed HGX node, which is a domain by itself, is no fabric at fault": Figures(
        {
            'rackwatt_rack_domain_state{rack="h01",clique="h02",state="UNHEALTHY"}': "1+0x40",
            **domain("UNHEALTHY"),
        },
        {
            'ALERTS{alertname="RackwattDomainUnhealthy",rack="h01"}': None,
            'ALERTS{alertname="RackwattDomainUnhealthy",rack="r01",alertstate="firing"}': 1.0,
        },
    ),
    "an outage wakes people once while it lasts": Figures(
        outage(before=60, lasts=30),
        {FIRING.format("RackUnavailable"): 1.0, BURN.format("1h"): 25 / 60 / 0.01, BURNS: None},
        at="85m",
    ),
    # Seven minutes later, when its alert is over. More than 14.4 % of an hour were lost.
    "an outage that is over wakes nobody again": Figures(
        outage(before=60, lasts=30),
        {FIRING.format("RackUnavailable"): None, BURN.format("1h"): 30 / 60 / 0.01, BURNS: None},
        at="97m",
    ),
    # Twenty minutes later. More than 6 % of six hours, and of half an hour, were lost.
    "an outage that is long over wakes nobody again": Figures(
        outage(before=360, lasts=30),
        {BURN.format("6h"): 30 / 360 / 0.01, BURN.format("30m"): 10 / 30 / 0.01, BURNS: None},
        at="410m",
    ),
    "outages too short for an alert of their own add up": Figures(
        outage(before=60, lasts=60, one_of=3),
        {FIRING.format("RackUnavailable"): None, FIRING.format("AvailabilityBurnFast"): 1.0},
        at="110m",
    ),
    "a rack that nobody hears is one page": Figures(
        {
            f'rackwatt_rack_verdict{{{R01},verdict="UNKNOWN"}}': "1+0x40",
            **{
                series: values
                for node in ("n01", "n02")
                for series, values in {**node_state(node, "UNKNOWN"), **agent(node, "0+0x40")}.items()
            },
        },
        {
            FIRING.format("RackSilent"): 1.0,
            f"count({FIRING.format('AgentDown')})": 2.0,
            FIRING.format("NodeUnknown"): None,
        },
        at="30m",
    ),
    "a rack whose jobs run, and of which Prometheus hears nothing, wakes nobody": Figures(
        {
            f'rackwatt_rack_verdict{{{R01},verdict="AVAILABLE"}}': "1+0x40",
            f'rackwatt_rack_verdict{{{R01},verdict="UNKNOWN"}}': "0+0x40",
            **agent("n01", "0+0x40"),
        },
        {FIRING.format("RackSilent"): None, FIRING.format("AgentDown"): 1.0},
        at="30m",
    ),
    "a node is unknown for a reason with an alert of its own, or alerts itself": Figures(
        {
            series: values
            for node, up, nvml, age in (
                ("n01", "0", "", ""),  # silent
                ("n02", "1", "0", ""),  # without NVML
                ("n03", "1", "1", "60"),  # its reader hangs
                ("n04", "1", "1", "1"),  # a check without an answer
            )
            for series, values in {
                **node_state(node, "UNKNOWN"),
                **agent(node, f"{up}+0x40"),
                **({NVML.format(node): f"{nvml}+0x40"} if nvml else {}),
                **({AGE.format(node): f"{age}+0x40"} if age else {}),
            }.items()
        },
        {
            f'{FIRING.format("NodeUnknown").rstrip("}")},node="n04"}}': 1.0,
            f"count({FIRING.format('NodeUnknown')})": 1.0,
            f"count({FIRING.format('AgentDown')})": 1.0,
            f"count({FIRING.format('NvmlDown')})": 1.0,
            f"count({FIRING.format('TelemetryStale')})": 1.0,
        },
    ),
    "a rack service that is down takes its racks with it: one alert": Figures(
        {
            'up{job="rackwatt-racks",instance="a:10073"}': "1+0x60 0+0x60",
            'up{job="rackwatt-racks",instance="b:10073"}': "1+0x120",
            'rackwatt_rack_nodes_expected{rack="r01",instance="a:10073"}': "18+0x60 _x60",
            'rackwatt_rack_nodes_expected{rack="r02",instance="b:10073"}': "18+0x60 _x60",
            'rackwatt_rack_nodes_expected{rack="r03",instance="gone:10073"}': "18+0x60 _x60",
        },
        {
            'ALERTS{alertname="RackwattRackServiceDown",instance="a:10073",alertstate="firing"}': 1.0,
            'ALERTS{alertname="RackwattRackVanished",rack="r01"}': None,
            'ALERTS{alertname="RackwattRackVanished",rack="r02",alertstate="firing"}': 1.0,
            'ALERTS{alertname="RackwattRackVanished",rack="r03",alertstate="firing"}': 1.0,
        },
        at="90m",
    ),
    "faults of a node in maintenance, as the rack service finds them": Figures(
        {
            **node_state("n01", "MAINTENANCE"),
            **{found("missing_gpu", "fail", node): "1+0x40" for node in ("n01", "n02")},
            found("version_skew", "warn", "n01"): "1+0x40",
            found("duplicate_gpu", "avoid", ""): "1+0x40",
        },
        {
            'ALERTS{alertname="RackwattRackCheckFailed",node="n01"}': None,
            'ALERTS{alertname="RackwattRackCheckFailed",node="n02",alertstate="firing"}': 1.0,
            'ALERTS{alertname="RackwattRackCheckFailed",check="duplicate_gpu",alertstate="firing"}': 1.0,
            'ALERTS{alertname="RackwattVersionSkew"}': None,
        },
        at="40m",
    ),
    "what only says again that a node has failed": Figures(
        {
            **node_state("n01", "FAILED"),
            **{found(check, "fail", "n01"): "1+0x40" for check in ("witness", "recovering")},
        },
        {FIRING.format("NodeFailed"): 1.0, 'ALERTS{alertname="RackwattRackCheckFailed"}': None},
        at="40m",
    ),
    "an endpoint that its agent reports down has an alert of its own": Figures(
        {
            **endpoints("1+0x40"),
            **llm_up("n01", "engine", "1+0x40"),
            **llm_up("n02", "engine", "0+0x40"),
            **llm_up("n03", "router", "0+0x40"),
        },
        {f"count({FIRING.format('EndpointDown')})": 2.0, FIRING.format("EndpointsMissing"): None},
        at="30m",
    ),
    "an endpoint of which nobody tells": Figures(
        {**endpoints("1+0x40"), **llm_up("n01", "engine", "1+0x40"), **llm_up("n03", "router", "0+0x40")},
        {FIRING.format("EndpointsMissing"): 1.0},
        at="30m",
    ),
    "what a tray in maintenance does not report": Figures(
        {
            **endpoints("1+0x40"),
            **joules(10_000, "gpu", coverage="0.944+0x40"),
            **joules(100_000, coverage="0.875+0x40"),
            f"rackwatt_rack_maintenance_active{{{R01}}}": "1+0x40",
        },
        {
            FIRING.format("EndpointsMissing"): None,
            'ALERTS{alertname="RackwattEnergyUncovered",domain="gpu"}': None,
            'ALERTS{alertname="RackwattEnergyUncovered",domain="rack_input",alertstate="firing"}': 1.0,
        },
        at="30m",
    ),
    "three restarts of a reader within an hour are not more than three": Figures(
        {
            f'rackwatt_agent_reader_restarts_total{{{R01},node="n01"}}': "0+0x40 1+0x5 2+0x5 3+0x60",
            f'rackwatt_agent_reader_restarts_total{{{R01},node="n02"}}': "0+0x40 1+0x5 2+0x5 3+0x5 4+0x60",
        },
        {
            'ALERTS{alertname="RackwattReaderRestarts",node="n01"}': None,
            'ALERTS{alertname="RackwattReaderRestarts",node="n02",alertstate="firing"}': 1.0,
        },
        at="80m",
    ),
}


@pytest.mark.parametrize("figures", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_once(figures: Figures, tmp_path: Path) -> None:
    hold(figures, tmp_path)
