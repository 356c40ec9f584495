"""Clocks of a GPU, and what holds them down."""

from __future__ import annotations

from collector.catalog.spec import (
    Cadence,
    Codes,
    DriverRange,
    Encoding,
    Entity,
    FieldBinding,
    GetterBinding,
    Kind,
    Level,
    Metric,
    Part,
    Unit,
    ValueType,
    reads,
)

CLOCKS = tuple(
    Metric(
        name=f"gpu_{name}_clock_hertz",
        kind=Kind.GAUGE,
        unit=Unit.HERTZ,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help=text,
        maximum=100_000_000_000,
        parts=reads(GetterBinding(function="nvmlDeviceGetClockInfo", attribute=clock, multiply=1_000_000)),
    )
    for name, clock, text in (
        ("sm", "NVML_CLOCK_SM", "Clock of the streaming multiprocessors."),
        ("memory", "NVML_CLOCK_MEM", "Clock of the memory."),
    )
)

CLOCK_EVENT_REASONS = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)
"""Bit masks of the reasons for which clocks are held down (nvml.h, `nvmlClocksEventReason*`)."""

_SINCE_RENUMBERING = DriverRange(since=(580, 82))
_BEFORE_RENUMBERING = DriverRange(since=(575, 51), before=(580, 82))
"""Ids 269 to 271 had the numbers 251 to 253 from 575.51 to 580.65 (facts, trap T1)."""


def _event_seconds(reason: str, *bindings: FieldBinding | GetterBinding) -> Part:
    return Part(value=reason, bindings=bindings)


def _policy(name: str) -> GetterBinding:
    """Bind the older per-policy getter, in nanoseconds, that drivers before 575.51 answer."""
    return GetterBinding(function="nvmlDeviceGetViolationStatus", attribute=name, divide=1_000_000_000)


def _nanoseconds(field: str | int, drivers: DriverRange | None = None) -> FieldBinding:
    return FieldBinding(field=field, divide=1_000_000_000, drivers=drivers)


CLOCK_EVENTS = (
    Metric(
        name="gpu_clock_event_active",
        kind=Kind.STATE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.FAST,
        help="1 while the reason holds clocks down; several can hold at once, and idle is one of them.",
        maximum=1,
        label="reason",
        codes=Codes(
            encoding=Encoding.BITS,
            values=CLOCK_EVENT_REASONS,
            bindings=(GetterBinding(function="nvmlDeviceGetCurrentClocksEventReasons", attribute="mask"),),
            source="nvml.h, nvmlClocksEventReason*",
        ),
    ),
    Metric(
        name="gpu_clock_event_seconds_total",
        kind=Kind.COUNTER,
        unit=Unit.SECONDS,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.STANDARD,
        cadence=Cadence.FAST,
        help="Time for which the reason held clocks down; reasons overlap, so never add them up.",
        label="reason",
        parts=(
            _event_seconds("sw_power_cap", _nanoseconds("NVML_FI_DEV_PERF_POLICY_POWER")),
            _event_seconds("sync_boost", _nanoseconds("NVML_FI_DEV_PERF_POLICY_SYNC_BOOST")),
            _event_seconds("board_limit", _nanoseconds("NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT")),
            _event_seconds("reliability", _nanoseconds("NVML_FI_DEV_PERF_POLICY_RELIABILITY")),
            _event_seconds(
                "sw_thermal_slowdown",
                _nanoseconds("NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", _SINCE_RENUMBERING),
                _nanoseconds(251, _BEFORE_RENUMBERING),
                _policy("NVML_PERF_POLICY_THERMAL"),
            ),
            _event_seconds(
                "hw_thermal_slowdown",
                _nanoseconds("NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", _SINCE_RENUMBERING),
                _nanoseconds(252, _BEFORE_RENUMBERING),
            ),
            _event_seconds(
                "hw_power_brake",
                _nanoseconds("NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", _SINCE_RENUMBERING),
                _nanoseconds(253, _BEFORE_RENUMBERING),
            ),
        ),
    ),
)
