"""The fabric structure of a GPU, in the newest version that the driver knows."""

from __future__ import annotations

import ctypes

import pynvml

from collector.sources.nvml.library import Handle, NvmlLibrary

_VERSIONS = (pynvml.nvmlGpuFabricInfo_v3, pynvml.nvmlGpuFabricInfo_v2)
"""Version 2 is the beginning of version 3 (nvml.h); drivers before 580 know no newer one."""


class FabricInfo:
    """What `nvmlDeviceGetGpuFabricInfoV` tells of one GPU.

    Attributes:
        out: The structure, as the last successful `read` left it.
    """

    def __init__(self, library: NvmlLibrary, handle: Handle) -> None:
        """Prepare the structure; nothing is called yet."""
        self._library = library
        self._handle = handle
        self._versions: tuple[int, ...] = _VERSIONS
        self.out = pynvml.c_nvmlGpuFabricInfo_v3_t()

    def read(self) -> int:
        """Call the function.

        Returns:
            NVML's return code. Once a version has been answered, no other is tried.
        """
        for version in self._versions:
            self.out.version = version
            code = self._library.call("nvmlDeviceGetGpuFabricInfoV", self._handle, ctypes.byref(self.out))
            if code != pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
                self._versions = (version,)
                return code
        return int(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
