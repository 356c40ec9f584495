"""The GPUs of a node: what they are, how they do, and what the driver and the fabric say of them."""

from __future__ import annotations

from collections.abc import Iterator

from collector.catalog.checks import CHECK_BY_ID
from dashboards import links, queries, units
from dashboards.boards.fleet_racks import SOME
from dashboards.boards.recordings import Recordings, describe
from dashboards.boards.rows import Column, columns_table
from dashboards.identities import BoardId
from dashboards.panels import (
    ByName,
    CellKind,
    FieldOptions,
    Organize,
    Override,
    Step,
    Table,
    Thresholds,
    ValueText,
    palette,
    table,
)
from dashboards.queries import CLUSTER, Regexp, Scope

GPU = ("rack", "node", "gpu", "gpu_uuid")
_MARGIN = float(CHECK_BY_ID["gpu_temperature_margin"].threshold or 0)
_RUNS_OUT = Thresholds(base=palette.FAILED, steps=(Step(0, palette.DEGRADED), Step(_MARGIN, palette.NEUTRAL)))
"""Colours of a thermal margin: below zero clocks are held down, below the check's threshold it warns."""

_ANSWERS = (ValueText("1", "answers", palette.OK), ValueText("0", "LOST", palette.FAILED))


def _gauge(heading: str, expression: str, colour: palette.Colour) -> Column:
    return Column(
        heading, expression, unit=units.RATIO, decimals=0, cell=CellKind.GAUGE, colour=colour, maximum=1
    )


def _columns(scope: Scope, recordings: Recordings) -> Iterator[Column]:
    def of(name: str) -> str:
        return queries.largest(scope.series(name), *GPU)

    rack, node, gpu = links.cell("rack"), links.cell("node"), links.cell("gpu")
    to_links = (links.to_gpu(BoardId.NVLINK, rack=rack, node=node, gpu=gpu),)
    checks = "rack_node_gpu_impact:checks_failed:sum"
    up, expected = (recordings.by(f"rack_node_gpu:nvlinks_{what}:sum", *GPU) for what in ("up", "expected"))
    yield Column("State", of("gpu_up"), cell=CellKind.COLOURED_TEXT, mappings=_ANSWERS)
    yield Column(
        "Checks: fail, avoid",
        queries.total(recordings.selector(checks, impact=Regexp("avoid|fail")), *GPU),
        cell=CellKind.COLOURED_TEXT,
        thresholds=Thresholds(steps=(Step(1, palette.FAILED),)),
    )
    yield Column(
        "Checks: warn",
        recordings.by(checks, *GPU, impact="warn"),
        cell=CellKind.COLOURED_TEXT,
        thresholds=SOME,
    )
    yield _gauge("Utilization", of("gpu_utilization_ratio"), palette.UTILIZATION)
    yield Column("Power", of("gpu_power_watts"), unit=queries.unit("gpu_power_watts"))
    yield _gauge(
        "Power of limit", f"{of('gpu_power_watts')} / ({of('gpu_power_limit_watts')} > 0)", palette.POWER
    )
    yield Column(
        "Margin",
        recordings.by("rack_node_gpu:temperature_margin_celsius:min", *GPU),
        unit=units.CELSIUS,
        cell=CellKind.COLOURED_TEXT,
        thresholds=_RUNS_OUT,
    )
    yield _gauge(
        "Memory used",
        f"{of('gpu_memory_used_bytes')} / ({of('gpu_memory_total_bytes')} > 0)",
        palette.MEMORY,
    )
    yield Column("NVLinks up", up, links=to_links)
    yield Column(
        "NVLinks down",
        f"{expected} - {up}",
        cell=CellKind.COLOURED_TEXT,
        thresholds=SOME,
        links=to_links,
    )
    yield Column("Processes", of("gpu_processes"))


def gpu_table(scope: Scope, recordings: Recordings) -> Table:
    """List the GPUs with their state and load."""
    place = queries.largest(scope.series("gpu_info", slot=Regexp(".+")), *GPU, "slot", "tray", "module")
    return columns_table(
        key="gpus",
        title="GPUs",
        description=queries.describe(
            "gpu_up",
            "gpu_utilization_ratio",
            "gpu_power_watts",
            "gpu_power_limit_watts",
            "gpu_memory_used_bytes",
            "gpu_memory_total_bytes",
            "gpu_processes",
            note="Every GPU that the agent knows, lost ones included. What a GPU does not tell is blank.",
        )
        + "\n\n"
        + describe(
            "rack_node_gpu_impact:checks_failed:sum",
            "rack_node_gpu:temperature_margin_celsius:min",
            "rack_node_gpu:nvlinks_up:sum",
            "rack_node_gpu:nvlinks_expected:sum",
        ),
        width=24,
        height=8,
        labels=(("rack", "Rack"), ("node", "Node"), ("gpu", "GPU")),
        columns=tuple(_columns(scope, recordings)),
        further=(table(place, ref_id="PLACE"),),
        further_labels=(("slot", "Slot"), ("tray", "Tray"), ("module", "Module")),
        dropped=("gpu_uuid",),
        links={
            "Rack": (links.to_rack(source=links.cell("rack")),),
            "GPU": (links.to_gpu(rack=links.cell("rack"), node=links.cell("node"), gpu=links.cell("gpu")),),
        },
    )


def _info(
    scope: Scope, name: str, *, key: str, title: str, columns: tuple[tuple[str, str], ...], height: int
) -> Table:
    """List the texts that an info metric carries."""
    labels = tuple(label for label, _ in columns)
    return Table(
        key=key,
        title=title,
        description=queries.describe(name),
        width=24,
        height=height,
        targets=(table(queries.largest(scope.series(name), *labels)),),
        transformations=(Organize((*columns, (CLUSTER, "Cluster")), dropped=("Time", "Value")),),
        fields=FieldOptions(unit=units.NONE),
        overrides=(
            Override(fields=ByName("Rack"), links=(links.to_rack(source=links.cell("rack")),)),
            Override(
                fields=ByName("Simulated"),
                mappings=(ValueText("true", "SIMULATED", palette.MAINTENANCE), ValueText("false", "no")),
                cell=CellKind.COLOURED_TEXT,
            ),
        ),
    )


def node_identity(scope: Scope) -> Table:
    """List the nodes with host, platform and versions."""
    return _info(
        scope,
        "node_info",
        key="node-identity",
        title="Identity and versions of the nodes",
        height=5,
        columns=(
            ("rack", "Rack"),
            ("node", "Node"),
            ("hostname", "Host"),
            ("platform", "Platform"),
            ("driver_version", "Driver"),
            ("cuda_version", "CUDA"),
            ("kernel", "Kernel"),
            ("agent_version", "Agent"),
            ("simulated", "Simulated"),
        ),
    )


def gpu_identity(scope: Scope) -> Table:
    """List the GPUs with serial, firmware and place."""
    return _info(
        scope,
        "gpu_info",
        key="gpu-identity",
        title="Identity and firmware of the GPUs",
        height=7,
        columns=(
            ("rack", "Rack"),
            ("node", "Node"),
            ("gpu", "GPU"),
            ("name", "Product"),
            ("serial", "Serial"),
            ("slot", "Slot"),
            ("tray", "Tray"),
            ("module", "Module"),
            ("vbios", "VBIOS"),
            ("inforom", "InfoROM"),
            ("pci_bus_id", "PCI bus"),
            ("chassis_serial", "Chassis"),
            ("clique", "Clique"),
            ("ecc_mode", "ECC"),
            ("mig_mode", "MIG"),
            ("persistence_mode", "Persistence"),
            ("gpu_uuid", "UUID"),
        ),
    )
