"""The shipped source over a C library compiled against NVIDIA's own header: layouts, widths and units."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import pynvml
import pytest

from collector.model import Value
from collector.readings import Layout, Reading, SeriesKey
from collector.sources.nvml.library import FUNCTIONS, Handle, NvmlLibrary
from tests.abi.double import build as double

pytestmark = pytest.mark.needs_program("gcc")

REPOSITORY: Final = Path(__file__).resolve().parents[2]
KIB: Final = 1024
LINKS: Final = 18

# What the double answers stands in the table at the top of tests/abi/double/nvml_double.c: power in mW,
# energy in mJ, NVLink in KiB or bytes, times in ns, GPM in percent and MiB/s. i is the GPU, l the link.


class Seen:
    """What tests.abi.read_source printed, after its second step."""

    def __init__(self, printed: bytes) -> None:
        decoded = msgspec.json.decode(printed, type=tuple[int, int, list[Layout | Reading]])
        self.before_ns, self.after_ns, messages = decoded
        first, *readings = messages
        assert isinstance(first, Layout)
        self.layout = first
        self.values: dict[SeriesKey, Value | None] = {}
        self.readings: list[Reading] = []
        for reading in readings:
            assert isinstance(reading, Reading)
            assert reading.up
            assert reading.generation == first.generation
            self.readings.append(reading)
            for batch in reading.batches:
                self.values |= dict(zip(first.blocks[batch.block].series, batch.values, strict=True))

    def uuid(self, gpu: int) -> str:
        return f"GPU-{0xA0000000 + gpu:08x}-d0b1-4e00-8000-{gpu + 1:012x}"

    def gpu(self, name: str, gpu: int, *labels: str) -> Value | None:
        return self.values[name, (str(gpu), self.uuid(gpu), *labels)]

    def active(self, name: str, gpu: int) -> list[str]:
        return [
            labels[2]
            for (key, labels), value in self.values.items()
            if key == name and labels[0] == str(gpu) and value
        ]

    def assert_counts(self, value: Value | None, start: float, rate: float) -> None:
        """The counter is between its values before and after the second step, to a unit of the driver."""
        assert value is not None
        low, high = (start + rate * instant / 10**9 for instant in (self.before_ns, self.after_ns))
        slack = 1024.0 if rate > 10**6 else 0.001
        assert low - slack <= value <= high + slack


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return double.build(tmp_path_factory.mktemp("double"))


def look(library: Path, **environment: str) -> Seen:
    result = subprocess.run(
        [sys.executable, "-m", "tests.abi.read_source"],
        cwd=REPOSITORY,
        env=os.environ | {"LD_LIBRARY_PATH": str(library.parent)} | environment,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return Seen(result.stdout)


@pytest.fixture(scope="module")
def h100(library: Path) -> Seen:
    return look(library)


@pytest.fixture(scope="module")
def b200(library: Path) -> Seen:
    return look(library, RACKWATT_DOUBLE_PLATFORM="b200")


@pytest.fixture(scope="module")
def gb300(library: Path) -> Seen:
    return look(library, RACKWATT_DOUBLE_PLATFORM="gb300", RACKWATT_DOUBLE_XID="79")


def test_h100_last_gpu(h100: Seen) -> None:
    expected: dict[str, Value] = {
        "gpu_up": 1,
        "gpu_power_watts": 419.3,  # 412300 + 7000 mW
        "gpu_memory_power_watts": 86.7,  # 86000 + 700 mW
        "gpu_power_limit_watts": 700.0,
        "gpu_utilization_ratio": 0.87,  # 80 + 7 %
        "gpu_memory_total_bytes": 85_520_809_984,  # 81559 MiB
        "gpu_memory_reserved_bytes": 503_316_480,  # 480 MiB
        "gpu_memory_used_bytes": 68_726_816_768,  # 65536 + 7 MiB
        "gpu_memory_free_bytes": 16_290_676_736,  # the rest
        "gpu_sm_clock_hertz": 1_605_000_000,  # 1500 + 105 MHz
        "gpu_memory_clock_hertz": 2_619_000_000,
        "gpu_temperature_celsius": 65.0,  # 58 + 7
        "gpu_memory_temperature_celsius": 55.0,  # 48 + 7
        "gpu_temperature_margin_celsius": 22.0,  # 29 - 7
        "gpu_ecc_corrected_total": 19,  # 12 + 7
        "gpu_ecc_uncorrected_total": 0,
        "gpu_row_remap_pending": 0,
        "gpu_row_remap_failure": 0,
        "gpu_nvlinks_up": 18,
        "gpu_nvlinks_expected": 18,
        "gpu_nvlink_errors_total": 468,  # (3 + l) + 1 + (5 + l) over 18 links
        "gpu_pcie_generation": 5,
        "gpu_pcie_width_lanes": 16,
        "gpu_processes": 1,
        "gpu_sm_active_ratio": 0.7925,  # 72.25 + 7 %
        "gpu_sm_occupancy_ratio": 0.315,
        "gpu_tensor_active_ratio": 0.44125,
        "gpu_memory_bandwidth_ratio": 0.525,
        "gpu_pcie_transmitted_bytes_per_second": 112_721_920.0,  # 107.5 MiB/s
        "gpu_pcie_received_bytes_per_second": 217_317_376.0,  # 207.25 MiB/s
    }
    assert {name: h100.gpu(name, 7) for name in expected} == expected
    assert h100.gpu("gpu_rows_remapped_total", 7, "correctable") == 9  # 2 + 7
    assert h100.gpu("gpu_rows_remapped_total", 7, "uncorrectable") == 1
    assert h100.values["node_gpus_present", ()] == 8


def test_h100_counters_run_at_their_rates(h100: Seen) -> None:
    h100.assert_counts(h100.gpu("gpu_energy_joules_total", 7), 0, 419.3)
    replays = h100.gpu("gpu_pcie_replays_total", 7)  # 150 + 7, and one a second; read in the first step
    assert replays is not None
    assert 157 + h100.before_ns / 10**9 - 30 < replays <= 157 + h100.before_ns / 10**9
    h100.assert_counts(h100.gpu("gpu_clock_event_seconds_total", 7, "sw_power_cap"), 0, 0.001)
    h100.assert_counts(h100.gpu("gpu_clock_event_seconds_total", 7, "sw_thermal_slowdown"), 0, 0.0005)
    h100.assert_counts(h100.gpu("gpu_clock_event_seconds_total", 7, "board_limit"), 0, 0.00025)
    h100.assert_counts(h100.gpu("gpu_clock_event_seconds_total", 7, "hw_power_brake"), 0, 0.000125)
    for reason in ("sync_boost", "reliability", "hw_thermal_slowdown"):
        assert h100.gpu("gpu_clock_event_seconds_total", 7, reason) == 0.0


def test_h100_traffic_in_kibibytes(h100: Seen) -> None:
    links = KIB * (18 * 1_070_000 + 100 * 153)
    h100.assert_counts(h100.gpu("gpu_nvlink_transmitted_bytes_total", 7), KIB * 171_000, links)
    links = KIB * (18 * 2_070_000 + 100 * 153)
    h100.assert_counts(h100.gpu("gpu_nvlink_received_bytes_total", 7), KIB * 342_000, links)
    # Links are read in the first step: before the second, and no more than a few seconds.
    sent = h100.gpu("nvlink_transmitted_bytes_total", 7, "17")
    assert sent is not None
    assert sent % KIB == 0
    rate = KIB * 1_071_700
    at_the_second = KIB * 18_000 + rate * h100.before_ns / 10**9
    assert at_the_second - 30 * rate < sent < at_the_second


def test_h100_errors_of_a_link(h100: Seen) -> None:
    assert h100.gpu("nvlink_errors_total", 7, "3") == 15  # 6 + 1 + 8
    assert not any(name == "nvlink_recoveries_total" for name, _ in h100.values)
    assert not any(name.startswith("module_") for name, _ in h100.values)
    assert {labels[2] for name, labels in h100.values if name == "nvlink_up"} == {
        str(link) for link in range(LINKS)
    }


def test_h100_states(h100: Seen) -> None:
    assert h100.active("gpu_clock_event_active", 7) == ["sw_power_cap"]  # on odd i
    assert h100.active("gpu_clock_event_active", 6) == []
    assert h100.active("gpu_recovery_action", 7) == ["none"]
    assert h100.active("gpu_fabric_state", 7) == ["completed"]  # though the padding behind it is 0xA5
    assert not any(name == "gpu_fabric_condition" for name, _ in h100.values)


def test_h100_identity(h100: Seen) -> None:
    assert (h100.layout.driver_version, h100.layout.cuda_version) == ("580.105.08", "13.0")
    assert [gpu.uuid for gpu in h100.layout.gpus] == [h100.uuid(gpu) for gpu in range(8)]
    assert h100.layout.gpus[7].texts == {
        "name": "NVIDIA H100 80GB HBM3",
        "serial": "1650000000008",
        "board_part": "692-2G520-0200-000",
        "vbios": "96.00.99.00.01",
        "inforom": "G520.0200.00.05",
        "pci_bus_id": "00000000:CA:00.0",
        "module": "2",
        "slot": "",
        "tray": "",
        "host": "",
        "chassis_serial": "",
        "cluster_uuid": "",
        "clique": "",
        "architecture": "Hopper",
        "ecc_mode": "enabled",
        "mig_mode": "disabled",
        "persistence_mode": "enabled",
    }


def test_gb300_place_and_domain(gb300: Seen) -> None:
    texts = gb300.layout.gpus[3].texts
    labels = ("slot", "tray", "host", "chassis_serial", "module", "clique", "architecture", "pci_bus_id")
    assert [texts[label] for label in labels] == [
        "25",
        "15",
        "1",
        "1820000000001",
        "3",
        "32766",
        "Blackwell",
        "00000019:06:00.0",
    ]
    assert texts["cluster_uuid"] == "a1b2c3d4-0001-4002-8003-000000000004"


def test_gb300_modules_once_a_board(gb300: Seen) -> None:
    power = {labels: value for (name, labels), value in gb300.values.items() if name == "module_power_watts"}
    assert power == {("1650000000001",): 1030.0, ("1650000000002",): 1040.0}
    energy = gb300.values["module_energy_joules_total", ("1650000000002",)]
    gb300.assert_counts(energy, 0, 1040.0)


def test_gb300_links(gb300: Seen) -> None:
    assert gb300.gpu("nvlink_errors_total", 3, "3") == 28  # 1 + 2 + 3 + 4 + 5 + 6 + 7
    assert gb300.gpu("gpu_nvlink_errors_total", 3) == 504  # 18 x 28
    assert gb300.gpu("nvlink_recoveries_total", 3, "3", "succeeded") == 5  # 2 + 3
    assert gb300.gpu("nvlink_recoveries_total", 3, "3", "failed") == 1
    assert gb300.gpu("nvlink_effective_ber_ratio", 3, "3") == 0.0  # 0xFFF
    assert gb300.gpu("nvlink_symbol_ber_ratio", 3, "3") == 3e-12  # 0x30C
    received = gb300.gpu("nvlink_received_bytes_total", 3, "3")  # field 204, in bytes
    assert received is not None
    rate = KIB * 2_030_300
    at_the_second = KIB * 8_000 + rate * gb300.before_ns / 10**9
    assert at_the_second - 30 * rate < received < at_the_second


def test_gb300_fabric(gb300: Seen, b200: Seen) -> None:
    conditions = {
        labels[2]: value
        for (name, labels), value in gb300.values.items()
        if name == "gpu_fabric_condition" and labels[0] == "3"
    }
    assert conditions == {
        "degraded_bandwidth": 0,
        "route_recovery": 0,
        "route_unhealthy": 0,
        "access_timeout": 0,
        "incorrect_configuration": 0,
    }
    assert {labels[2] for name, labels in b200.values if name == "gpu_fabric_condition"} == {"access_timeout"}


def test_b200_has_no_place(b200: Seen) -> None:
    texts = b200.layout.gpus[0].texts
    assert [texts[label] for label in ("slot", "tray", "host", "chassis_serial", "clique")] == [""] * 5
    assert not any(name.startswith("module_") for name, _ in b200.values)
    assert b200.gpu("nvlink_errors_total", 7, "0") == 28


def test_one_xid(gb300: Seen, h100: Seen) -> None:
    seen = [incident for reading in gb300.readings for incident in reading.incidents]
    assert [(each.kind, each.gpu_uuid, each.code) for each in seen] == [("xid", gb300.uuid(0), 79)]
    assert [incident for reading in h100.readings for incident in reading.incidents] == []


@pytest.mark.parametrize("platform", ["h100", "b200", "gb300"])
def test_nothing_fails(platform: str, request: pytest.FixtureRequest) -> None:
    seen: Seen = request.getfixturevalue(platform)
    assert [reading.errors for reading in seen.readings] == [{}, {}]
    assert [key for key, value in seen.values.items() if value is None] == []


def test_every_function_exists_in_the_library(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    assert [name for name in FUNCTIONS if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_structure_cannot_be_passed_by_value(library: Path, function: str) -> None:
    """By value it would be taken for an address: that has crashed pynvml's users (facts, trap T2)."""
    nvml = NvmlLibrary(ctypes.CDLL(str(library)))
    for position in range(len(FUNCTIONS[function])):
        arguments: list[object] = [plain(kind) for kind in FUNCTIONS[function]]
        arguments[position] = pynvml.c_nvmlPlatformInfo_v2_t()
        with pytest.raises(ctypes.ArgumentError, match=f"argument {position + 1}"):
            nvml.call(function, *arguments)


def plain(kind: object) -> object:
    """Return an argument that C takes for a kind of parameter: nothing, or zero."""
    if kind in (ctypes.c_uint, ctypes.c_int, ctypes.c_ulonglong):
        return 0
    return Handle() if kind is ctypes.c_void_p else None


def test_too_few_arguments_are_refused(library: Path) -> None:
    nvml = NvmlLibrary(ctypes.CDLL(str(library)))
    with pytest.raises(TypeError, match="takes at least 2 arguments"):
        nvml.call("nvmlDeviceGetPlatformInfo", Handle())
