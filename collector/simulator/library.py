"""The NVML library object of a simulated node: attributes that are called as those of a ctypes library.

A symbol that the driver lacks is a missing attribute. Functions are `functools.partial` objects, so that
pynvml can set `restype` on them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from collector.simulator import events, gpm
from collector.simulator.codes import INIT_FLAG_NO_ATTACH, RETURN_TEXTS, Return
from collector.simulator.driver import Driver
from collector.simulator.field_values import Field, get_field_values
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.identity_calls import IDENTITY_CALLS
from collector.simulator.memory import INT32, UINT32, UINT64, address_of, number, put, put_text, text
from collector.simulator.reading_calls import READING_CALLS
from collector.simulator.session import Session
from collector.simulator.timekeeper import Timekeeper
from collector.simulator.timeline import Timeline

# A hung or waiting call sleeps in slices, so that the end of a fault or an event is noticed.
_SLICE_SECONDS: Final = 0.05


class SimulatedLibrary:
    """NVML as one process of a simulated node sees it.

    Args:
        gpus: The node's GPUs.
        driver: The driver.
        timeline: The node's faults.
        timekeeper: The node's time.
        fields: Field values of this platform and driver.

    Attributes:
        pins: Return codes by function name that tests force on functions without a device.
    """

    def __init__(
        self,
        gpus: Sequence[SimulatedGpu],
        driver: Driver,
        timeline: Timeline,
        timekeeper: Timekeeper,
        fields: Mapping[int, Field],
    ) -> None:
        self._gpus = tuple(gpus)
        self._driver = driver
        self._timeline = timeline
        self._time = timekeeper
        self._session = Session()
        self.pins: dict[str, int] = {}
        device_calls: dict[str, Callable[..., int]] = {
            **IDENTITY_CALLS,
            **READING_CALLS,
            "nvmlDeviceGetFieldValues": functools.partial(get_field_values, fields),
            "nvmlDeviceGetIndex": self._index,
            "nvmlGpmQueryDeviceSupport": gpm.query_device_support,
            "nvmlGpmSampleGet": self._gpm_sample_get,
        }
        node_calls: dict[str, Callable[..., int]] = {
            "nvmlShutdown": self._shutdown,
            "nvmlSystemGetDriverVersion": self._driver_version,
            "nvmlSystemGetNVMLVersion": self._nvml_version,
            "nvmlSystemGetCudaDriverVersion": self._cuda_version,
            "nvmlSystemGetCudaDriverVersion_v2": self._cuda_version,
            "nvmlSystemGetProcessName": self._process_name,
            "nvmlDeviceGetCount_v2": self._count,
            "nvmlDeviceGetHandleByIndex_v2": self._handle_by_index,
            "nvmlDeviceGetHandleByUUID": self._handle_by_uuid,
            "nvmlEventSetCreate": self._create_event_set,
            "nvmlEventSetFree": self._free_event_set,
            "nvmlGpmSampleAlloc": self._gpm_sample_alloc,
            "nvmlGpmSampleFree": self._gpm_sample_free,
            "nvmlGpmMetricsGet": self._gpm_metrics_get,
        }
        functions: dict[str, Callable[..., object]] = {
            "nvmlErrorString": functools.partial(_error_string),
            "nvmlInit_v2": functools.partial(self._open, "nvmlInit_v2", 0),
            "nvmlInitWithFlags": functools.partial(self._open, "nvmlInitWithFlags"),
            "nvmlDeviceRegisterEvents": functools.partial(self._register_events),
            "nvmlEventSetWait_v2": functools.partial(self._wait_for_event),
        }
        for name, call in node_calls.items():
            functions[name] = functools.partial(self._call_node, name, call)
        for name, device_call in device_calls.items():
            functions[name] = functools.partial(self._call_device, name, device_call)
        for name, function in functions.items():
            if driver.has(name):
                setattr(self, name, function)

    def __getattr__(self, name: str) -> Callable[..., int]:
        raise AttributeError(f"libnvidia-ml.so.1 of driver {self._driver.version}: undefined symbol: {name}")

    # How every call begins.

    def _hang(self, gpu: int | None = None) -> None:
        """Block for as long as a fault makes calls hang."""
        if not self._timeline.can_hang():
            return
        while True:
            with self._time.lock:
                self._time.refresh()
                hung = self._timeline.hung(gpu, self._time.tick)
            if not hung:
                return
            self._time.sleep(_SLICE_SECONDS)

    def _state(self) -> Return:
        """Say whether the library answers at the timekeeper's moment."""
        tick = self._time.tick
        if self._timeline.driver_unloaded(tick) or not self._session.is_open(self._timeline, tick):
            return Return.UNINITIALIZED
        return Return.SUCCESS

    def _call_node(self, name: str, call: Callable[..., int], *arguments: object) -> int:
        """Call a function that has no device."""
        self._hang()
        with self._time.lock:
            self._time.refresh()
            return self._state() or self.pins.get(name) or call(*arguments)

    def _call_device(
        self, name: str, call: Callable[..., int], handle: object = None, *arguments: object
    ) -> int:
        """Call a function of a device."""
        address = address_of(handle)
        self._hang(self._session.gpu_index(address))
        with self._time.lock:
            self._time.refresh()
            if code := self._state():
                return code
            gpu = self._session.resolve(self._timeline, self._time.tick, address)
            if isinstance(gpu, Return):
                return gpu
            if name in gpu.return_pins:
                return gpu.return_pins[name]
            gpu.sync()
            return call(gpu, *arguments)

    # Initialization.

    def _open(self, name: str, flags: object = 0) -> int:
        self._hang()
        with self._time.lock:
            self._time.refresh()
            tick = self._time.tick
            if self._timeline.driver_unloaded(tick):
                return Return.DRIVER_NOT_LOADED
            if name in self.pins:
                return self.pins[name]
            # Drivers up to 610 count no GPUs then (DCGM, DcgmNvmlApi).
            attach = not number(flags) & INIT_FLAG_NO_ATTACH or self._driver.at_least(611)
            self._session.open(self._timeline, tick, self._gpus, attach=attach)
            return Return.SUCCESS

    def _shutdown(self) -> int:
        self._session.close()
        return Return.SUCCESS

    # The system.

    def _driver_version(self, buffer: object = None, length: object = 0) -> int:
        return put_text(buffer, length, self._driver.version)

    def _nvml_version(self, buffer: object = None, length: object = 0) -> int:
        return put_text(buffer, length, self._driver.nvml_version)

    def _cuda_version(self, value: object = None) -> int:
        return put(value, INT32, self._driver.cuda_version)

    def _process_name(self, pid: object = 0, buffer: object = None, length: object = 0) -> int:
        known = {4_000 + gpu.index for gpu in self._gpus if not gpu.workload.is_idle}
        return put_text(buffer, length, "simulated-engine") if number(pid) in known else Return.NOT_FOUND

    # Devices.

    def _visible(self) -> tuple[SimulatedGpu, ...]:
        return self._session.visible(self._timeline, self._time.tick, self._gpus)

    def _count(self, value: object = None) -> int:
        return put(value, UINT32, len(self._visible()))

    def _give(self, gpu: SimulatedGpu, device: object) -> int:
        tick = self._time.tick
        if self._timeline.lost(gpu.index, tick):
            return Return.GPU_IS_LOST
        return put(device, UINT64, self._session.give_handle(self._timeline, tick, gpu))

    def _handle_by_index(self, index: object = 0, device: object = None) -> int:
        visible, position = self._visible(), number(index)
        if not 0 <= position < len(visible):
            return Return.INVALID_ARGUMENT
        return self._give(visible[position], device)

    def _handle_by_uuid(self, uuid: object = None, device: object = None) -> int:
        wanted = text(uuid).decode(errors="replace")
        gpu = next((gpu for gpu in self._visible() if gpu.uuid == wanted), None)
        return Return.NOT_FOUND if gpu is None else self._give(gpu, device)

    def _index(self, gpu: SimulatedGpu, value: object = None) -> int:
        return put(value, UINT32, self._visible().index(gpu))

    # Events.

    def _create_event_set(self, handle: object = None) -> int:
        return events.create_set(self._session.event_sets, handle)

    def _free_event_set(self, handle: object = None) -> int:
        return events.free_set(self._session.event_sets, handle)

    def _register_events(
        self, handle: object = None, event_types: object = 0, event_set: object = None
    ) -> int:
        def register(gpu: SimulatedGpu) -> int:
            sets = self._session.event_sets
            return events.register(sets, gpu, address_of(handle), event_types, event_set)

        return self._call_device("nvmlDeviceRegisterEvents", register, handle)

    def _take_event(self, handle: object, data: object) -> int:
        event_set = self._session.event_sets.sets.get(address_of(handle))
        if event_set is None or data is None:
            return Return.INVALID_ARGUMENT
        taken = events.take_event(event_set, self._timeline, self._time.tick)
        return events.write_event(data, *taken) if taken else Return.TIMEOUT

    def _wait_for_event(self, handle: object = None, data: object = None, timeout_ms: object = 0) -> int:
        """Poll until an event comes or the time is over; the lock is free while it sleeps."""
        deadline = self._time.now() + number(timeout_ms) / 1000
        while True:
            code = self._call_node("nvmlEventSetWait_v2", self._take_event, handle, data)
            left_seconds = deadline - self._time.now()
            if code != Return.TIMEOUT or left_seconds <= 0:
                return code
            self._time.sleep(min(_SLICE_SECONDS, left_seconds))

    # GPU performance monitoring.

    def _gpm_sample_alloc(self, handle: object = None) -> int:
        return gpm.sample_alloc(self._session.samples, handle)

    def _gpm_sample_free(self, handle: object = None) -> int:
        return gpm.sample_free(self._session.samples, handle)

    def _gpm_sample_get(self, gpu: SimulatedGpu, handle: object = None) -> int:
        return gpm.sample_get(self._session.samples, gpu, handle)

    def _gpm_metrics_get(self, request: object = None) -> int:
        return gpm.metrics_get(self._session.samples, request)


def _error_string(code: object) -> bytes:
    """`nvmlErrorString`: answers before initialization too."""
    known = {int(member): words for member, words in RETURN_TEXTS.items()}
    return known.get(number(code), b"Unknown error")
