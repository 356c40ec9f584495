"""Xids, as NVML's events bring them: asked for with no waiting."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterable

import pynvml

from collector.sources.nvml.library import Handle, NvmlLibrary, error_name

_MAXIMUM_EVENTS_A_POLL = 64
"""A GPU in trouble can raise events without end; the rest is fetched by the next poll."""


class XidEvents:
    """An event set on which GPUs are registered for Xids."""

    def __init__(self, library: NvmlLibrary) -> None:
        """Create the set; where the driver has none, `poll` brings nothing."""
        self._library = library
        self._set = ctypes.c_void_p()
        self._data = pynvml.c_nvmlEventData_t()
        self._uuids: dict[int, str] = {}
        self._subscribed: dict[int, int] = {}
        library.call("nvmlEventSetCreate", ctypes.byref(self._set))

    def register(self, handle: Handle, uuid: str) -> None:
        """Ask for the Xids of a GPU, if it can report any."""
        if self._set.value is None or handle.value is None:
            return
        mask = ctypes.c_ulonglong()
        if self._library.call("nvmlDeviceGetSupportedEventTypes", handle, ctypes.byref(mask)) != 0:
            return
        wanted = mask.value & pynvml.nvmlEventTypeXidCriticalError
        if wanted and self._subscribe(handle.value, wanted):
            self._uuids[handle.value] = uuid

    def poll(self, errors: Counter[str]) -> Iterable[tuple[str, int]]:
        """Fetch what happened since the last poll.

        Args:
            errors: Counts a poll that failed.

        Returns:
            UUID and Xid of each event, oldest first; the UUID is empty for a GPU that is not known.
        """
        found: list[tuple[str, int]] = []
        for _ in range(_MAXIMUM_EVENTS_A_POLL if self._set.value is not None else 0):
            code = self._library.call("nvmlEventSetWait_v2", self._set, ctypes.byref(self._data), 0)
            if code == pynvml.NVML_ERROR_TIMEOUT:
                break
            if code != pynvml.NVML_SUCCESS:
                errors[error_name(code)] += 1
                if code == pynvml.NVML_ERROR_GPU_IS_LOST:
                    self._renew()
                break
            if self._data.eventType == pynvml.nvmlEventTypeXidCriticalError:
                device = ctypes.cast(self._data.device, ctypes.c_void_p).value
                found.append((self._uuids.get(device or 0, ""), int(self._data.eventData)))
        return found

    def _subscribe(self, device: int, wanted: int) -> bool:
        handle = Handle(device)
        if self._library.call("nvmlDeviceRegisterEvents", handle, wanted, self._set) != pynvml.NVML_SUCCESS:
            return False
        self._subscribed[device] = wanted
        return True

    def _renew(self) -> None:
        """Replace the set: with a lost GPU in it, every wait fails, and no other GPU's Xids come through."""
        subscribed, self._subscribed = self._subscribed, {}
        self.close()
        self._library.call("nvmlEventSetCreate", ctypes.byref(self._set))
        for device, wanted in subscribed.items():
            self._subscribe(device, wanted)

    def close(self) -> None:
        """Free the set."""
        if self._set.value is not None:
            self._library.call("nvmlEventSetFree", self._set)
            self._set.value = None
