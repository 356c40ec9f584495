"""Sensors of a simulated node's Grace CPUs, as files: what Linux shows of them under /sys/class/hwmon.

A Grace draws what its module draws without the GPUs. CPU rail and SysIO rail are parts of that. Texts,
places and units are those of Linux's `acpi_power_meter` on a Grace (NVIDIA Grace Performance Tuning Guide,
"Power and Thermals"). Every node has a sensor that is none of power, as servers have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from collector.simulator.gpu import SimulatedGpu
from collector.simulator.node import SimulatedNode

# A socket in disaggregated serving: 98 to 109 W, its CPU rail 51 to 56 W, its SysIO rail 6.1 to 6.6 W
# (NVIDIA/srt-slurm pull request 481). The ratios of the middles, held at every load: chosen.
_CPU_SHARE: Final = 53.5 / 103.5
_SYSIO_SHARE: Final = 6.35 / 103.5
_METERS: Final = (("Grace", 1.0), ("CPU", _CPU_SHARE), ("SysIO", _SYSIO_SHARE))
# NVML's power is the average of a second, and so is this. Firmware has 50 ms and 1 s (NVIDIA/edk2-nvidia).
_INTERVAL_MILLISECONDS: Final = 1000
_OTHER_SENSOR: Final = "nvme"

_File = Callable[[], bytes]


class SimulatedSensors:
    """The sensors of a node, as a tree of two levels: directories `hwmonN`, and files in them.

    Args:
        node: The node.
    """

    def __init__(self, node: SimulatedNode) -> None:
        sensors: list[Mapping[str, _File]] = [{"name": _text(_OTHER_SENSOR)}]
        modules = dict.fromkeys(gpu.module_gpus for gpu in node.gpus if gpu.module_gpus)
        for socket, gpus in enumerate(modules):
            sensors += [_power_meter(gpus, socket, meter, share) for meter, share in _METERS]
        self._directories = {f"hwmon{number}": files for number, files in enumerate(sensors)}

    def directories(self) -> Sequence[str]:
        """Return the sensors' directories."""
        return tuple(self._directories)

    def read(self, directory: str, file: str, limit: int) -> bytes:
        """Return the beginning of a file.

        Args:
            directory: One of `directories`.
            file: Path of the file in there.
            limit: Bytes to return at most.

        Raises:
            FileNotFoundError: There is no such file.
        """
        content = self._directories.get(directory, {}).get(file)
        if content is None:
            raise FileNotFoundError(2, "No such file or directory", f"{directory}/{file}")
        return content()[:limit]


def _power_meter(gpus: Sequence[SimulatedGpu], socket: int, meter: str, share: float) -> Mapping[str, _File]:
    """Make the files of one of a socket's meters."""

    def average() -> bytes:
        # The firmware measures in milliwatts, the driver shows microwatts.
        return _line(round(_grace_watts(gpus) * share * 1000) * 1000)

    return {
        "device/name": _text("power_meter"),
        "device/power1_oem_info": _text(f"{meter} Power Socket {socket}"),
        "device/power1_average": average,
        "device/power1_average_interval": _text(str(_INTERVAL_MILLISECONDS)),
    }


def _grace_watts(gpus: Sequence[SimulatedGpu]) -> float:
    """Return the mean power, over the last second, of the CPU that sits on a module with these GPUs."""
    first = gpus[0]
    with first.timekeeper.lock:
        first.timekeeper.refresh()
        first.sync()
        return first.module_mean_watts - sum(gpu.mean_watts for gpu in gpus)


def _text(text: str) -> _File:
    return lambda: _line(text)


def _line(content: object) -> bytes:
    return f"{content}\n".encode()
