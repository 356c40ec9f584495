"""What a rack service says of its racks (CONTRACTS §2, "Of the rack service").

These rows are no part of what an agent exports, so an agent cannot speak for its rack.
"""

from __future__ import annotations

from collector.catalog.spec import Cadence, Entity, Kind, Level, Metric, Unit, ValueType, derived

NODE_STATES = ("READY", "DEGRADED", "FAILED", "MAINTENANCE", "UNKNOWN")
GPU_STATES = ("OK", "DEGRADED", "FAILED", "UNKNOWN")
DOMAIN_STATES = ("HEALTHY", "DEGRADED", "SPLIT", "UNHEALTHY", "UNKNOWN")
VERDICTS = ("AVAILABLE", "UNAVAILABLE", "MAINTENANCE", "UNKNOWN")
"""The words of CONTRACTS §3."""

ENERGY_DOMAINS = ("gpu", "module", "rack_input", "cpu")
"""Where power is measured: GPUs, superchip modules, the rack's power shelves; and the CPUs, for the split.
One contains another: they are never summed."""

RACK_CHECKS = (
    "chassis_mismatch",
    "duplicate_gpu",
    "duplicate_slot",
    "fabric",
    "flapping",
    "gpu_state",
    "missing_gpu",
    "poll",
    "rack_mismatch",
    "recovering",
    "split_domain",
    "unexpected_node",
    "version_skew",
    "witness",
)
"""What the rack service itself finds: what needs several nodes, or time. A node's own checks are exported by
its agent."""


def _rack(
    name: str,
    text: str,
    kind: Kind = Kind.GAUGE,
    *,
    unit: Unit = Unit.NONE,
    value_type: ValueType | None = None,
    maximum: float = float(2**63),
    label: str | None = None,
    labels: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
) -> Metric:
    return Metric(
        name=f"rack_{name}",
        kind=kind,
        unit=unit,
        value_type=ValueType.INT if value_type is None and unit is Unit.NONE else ValueType.FLOAT,
        entity=Entity.RACK,
        level=Level.CORE,
        cadence=Cadence.AGENT,
        help=text,
        maximum=1 if kind is Kind.STATE else maximum,
        label=label,
        info_labels=labels,
        parts=derived(*values),
    )


RACK = (
    _rack("nodes_expected", "Nodes that the rack should have, as declared."),
    _rack("nodes", "Nodes by state; every expected node counts once.", label="state", values=NODE_STATES),
    _rack("gpus_expected", "GPUs that the rack should have, by its platform."),
    _rack(
        "gpus",
        "GPUs by state; a node that does not answer has UNKNOWN ones.",
        label="state",
        values=GPU_STATES,
    ),
    _rack("nodes_schedulable", "Nodes on which a job may be placed."),
    _rack("largest_block_nodes", "Schedulable nodes of the largest clique: the block that a job can have."),
    _rack("min_block_nodes", "Nodes that the largest block must have for the rack to be available."),
    _rack("node_state", "1 for the state that the node is in.", Kind.STATE, labels=("node", "state")),
    _rack("verdict", "1 for the verdict on the rack.", Kind.STATE, label="verdict", values=VERDICTS),
    _rack(
        "domain_state",
        "1 for the state of the NVLink domain, or of its clique.",
        Kind.STATE,
        labels=("cluster_uuid", "clique", "state"),
    ),
    _rack("maintenance_active", "1 while a node of the rack is in declared maintenance.", Kind.STATE),
    _rack(
        "check_failed",
        "1 while the rack service finds the fault, 0 after it is gone; the node is empty for the whole rack.",
        Kind.STATE,
        labels=("check", "impact", "node"),
        values=RACK_CHECKS,
    ),
    _rack(
        "verdict_seconds_total",
        "Time that the rack spent under the verdict; take differences, never averages.",
        Kind.COUNTER,
        unit=Unit.SECONDS,
        label="verdict",
        values=VERDICTS,
    ),
    _rack(
        "node_operating_seconds_total",
        "Time that nodes of the rack were READY or DEGRADED, summed over nodes.",
        Kind.COUNTER,
        unit=Unit.SECONDS,
    ),
    _rack(
        "node_down_seconds_total",
        "Time that nodes of the rack were FAILED, summed over nodes.",
        Kind.COUNTER,
        unit=Unit.SECONDS,
    ),
    _rack("incidents_total", "Times that a node of the rack failed.", Kind.COUNTER),
    _rack(
        "slo_ratio",
        "Share of time for which the rack should be available, as configured.",
        unit=Unit.RATIO,
        maximum=1,
    ),
    _rack(
        "energy_joules_total",
        "Energy of the rack by where it is measured; one domain is part of another: never sum them.",
        Kind.COUNTER,
        unit=Unit.JOULES,
        label="domain",
        values=ENERGY_DOMAINS,
    ),
    _rack(
        "energy_error_joules_total",
        "How far the energy may be off where power was integrated; 0 where hardware counts itself.",
        Kind.COUNTER,
        unit=Unit.JOULES,
        label="domain",
        values=ENERGY_DOMAINS,
    ),
    _rack(
        "idle_energy_joules_total",
        "Energy spent while no serving endpoint of the rack had a request; part of the energy.",
        Kind.COUNTER,
        unit=Unit.JOULES,
        label="domain",
        values=ENERGY_DOMAINS,
    ),
    _rack(
        "power_watts",
        "Power of the rack by where it is measured; absent unless everything that should report does.",
        unit=Unit.WATTS,
        label="domain",
        values=ENERGY_DOMAINS,
    ),
    _rack(
        "energy_coverage_ratio",
        "Share of the GPUs, modules, power shelves or CPUs that report their power or energy now.",
        unit=Unit.RATIO,
        maximum=1,
        label="domain",
        values=ENERGY_DOMAINS,
    ),
    _rack("llm_endpoints_expected", "Serving endpoints that the rack should have, of the role that counts."),
    _rack(
        "llm_endpoints_up",
        "Serving endpoints of the role that counts whose metrics are fresh, and whose tokens are counted.",
    ),
    _rack(
        "llm_tokens_total",
        "Tokens by model and phase, summed over the endpoints of one role, kept over restarts.",
        Kind.COUNTER,
        value_type=ValueType.FLOAT,
        labels=("model", "phase"),
    ),
    _rack(
        "gpu_hour_usd",
        "Price of a GPU for an hour, as configured, in US dollars.",
        value_type=ValueType.FLOAT,
    ),
    _rack(
        "gpu_hour_includes_energy",
        "1 where the price of a GPU-hour pays for its energy, too; 0 where the energy is to be added.",
        Kind.STATE,
    ),
    _rack(
        "electricity_usd_per_kwh",
        "Price of a kilowatt-hour, as configured, in US dollars.",
        value_type=ValueType.FLOAT,
    ),
    _rack(
        "pue_ratio",
        "Power of the whole facility to that of its racks (PUE), as configured.",
        unit=Unit.RATIO,
    ),
)
