"""Utilization, memory, power, clocks, temperatures, PCIe and processes of a GPU."""

from __future__ import annotations

from collector.catalog.clocks import CLOCK_EVENTS, CLOCKS
from collector.catalog.spec import (
    Cadence,
    Decode,
    Entity,
    FieldBinding,
    GetterBinding,
    GpmBinding,
    Kind,
    Level,
    Metric,
    Part,
    Scope,
    Unit,
    ValueType,
    derived,
    reads,
)

_MEMORY_CEILING_BYTES = 2**50
_POWER_CEILING_WATTS = 20_000
_MIB = 1024 * 1024
_RATIO_CEILING = 1.001
"""GPM divides counters taken a moment apart, so a busy unit can read a rounding error above 1."""

IDENTITY = (
    Metric(
        name="gpu_up",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="1 while NVML answers for the GPU, 0 once a known GPU is lost or missing.",
        maximum=1,
        parts=derived(),
    ),
    Metric(
        name="gpu_info",
        kind=Kind.INFO,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.SLOW,
        help="Identity of the GPU: product, firmware, place in node and rack, NVLink domain, modes.",
        maximum=1,
        info_labels=(
            "name",
            "serial",
            "board_part",
            "vbios",
            "inforom",
            "pci_bus_id",
            "module",
            "slot",
            "tray",
            "host",
            "chassis_serial",
            "cluster_uuid",
            "clique",
            "architecture",
            "ecc_mode",
            "mig_mode",
            "persistence_mode",
        ),
        parts=derived(),
    ),
)

UTILIZATION = (
    Metric(
        name="gpu_utilization_ratio",
        kind=Kind.GAUGE,
        unit=Unit.RATIO,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="Share of the last sample period in which a kernel ran, on however few SMs.",
        maximum=1,
        parts=reads(GetterBinding(function="nvmlDeviceGetUtilizationRates", attribute="gpu", divide=100)),
    ),
)

MEMORY = tuple(
    Metric(
        name=f"gpu_memory_{attribute}_bytes",
        kind=Kind.GAUGE,
        unit=Unit.BYTES,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help=text,
        maximum=_MEMORY_CEILING_BYTES,
        parts=reads(GetterBinding(function="nvmlDeviceGetMemoryInfo_v2", attribute=attribute)),
    )
    for attribute, text in (
        ("total", "Memory on the GPU, with what the driver reserves."),
        ("used", "Memory allocated by processes, without what the driver reserves."),
        ("free", "Memory that can still be allocated."),
        ("reserved", "Memory that driver and firmware keep for themselves."),
    )
)


def _power(scope: Scope, *fields: str) -> tuple[Part, ...]:
    """Bind milliwatt fields of one scope, preferred field first."""
    return reads(
        *(FieldBinding(field=name, scope=scope, decode=Decode.UNSIGNED_32, divide=1000) for name in fields)
    )


POWER = (
    Metric(
        name="gpu_power_watts",
        kind=Kind.GAUGE,
        unit=Unit.WATTS,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="Power of the GPU: average of the last second; instantaneous where the board has no average.",
        maximum=_POWER_CEILING_WATTS,
        parts=_power(Scope.GPU, "NVML_FI_DEV_POWER_AVERAGE", "NVML_FI_DEV_POWER_INSTANT"),
    ),
    Metric(
        name="gpu_power_limit_watts",
        kind=Kind.GAUGE,
        unit=Unit.WATTS,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="Power limit in force, whoever set it.",
        maximum=_POWER_CEILING_WATTS,
        parts=_power(Scope.GPU, "NVML_FI_DEV_POWER_CURRENT_LIMIT"),
    ),
    Metric(
        name="gpu_energy_joules_total",
        kind=Kind.COUNTER,
        unit=Unit.JOULES,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="Energy of the GPU since the driver was loaded, from the hardware's own counter.",
        parts=reads(FieldBinding(field="NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION", divide=1000)),
    ),
    Metric(
        name="gpu_memory_power_watts",
        kind=Kind.GAUGE,
        unit=Unit.WATTS,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.FAST,
        help="Power of the GPU's memory, average of the last second; part of the GPU's power.",
        maximum=_POWER_CEILING_WATTS,
        parts=_power(Scope.MEMORY, "NVML_FI_DEV_POWER_AVERAGE"),
    ),
)


def _temperature(
    name: str, text: str, *bindings: FieldBinding | GetterBinding, minimum: float, maximum: float
) -> Metric:
    return Metric(
        name=f"gpu_{name}_celsius",
        kind=Kind.GAUGE,
        unit=Unit.CELSIUS,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help=text,
        minimum=minimum,
        maximum=maximum,
        parts=reads(*bindings),
    )


TEMPERATURES = (
    _temperature(
        "temperature",
        "Temperature of the GPU die.",
        GetterBinding(function="nvmlDeviceGetTemperatureV", attribute="NVML_TEMPERATURE_GPU"),
        GetterBinding(function="nvmlDeviceGetTemperature", attribute="NVML_TEMPERATURE_GPU"),
        minimum=-50,
        maximum=200,
    ),
    _temperature(
        "memory_temperature",
        "Temperature of the GPU's memory.",
        FieldBinding(field="NVML_FI_DEV_MEMORY_TEMP", decode=Decode.UNSIGNED_32),
        minimum=1,
        maximum=200,
    ),
    _temperature(
        "temperature_margin",
        "Degrees left until the GPU slows itself down (T.Limit); negative beyond it.",
        GetterBinding(function="nvmlDeviceGetMarginTemperature", attribute="margin"),
        minimum=-100,
        maximum=200,
    ),
)


def _gpm(name: str, unit: Unit, metric: str, text: str, *, multiply: int = 1, divide: int = 1) -> Metric:
    return Metric(
        name=name,
        kind=Kind.GAUGE,
        unit=unit,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.FAST,
        help=text,
        maximum=_RATIO_CEILING if unit is Unit.RATIO else 10**12,
        parts=reads(GpmBinding(metric=metric, multiply=multiply, divide=divide)),
    )


ACTIVITY = (
    _gpm(
        "gpu_sm_active_ratio",
        Unit.RATIO,
        "NVML_GPM_METRIC_SM_UTIL",
        "Share of SMs that were busy, averaged over the sampling period.",
        divide=100,
    ),
    _gpm(
        "gpu_sm_occupancy_ratio",
        Unit.RATIO,
        "NVML_GPM_METRIC_SM_OCCUPANCY",
        "Active warps as a share of the most that the SMs can hold.",
        divide=100,
    ),
    _gpm(
        "gpu_tensor_active_ratio",
        Unit.RATIO,
        "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
        "Share of time in which the SMs ran tensor operations of any kind.",
        divide=100,
    ),
    _gpm(
        "gpu_memory_bandwidth_ratio",
        Unit.RATIO,
        "NVML_GPM_METRIC_DRAM_BW_UTIL",
        "Memory traffic as a share of the most that the memory can move.",
        divide=100,
    ),
    _gpm(
        "gpu_pcie_transmitted_bytes_per_second",
        Unit.BYTES_PER_SECOND,
        "NVML_GPM_METRIC_PCIE_TX_PER_SEC",
        "PCIe throughput from the GPU.",
        multiply=_MIB,
    ),
    _gpm(
        "gpu_pcie_received_bytes_per_second",
        Unit.BYTES_PER_SECOND,
        "NVML_GPM_METRIC_PCIE_RX_PER_SEC",
        "PCIe throughput to the GPU.",
        multiply=_MIB,
    ),
)

BUS_AND_PROCESSES = (
    Metric(
        name="gpu_pcie_generation",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.LINKS,
        help="PCIe generation at which the GPU's link runs now.",
        minimum=1,
        maximum=16,
        parts=reads(GetterBinding(function="nvmlDeviceGetCurrPcieLinkGeneration", attribute="value")),
    ),
    Metric(
        name="gpu_pcie_width_lanes",
        kind=Kind.GAUGE,
        unit=Unit.LANES,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.LINKS,
        help="PCIe lanes in use now.",
        minimum=1,
        maximum=32,
        parts=reads(GetterBinding(function="nvmlDeviceGetCurrPcieLinkWidth", attribute="value")),
    ),
    Metric(
        name="gpu_pcie_replays_total",
        kind=Kind.COUNTER,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.LINKS,
        help="PCIe packets sent again because they did not arrive intact.",
        parts=reads(FieldBinding(field="NVML_FI_DEV_PCIE_REPLAY_COUNTER")),
    ),
    Metric(
        name="gpu_processes",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.LINKS,
        help="Processes with a compute context on the GPU.",
        maximum=4_194_304,
        parts=reads(GetterBinding(function="nvmlDeviceGetComputeRunningProcesses_v3", attribute="count")),
    ),
)

GPU = (
    *IDENTITY,
    *UTILIZATION,
    *MEMORY,
    *POWER,
    *CLOCKS,
    *TEMPERATURES,
    *CLOCK_EVENTS,
    *ACTIVITY,
    *BUS_AND_PROCESSES,
)
