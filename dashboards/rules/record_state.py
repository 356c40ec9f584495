"""Recorded: verdict, states and counts of racks, the checks that fail, and how fresh all that is."""

from __future__ import annotations

from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import GPU, NODE, RACK_ONLY, aggregate, highest, select, series, total
from dashboards.rules.recording import Measure, Recorded

STALE_SECONDS = 5
"""Age of fast data from which on a poll is no good one (CONTRACTS §3)."""

_COUNTS = (
    ("nodes_expected", (), "Nodes that the rack should have."),
    ("nodes", ("state",), "Nodes of the rack by state."),
    ("gpus_expected", (), "GPUs that the rack should have."),
    ("gpus", ("state",), "GPUs of the rack by state."),
    ("nodes_schedulable", (), "Nodes of the rack on which a job may be placed."),
    ("largest_block_nodes", (), "Schedulable nodes of the largest clique."),
    ("min_block_nodes", (), "Nodes that the largest block must have for the rack to be available."),
)
_STATES = (
    ("verdict", ("verdict",), "1 for the verdict on the rack."),
    ("node_state", ("node", "state"), "1 for the state of the node."),
    ("domain_state", ("cluster_uuid", "clique", "state"), "1 for the state of the NVLink domain's clique."),
    ("maintenance_active", (), "1 while a node of the rack is in declared maintenance."),
    ("check_failed", ("node", "check", "impact"), "1 while the rack service finds the fault."),
)


def _rack(unit: Measure, name: str, labels: tuple[str, ...], text: str) -> Recorded:
    of = (*RACK_ONLY, *labels)
    return Recorded(
        of=of,
        metric=name,
        operation="max",
        expression=highest(of, series(f"rack_{name}")),
        unit=unit,
        help=text,
    )


def state_rules(_: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about what the rack service says now."""
    return (
        *(_rack(Measure.COUNT, *row) for row in _COUNTS),
        *(_rack(Measure.STATE, *row) for row in _STATES),
        Recorded(
            of=RACK_ONLY,
            metric="nodes_schedulable_per_nodes_expected",
            operation="ratio",
            expression="rack:nodes_schedulable:max / (rack:nodes_expected:max > 0)",
            unit=Measure.RATIO,
            help="Share of the rack's expected nodes on which a job may be placed.",
        ),
        Recorded(
            of=("verdict",),
            metric="racks",
            operation="sum",
            expression=total(("verdict",), "rack_verdict:verdict:max"),
            unit=Measure.COUNT,
            help="Racks by verdict.",
        ),
        Recorded(
            of=(),
            metric="racks_whole",
            operation="sum",
            expression=total((), "rack:largest_block_nodes:max >= bool rack:nodes_expected:max"),
            unit=Measure.COUNT,
            help="Racks of which every expected node is in one schedulable block.",
        ),
        Recorded(
            of=(),
            metric="racks_short",
            operation="sum",
            expression=total((), "rack:largest_block_nodes:max < bool rack:min_block_nodes:max"),
            unit=Measure.COUNT,
            help="Racks whose largest block is below the minimum. The rest is available with nodes missing.",
        ),
    )


def check_rules(_: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about the checks that agents judge."""
    failed = highest((*GPU, "check", "impact"), series("gpu_check_failed"))
    of_node = highest((*NODE, "check", "impact"), series("node_check_failed"))
    gpus = total((*GPU, "impact"), failed)
    return (
        Recorded(
            of=(*GPU, "impact"),
            metric="checks_failed",
            operation="sum",
            expression=gpus,
            unit=Measure.COUNT,
            help="Failed checks of the GPU by impact; absent while none can be evaluated.",
        ),
        Recorded(
            of=(*NODE, "impact"),
            metric="checks_failed",
            operation="sum",
            expression=total(
                (*NODE, "impact"),
                f"rack_node_gpu_impact:checks_failed:sum or {of_node}",
            ),
            unit=Measure.COUNT,
            help="Failed checks of the node and its GPUs by impact.",
        ),
        Recorded(
            of=(*RACK_ONLY, "impact"),
            metric="checks_failed",
            operation="sum",
            expression=total((*RACK_ONLY, "impact"), "rack_node_impact:checks_failed:sum"),
            unit=Measure.COUNT,
            help="Failed checks of the rack's nodes and GPUs by impact, of those that answer.",
        ),
    )


def telemetry_rules(parameters: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about whether there is anything to believe."""
    up = select("up", job=f"~{parameters.agent_job}")
    return (
        Recorded(
            of=NODE,
            metric="agent_up",
            operation="max",
            expression=highest(NODE, up),
            unit=Measure.STATE,
            help="1 while Prometheus reaches the node's agent, 0 while not.",
        ),
        Recorded(
            of=RACK_ONLY,
            metric="agents_up",
            operation="sum",
            expression=total(RACK_ONLY, "rack_node:agent_up:max"),
            unit=Measure.COUNT,
            help="Agents of the rack that Prometheus reaches.",
        ),
        Recorded(
            of=NODE,
            metric="agent_nvml_up",
            operation="max",
            expression=highest(NODE, series("agent_nvml_up")),
            unit=Measure.STATE,
            help="1 while the agent reads the GPUs through NVML.",
        ),
        Recorded(
            of=NODE,
            metric="agent_sample_age_seconds",
            operation="min",
            expression=aggregate("min", NODE, series("agent_sample_age_seconds", cadence="fast")),
            unit=Measure.SECONDS,
            help="Age of the node's fast values, by the freshest scrape.",
        ),
        Recorded(
            of=RACK_ONLY,
            metric="agent_sample_age_seconds",
            operation="max",
            expression=highest(RACK_ONLY, "rack_node:agent_sample_age_seconds:min"),
            unit=Measure.SECONDS,
            help="Age of the fast values of the rack's stalest node, of those that answer.",
        ),
    )
