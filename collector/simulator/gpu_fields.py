"""Fields of the GPU as a whole: energy, power, temperature, clock events, memory errors, PCIe, C2C.

Field ids, units and types are those of nvml.h 13.5 (`NVML_FI_*`); which platform answers what is from
the captures in NVIDIA/k8s-test-infra and from nvml.h's own remarks.
"""

from __future__ import annotations

from typing import Final

from collector.profiles import ModuleProfile, Profile
from collector.simulator.codes import SCOPE_GPU, SCOPE_MEMORY, SCOPE_MODULE, ValueType
from collector.simulator.driver import Driver, ThermalTimeFields
from collector.simulator.field_values import (
    INVALID_ARGUMENT,
    NO_PERMISSION,
    NOT_SUPPORTED,
    Answer,
    Field,
    Reader,
)
from collector.simulator.gpu import SimulatedGpu

_UINT: Final = ValueType.UNSIGNED_INT
_ULL: Final = ValueType.UNSIGNED_LONG_LONG
_INT: Final = ValueType.SIGNED_INT

# C2C links and their speed in MB/s: chosen for GB200 and GB300, the figures of a GH200
# (dmlc/xgboost, cuda_dr_utils test: 10 links of 44.712 GB/s).
_C2C_LINKS: Final = 10
_C2C_SPEED: Final = 44_712

# Power smoothing stands at these ids besides where the thermal times are (nvidia-ml-py 12.570, 13.580.82).
_POWER_SMOOTHING_FIELDS: Final = range(251, 269)
# "Active preset profile" of the drivers that have the thermal times at 251 to 253 (13.580.65 bindings).
_ACTIVE_PRESET_PROFILE: Final = 269

_RECOVERY_NONE: Final = 0
_RECOVERY_GPU_RESET: Final = 1
_RECOVERY_DRAIN_AND_RESET: Final = 4


def gpu_fields(profile: Profile, driver: Driver) -> dict[int, Field]:
    """Return the GPU-wide fields of a platform under a driver.

    Args:
        profile: The platform.
        driver: The driver.

    Returns:
        Fields by id; what is not among them is not supported.
    """
    fields = dict(_COMMON)
    fields |= _power_fields(profile)
    fields |= _thermal_time_fields(profile, driver)
    if profile.capabilities.c2c:
        fields |= _C2C
    if driver.at_least(610):
        fields |= {301: Field(_UINT, _zero), 302: Field(_UINT, _zero)}
    if driver.at_least(615):
        fields[308] = Field(ValueType.DOUBLE, lambda gpu, _: gpu.physics.celsius)
    return fields


def _zero(_gpu: SimulatedGpu, _scope: int) -> Answer:
    return 0


def _one(_gpu: SimulatedGpu, _scope: int) -> Answer:
    return 1


def _energy(gpu: SimulatedGpu, _scope: int) -> Answer:
    return int(gpu.energy * 1000)


def _thermal_time(gpu: SimulatedGpu, _scope: int) -> Answer:
    return gpu.thermal_slowdown_ns


def _recovery_action(gpu: SimulatedGpu, _scope: int) -> Answer:
    """What NVML advises: chosen, after the catalogue's actions for Xid 94/63 and 149."""
    if gpu.memory_errors:
        return _RECOVERY_DRAIN_AND_RESET
    if gpu.physics.down_links and gpu.profile.capabilities.nvlink5_counters:
        return _RECOVERY_GPU_RESET
    return _RECOVERY_NONE


_COMMON: Final[dict[int, Field]] = {
    1: Field(_UINT, _one),  # ECC mode now: enabled in every capture
    2: Field(_UINT, _one),  # ECC mode after the next reboot
    3: Field(_ULL, _zero),  # corrected, since driver load
    4: Field(_ULL, lambda gpu, _: gpu.memory_errors),  # uncorrected, since driver load
    5: Field(_ULL, _zero),  # corrected, lifetime
    6: Field(_ULL, lambda gpu, _: gpu.memory_errors_ever),  # uncorrected, lifetime
    74: Field(_ULL, _zero),  # time in SW power cap, ns: no workload reaches its limit
    76: Field(_ULL, _zero),  # time in sync boost, ns
    77: Field(_ULL, _zero),  # time at the board limit, ns
    79: Field(_ULL, _zero),  # time at the reliability limit, ns
    82: Field(_UINT, lambda gpu, _: round(gpu.physics.memory_celsius)),
    83: Field(_ULL, _energy),
    91: Field(_UINT, lambda gpu, _: gpu.profile.nvlink.links_per_gpu),
    94: Field(_ULL, _zero),  # PCIe replays
    95: Field(_ULL, _zero),  # their rollovers
    142: Field(_UINT, _zero),  # rows remapped for corrected errors
    143: Field(_UINT, lambda gpu, _: gpu.memory_errors_ever),  # for uncorrected errors
    144: Field(_UINT, lambda gpu, _: int(gpu.memory_errors > 0)),  # a remap waits for a reset
    145: Field(_UINT, _zero),  # a remap failed
    169: Field(_ULL, _zero),  # PCIe L0 to recovery
    **{field_id: Field(_ULL, _zero) for field_id in range(173, 184)},  # PCIe errors by class
    193: Field(_INT, lambda gpu, _: gpu.profile.gpu.shutdown_margin_celsius),
    194: Field(_INT, lambda gpu, _: gpu.profile.gpu.slowdown_margin_celsius),
    195: Field(_INT, lambda gpu, _: gpu.profile.gpu.memory_max_margin_celsius),
    196: Field(_INT, lambda gpu, _: gpu.profile.gpu.max_operating_margin_celsius),
    230: Field(_UINT, _recovery_action),
}


def _c2c_link(value: int) -> Reader:
    def read(_gpu: SimulatedGpu, scope: int) -> Answer:
        return value if scope < _C2C_LINKS else INVALID_ARGUMENT

    return read


_C2C: Final[dict[int, Field]] = {
    170: Field(_UINT, lambda _gpu, _scope: _C2C_LINKS),
    171: Field(_UINT, _c2c_link(1)),
    172: Field(_UINT, _c2c_link(_C2C_SPEED)),
    **{field_id: Field(_ULL, _c2c_link(0)) for field_id in (231, 232, 233)},
    234: Field(_UINT, _c2c_link(0)),  # full power
}


def _power_fields(profile: Profile) -> dict[int, Field]:
    """Power, limits and scoped energy: scope 0 everywhere, 1 with modules, 2 for average memory power."""
    gpu, module = profile.gpu, profile.module
    fields = {
        185: Field(_UINT, _average_power),
        186: Field(_UINT, _instant_power),
        191: Field(_ULL, _scoped_energy),
    }
    for field_id, gpu_watts, module_watts in (
        (187, gpu.power_min_watts, module and module.power_min_watts),
        (188, gpu.power_max_watts, module and module.power_max_watts),
        (189, gpu.power_default_watts, module and module.power_limit_watts),
        (190, gpu.power_default_watts, module and module.power_limit_watts),
        (192, gpu.power_default_watts, module and module.power_limit_watts),
    ):
        fields[field_id] = Field(_UINT, _limit(gpu_watts, module_watts))
    return fields


def _limit(gpu_watts: float, module_watts: float | ModuleProfile | None) -> Reader:
    by_scope = {SCOPE_GPU: round(gpu_watts * 1000)}
    if isinstance(module_watts, float):
        by_scope[SCOPE_MODULE] = round(module_watts * 1000)

    def read(_gpu: SimulatedGpu, scope: int) -> Answer:
        return by_scope.get(scope, NOT_SUPPORTED)

    return read


def _average_power(gpu: SimulatedGpu, scope: int) -> Answer:
    if scope == SCOPE_GPU:
        return round(gpu.mean_watts * 1000)
    if scope == SCOPE_MODULE and gpu.module_gpus:
        return round(gpu.module_mean_watts * 1000)
    return round(gpu.mean_memory_watts * 1000) if scope == SCOPE_MEMORY else NOT_SUPPORTED


def _instant_power(gpu: SimulatedGpu, scope: int) -> Answer:
    if scope == SCOPE_GPU:
        return round(gpu.physics.watts * 1000)
    if scope == SCOPE_MODULE and gpu.module_gpus:
        return round(gpu.module_watts * 1000)
    return NOT_SUPPORTED


def _scoped_energy(gpu: SimulatedGpu, scope: int) -> Answer:
    if scope == SCOPE_GPU:
        return int(gpu.energy * 1000)
    if scope == SCOPE_MODULE and gpu.module_gpus:
        return int(gpu.module_energy * 1000)
    return NOT_SUPPORTED


def _refuse_smoothing(_gpu: SimulatedGpu, _scope: int) -> Answer:
    return NO_PERMISSION


def _thermal_time_fields(profile: Profile, driver: Driver) -> dict[int, Field]:
    """Thermal times where this driver has them, and what stands at the same ids on the others."""
    fields: dict[int, Field] = {}
    placement = driver.thermal_time_fields
    if profile.capabilities.power_smoothing:
        fields |= {field_id: Field(_UINT, _refuse_smoothing) for field_id in _POWER_SMOOTHING_FIELDS}
    if placement is ThermalTimeFields.OLD:
        # A reader that asks for the new id gets a small number and no error.
        fields[_ACTIVE_PRESET_PROFILE] = Field(_UINT, _one)
    if placement is not ThermalTimeFields.ABSENT:
        software, hardware, brake = placement.value
        fields[software] = fields[hardware] = Field(_ULL, _thermal_time)
        fields[brake] = Field(_ULL, _zero)
    return fields
