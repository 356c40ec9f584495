"""Modules, the node as a whole, and the agent's account of itself."""

from __future__ import annotations

from collector.catalog.spec import (
    Cadence,
    Decode,
    Entity,
    FieldBinding,
    Kind,
    Level,
    Metric,
    Scope,
    Unit,
    ValueType,
    derived,
    reads,
)

MODULE = (
    Metric(
        name="module_power_watts",
        kind=Kind.GAUGE,
        unit=Unit.WATTS,
        value_type=ValueType.FLOAT,
        entity=Entity.MODULE,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="Power of a superchip module, its GPUs and CPU together: average of the last second.",
        maximum=20_000,
        parts=reads(
            FieldBinding(
                field="NVML_FI_DEV_POWER_AVERAGE",
                scope=Scope.MODULE,
                decode=Decode.UNSIGNED_32,
                divide=1000,
            ),
            FieldBinding(
                field="NVML_FI_DEV_POWER_INSTANT",
                scope=Scope.MODULE,
                decode=Decode.UNSIGNED_32,
                divide=1000,
            ),
        ),
    ),
    Metric(
        name="module_energy_joules_total",
        kind=Kind.COUNTER,
        unit=Unit.JOULES,
        value_type=ValueType.FLOAT,
        entity=Entity.MODULE,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help=(
            "Energy of a superchip module: the hardware's own counter since the driver was loaded, or, where "
            "there is none, its power integrated since the reader was started."
        ),
        parts=reads(FieldBinding(field="NVML_FI_DEV_ENERGY", scope=Scope.MODULE, divide=1000)),
    ),
    Metric(
        name="module_energy_error_joules_total",
        kind=Kind.COUNTER,
        unit=Unit.JOULES,
        value_type=ValueType.FLOAT,
        entity=Entity.MODULE,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="How far the integrated energy of the module may be off; absent where the hardware counts it.",
        parts=derived(),
    ),
)


def _cpu(name: str, text: str) -> Metric:
    return Metric(
        name=name,
        kind=Kind.GAUGE,
        unit=Unit.WATTS,
        value_type=ValueType.FLOAT,
        entity=Entity.CPU,
        level=Level.STANDARD,
        cadence=Cadence.HOST,
        help=text,
        maximum=5_000,
        parts=derived(),
    )


CPU = (
    _cpu(
        "cpu_power_watts", "Power of a Grace socket with its memory, from hwmon; part of the module's power."
    ),
    _cpu("cpu_cores_power_watts", "Power of a Grace socket's CPU rail; part of the socket's power."),
    _cpu("cpu_sysio_power_watts", "Power of a Grace socket's SysIO rail; part of the socket's power."),
)
"""Linux shows them as `power1_average` of the `acpi_power_meter` devices, in microwatts (NVIDIA Grace
Performance Tuning Guide, "Power and Energy Management")."""

NODE = (
    Metric(
        name="node_info",
        kind=Kind.INFO,
        value_type=ValueType.INT,
        entity=Entity.NODE,
        level=Level.CORE,
        cadence=Cadence.AGENT,
        help="Identity of the node: host, boot, platform, driver, agent; whether it is simulated.",
        maximum=1,
        info_labels=(
            "hostname",
            "boot_id",
            "platform",
            "driver_version",
            "cuda_version",
            "kernel",
            "agent_version",
            "simulated",
        ),
        parts=derived(),
    ),
    Metric(
        name="node_gpus_expected",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.NODE,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="GPUs that the node should have, by its platform; absent while the platform is unknown.",
        maximum=1024,
        parts=derived(),
    ),
    Metric(
        name="node_gpus_present",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.NODE,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="GPUs that answer now.",
        maximum=1024,
        parts=derived(),
    ),
)

READ_ERRORS = (
    "driver_not_loaded",
    "gpu_is_lost",
    "invalid_argument",
    "kernel_log_overrun",
    "memory",
    "no_permission",
    "operating_system",
    "out_of_range",
    "reset_required",
    "timeout",
    "undecodable",
    "uninitialized",
    "unknown",
    "other",
)
"""Closed set of `agent_read_errors_total{error}`: NVML's error names (nvml.h, `nvmlReturn_t`) and our own
`out_of_range` (a value that is physically impossible), `undecodable` (an answer without meaning) and
`kernel_log_overrun` (a record of the kernel log that was overwritten before it was read)."""

_READER_CADENCES = (Cadence.FAST.value, Cadence.LINKS.value, Cadence.SLOW.value)


def agent_row(
    name: str,
    text: str,
    kind: Kind,
    *,
    unit: Unit = Unit.NONE,
    label: str | None = None,
    values: tuple[str, ...] = (),
) -> Metric:
    """Make a row of the agent's account of itself.

    Args:
        name: Name without `agent_`.
        text: Help.
        kind: Behaviour over time.
        unit: Base unit.
        label: Name of its label, if it has one.
        values: Values of that label.
    """
    return Metric(
        name=f"agent_{name}",
        kind=kind,
        unit=unit,
        value_type=ValueType.FLOAT if unit is Unit.SECONDS else ValueType.INT,
        entity=Entity.AGENT,
        level=Level.CORE,
        cadence=Cadence.AGENT,
        help=text,
        maximum=1 if kind is Kind.STATE else float(2**63),
        label=label,
        parts=derived(*values),
    )


AGENT = (
    agent_row("nvml_up", "1 while the agent reads the GPUs through NVML, 0 while it cannot.", Kind.GAUGE),
    agent_row(
        "sample_age_seconds",
        "Age of the oldest value of the cadence when the exposition was made.",
        Kind.GAUGE,
        unit=Unit.SECONDS,
        label="cadence",
        values=_READER_CADENCES,
    ),
    agent_row(
        "sweep_seconds",
        "Time that the last sweep of the cadence took, in NVML for the most part.",
        Kind.GAUGE,
        unit=Unit.SECONDS,
        label="cadence",
        values=_READER_CADENCES,
    ),
    agent_row(
        "reader_restarts_total",
        "Times that the reader was started anew because it hung or ended.",
        Kind.COUNTER,
    ),
    agent_row(
        "read_errors_total",
        "Values that could not be read or were impossible, by error.",
        Kind.COUNTER,
        label="error",
        values=READ_ERRORS,
    ),
    agent_row("nvml_calls_total", "Calls made to NVML.", Kind.COUNTER),
)
