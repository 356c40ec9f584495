"""What the source reads of each simulated platform equals what the captures and nvml.h say, in base units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest

from collector.model import Value
from collector.sources.nvml.options import ReaderOptions
from tests.nvml_node import HINTS, NodeWatch, watch

TIB: Final = 2**40


@dataclass(frozen=True)
class Expected:
    """An idle node. Source: `nvidia-smi -q -x` captures (NVIDIA/k8s-test-infra; H200: nvidia_gpu_exporter).

    Attributes:
        gpus: GPUs of a node.
        memory: MiB in all and reserved.
        clocks: SM and memory clock in MHz.
        limit: Power limit in watts.
        celsius: GPU temperatures that were seen.
        margin_sum: GPU temperature and margin together.
        generation: PCIe generation.
        conditions: Fabric conditions that are reported; all of them deny a fault.
        modules: Superchips of a node.
        nvlink: Generation of NVLink.
    """

    gpus: int
    memory: tuple[int, int]
    clocks: tuple[int, int]
    limit: float
    celsius: tuple[int, int]
    margin_sum: int
    generation: int
    conditions: str
    modules: int
    nvlink: int


ALL_CONDITIONS: Final = (
    "degraded_bandwidth route_recovery route_unhealthy access_timeout incorrect_configuration"
)
PLATFORMS: Final = {
    "gb300-nvl72": Expected(4, (284208, 947), (120, 3996), 1400.0, (38, 39), 87, 6, ALL_CONDITIONS, 2, 5),
    "gb200-nvl72": Expected(
        4,
        (189471, 742),
        (120, 3996),
        1200.0,
        (26, 28),
        87,
        5,
        "degraded_bandwidth route_recovery route_unhealthy access_timeout",  # configuration is N/A
        2,
        5,
    ),
    "hgx-b200": Expected(8, (183359, 728), (120, 3996), 1000.0, (37, 39), 88, 5, "access_timeout", 0, 5),
    "hgx-h200": Expected(8, (143771, 614), (345, 3201), 700.0, (28, 28), 87, 5, "", 0, 4),
    "hgx-h100": Expected(8, (81559, 480), (345, 2619), 700.0, (29, 32), 87, 5, "", 0, 4),
}
EVERY_PLATFORM: Final = pytest.mark.parametrize("platform", list(PLATFORMS))


def read(platform: str, **arguments: object) -> NodeWatch:
    """Return a watched node after two sweeps."""
    node = watch(platform, **arguments)  # type: ignore[arg-type]  # passed on as they are
    node.run(2)
    return node


@EVERY_PLATFORM
def test_idle_node_reads_as_captured(platform: str) -> None:
    expected, node = PLATFORMS[platform], read(platform)
    total, reserved = expected.memory
    assert node.value("node_gpus_present") == expected.gpus
    assert len(node.named("gpu_up")) == expected.gpus
    for gpu in range(expected.gpus):
        plain: dict[str, Value] = {
            "gpu_up": 1,
            "gpu_utilization_ratio": 0.0,
            "gpu_memory_total_bytes": total * 2**20,
            "gpu_memory_reserved_bytes": reserved * 2**20,
            "gpu_memory_used_bytes": 0,
            "gpu_memory_free_bytes": (total - reserved) * 2**20,
            "gpu_power_limit_watts": expected.limit,
            "gpu_sm_clock_hertz": expected.clocks[0] * 1_000_000,
            "gpu_memory_clock_hertz": expected.clocks[1] * 1_000_000,
            "gpu_pcie_generation": expected.generation,
            "gpu_pcie_width_lanes": 16,
            "gpu_pcie_replays_total": 0,
            "gpu_processes": 0,
            "gpu_ecc_corrected_total": 0,
            "gpu_ecc_uncorrected_total": 0,
            "gpu_row_remap_pending": 0,
            "gpu_row_remap_failure": 0,
            "gpu_nvlinks_up": 18,
            "gpu_nvlinks_expected": 18,
            "gpu_nvlink_errors_total": 0,
            "gpu_sm_active_ratio": 0.0,
            "gpu_tensor_active_ratio": 0.0,
            "gpu_pcie_received_bytes_per_second": 0.0,
        }
        assert {name: node.gpu(name, gpu) for name in plain} == plain
        celsius, margin = (
            node.gpu("gpu_temperature_celsius", gpu),
            node.gpu("gpu_temperature_margin_celsius", gpu),
        )
        assert celsius is not None
        assert margin is not None
        assert expected.celsius[0] <= celsius <= expected.celsius[1]
        assert celsius + margin == expected.margin_sum
    assert node.errors == {}


@EVERY_PLATFORM
def test_states(platform: str) -> None:
    node = read(platform)
    assert set(node.active("gpu_fabric_state", 0)) == {"completed"}
    assert set(node.active("gpu_recovery_action", 0)) == {"none"}
    assert set(node.active("gpu_clock_event_active", 0)) == {"gpu_idle"}
    conditions = {
        labels[2]: value for labels, value in node.named("gpu_fabric_condition").items() if labels[0] == "0"
    }
    assert conditions == dict.fromkeys(PLATFORMS[platform].conditions.split(), 0)


@EVERY_PLATFORM
def test_links_are_eighteen_and_never_thirty_six(platform: str) -> None:
    node = read(platform)
    links = {labels[2] for labels in node.named("nvlink_up")}
    assert links == {str(link) for link in range(18)}
    assert len(node.named("nvlink_up")) == 18 * PLATFORMS[platform].gpus
    asked = {scope for call in node.field_calls() for field, scope in call if field == 165}
    assert asked == set(range(18))


@EVERY_PLATFORM
def test_each_generation_of_nvlink_has_its_own_counters(platform: str) -> None:
    node = watch(platform)
    for gpu in node.node.gpus:
        # NVLink 4 counts KiB in 138 and 139, NVLink 5 bytes in 202 and 204 (nvml.h).
        gpu.pin_field(138, 3, 1000)
        gpu.pin_field(139, 3, 2000)
        if PLATFORMS[platform].nvlink == 5:
            gpu.pin_field(202, 3, 5_000_001)
            gpu.pin_field(204, 3, 6_000_001)
            for field in range(206, 213):
                gpu.pin_field(field, 3, field - 200)  # 6 to 12
            gpu.pin_field(213, 3, 21)
            gpu.pin_field(214, 3, 2)
            gpu.pin_field(220, 3, 0xFFF)
            gpu.pin_field(222, 3, 0x30C)
        else:
            for field in (161, 162, 163):
                gpu.pin_field(field, 3, field - 150)  # 11, 12, 13
    node.run(1)
    last = PLATFORMS[platform].gpus - 1
    sent, received = (
        node.gpu("nvlink_transmitted_bytes_total", last, "3"),
        node.gpu("nvlink_received_bytes_total", last, "3"),
    )
    if PLATFORMS[platform].nvlink == 5:
        assert (sent, received) == (5_000_001, 6_000_001)
        assert node.gpu("nvlink_errors_total", last, "3") == 63  # 6 + 7 + 8 + 9 + 10 + 11 + 12
        assert node.gpu("nvlink_recoveries_total", last, "3", "succeeded") == 21
        assert node.gpu("nvlink_recoveries_total", last, "3", "failed") == 2
        assert node.gpu("nvlink_effective_ber_ratio", last, "3") == 0.0
        assert node.gpu("nvlink_symbol_ber_ratio", last, "3") == 3e-12
    else:
        assert (sent, received) == (1_024_000, 2_048_000)
        assert node.gpu("nvlink_errors_total", last, "3") == 36  # 11 + 12 + 13
        assert not node.has("nvlink_recoveries_total")
        assert not node.has("nvlink_effective_ber_ratio")
    # The other 17 links have none.
    assert node.gpu("gpu_nvlink_errors_total", last) == (63 if PLATFORMS[platform].nvlink == 5 else 36)


@EVERY_PLATFORM
def test_pinned_values_come_out_in_base_units(platform: str) -> None:
    node = watch(platform)
    gpu = node.node.gpus[1]
    gpu.pin_power(412_300)  # mW
    gpu.pin_field(185, 2, 86_100)  # mW, memory
    gpu.pin_field(83, 0, 123_456_789_012)  # mJ
    gpu.pin_field(82, 0, 57)  # degrees
    gpu.pin_field(138, 0xFFFFFFFF, 1000)  # KiB, all links
    gpu.pin_field(139, 0xFFFFFFFF, 2000)
    gpu.pin_field(190, 0, 650_000)  # mW
    gpu.pin_field(3, 0, 12)
    gpu.pin_field(4, 0, 1)
    gpu.pin_field(142, 0, 2)
    gpu.pin_field(143, 0, 3)
    gpu.pin_field(144, 0, 1)
    gpu.pin_field(145, 0, 1)
    gpu.pin_field(94, 0, 150)
    gpu.pin_field(230, 0, 4)
    for position, field in enumerate((74, 76, 77, 79)):
        gpu.pin_field(field, 0, 1_500_000_000 + position)  # ns
    node.run(1)
    assert {
        "power": node.gpu("gpu_power_watts", 1),
        "memory power": node.gpu("gpu_memory_power_watts", 1),
        "energy": node.gpu("gpu_energy_joules_total", 1),
        "memory temperature": node.gpu("gpu_memory_temperature_celsius", 1),
        "sent": node.gpu("gpu_nvlink_transmitted_bytes_total", 1),
        "received": node.gpu("gpu_nvlink_received_bytes_total", 1),
        "limit": node.gpu("gpu_power_limit_watts", 1),
        "corrected": node.gpu("gpu_ecc_corrected_total", 1),
        "uncorrected": node.gpu("gpu_ecc_uncorrected_total", 1),
        "correctable rows": node.gpu("gpu_rows_remapped_total", 1, "correctable"),
        "uncorrectable rows": node.gpu("gpu_rows_remapped_total", 1, "uncorrectable"),
        "pending": node.gpu("gpu_row_remap_pending", 1),
        "failure": node.gpu("gpu_row_remap_failure", 1),
        "replays": node.gpu("gpu_pcie_replays_total", 1),
        "power cap": node.gpu("gpu_clock_event_seconds_total", 1, "sw_power_cap"),
        "reliability": node.gpu("gpu_clock_event_seconds_total", 1, "reliability"),
    } == {
        "power": 412.3,
        "memory power": 86.1,
        "energy": 123_456_789.012,
        "memory temperature": 57.0,
        "sent": 1_024_000,
        "received": 2_048_000,
        "limit": 650.0,
        "corrected": 12,
        "uncorrected": 1,
        "correctable rows": 2,
        "uncorrectable rows": 3,
        "pending": 1,
        "failure": 1,
        "replays": 150,
        "power cap": 1.5,
        "reliability": 1.500000003,
    }
    assert node.active("gpu_recovery_action", 1) == ["drain_and_reset"]


@EVERY_PLATFORM
def test_module_power_is_read_once_a_board(platform: str) -> None:
    expected, node = PLATFORMS[platform], watch(platform)
    for gpu in node.node.gpus:
        gpu.pin_field(185, 1, 1_030_000 + gpu.index * 1000)  # mW: each GPU of a module reports the module
        gpu.pin_field(191, 1, 2_000_000 + gpu.index)  # mJ
        if not expected.modules:
            gpu.unpin_field(185, 1)
            gpu.unpin_field(191, 1)
    node.run(1)
    power = node.named("module_power_watts")
    assert len(power) == expected.modules
    assert len(node.named("module_energy_joules_total")) == expected.modules
    if expected.modules:
        serials = [node.node.gpus[gpu].identity.serial for gpu in range(4)]
        assert serials[0] == serials[1] != serials[2] == serials[3]
        # The first GPU of each board answers for it.
        assert power == {(serials[0],): 1030.0, (serials[2],): 1032.0}
        assert node.named("module_energy_joules_total") == {(serials[0],): 2000.0, (serials[2],): 2000.002}


def test_power_falls_back_to_the_instant_where_the_board_has_no_average() -> None:
    node = watch("hgx-h100")
    for gpu in node.node.gpus:
        gpu.pin_field(185, 0, None, code=3)  # NVML_ERROR_NOT_SUPPORTED, as GA100
        gpu.pin_field(186, 0, 398_100)
    node.run(1)
    assert node.gpu("gpu_power_watts", 0) == 398.1
    node.recorder.calls.clear()
    node.run(1)
    asked = {request for call in node.field_calls() for request in call}
    assert (186, 0) in asked
    assert (185, 0) not in asked


def test_core_reads_less() -> None:
    core = read("gb300-nvl72", options=ReaderOptions(platforms=HINTS, level="core"))
    assert not core.has("nvlink_up")
    assert not core.has("gpu_sm_active_ratio")
    assert not core.recorder.named("nvmlGpmSampleGet")
    assert core.gpu("gpu_nvlinks_up", 0) == 18
    assert core.gpu("gpu_nvlink_errors_total", 0) == 0
    per_gpu = [labels for name, labels in core.values if labels[:1] == ("0",) and name.startswith("gpu_")]
    assert len(per_gpu) == 43  # as the catalogue counts, before any Xid


def test_standard_reads_what_the_catalogue_counts() -> None:
    node = read("gb300-nvl72")
    per_gpu = [labels for name, labels in node.values if labels[:1] == ("0",)]
    assert len(per_gpu) == 216


def test_values_agree_with_the_simulated_truth() -> None:
    """Not in idle: the readings follow what the node does."""
    node = watch("gb300-nvl72", workload="training")
    node.run(30)
    truth = node.node.gpus[0]
    now = node.clock.now
    energy = node.gpu("gpu_energy_joules_total", 0)
    assert energy == pytest.approx(truth.energy_joules(now), abs=0.001)
    sent, received = (
        node.gpu("gpu_nvlink_transmitted_bytes_total", 0),
        node.gpu("gpu_nvlink_received_bytes_total", 0),
    )
    assert sent == truth.nvlink_transmitted_bytes(now) // 1024 * 1024  # the driver counts KiB
    assert received == truth.nvlink_received_bytes(now) // 1024 * 1024
    power = node.gpu("gpu_power_watts", 0)
    assert power is not None
    assert 200 < power < 1400
    activity = node.gpu("gpu_sm_active_ratio", 0)
    assert activity is not None
    assert 0.5 < activity <= 0.92  # training: at most 0.92 of the SMs
    assert node.gpu("gpu_processes", 0) == 1
