"""One loaded NVML library: its functions by name, one lock around every call, calls counted.

The library is an object with C functions as attributes: a `ctypes.CDLL`, or the simulator's stand-in.
pynvml's wrappers are passed by: they hold one library for the whole process, decode strings in ways that
fail on real hardware, and accept structures by value where C wants a pointer (which crashes).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import pynvml

from collector.errors import NvmlUnavailableError, RackwattError

SONAME = "libnvidia-ml.so.1"
"""Name under which the driver installs NVML on Linux."""

Handle = ctypes.c_void_p
"""Opaque `nvmlDevice_t`."""

_HANDLE = ctypes.c_void_p
_OUT_HANDLE = ctypes.POINTER(ctypes.c_void_p)
_UINT = ctypes.c_uint
_OUT_UINT = ctypes.POINTER(ctypes.c_uint)
_TEXT = ctypes.c_char_p


def _out(structure: type[ctypes.Structure]) -> object:
    return ctypes.POINTER(structure)


FUNCTIONS: dict[str, tuple[object, ...]] = {
    "nvmlInitWithFlags": (_UINT,),
    "nvmlInit_v2": (),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": (_TEXT, _UINT),
    "nvmlSystemGetCudaDriverVersion": (ctypes.POINTER(ctypes.c_int),),
    "nvmlDeviceGetCount_v2": (_OUT_UINT,),
    "nvmlDeviceGetHandleByIndex_v2": (_UINT, _OUT_HANDLE),
    "nvmlDeviceGetHandleByUUID": (_TEXT, _OUT_HANDLE),
    "nvmlDeviceGetIndex": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetName": (_HANDLE, _TEXT, _UINT),
    "nvmlDeviceGetUUID": (_HANDLE, _TEXT, _UINT),
    "nvmlDeviceGetSerial": (_HANDLE, _TEXT, _UINT),
    "nvmlDeviceGetBoardPartNumber": (_HANDLE, _TEXT, _UINT),
    "nvmlDeviceGetVbiosVersion": (_HANDLE, _TEXT, _UINT),
    "nvmlDeviceGetInforomImageVersion": (_HANDLE, _TEXT, _UINT),
    "nvmlDeviceGetPciInfo_v3": (_HANDLE, _out(pynvml.nvmlPciInfo_t)),
    "nvmlDeviceGetArchitecture": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetModuleId": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetPlatformInfo": (_HANDLE, ctypes.c_void_p),
    "nvmlDeviceGetGpuFabricInfoV": (_HANDLE, ctypes.c_void_p),
    "nvmlDeviceGetEccMode": (_HANDLE, _OUT_UINT, _OUT_UINT),
    "nvmlDeviceGetMigMode": (_HANDLE, _OUT_UINT, _OUT_UINT),
    "nvmlDeviceGetPersistenceMode": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetFieldValues": (_HANDLE, ctypes.c_int, ctypes.c_void_p),
    "nvmlDeviceGetUtilizationRates": (_HANDLE, _out(pynvml.c_nvmlUtilization_t)),
    "nvmlDeviceGetMemoryInfo_v2": (_HANDLE, _out(pynvml.c_nvmlMemory_v2_t)),
    "nvmlDeviceGetClockInfo": (_HANDLE, _UINT, _OUT_UINT),
    "nvmlDeviceGetCurrentClocksEventReasons": (_HANDLE, ctypes.POINTER(ctypes.c_ulonglong)),
    "nvmlDeviceGetTemperatureV": (_HANDLE, _out(pynvml.c_nvmlTemperature_v1_t)),
    "nvmlDeviceGetTemperature": (_HANDLE, _UINT, _OUT_UINT),
    "nvmlDeviceGetMarginTemperature": (_HANDLE, _out(pynvml.c_nvmlMarginTemperature_v1_t)),
    "nvmlDeviceGetCurrPcieLinkGeneration": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetCurrPcieLinkWidth": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetComputeRunningProcesses_v3": (_HANDLE, _OUT_UINT, ctypes.c_void_p),
    "nvmlDeviceGetViolationStatus": (_HANDLE, _UINT, _out(pynvml.c_nvmlViolationTime_t)),
    "nvmlDeviceGetSupportedEventTypes": (_HANDLE, ctypes.POINTER(ctypes.c_ulonglong)),
    "nvmlDeviceRegisterEvents": (_HANDLE, ctypes.c_ulonglong, ctypes.c_void_p),
    "nvmlEventSetCreate": (_OUT_HANDLE,),
    "nvmlEventSetWait_v2": (ctypes.c_void_p, _out(pynvml.c_nvmlEventData_t), _UINT),
    "nvmlEventSetFree": (ctypes.c_void_p,),
    "nvmlGpmQueryDeviceSupport": (_HANDLE, _out(pynvml.c_nvmlGpmSupport_t)),
    "nvmlGpmSampleAlloc": (_OUT_HANDLE,),
    "nvmlGpmSampleFree": (ctypes.c_void_p,),
    "nvmlGpmSampleGet": (_HANDLE, ctypes.c_void_p),
    "nvmlGpmMetricsGet": (_out(pynvml.c_nvmlGpmMetricsGet_t),),
}
"""Every NVML function that is called, with the types of its C parameters (nvml.h)."""

UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""Answers by which hardware or driver says that it does not have a value; not errors."""

_GPU_LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_GPU_NOT_FOUND})

_ERROR_NAMES = {
    pynvml.NVML_ERROR_UNINITIALIZED: "uninitialized",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "invalid_argument",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "driver_not_loaded",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_is_lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "reset_required",
    pynvml.NVML_ERROR_OPERATING_SYSTEM: "operating_system",
    pynvml.NVML_ERROR_MEMORY: "memory",
    pynvml.NVML_ERROR_UNKNOWN: "unknown",
}

_UNAVAILABLE: dict[int, tuple[str, str, bool]] = {
    pynvml.NVML_ERROR_UNINITIALIZED: (
        "uninitialized",
        "NVML lost its connection to the driver; the driver was unloaded or reset",
        False,
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "no_permission",
        "the agent may not open the NVIDIA device files; run it as a user that can read /dev/nvidiactl "
        "and /dev/nvidia0",
        False,
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "driver_not_loaded",
        "the NVIDIA kernel driver is not loaded; load it with modprobe nvidia",
        False,
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "version_mismatch",
        "the NVML library and the loaded kernel driver have different versions, as after a driver upgrade; "
        "reload the driver or reboot the node",
        True,
    ),
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: (
        "library_too_old",
        f"{SONAME} lacks nvmlInit_v2 and is no usable NVML library",
        True,
    ),
}
"""What keeps NVML as a whole from working: reason, sentence, whether only a new process can heal it."""


class GpuLostError(RackwattError):
    """A GPU that was there does not answer any more."""


class NvmlLibrary:
    """NVML's functions, called by name.

    Attributes:
        calls: Calls made since the start.
    """

    def __init__(self, raw: object) -> None:
        """Wrap a library object; nothing is called yet.

        Args:
            raw: A `ctypes.CDLL`, or an object with the same functions.
        """
        self._raw = raw
        self._functions: dict[str, Callable[..., int]] = {}
        self._lock = threading.Lock()
        self.calls = 0

    def call(self, name: str, *arguments: object) -> int:
        """Call an NVML function.

        Args:
            name: Its name; one of `FUNCTIONS`.
            *arguments: Its C arguments: ctypes instances, `byref` results, ints or bytes.

        Returns:
            NVML's return code; `NVML_ERROR_FUNCTION_NOT_FOUND` where the driver has no such function.
        """
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._resolve(name)
        self.calls += 1
        with self._lock:
            return function(*arguments)

    def _resolve(self, name: str) -> Callable[..., int]:
        argument_types = FUNCTIONS[name]
        function: Callable[..., int] | None = getattr(self._raw, name, None)
        if function is None:
            return _function_not_found
        if isinstance(self._raw, ctypes.CDLL):
            function.argtypes = list(argument_types)  # type: ignore[attr-defined]  # a ctypes function pointer
            function.restype = ctypes.c_int  # type: ignore[attr-defined]  # likewise
        return function


def _function_not_found(*_arguments: object) -> int:
    return int(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def open_library() -> NvmlLibrary:
    """Load the driver's NVML library.

    Raises:
        NvmlUnavailableError: If the loader does not find it or cannot load it.
    """
    try:
        return NvmlLibrary(ctypes.CDLL(SONAME))
    except OSError as error:
        raise NvmlUnavailableError(
            "library_not_found",
            f"the NVML library {SONAME} cannot be loaded ({error}); install the NVIDIA driver, or in a "
            "container run it with the NVIDIA runtime and the driver capability 'utility'",
        ) from error


def initialize(library: NvmlLibrary) -> None:
    """Initialize NVML.

    Raises:
        NvmlUnavailableError: If NVML cannot be used now.
    """
    code = library.call("nvmlInitWithFlags", 0)
    if code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
        code = library.call("nvmlInit_v2")
    if code != pynvml.NVML_SUCCESS:
        raise unavailable(code, "nvmlInit")


def unavailable(code: int, where: str) -> NvmlUnavailableError:
    """Put a return code that concerns NVML as a whole into words."""
    reason, sentence, needs_new_process = _UNAVAILABLE.get(
        code, (error_name(code), f"NVML answered with error {code} ({error_name(code)})", False)
    )
    return NvmlUnavailableError(reason, f"{where}: {sentence}", needs_new_process=needs_new_process)


def error_name(code: int) -> str:
    """Name a return code by a value of the catalogue's `READ_ERRORS`."""
    return _ERROR_NAMES.get(code, "other")


def raise_if_gone(code: int, where: str) -> None:
    """Raise if a code means that the GPU, or NVML as a whole, has gone.

    Raises:
        GpuLostError: The GPU has.
        NvmlUnavailableError: NVML has: unloaded, uninitialized or of another version.
    """
    if code in _GPU_LOST:
        raise GpuLostError(f"{where}: the GPU does not answer (NVML error {code})")
    if code in (
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    ):
        raise unavailable(code, where)
