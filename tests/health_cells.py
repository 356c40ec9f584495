"""A node's values for checks: healthy ones of one GPU or several, and what a test changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.catalog import BY_NAME
from collector.health.evaluate import Checker, GpuName
from collector.model import CheckResult, Series, SeriesTable, Value

BEGIN_NS = 1_764_504_000_000_000_000
"""2025-11-30 12:00:00 UTC."""
SECOND_NS = 1_000_000_000

Place = tuple[str, ...]
"""Metric, then link where it has one, then the value of its own label where it has one."""

INFO = dict.fromkeys(BY_NAME["gpu_info"].info_labels, "") | {
    "name": "NVIDIA GB300",
    "persistence_mode": "enabled",
}

HEALTHY: Mapping[Place, Value] = {
    ("gpu_up",): 1,
    ("gpu_utilization_ratio",): 0.9,
    ("gpu_energy_joules_total",): 1000.0,
    ("gpu_memory_temperature_celsius",): 60.0,
    ("gpu_temperature_margin_celsius",): 40.0,
    ("gpu_clock_event_active", "hw_slowdown"): 0,
    ("gpu_clock_event_active", "hw_thermal_slowdown"): 0,
    ("gpu_clock_event_active", "hw_power_brake"): 0,
    ("gpu_pcie_generation",): 5,
    ("gpu_pcie_width_lanes",): 16,
    ("gpu_pcie_replays_total",): 0,
    ("gpu_ecc_corrected_total",): 0,
    ("gpu_ecc_uncorrected_total",): 0,
    ("gpu_row_remap_pending",): 0,
    ("gpu_row_remap_failure",): 0,
    ("gpu_rows_remapped_total", "uncorrectable"): 0,
    ("gpu_recovery_action", "none"): 1,
    ("gpu_recovery_action", "gpu_reset"): 0,
    ("gpu_recovery_action", "node_reboot"): 0,
    ("gpu_recovery_action", "drain_p2p"): 0,
    ("gpu_fabric_state", "not_supported"): 0,
    ("gpu_fabric_state", "not_started"): 0,
    ("gpu_fabric_state", "in_progress"): 0,
    ("gpu_fabric_state", "completed"): 1,
    ("gpu_fabric_condition", "degraded_bandwidth"): 0,
    ("gpu_fabric_condition", "route_recovery"): 0,
    ("gpu_fabric_condition", "route_unhealthy"): 0,
    ("gpu_fabric_condition", "access_timeout"): 0,
    ("gpu_fabric_condition", "incorrect_configuration"): 0,
    ("gpu_nvlinks_up",): 2,
    ("gpu_nvlinks_expected",): 2,
    ("gpu_nvlink_errors_total",): 0,
    **{("nvlink_up", link): 1 for link in "01"},
    **{("nvlink_errors_total", link): 0 for link in "01"},
    **{("nvlink_recoveries_total", link, "failed"): 0 for link in "01"},
    **{("nvlink_effective_ber_ratio", link): 0.0 for link in "01"},
    **{("nvlink_symbol_ber_ratio", link): 0.0 for link in "01"},
}
"""A GPU with two links, of which every check can be evaluated and passes."""


@dataclass
class Node:
    """A node whose values a test changes between evaluations.

    Attributes:
        gpus: Values of each GPU.
        texts: Texts of each GPU, as in `gpu_info`.
        node: Values of the node.
    """

    gpus: list[dict[Place, Value | None]] = field(default_factory=lambda: [dict(HEALTHY)])
    texts: list[dict[str, str]] = field(default_factory=lambda: [dict(INFO)])
    node: dict[str, Value | None] = field(
        default_factory=lambda: {"node_gpus_present": 1, "node_gpus_expected": 1}
    )
    checker: Checker = field(default_factory=Checker)
    now_ns: int = BEGIN_NS
    results: tuple[CheckResult, ...] = ()

    @classmethod
    def of(cls, count: int, checker: Checker | None = None) -> Node:
        """Make a node of so many healthy GPUs."""
        return cls(
            gpus=[dict(HEALTHY) for _ in range(count)],
            texts=[dict(INFO) for _ in range(count)],
            node={"node_gpus_present": count, "node_gpus_expected": count},
            checker=checker or Checker(),
        )

    def evaluate(self, seconds: float = 1.0, *, down: str = "") -> Node:
        """Let time pass, and evaluate."""
        self.now_ns += int(seconds * SECOND_NS)
        rows = [
            (Series(BY_NAME[place[0]], (str(index), uuid(index), *place[1:])), value)
            for index, gpu in enumerate(self.gpus)
            for place, value in gpu.items()
        ]
        rows += [
            (Series(BY_NAME["gpu_info"], (str(index), uuid(index), *texts.values())), 1)
            for index, texts in enumerate(self.texts)
            if self.gpus[index].get(("gpu_up",)) == 1
        ]
        rows += [(Series(BY_NAME[name]), value) for name, value in self.node.items()]
        table = SeriesTable(tuple(series for series, _ in rows))
        values = [value for _, value in rows]
        self.results = self.checker.evaluate(table, values, now_ns=self.now_ns, down=down)
        return self

    def result(self, check: str, gpu: int | None = 0) -> CheckResult | None:
        """Return what is said of a check; None if it passed or is not supported."""
        own = uuid(gpu) if gpu is not None else ""
        return next((each for each in self.results if (each.check, each.gpu_uuid) == (check, own)), None)

    def exported(self, check: str, gpu: int | None = 0) -> Value | None:
        """Return the value of a check's series."""
        own = uuid(gpu) if gpu is not None else ""
        names = [GpuName(str(index), uuid(index)) for index in range(len(self.gpus))]
        for series, value in self.checker.rows(names):
            found = series.labels[1:3] if len(series.labels) == 4 else ("", series.labels[0])
            if tuple(found) == (own, check):
                return value
        raise LookupError(check)


def uuid(index: int) -> str:
    """Identity of a GPU of the node."""
    return f"GPU-{index}"
