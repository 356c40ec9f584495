"""Files of Linux's sensors: where they are, what stands in those of a power meter, and how they are read.

The driver `acpi_power_meter` names its devices `power_meter`, and gives in `power1_average` the average power
of an interval, in microwatts (Linux, Documentation/hwmon/acpi_power_meter.rst and sysfs-interface.rst). Its
files stand in hwmonN/device/; since Linux commit 16746ce8adfe, of March 2025, in hwmonN/ itself.

Whose power it is says `power1_oem_info`: "Grace Power Socket 0" of the socket, "CPU Power Socket 0" of its
CPU rail, "SysIO Power Socket 0" of its SysIO rail, "Module Power Socket 0" of a Grace Hopper superchip
(NVIDIA Grace Performance Tuning Guide, "Power and Thermals"; the same texts in NVIDIA's edk2-nvidia and in
DCGM).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from collector.catalog import BY_NAME
from collector.catalog.spec import Metric

HWMON = Path("/sys/class/hwmon")
MAXIMUM_DIRECTORIES = 256
"""Sensors beyond are left alone: chosen, far above what servers have."""

_DIRECTORY = re.compile(r"hwmon(\d{1,6})")
_PLACES = ("", "device/")
_NUMBER_BYTES = 64
_TEXT_BYTES = 256
_POWER_METER = "power_meter"
_MICROWATTS = 1_000_000
_OEM_INFO = re.compile(r"(Grace|CPU|SysIO) Power Socket ([0-9]{1,4})")
_METRIC_OF = {
    "Grace": BY_NAME["cpu_power_watts"],
    "CPU": BY_NAME["cpu_cores_power_watts"],
    "SysIO": BY_NAME["cpu_sysio_power_watts"],
}
METRICS = tuple(_METRIC_OF.values())
"""What is read, in the order of the catalogue. A module's power is left to NVML."""


class SensorTree(Protocol):
    """Sensors as Linux shows them: directories `hwmonN` with files. Both operations may block."""

    def directories(self) -> Sequence[str]:
        """Return the sensors' directories.

        Raises:
            OSError: They cannot be listed.
        """

    def read(self, directory: str, file: str, limit: int) -> bytes:
        """Return the beginning of a file.

        Args:
            directory: One of `directories`.
            file: Its path in there.
            limit: Bytes to read at most.

        Raises:
            OSError: It is not there, or cannot be read.
        """


class HwmonTree:
    """The sensors of this machine.

    Attributes:
        root: Where their directories are.
    """

    def __init__(self, root: Path = HWMON) -> None:
        """Keep where the directories are; nothing is opened yet."""
        self.root = root

    def directories(self) -> Sequence[str]:
        """Return the sensors' directories by their number."""
        names = [name for name in os.listdir(self.root) if _DIRECTORY.fullmatch(name)]
        return sorted(names, key=lambda name: int(name.removeprefix("hwmon")))[:MAXIMUM_DIRECTORIES]

    def read(self, directory: str, file: str, limit: int) -> bytes:
        """Return the beginning of a file."""
        descriptor = os.open(self.root / directory / file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, limit)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class PowerSensor:
    """A sensor that is read.

    Attributes:
        directory: Its directory.
        place: Where in there its files are: empty, or a folder and a slash.
        metric: What it measures.
        socket: Number of the CPU socket.
    """

    directory: str
    place: str
    metric: Metric
    socket: str


def identify(tree: SensorTree, directory: str) -> PowerSensor | None:
    """Find out what a directory's sensor measures.

    Args:
        tree: The sensors.
        directory: Directory of one of them.

    Returns:
        The sensor; None where it is nothing that is read.

    Raises:
        OSError: Its texts cannot be read although they are there.
    """
    _, name = _first_text(tree, directory, "name")
    if name != _POWER_METER:
        return None
    place, info = _first_text(tree, directory, "power1_oem_info")
    found = _OEM_INFO.fullmatch(info)
    if found is None:
        return None
    return PowerSensor(directory, place, _METRIC_OF[found[1]], str(int(found[2])))


def _first_text(tree: SensorTree, directory: str, file: str) -> tuple[str, str]:
    """Return the place where a text is, and the text; both empty where it is nowhere."""
    for place in _PLACES:
        try:
            raw = tree.read(directory, place + file, _TEXT_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        return place, raw.decode("utf-8", errors="replace").strip()
    return "", ""


def read_watts(tree: SensorTree, sensor: PowerSensor) -> float | None:
    """Read a sensor; this may take as long as it averages.

    Zero is no power but a measurement that is yet to come: the firmware begins with it (edk2-nvidia, `TELM`),
    and a CPU that runs draws something. What it could not measure it gives as 0xFFFFFFFF mW, which no socket
    draws either.

    Args:
        tree: The sensors.
        sensor: One of them.

    Returns:
        Power in watts; None where what stands there is no power that can be.

    Raises:
        OSError: It cannot be read.
    """
    raw = tree.read(sensor.directory, f"{sensor.place}power1_average", _NUMBER_BYTES).strip()
    if not raw.isdigit():
        return None
    watts = int(raw) / _MICROWATTS
    return watts if 0 < watts <= sensor.metric.maximum else None
