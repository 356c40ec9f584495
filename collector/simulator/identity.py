"""Who a simulated node and its GPUs are: deterministic, distinct, and shaped like the real thing."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import Final

from collector.profiles import Profile

# Bus ids and module ids where no capture gives them: chosen, in the shape of the captured platforms.
_CHOSEN_HGX_BUS_IDS: Final = tuple(
    f"00000000:{bus}:00.0" for bus in ("53", "64", "75", "86", "97", "A8", "B9", "CA")
)
_CHOSEN_MODULE_BUS_IDS: Final = tuple(
    f"{domain}:06:00.0" for domain in ("00000008", "00000009", "00000018", "00000019")
)
# Leading digits of the 13-digit serials in the captures (NVIDIA/k8s-test-infra).
_BOARD_SERIAL_PREFIX: Final = "1650"
_CHASSIS_SERIAL_PREFIX: Final = "182"


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """One GPU.

    Attributes:
        index: NVML index with all GPUs present; also the minor number.
        uuid: NVML UUID.
        serial: Serial of the board; the GPUs of a superchip share it.
        pci_bus_id: As NVML prints it, with an eight-digit domain.
        module_id: NVML module id.
        fabric_guid: 8 raw bytes, not text.
    """

    index: int
    uuid: str
    serial: str
    pci_bus_id: str
    module_id: int
    fabric_guid: bytes


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """One node.

    Attributes:
        cluster_uuid: 16 raw bytes, one value a rack; zeros where the domain is the node.
        chassis_serial: Serial of the rack; empty where there is none.
        slot: Slot number, None outside a rack.
        tray: Index of the compute tray.
        gpus: The GPUs by index.
    """

    cluster_uuid: bytes
    chassis_serial: str
    slot: int | None
    tray: int
    gpus: tuple[GpuIdentity, ...]


def identify(profile: Profile, rack: str, tray: int, seed: int) -> NodeIdentity:
    """Make up a node's identity.

    Args:
        profile: The platform.
        rack: Name of the rack.
        tray: 0-based index of the compute tray, or of the node.
        seed: The simulation's seed.

    Returns:
        The identity; the same for the same arguments.

    Raises:
        ConfigurationError: The rack has no such tray.
    """
    in_rack = profile.rack is not None
    cluster = bytearray(_digest(seed, rack, "cluster")[:16]) if profile.fabric.cluster_wide else bytearray(16)
    if profile.fabric.cluster_wide:
        cluster[0] |= 0x80  # Never text by accident: a UUID is raw bytes.
    return NodeIdentity(
        cluster_uuid=bytes(cluster),
        chassis_serial=_CHASSIS_SERIAL_PREFIX + _digits(10, seed, rack, "chassis") if in_rack else "",
        slot=profile.rack.slot_of_tray(tray) if profile.rack else None,
        tray=tray,
        gpus=tuple(_identify_gpu(profile, rack, tray, seed, index) for index in range(profile.gpus_per_node)),
    )


def _identify_gpu(profile: Profile, rack: str, tray: int, seed: int, index: int) -> GpuIdentity:
    board = index // profile.module.gpus if profile.module else index
    chosen = _CHOSEN_MODULE_BUS_IDS if profile.module else _CHOSEN_HGX_BUS_IDS
    bus_ids = profile.gpu.pci_bus_ids or chosen
    guid = bytearray(_digest(seed, rack, str(tray), str(index), "guid")[:8])
    guid[0] |= 0x80  # As above.
    return GpuIdentity(
        index=index,
        uuid=f"GPU-{uuid.UUID(bytes=_digest(seed, rack, str(tray), str(index), 'gpu')[:16], version=4)}",
        serial=f"{_BOARD_SERIAL_PREFIX}{_digits(4, seed, rack, 'boards')}{tray:03d}{board:02d}",
        pci_bus_id=bus_ids[index],
        module_id=profile.gpu.module_ids[index] if profile.gpu.module_ids else index + 1,
        fabric_guid=bytes(guid),
    )


def _digest(seed: int, *words: str) -> bytes:
    return hashlib.sha256("/".join((str(seed), *words)).encode()).digest()


def _digits(count: int, seed: int, *words: str) -> str:
    value = int.from_bytes(_digest(seed, *words)[:8], "big") % 10**count
    return f"{value:0{count}d}"
