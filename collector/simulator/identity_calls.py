"""Functions of one GPU that say what and where it is: `nvmlDeviceGet…` with the handle resolved.

Each takes the GPU, at the moment to read, and the C function's further arguments; each returns an
`nvmlReturn_t`. Struct layouts and versions are those of nvml.h 13.5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from collector.profiles import PlatformInfoSupport
from collector.simulator.codes import (
    FABRIC_INFO_V2,
    FABRIC_INFO_V3,
    FABRIC_STATE_COMPLETED,
    HEALTH_DEGRADED_BANDWIDTH_MASK,
    HEALTH_SUMMARY_LIMITED_CAPACITY,
    HEALTH_TRUE,
    PLATFORM_INFO_V1,
    PLATFORM_INFO_V2,
    Return,
)
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.memory import INT32, UINT32, memory, put, put_text, read_uint32

_NVIDIA_VENDOR: Final = 0x10DE


def name(gpu: SimulatedGpu, buffer: object = None, length: object = 0) -> int:
    """`nvmlDeviceGetName`."""
    return put_text(buffer, length, gpu.profile.gpu.product_name)


def uuid(gpu: SimulatedGpu, buffer: object = None, length: object = 0) -> int:
    """`nvmlDeviceGetUUID`."""
    return put_text(buffer, length, gpu.uuid)


def serial(gpu: SimulatedGpu, buffer: object = None, length: object = 0) -> int:
    """`nvmlDeviceGetSerial`."""
    return put_text(buffer, length, gpu.identity.serial)


def board_part_number(gpu: SimulatedGpu, buffer: object = None, length: object = 0) -> int:
    """`nvmlDeviceGetBoardPartNumber`."""
    return put_text(buffer, length, gpu.profile.gpu.board_part_number)


def vbios_version(gpu: SimulatedGpu, buffer: object = None, length: object = 0) -> int:
    """`nvmlDeviceGetVbiosVersion`."""
    return put_text(buffer, length, gpu.profile.gpu.vbios_version)


def inforom_image_version(gpu: SimulatedGpu, buffer: object = None, length: object = 0) -> int:
    """`nvmlDeviceGetInforomImageVersion`."""
    return put_text(buffer, length, gpu.profile.gpu.inforom_version)


def gsp_firmware_version(gpu: SimulatedGpu, buffer: object = None) -> int:
    """`nvmlDeviceGetGspFirmwareVersion`: the driver's version; the buffer is 64 bytes by nvml.h."""
    return put_text(buffer, 64, gpu.driver.version)


def pci_info(gpu: SimulatedGpu, info: object = None) -> int:
    """`nvmlDeviceGetPciInfo_v3`: busIdLegacy, domain, bus, device, two ids, busId."""
    bus_id = gpu.identity.pci_bus_id
    domain, bus, device = bus_id.split(":")
    target = memory(info, 68)
    if target is None:
        return Return.INVALID_ARGUMENT
    struct.pack_into(
        "<16s5I32s",
        target,
        0,
        bus_id[4:].encode(),
        int(domain, 16),
        int(bus, 16),
        int(device.partition(".")[0], 16),
        gpu.profile.gpu.pci_device_id << 16 | _NVIDIA_VENDOR,
        gpu.profile.gpu.pci_subsystem_id << 16 | _NVIDIA_VENDOR,
        bus_id.encode(),
    )
    return Return.SUCCESS


def minor_number(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetMinorNumber`."""
    return put(value, UINT32, gpu.index)


def architecture(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetArchitecture`."""
    return put(value, UINT32, gpu.profile.gpu.architecture)


def cuda_compute_capability(gpu: SimulatedGpu, major: object = None, minor: object = None) -> int:
    """`nvmlDeviceGetCudaComputeCapability`."""
    high, low = gpu.profile.gpu.compute_capability
    return put(major, INT32, high) or put(minor, INT32, low)


def module_id(gpu: SimulatedGpu, value: object = None) -> int:
    """`nvmlDeviceGetModuleId`."""
    return put(value, UINT32, gpu.identity.module_id)


def platform_info(gpu: SimulatedGpu, info: object = None) -> int:
    """`nvmlDeviceGetPlatformInfo` v1 and v2: version, ibGuid, serial, slot, tray, host, peer, module.

    All of it is raw bytes, not text. Version 2 came with the 12.575 bindings. That 0xFF stands where
    nvidia-smi prints N/A is chosen.
    """
    target = memory(info, 44)
    if target is None:
        return Return.INVALID_ARGUMENT
    versions = (PLATFORM_INFO_V1, PLATFORM_INFO_V2) if gpu.driver.at_least(575) else (PLATFORM_INFO_V1,)
    if read_uint32(target) not in versions:
        return Return.ARGUMENT_VERSION_MISMATCH
    support = gpu.profile.capabilities.platform_info
    if support is PlatformInfoSupport.NONE:
        return Return.NOT_SUPPORTED
    full = support is PlatformInfoSupport.FULL
    host = gpu.profile.rack.host_id if gpu.profile.rack else 1
    struct.pack_into(
        "<16s16s5B",
        target,
        4,
        gpu.identity.fabric_guid,
        gpu.node.chassis_serial.encode(),
        gpu.node.slot if full and gpu.node.slot is not None else 0xFF,
        gpu.node.tray if full else 0xFF,
        host,
        1,  # Switch Connected
        gpu.identity.module_id,
    )
    return Return.SUCCESS


def _fabric(gpu: SimulatedGpu) -> tuple[int, int]:
    """Return health mask and summary; what a link that is down does to them is chosen."""
    fabric = gpu.profile.fabric
    if gpu.physics.down_links and fabric.health_mask & HEALTH_DEGRADED_BANDWIDTH_MASK:
        mask = fabric.health_mask & ~HEALTH_DEGRADED_BANDWIDTH_MASK | HEALTH_TRUE
        return mask, HEALTH_SUMMARY_LIMITED_CAPACITY
    return fabric.health_mask, fabric.health_summary


# The state is one byte in C, and the compiler leaves what stands behind it: readers that take four bytes
# must notice.
_PADDING: Final = b"\xa5\xc3\x7e"


def fabric_info(gpu: SimulatedGpu, info: object = None) -> int:
    """`nvmlDeviceGetGpuFabricInfo`: clusterUuid, status, cliqueId, state."""
    target = memory(info, 28)
    if target is None:
        return Return.INVALID_ARGUMENT
    clique = gpu.profile.fabric.clique_id
    struct.pack_into(
        "<16sIIB3s", target, 0, gpu.node.cluster_uuid, 0, clique, FABRIC_STATE_COMPLETED, _PADDING
    )
    return Return.SUCCESS


def fabric_info_versioned(gpu: SimulatedGpu, info: object = None) -> int:
    """`nvmlDeviceGetGpuFabricInfoV` v2 and v3: the above after a version, then health mask and summary.

    Version 3 came with the 13.580 bindings.
    """
    target = memory(info, 40)
    if target is None:
        return Return.INVALID_ARGUMENT
    version = read_uint32(target)
    if version != FABRIC_INFO_V2 and not (version == FABRIC_INFO_V3 and gpu.driver.at_least(580)):
        return Return.ARGUMENT_VERSION_MISMATCH
    mask, summary = _fabric(gpu)
    struct.pack_into(
        "<16sIIB3sI",
        target,
        4,
        gpu.node.cluster_uuid,
        Return.SUCCESS,
        gpu.profile.fabric.clique_id,
        FABRIC_STATE_COMPLETED,
        _PADDING,
        mask,
    )
    if version == FABRIC_INFO_V3:
        struct.pack_into("<B3s", target, 36, summary, _PADDING)
    return Return.SUCCESS


IDENTITY_CALLS: Final[Mapping[str, Callable[..., int]]] = {
    "nvmlDeviceGetName": name,
    "nvmlDeviceGetUUID": uuid,
    "nvmlDeviceGetSerial": serial,
    "nvmlDeviceGetBoardPartNumber": board_part_number,
    "nvmlDeviceGetVbiosVersion": vbios_version,
    "nvmlDeviceGetInforomImageVersion": inforom_image_version,
    "nvmlDeviceGetGspFirmwareVersion": gsp_firmware_version,
    "nvmlDeviceGetPciInfo_v3": pci_info,
    "nvmlDeviceGetMinorNumber": minor_number,
    "nvmlDeviceGetArchitecture": architecture,
    "nvmlDeviceGetCudaComputeCapability": cuda_compute_capability,
    "nvmlDeviceGetModuleId": module_id,
    "nvmlDeviceGetPlatformInfo": platform_info,
    "nvmlDeviceGetGpuFabricInfo": fabric_info,
    "nvmlDeviceGetGpuFabricInfoV": fabric_info_versioned,
}
