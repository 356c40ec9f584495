"""What GPUs of a node do over time, one row of panels a family of metrics."""

from __future__ import annotations

from dataclasses import replace

from dashboards import links, queries, units
from dashboards.boards.node_drawing import HEIGHT, WIDTH, drawn, errors, gauges, recorded
from dashboards.boards.node_gpus import GPU
from dashboards.boards.recordings import GPU_LEGEND, Recordings
from dashboards.boards.recordings import describe as describe_recorded
from dashboards.layout import Section
from dashboards.panels import (
    BarGauge,
    ByRegexp,
    DataPanel,
    FieldOptions,
    Fixed,
    Override,
    Target,
    ThresholdLines,
    Thresholds,
    instant,
    limit_line,
    palette,
)
from dashboards.panels.fields import Step
from dashboards.queries import Scope


def _power(scope: Scope) -> tuple[DataPanel, ...]:
    power = drawn(
        "gpu-power",
        "Power, and its limit",
        queries.describe("gpu_power_watts", "gpu_power_limit_watts"),
        units.WATTS,
        palette.POWER,
        Target(expr=scope.series("gpu_power_watts"), legend=GPU_LEGEND),
        Target(expr=queries.largest(scope.series("gpu_power_limit_watts"), "rack"), legend="{{rack}} limit"),
    )
    energy = BarGauge(
        key="gpu-energy",
        title="Energy over the time range",
        description=queries.describe("gpu_energy_joules_total"),
        width=WIDTH,
        height=HEIGHT,
        targets=(instant(scope.increase("gpu_energy_joules_total", "$__range"), legend=GPU_LEGEND),),
        fields=FieldOptions(unit=units.JOULES, minimum=0, colouring=Fixed(palette.POWER)),
    )
    module = gauges(scope, "module_power_watts", "Power of superchip modules", palette.POWER)
    module = replace(
        module,
        targets=(
            Target(expr=scope.series("module_power_watts"), legend="{{node}} module {{module}}"),
            Target(expr=scope.series("cpu_power_watts"), legend="{{node}} CPU {{socket}}"),
        ),
        title="Power of superchip modules, and of CPUs in them",
        description=queries.describe("module_power_watts", "cpu_power_watts"),
        fields=replace(module.fields, links=(links.to_node(),)),
    )
    return (replace(power, overrides=(limit_line(ByRegexp("/ limit$/")),)), energy, module)


def _temperatures(scope: Scope, recordings: Recordings) -> tuple[DataPanel, ...]:
    margin = recorded(
        recordings,
        "rack_node_gpu:temperature_margin_celsius:min",
        "margin",
        "Temperature margin: degrees until clocks are held down",
        palette.TEMPERATURE,
    )
    slows = Thresholds(base=palette.FAILED, steps=(Step(0, palette.NEUTRAL),))
    return (
        replace(
            margin,
            fields=replace(margin.fields, minimum=None, thresholds=slows),
            threshold_lines=ThresholdLines.DASHED,
            soft_minimum=0,
        ),
        gauges(scope, "gpu_temperature_celsius", "Temperature of the die", palette.TEMPERATURE),
        gauges(scope, "gpu_memory_temperature_celsius", "Temperature of the memory", palette.TEMPERATURE),
    )


def _clocks(scope: Scope, recordings: Recordings) -> tuple[DataPanel, ...]:
    return (
        gauges(scope, "gpu_sm_clock_hertz", "SM clock", palette.CLOCK),
        gauges(scope, "gpu_memory_clock_hertz", "Memory clock", palette.CLOCK),
        recorded(
            recordings,
            "rack_node_gpu_reason:clock_event_seconds:rate5m",
            "clock-event-time",
            "Share of time with clocks held down, by reason",
            palette.CLOCK,
            legend=f"{GPU_LEGEND} {{{{reason}}}}",
        ),
    )


def _memory(scope: Scope) -> tuple[DataPanel, ...]:
    used = gauges(scope, "gpu_memory_used_bytes", "Memory in use, and all of it", palette.MEMORY)
    total = queries.largest(scope.series("gpu_memory_total_bytes"), "rack")
    return (
        replace(
            used,
            description=queries.describe("gpu_memory_used_bytes", "gpu_memory_total_bytes"),
            targets=(*used.targets, Target(expr=total, legend="{{rack}} total")),
            overrides=(limit_line(ByRegexp("/ total$/")),),
        ),
        gauges(scope, "gpu_memory_bandwidth_ratio", "Memory throughput of its bandwidth", palette.MEMORY),
        gauges(scope, "gpu_processes", "Processes", palette.NEUTRAL),
    )


def _pcie(scope: Scope) -> tuple[DataPanel, ...]:
    both = drawn(
        "pcie-throughput",
        "PCIe throughput; received below zero",
        queries.describe("gpu_pcie_transmitted_bytes_per_second", "gpu_pcie_received_bytes_per_second"),
        units.BYTES_PER_SECOND,
        palette.PCIE,
        Target(expr=scope.series("gpu_pcie_transmitted_bytes_per_second"), legend=f"{GPU_LEGEND} sent"),
        Target(
            expr=f"-{scope.series('gpu_pcie_received_bytes_per_second')}", legend=f"{GPU_LEGEND} received"
        ),
        minimum=None,
    )
    link = gauges(scope, "gpu_pcie_width_lanes", "PCIe lanes and generation", palette.PCIE)
    generation = Target(expr=scope.series("gpu_pcie_generation"), legend=f"{GPU_LEGEND} generation")
    lanes = Target(expr=scope.series("gpu_pcie_width_lanes"), legend=f"{GPU_LEGEND} lanes")
    return (
        both,
        replace(
            link,
            description=queries.describe("gpu_pcie_width_lanes", "gpu_pcie_generation"),
            targets=(lanes, generation),
            overrides=(Override(fields=ByRegexp("/ generation$/"), unit=units.NUMBER),),
            stepped=True,
        ),
        errors(scope, "gpu_pcie_replays_total", "PCIe replays", palette.PCIE),
    )


def _nvlink(recordings: Recordings) -> tuple[DataPanel, ...]:
    traffic = drawn(
        "nvlink-throughput",
        "NVLink throughput; received below zero",
        describe_recorded(
            "rack_node_gpu:nvlink_transmitted_bytes:rate5m", "rack_node_gpu:nvlink_received_bytes:rate5m"
        ),
        units.BYTES_PER_SECOND,
        palette.NVLINK,
        Target(
            expr=recordings.by("rack_node_gpu:nvlink_transmitted_bytes:rate5m", *GPU),
            legend=f"{GPU_LEGEND} sent",
        ),
        Target(
            expr=f"-{recordings.by('rack_node_gpu:nvlink_received_bytes:rate5m', *GPU)}",
            legend=f"{GPU_LEGEND} received",
        ),
        minimum=None,
    )
    up = recorded(recordings, "rack_node_gpu:nvlinks_up:sum", "nvlinks-up", "NVLinks up", palette.NVLINK)
    return (
        traffic,
        replace(up, stepped=True),
        recorded(
            recordings,
            "rack_node_gpu:nvlink_errors:increase10m",
            "nvlink-errors",
            "NVLink errors within 10 minutes",
            palette.NVLINK,
        ),
    )


def _reliability(scope: Scope) -> tuple[DataPanel, ...]:
    rows = gauges(scope, "gpu_row_remap_pending", "Rows: remapped, pending, failed", palette.MEMORY)
    return (
        errors(scope, "gpu_ecc_corrected_total", "ECC errors corrected", palette.MEMORY),
        errors(scope, "gpu_ecc_uncorrected_total", "ECC errors not corrected", palette.FAILED),
        replace(
            rows,
            description=queries.describe(
                "gpu_rows_remapped_total", "gpu_row_remap_pending", "gpu_row_remap_failure"
            ),
            targets=(
                Target(
                    expr=scope.series("gpu_rows_remapped_total"),
                    legend=f"{GPU_LEGEND} remapped: {{{{cause}}}}",
                ),
                Target(expr=scope.series("gpu_row_remap_pending"), legend=f"{GPU_LEGEND} pending"),
                Target(expr=scope.series("gpu_row_remap_failure"), legend=f"{GPU_LEGEND} failed"),
            ),
            stepped=True,
        ),
    )


def _activity(scope: Scope) -> tuple[DataPanel, ...]:
    return tuple(
        gauges(scope, name, title, palette.UTILIZATION, width=6)
        for name, title in (
            ("gpu_utilization_ratio", "Utilization"),
            ("gpu_sm_active_ratio", "SMs busy"),
            ("gpu_sm_occupancy_ratio", "SM occupancy"),
            ("gpu_tensor_active_ratio", "Tensor operations"),
        )
    )


def gpu_sections(scope: Scope, recordings: Recordings) -> tuple[Section, ...]:
    """Return the rows of the board, the first of them open."""
    rows = (
        ("power", "Power and energy", _power(scope)),
        ("temperatures", "Temperatures", _temperatures(scope, recordings)),
        ("clocks", "Clocks and clock events", _clocks(scope, recordings)),
        ("activity", "Activity", _activity(scope)),
        ("memory", "Memory", _memory(scope)),
        ("nvlink", "NVLink", _nvlink(recordings)),
        ("errors", "ECC and row remap", _reliability(scope)),
        ("pcie", "PCIe", _pcie(scope)),
    )
    return tuple(
        Section(key=key, title=title, panels=panels, collapsed=place >= _OPEN)
        for place, (key, title, panels) in enumerate(rows)
    )


_OPEN = 4
"""Rows that start open (chosen): what folded ones ask is asked when they are opened."""
