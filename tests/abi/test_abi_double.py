"""The NVML double answers through pynvml what its table says: other tests and the bench rely on it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.abi.double import build as double
from tests.abi.double.build import BuildError

pytestmark = pytest.mark.needs_program("gcc")

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SUM: Final = "4294967295"  # UINT_MAX as scope: all links

# nvml.h: NVML_SUCCESS and the errors that readers meet.
SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, TIMEOUT = 0, 1, 2, 3, 4, 10
INSUFFICIENT_SIZE: Final = 7

# The functions that NVIDIA's own mock of NVML exports, by prefix, and those that nvitop needs besides.
SYMBOLS: Final = {
    "nvml": "InitWithFlags Init_v2 Shutdown ErrorString EventSetCreate EventSetWait_v2 EventSetFree",
    "nvmlSystem": "GetDriverVersion GetNVMLVersion GetCudaDriverVersion GetConfComputeState "
    "GetConfComputeSettings GetProcessName EventSetCreate RegisterEvents EventSetWait "
    "EventSetFree",
    "nvmlGpm": "QueryDeviceSupport SampleAlloc SampleFree SampleGet MigSampleGet MetricsGet",
    "nvmlDevice": "RegisterEvents WorkloadPowerProfileGetCurrentProfiles IsMigDeviceHandle",
    "nvmlDeviceGet": "Count_v2 HandleByIndex_v2 HandleByUUID HandleByPciBusId_v2 Index Name UUID "
    "Serial PciInfo_v3 "
    "MinorNumber BoardPartNumber VbiosVersion InforomImageVersion InforomVersion "
    "GspFirmwareVersion Architecture CudaComputeCapability ModuleId PlatformInfo Pdi C2cModeInfoV "
    "MaxPcieLinkGeneration MaxPcieLinkWidth MaxClockInfo NvLinkInfo NvLinkRemoteDeviceType "
    "FieldValues UtilizationRates MemoryInfo MemoryInfo_v2 ClockInfo CurrentClocksEventReasons "
    "TemperatureV Temperature MarginTemperature PerformanceState CurrPcieLinkGeneration "
    "CurrPcieLinkWidth ViolationStatus EccMode TotalEccErrors SramEccErrorStatus RemappedRows "
    "RemappedRows_v2 RowRemapperHistogram RepairStatus UnrepairableMemoryFlag_v1 NvLinkState "
    "NvLinkErrorCounter GpuFabricInfoV GpuFabricInfo ComputeRunningProcesses_v3 MigMode "
    "MaxMigDeviceCount MigDeviceHandleByIndex GpuInstanceId PersistenceMode SupportedEventTypes "
    "EncoderUtilization DecoderUtilization PcieThroughput PowerUsage PowerManagementLimit "
    "FanSpeed GraphicsRunningProcesses_v3 MPSComputeRunningProcesses_v3 ProcessUtilization",
}


class Seen:
    """What tests.abi.read_double printed of the last GPU of a node."""

    def __init__(self, printed: str) -> None:
        self.all = json.loads(printed)
        self.before_ns, self.after_ns = self.all["clock_ns"]

    def field(self, key: str) -> tuple[int, int]:
        status, _, word = self.all["fields"][key]
        return status, word

    def assert_counts(self, key: str, start: int, rate: int) -> None:
        """The counter stands between what start and rate gave just before and just after it was read."""
        status, word = self.field(key)
        assert status == SUCCESS
        assert start + rate * self.before_ns // 10**9 <= word <= start + rate * self.after_ns // 10**9


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return double.build(tmp_path_factory.mktemp("double"))


def look(library: Path, **environment: str) -> Seen:
    result = subprocess.run(
        [sys.executable, "-m", "tests.abi.read_double"],
        cwd=REPOSITORY,
        env=os.environ | {"LD_LIBRARY_PATH": str(library.parent)} | environment,
        capture_output=True,
        text=True,
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


def test_exports_every_function_and_nothing_else(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    for prefix, names in SYMBOLS.items():
        for name in names.split():
            assert getattr(loaded, prefix + name), prefix + name
    for internal in ("node", "check", "elapsed", "find_platform"):
        assert not hasattr(loaded, internal)


def test_h100_is_a_node_of_eight(h100: Seen) -> None:
    assert len(set(h100.all["uuids"])) == len(set(h100.all["serials"])) == len(set(h100.all["bus_ids"])) == 8
    assert h100.all["names"] == ["NVIDIA H100 80GB HBM3"]
    assert h100.all["driver"] == "580.105.08"
    assert h100.all["by_uuid"] == 7
    # 81559 MiB in all, 480 MiB reserved, 65543 MiB used by GPU 7.
    assert h100.all["memory"] == [85520809984, 503316480, 16290676736, 68726816768]
    assert (h100.all["temperature"], h100.all["margin"], h100.all["clocks"]) == (65, 22, [1605, 2619])
    assert (h100.all["utilization"], h100.all["processes"]) == (87, 1)


def test_power_by_scope(h100: Seen, gb300: Seen) -> None:
    assert h100.field("185:0") == (SUCCESS, 419300)  # GPU 7: 412300 + 7000 mW
    assert h100.field("186:0") == (SUCCESS, 419550)
    assert h100.field("185:2") == (SUCCESS, 86700)
    assert [h100.field(key)[0] for key in ("186:2", "185:1")] == [NOT_SUPPORTED] * 2
    assert h100.field("185:4")[0] == INVALID_ARGUMENT
    assert gb300.field("185:1") == (SUCCESS, 1040000)  # GPU 3 is on the second superchip
    assert gb300.field("186:1") == (SUCCESS, 1040500)
    assert [gb300.field(key)[1] for key in ("190:0", "190:1")] == [1400000, 2900000]


def test_energy_is_the_power_a_second(h100: Seen, gb300: Seen) -> None:
    h100.assert_counts("83:0", 0, 419300)
    h100.assert_counts("191:0", 0, 419300)
    gb300.assert_counts("191:1", 0, 1040000)
    assert h100.field("191:1")[0] == NOT_SUPPORTED


def test_nvlink_counters_run_at_their_rates(h100: Seen, b200: Seen) -> None:
    h100.assert_counts("138:0", 1000, 1070000)  # KiB, GPU 7
    h100.assert_counts("139:17", 36000, 2071700)
    h100.assert_counts("138:" + SUM, 1000 * 171, 18 * 1070000 + 100 * 153)
    b200.assert_counts("202:3", 4000 * 1024, 1070300 * 1024)  # bytes
    b200.assert_counts("204:3", 8000 * 1024, 2070300 * 1024)


def test_links_from_eighteen_up_do_not_exist(h100: Seen) -> None:
    assert h100.field("91:0") == (SUCCESS, 18)
    assert [h100.field(f"{field}:18")[0] for field in (138, 139, 164, 165, 166)] == [INVALID_ARGUMENT] * 5
    assert h100.field("165:" + SUM)[0] == INVALID_ARGUMENT


def test_nvlink_generations_answer_their_own_counters(h100: Seen, b200: Seen) -> None:
    assert [h100.field("164:0")[1], h100.field("166:0")[1]] == [26562, 6]
    assert [b200.field("164:0")[1], b200.field("166:0")[1]] == [53125, 7]
    assert [h100.field("161:3"), h100.field("163:3")] == [(SUCCESS, 6), (SUCCESS, 8)]
    assert [h100.field(key)[0] for key in ("202:3", "215:3", "220:3", "235:3")] == [NOT_SUPPORTED] * 4
    assert b200.field("161:3")[0] == NOT_SUPPORTED
    assert [b200.field(key)[1] for key in ("215:3", "220:3", "222:3", "235:3")] == [6, 0xFFF, 0x30C, 16]


def test_clock_event_times_have_the_ids_of_the_driver(h100: Seen, b200: Seen) -> None:
    h100.assert_counts("74:0", 0, 1000000)
    h100.assert_counts("77:0", 0, 250000)
    h100.assert_counts("269:0", 0, 500000)
    h100.assert_counts("271:0", 0, 125000)
    assert (h100.field("251:0")[0], b200.field("251:0")[0]) == (NOT_SUPPORTED, NO_PERMISSION)


def test_thresholds_are_signed(h100: Seen, gb300: Seen) -> None:
    assert h100.all["fields"]["193:0"] == [SUCCESS, 5, -8]  # 5: NVML_VALUE_TYPE_SIGNED_INT
    assert gb300.all["fields"]["193:0"] == [SUCCESS, 5, -5]


def test_a_refused_field_leaves_no_plausible_value(h100: Seen) -> None:
    assert h100.field("308:0") == (NOT_SUPPORTED, 0xDEDEDEDE)
    assert [h100.field(key)[0] for key in ("0:0", "310:0")] == [INVALID_ARGUMENT] * 2


def test_platform_and_fabric(h100: Seen, b200: Seen, gb300: Seen) -> None:
    assert h100.all["platform"] == {"nvml_error": NOT_SUPPORTED}
    platform = bytes.fromhex(gb300.all["platform"])
    assert platform[4:12].hex() == "b0cf0e0300fe80c3"  # bytes that are no text
    assert platform[20:33] == b"1820000000001"
    assert list(platform[36:41]) == [25, 15, 1, 1, 3]  # slot, tray, host, peer type, module
    assert list(bytes.fromhex(b200.all["platform"])[36:38]) == [0xFF, 0xFF]
    fabric = gb300.all["fabric"]
    assert (fabric["clique"], fabric["health_mask"], fabric["health_summary"]) == (32766, 0x1AA, 1)
    assert fabric["cluster_uuid"] == "a1b2c3d4000140028003000000000004"
    assert (fabric["raw_state"] & 0xFF, fabric["raw_state"]) == (3, 0xA5A5A503)
    assert (b200.all["fabric"]["health_mask"], h100.all["fabric"]["health_mask"]) == (0x080, 0)


def test_superchips_share_a_serial(gb300: Seen) -> None:
    serials = gb300.all["serials"]
    assert len(serials) == 4
    assert serials[0] == serials[1] != serials[2] == serials[3]


def test_gpm_metrics(h100: Seen, gb300: Seen) -> None:
    metrics = h100.all["gpm"]
    for key, value in {"2": 79.25, "5": 44.125, "10": 52.5, "20": 107.5}.items():
        assert metrics[key] == [0, value]
    assert metrics["60"] == [0, (18 * 2070000 + 100 * 153) / 1024]  # MiB/s: receive comes first
    assert metrics["63"] == [0, 1070000 / 1024]
    assert metrics["100"] == metrics["170"] == [NOT_SUPPORTED]
    assert gb300.all["gpm"]["100"] == [0, 1100.0]


def test_one_xid_and_then_time_outs(h100: Seen, gb300: Seen) -> None:
    assert h100.all["events"] == [{"nvml_error": TIMEOUT}] * 2
    # GPU 0, nvmlEventTypeXidCriticalError, Xid 79, no GPU instance.
    assert gb300.all["events"] == [[0, 8, 79, 0xFFFFFFFF], {"nvml_error": TIMEOUT}]


def test_refusals(h100: Seen) -> None:
    assert h100.all["short_buffer"] == INSUFFICIENT_SIZE
    assert h100.all["fan"] == {"nvml_error": NOT_SUPPORTED}
    assert h100.all["after_shutdown"] == {"nvml_error": UNINITIALIZED}


@pytest.mark.parametrize(
    ("variable", "value"),
    [("RACKWATT_DOUBLE_GPUS", "17"), ("RACKWATT_DOUBLE_GPUS", "x"), ("RACKWATT_DOUBLE_PLATFORM", "a100")],
)
def test_a_wrong_environment_is_named(library: Path, variable: str, value: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        look(library, **{variable: value})
    assert f"{variable}={value}" in caught.value.stderr


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="Debian package gcc"):
        double.build(tmp_path)


def test_a_missing_header_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(double, "HEADER_DISTRIBUTION", "rackwatt-no-such-wheel")
    with pytest.raises(BuildError, match="rackwatt-no-such-wheel is not installed"):
        double.build(tmp_path)


def test_what_gcc_says_is_passed_on(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("#include <nvml.h>\nint unused(void) { int never; return 0; }\n", encoding="ascii")
    with pytest.raises(BuildError, match=r"(?s)wrong\.c.*never"):
        double.compile_c([source], tmp_path / "wrong.o", "-c")
