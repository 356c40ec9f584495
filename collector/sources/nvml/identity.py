"""Who a GPU is: product, firmware, place, NVLink domain, modes; all texts of `gpu_info`."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Callable, Iterable

import pynvml

from collector.sources.nvml.decode import cluster_uuid, text
from collector.sources.nvml.fabric import FabricInfo
from collector.sources.nvml.library import UNSUPPORTED, Handle, NvmlLibrary, raise_if_gone

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
_PLATFORM_INFO_VERSIONS = (pynvml.nvmlPlatformInfo_v2, pynvml.nvmlPlatformInfo_v1)
"""They differ in the names of their members only (nvml.h); drivers before 575 know the first alone."""
_UNKNOWN_BYTE = 0xFF

_ON_OFF = {0: "disabled", 1: "enabled"}
_TELLING = UNSUPPORTED | {pynvml.NVML_ERROR_NO_PERMISSION}
"""Refusals that stay until something changes: there is no such text."""


class _SilentError(Exception):
    """A call failed in a way that says nothing of the text, such as a time-out."""


def read_uuid(library: NvmlLibrary, handle: Handle) -> str:
    """Read a GPU's UUID; empty while it cannot be read.

    Raises:
        GpuLostError: The GPU does not answer any more.
        NvmlUnavailableError: NVML does not.
    """
    try:
        return _text(library, "nvmlDeviceGetUUID", handle)
    except _SilentError:
        return ""


def read_identity(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    """Read every text of `gpu_info`.

    Returns:
        Label to text, empty where hardware or driver has none; without those whose reading failed in a way
        that says nothing of them.

    Raises:
        GpuLostError: The GPU does not answer any more.
        NvmlUnavailableError: NVML does not.
    """
    return _read(library, handle, _LASTING) | read_changing_identity(library, handle)


def read_changing_identity(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    """Read the texts that can change while the driver runs: NVLink domain and modes.

    Returns:
        As `read_identity`.

    Raises:
        GpuLostError: The GPU does not answer any more.
        NvmlUnavailableError: NVML does not.
    """
    return _read(library, handle, _CHANGING)


_Reader = Callable[[NvmlLibrary, Handle], dict[str, str]]


def _read(library: NvmlLibrary, handle: Handle, readers: Iterable[_Reader]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for reader in readers:
        with contextlib.suppress(_SilentError):
            texts |= reader(library, handle)
    return texts


def _answers(library: NvmlLibrary, function: str, handle: Handle, *arguments: object) -> bool:
    """Call a function; tell whether it has an answer."""
    code = library.call(function, handle, *arguments)
    raise_if_gone(code, function)
    if code == pynvml.NVML_SUCCESS:
        return True
    if code not in _TELLING:
        raise _SilentError
    return False


def _text(library: NvmlLibrary, function: str, handle: Handle) -> str:
    buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    answered = _answers(library, function, handle, buffer, _BUFFER_BYTES)
    return text(buffer.raw) if answered else ""


def _text_of(label: str, function: str) -> _Reader:
    return lambda library, handle: {label: _text(library, function, handle)}


def _pci_bus_id(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    info = pynvml.nvmlPciInfo_t()
    answered = _answers(library, "nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(info))
    # By its bytes: pynvml's structures decode text themselves, and raise on bytes that are no UTF-8.
    return {"pci_bus_id": text(bytes(info)[pynvml.nvmlPciInfo_t.busId.offset :]) if answered else ""}


def _architecture(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    out = ctypes.c_uint()
    answered = _answers(library, "nvmlDeviceGetArchitecture", handle, ctypes.byref(out))
    return {"architecture": _ARCHITECTURES.get(out.value, str(out.value)) if answered else ""}


def _module(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    out = ctypes.c_uint()
    answered = _answers(library, "nvmlDeviceGetModuleId", handle, ctypes.byref(out))
    return {"module": str(out.value) if answered else ""}


def _platform(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
    """Read the place in the rack; a byte of 0xFF, or no chassis serial, means that there is none."""
    nothing = {"slot": "", "tray": "", "host": "", "chassis_serial": ""}
    buffer = ctypes.create_string_buffer(_PLATFORM_INFO.size)
    for version in _PLATFORM_INFO_VERSIONS:
        struct.pack_into("=I", buffer, 0, version)
        if _answers(library, "nvmlDeviceGetPlatformInfo", handle, ctypes.byref(buffer)):
            break
    else:
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
    info = FabricInfo(library, handle)
    code = info.read()
    raise_if_gone(code, "nvmlDeviceGetGpuFabricInfoV")
    if code != pynvml.NVML_SUCCESS and code not in _TELLING:
        raise _SilentError
    cluster = cluster_uuid(bytes(info.out.clusterUuid)) if code == pynvml.NVML_SUCCESS else ""
    # A clique has a meaning within its cluster only; outside one the driver reports 0.
    return {"cluster_uuid": cluster, "clique": str(info.out.cliqueId) if cluster else ""}


def _mode_of(label: str, function: str, *, pending: bool) -> _Reader:
    """Read a mode, of a function that also tells the one after the next reboot, or does not."""

    def read(library: NvmlLibrary, handle: Handle) -> dict[str, str]:
        current = ctypes.c_uint()
        further = (ctypes.byref(ctypes.c_uint()),) if pending else ()
        answered = _answers(library, function, handle, ctypes.byref(current), *further)
        return {label: _ON_OFF.get(current.value, str(current.value)) if answered else ""}

    return read


_LASTING: tuple[_Reader, ...] = (
    _text_of("name", "nvmlDeviceGetName"),
    _text_of("serial", "nvmlDeviceGetSerial"),
    _text_of("board_part", "nvmlDeviceGetBoardPartNumber"),
    _text_of("vbios", "nvmlDeviceGetVbiosVersion"),
    _text_of("inforom", "nvmlDeviceGetInforomImageVersion"),
    _pci_bus_id,
    _architecture,
    _module,
    _platform,
)
_CHANGING: tuple[_Reader, ...] = (
    _fabric,
    _mode_of("ecc_mode", "nvmlDeviceGetEccMode", pending=True),
    _mode_of("mig_mode", "nvmlDeviceGetMigMode", pending=True),
    _mode_of("persistence_mode", "nvmlDeviceGetPersistenceMode", pending=False),
)
