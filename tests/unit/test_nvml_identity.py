"""Identity of a GPU: texts as bytes, the place in the rack from raw bytes, nothing invented."""

from __future__ import annotations

import struct

import pytest

from collector.sources.nvml.identity import read_changing_identity, read_identity, read_uuid
from collector.sources.nvml.library import GpuLostError, Handle, NvmlLibrary
from tests.scripted_nvml import Function, ScriptedNvml, answer, number, target, text

HANDLE = Handle(0x6400)
TIMEOUT, NOT_SUPPORTED, GPU_IS_LOST, VERSION_MISMATCH = 10, 3, 15, 25  # nvml.h
CLUSTER = bytes.fromhex("a1b2c3d4000140028003000000000004")

# nvmlPlatformInfo_v2_t (nvml.h): version, ibGuid, chassisSerialNumber, slot, tray, host, peer type, module.
_PLATFORM = struct.Struct("<I16s16s5B")


def platform(
    chassis: bytes, slot: int, tray: int, host: int = 1, *, known_version: int = 0x0200002C
) -> Function:
    """Answer with a place, and a GUID that is no text, in one version of the structure."""

    def script(_handle: object, reference: object) -> int:
        buffer = target(reference)
        (version,) = struct.unpack_from("<I", buffer)
        if version != known_version:
            return VERSION_MISMATCH
        _PLATFORM.pack_into(
            buffer, 0, version, b"\xb0\xcf\x0e\x03\x00\xfe\x80\xc3", chassis, slot, tray, host, 1, 3
        )
        return 0

    return script


def fabric(cluster: bytes, clique: int) -> Function:
    def script(_handle: object, reference: object) -> int:
        info = target(reference)
        info.clusterUuid[:] = list(cluster)
        info.cliqueId = clique
        return 0

    return script


def mode(current: int) -> Function:
    def script(_handle: object, reference: object, *_pending: object) -> int:
        target(reference).value = current
        return 0

    return script


def library(**functions: Function) -> NvmlLibrary:
    """Make a GPU of a GB300 tray, as captured, but for what a test says."""
    usual: dict[str, Function] = {
        "nvmlDeviceGetName": text(b"NVIDIA GB300"),
        "nvmlDeviceGetSerial": text(b"1650025001234"),
        "nvmlDeviceGetBoardPartNumber": text(b"900-2G548-0081-000"),
        "nvmlDeviceGetVbiosVersion": text(b"97.10.4A.00.1A"),
        "nvmlDeviceGetInforomImageVersion": text(b"G548.0301.00.03"),
        "nvmlDeviceGetArchitecture": number(10),  # NVML_DEVICE_ARCH_BLACKWELL
        "nvmlDeviceGetModuleId": number(2),
        "nvmlDeviceGetPlatformInfo": platform(b"1820000000001", 25, 15),
        "nvmlDeviceGetGpuFabricInfoV": fabric(CLUSTER, 32766),
        "nvmlDeviceGetEccMode": mode(1),
        "nvmlDeviceGetMigMode": mode(0),
        "nvmlDeviceGetPersistenceMode": mode(1),
    }
    return NvmlLibrary(ScriptedNvml(**(usual | functions)))


def test_a_gpu_of_a_rack() -> None:
    assert read_identity(library(), HANDLE) == {
        "name": "NVIDIA GB300",
        "serial": "1650025001234",
        "board_part": "900-2G548-0081-000",
        "vbios": "97.10.4A.00.1A",
        "inforom": "G548.0301.00.03",
        "pci_bus_id": "",  # the driver of this test has no such function
        "architecture": "Blackwell",
        "module": "2",
        "slot": "25",
        "tray": "15",
        "host": "1",
        "chassis_serial": "1820000000001",
        "cluster_uuid": "a1b2c3d4-0001-4002-8003-000000000004",
        "clique": "32766",
        "ecc_mode": "enabled",
        "mig_mode": "disabled",
        "persistence_mode": "enabled",
    }


def test_pci_bus_id_is_the_long_one() -> None:
    def script(_handle: object, reference: object) -> int:
        # nvmlPciInfo_t: busIdLegacy[16], five numbers, busId[32].
        struct.pack_into(
            "<16s5I32s", target(reference), 0, b"\xff8:06:00.0", 8, 6, 0, 0, 0, b"00000008:06:00.0"
        )
        return 0

    texts = read_identity(library(nvmlDeviceGetPciInfo_v3=script), HANDLE)
    assert texts["pci_bus_id"] == "00000008:06:00.0"


@pytest.mark.parametrize(
    ("answered", "place"),
    [
        # H100: the call is not supported.
        (answer(NOT_SUPPORTED), ("", "", "", "")),
        # B200: the serial is empty, slot and tray are 0xFF; the host alone places nothing.
        (platform(b"", 0xFF, 0xFF), ("", "", "", "")),
        (platform(b"1820000000001", 0xFF, 0), ("", "0", "1", "1820000000001")),
        # 13 digits and three bytes that are no text; all 16 bytes in use, none of them zero.
        (platform(b"1820000000001\x00\xfe\xff", 1, 2), ("1", "2", "1", "1820000000001")),
        (platform(b"0123456789ABCDEF", 200, 128), ("200", "128", "1", "0123456789ABCDEF")),
        (platform(b"18\xff\x0a9", 1, 2), ("1", "2", "1", "18\ufffd\ufffd9")),
        # Drivers before 575 know version 1 alone, the same bytes under other names.
        (platform(b"1820000000001", 25, 15, known_version=0x0100002C), ("25", "15", "1", "1820000000001")),
        (platform(b"1820000000001", 25, 15, known_version=0x0300002C), ("", "", "", "")),
    ],
)
def test_place_in_the_rack(answered: Function, place: tuple[str, str, str, str]) -> None:
    texts = read_identity(library(nvmlDeviceGetPlatformInfo=answered), HANDLE)
    assert (texts["slot"], texts["tray"], texts["host"], texts["chassis_serial"]) == place


@pytest.mark.parametrize(
    ("cluster", "clique", "expected"),
    [
        (CLUSTER, 0, ("a1b2c3d4-0001-4002-8003-000000000004", "0")),
        (bytes(16), 0, ("", "")),  # H100: in no cluster, so its clique 0 is none
        (bytes([255] * 16), 7, ("ffffffff-ffff-ffff-ffff-ffffffffffff", "7")),
    ],
)
def test_nvlink_domain(cluster: bytes, clique: int, expected: tuple[str, str]) -> None:
    texts = read_identity(library(nvmlDeviceGetGpuFabricInfoV=fabric(cluster, clique)), HANDLE)
    assert (texts["cluster_uuid"], texts["clique"]) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"NVIDIA \xffGB300", "NVIDIA \ufffdGB300"),
        (b"NVIDIA\nGB300", "NVIDIA\ufffdGB300"),
        (b"N" * 300, "N" * 128),
        (b"", ""),
    ],
)
def test_texts_of_the_driver_are_bounded_and_harmless(raw: bytes, expected: str) -> None:
    assert read_identity(library(nvmlDeviceGetName=text(raw)), HANDLE)["name"] == expected


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [(9, "Hopper"), (10, "Blackwell"), (77, "77"), (0xFFFFFFFF, "4294967295")],  # NVML_DEVICE_ARCH_*
)
def test_architecture(architecture: int, expected: str) -> None:
    texts = read_identity(library(nvmlDeviceGetArchitecture=number(architecture)), HANDLE)
    assert texts["architecture"] == expected


def test_what_a_driver_does_not_tell_is_empty() -> None:
    texts = read_identity(NvmlLibrary(ScriptedNvml()), HANDLE)
    assert len(texts) == 17
    assert set(texts.values()) == {""}


def test_a_time_out_leaves_what_was_known_and_not_what_is_unsupported() -> None:
    failing = library(
        nvmlDeviceGetMigMode=answer(TIMEOUT),
        nvmlDeviceGetGpuFabricInfoV=answer(TIMEOUT),
        nvmlDeviceGetEccMode=answer(NOT_SUPPORTED),
    )
    assert read_changing_identity(failing, HANDLE) == {"ecc_mode": "", "persistence_mode": "enabled"}
    told = read_identity(failing, HANDLE)
    assert not {"mig_mode", "cluster_uuid", "clique"} & set(told)
    assert (told["ecc_mode"], told["name"]) == ("", "NVIDIA GB300")


def test_a_uuid_that_cannot_be_read_is_empty() -> None:
    assert read_uuid(library(nvmlDeviceGetUUID=answer(TIMEOUT)), HANDLE) == ""
    assert read_uuid(library(nvmlDeviceGetUUID=text(b"GPU-1")), HANDLE) == "GPU-1"


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetName", "nvmlDeviceGetArchitecture", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetMigMode"],
)
def test_lost_gpu_is_raised(function: str) -> None:
    with pytest.raises(GpuLostError):
        read_identity(library(**{function: answer(GPU_IS_LOST)}), HANDLE)
