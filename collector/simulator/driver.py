"""What a driver version changes in the NVML interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from collector.errors import ConfigurationError

# First driver with a symbol, from the nvidia-ml-py releases of the same number: the 12.570 bindings
# are the first that have these.
FIRST_DRIVER: Final[Mapping[str, tuple[int, ...]]] = {
    "nvmlDeviceGetMarginTemperature": (570,),
    "nvmlDeviceGetPlatformInfo": (570,),
    "nvmlDeviceGetTemperatureV": (570,),
}

# CUDA of each driver branch, NVIDIA CUDA release notes, "CUDA Toolkit and Corresponding Driver Versions",
# as the number 1000 * major + 10 * minor of nvmlSystemGetCudaDriverVersion.
_CUDA_OF_BRANCH: Final = ((590, 13010), (580, 13000), (575, 12090), (570, 12080), (560, 12060), (550, 12040))


class ThermalTimeFields(Enum):
    """Where the times of thermal slowdown and power brake stand among the field ids.

    The ids moved between releases of nvml.h: nvidia-ml-py 12.570 has none, 12.575.51 to 13.580.65 have
    251 to 253, everything from 13.580.82 on has 269 to 271.
    """

    ABSENT = ()
    OLD = (251, 252, 253)
    NEW = (269, 270, 271)


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver version.

    Attributes:
        version: As NVML reports it, such as `580.105.08`.
        numbers: Its parts as numbers.
    """

    version: str
    numbers: tuple[int, ...]

    def at_least(self, *numbers: int) -> bool:
        """Tell whether this driver is the given version or newer."""
        return self.numbers >= numbers

    @property
    def thermal_time_fields(self) -> ThermalTimeFields:
        """Where this driver has the thermal times."""
        if self.at_least(580, 82):
            return ThermalTimeFields.NEW
        return ThermalTimeFields.OLD if self.at_least(575, 51) else ThermalTimeFields.ABSENT

    @property
    def cuda_version(self) -> int:
        """CUDA version of this driver's branch; the newest known for newer branches."""
        return next((cuda for branch, cuda in _CUDA_OF_BRANCH if self.at_least(branch)), 12000)

    @property
    def nvml_version(self) -> str:
        """NVML version: the CUDA major version and the driver version."""
        return f"{self.cuda_version // 1000}.{self.version}"

    def has(self, function: str) -> bool:
        """Tell whether this driver's library has a symbol."""
        return self.at_least(*FIRST_DRIVER.get(function, (0,)))


def parse_driver(version: str) -> Driver:
    """Read a driver version.

    Args:
        version: Two or three numbers with points between, such as `570.133.20`.

    Returns:
        The driver.

    Raises:
        ConfigurationError: The text is not a driver version.
    """
    if not re.fullmatch(r"\d{3,4}\.\d{1,4}(\.\d{1,4})?", version):
        raise ConfigurationError(f"driver version {version!r}: expected numbers such as '580.105.08'")
    return Driver(version, tuple(int(part) for part in version.split(".")))
