"""Who a GPU is: product, firmware, place, NVLink domain, modes; all texts of `gpu_info`."""

from __future__ import annotations

import ctypes
import struct

import pynvml

from collector.sources.nvml.decode import cluster_uuid, text
from collector.sources.nvml.library import Handle, NvmlLibrary, raise_if_gone

_BUFFER_BYTES = 128
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""`NVML_DEVICE_ARCH_*` (nvml.h)."""

_PLATFORM_INFO = struct.Struct("=I16s16sBBBBB")
"""`nvmlPlatformInfo_v2_t`: version, ibGuid, chassisSerialNumber, slotNumber, trayIndex, hostId, peerType,
moduleId (nvml.h). Read as bytes: pynvml declares them as text and fails on a byte above 0x7F."""
_UNKNOWN_BYTE = 0xFF

_TEXT_FUNCTIONS = {
    "name": "nvmlDeviceGetName",
    "serial": "nvmlDeviceGetSerial",
    "board_part": "nvmlDeviceGetBoardPartNumber",
    "vbios": "nvmlDeviceGetVbiosVersion",
    "inforom": "nvmlDeviceGetInforomImageVersion",
}
_ON_OFF = {0: "disabled", 1: "enabled"}


def read_text(library: NvmlLibrary, function: str, handle: Handle) -> str:
    """Call a function that fills a text buffer; empty where the GPU has no such text."""
    buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    code = library.call(function, handle, buffer, _BUFFER_BYTES)
    raise_if_gone(code, function)
    return text(buffer.raw) if code == pynvml.NVML_SUCCESS else ""


def read_identity(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    """Read every text of `gpu_info`.

    Returns:
        Label to text; empty where hardware or driver does not tell.

    Raises:
        GpuLostError: The GPU does not answer any more.
        NvmlUnavailableError: NVML does not.
    """
    texts = {label: read_text(library, function, handle) for label, function in _TEXT_FUNCTIONS.items()}
    texts["pci_bus_id"] = _pci_bus_id(library, handle)
    texts["architecture"] = _architecture(library, handle)
    texts["module"] = _number(library, "nvmlDeviceGetModuleId", handle)
    texts |= _platform(library, handle)
    return texts | read_changing_identity(library, handle)


def read_changing_identity(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    """Read the texts that can change while the driver runs: NVLink domain and modes."""
    return {
        **_fabric(library, handle),
        "ecc_mode": _mode(library, "nvmlDeviceGetEccMode", handle, pending=True),
        "mig_mode": _mode(library, "nvmlDeviceGetMigMode", handle, pending=True),
        "persistence_mode": _mode(library, "nvmlDeviceGetPersistenceMode", handle, pending=False),
    }


def _pci_bus_id(library: NvmlLibrary, handle: Handle) -> str:
    info = pynvml.nvmlPciInfo_t()
    code = library.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(info))
    raise_if_gone(code, "nvmlDeviceGetPciInfo_v3")
    if code != pynvml.NVML_SUCCESS:
        return ""
    # By its bytes: pynvml's structures decode text themselves, and raise on bytes that are no UTF-8.
    return text(bytes(info)[pynvml.nvmlPciInfo_t.busId.offset :])


def _unsigned(library: NvmlLibrary, function: str, handle: Handle) -> int | None:
    out = ctypes.c_uint()
    code = library.call(function, handle, ctypes.byref(out))
    raise_if_gone(code, function)
    return out.value if code == pynvml.NVML_SUCCESS else None


def _number(library: NvmlLibrary, function: str, handle: Handle) -> str:
    value = _unsigned(library, function, handle)
    return "" if value is None else str(value)


def _architecture(library: NvmlLibrary, handle: Handle) -> str:
    value = _unsigned(library, "nvmlDeviceGetArchitecture", handle)
    return "" if value is None else _ARCHITECTURES.get(value, str(value))


def _platform(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    """Read the place in the rack; a byte of 0xFF, or no chassis serial, means that there is none."""
    nothing = {"slot": "", "tray": "", "host": "", "chassis_serial": ""}
    buffer = ctypes.create_string_buffer(_PLATFORM_INFO.size)
    struct.pack_into("=I", buffer, 0, pynvml.nvmlPlatformInfo_v2)
    code = library.call("nvmlDeviceGetPlatformInfo", handle, ctypes.byref(buffer))
    raise_if_gone(code, "nvmlDeviceGetPlatformInfo")
    if code != pynvml.NVML_SUCCESS:
        return nothing
    _, _, chassis, slot, tray, host, _, _ = _PLATFORM_INFO.unpack(buffer.raw)
    chassis_serial = text(chassis)
    if not chassis_serial:
        return nothing
    places = {"slot": slot, "tray": tray, "host": host}
    return {name: "" if value == _UNKNOWN_BYTE else str(value) for name, value in places.items()} | {
        "chassis_serial": chassis_serial
    }


def _fabric(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    info.version = pynvml.nvmlGpuFabricInfo_v3
    code = library.call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    raise_if_gone(code, "nvmlDeviceGetGpuFabricInfoV")
    cluster = cluster_uuid(bytes(info.clusterUuid)) if code == pynvml.NVML_SUCCESS else ""
    # A clique has a meaning within its cluster only; outside one the driver reports 0.
    return {"cluster_uuid": cluster, "clique": str(info.cliqueId) if cluster else ""}


def _mode(library: NvmlLibrary, function: str, handle: Handle, *, pending: bool) -> str:
    current = ctypes.c_uint()
    arguments = [ctypes.byref(current)]
    if pending:
        arguments.append(ctypes.byref(ctypes.c_uint()))
    code = library.call(function, handle, *arguments)
    raise_if_gone(code, function)
    return _ON_OFF.get(current.value, str(current.value)) if code == pynvml.NVML_SUCCESS else ""
