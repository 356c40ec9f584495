"""Which GPUs a node has: found, lost, regained, and forgotten once replaced."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pynvml

from collector.catalog import BY_NAME
from collector.catalog.spec import Cadence, Level
from collector.readings import GpuIdentity, Incident
from collector.sources.nvml.events import XidEvents
from collector.sources.nvml.gpu import Gpu
from collector.sources.nvml.identity import read_identity, read_uuid
from collector.sources.nvml.library import GpuLostError, Handle, NvmlLibrary, raise_if_gone
from collector.sources.nvml.options import PlatformHint, ReaderOptions
from collector.sources.nvml.plan import Identification

_MAXIMUM_GPUS = 256
"""Bound on a device count that is believed; the largest NVLink systems have 16 GPUs a node."""

_INFO_LABELS = BY_NAME["gpu_info"].info_labels


@dataclass(slots=True)
class Seat:
    """A GPU that is known: present with its `Gpu`, or missing without one.

    Attributes:
        uuid: Identity.
        index: Index for display; of a missing GPU the last one known.
        texts: Identity texts; of a missing GPU the last ones known.
        told: Labels of the texts that could be read; for the others it is asked again.
        gpu: What reads it; None while it is missing.
        due: When the next sweep of each slower cadence is due, on the monotonic clock.
        sweep_seconds: Time that the last sweep of each cadence took.
    """

    uuid: str
    index: int
    texts: dict[str, str]
    told: frozenset[str] = frozenset()
    gpu: Gpu | None = None
    due: dict[Cadence, float] = field(default_factory=dict)
    sweep_seconds: dict[Cadence, float] = field(default_factory=dict)


class Inventory:
    """The GPUs of a node.

    Attributes:
        seats: Every GPU that is known, by index.
        changed: Whether the series of the node are other ones than when this was last set to False.
        incidents: GPUs lost and returned since this was last emptied.
    """

    def __init__(
        self,
        library: NvmlLibrary,
        options: ReaderOptions,
        events: XidEvents,
        *,
        driver: tuple[int, ...],
        monotonic: Callable[[], float],
        wall_ns: Callable[[], int],
        errors: Counter[str],
    ) -> None:
        """Find the GPUs that are there, and take note of those that were.

        Raises:
            NvmlUnavailableError: NVML broke.
        """
        self._library = library
        self._options = options
        self._events = events
        self._driver = driver
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._errors = errors
        self.seats: list[Seat] = []
        self.changed = True
        self.incidents: list[Incident] = []
        self._most_present = 0
        self.find()
        known = {seat.uuid for seat in self.seats}
        self.seats += [
            Seat(uuid=gpu.uuid, index=gpu.index, texts=gpu.texts)
            for gpu in options.known_gpus
            if gpu.uuid not in known
        ]
        self._sort()
        self.forget_replaced()

    @property
    def present(self) -> int:
        """Count the GPUs that answer."""
        return sum(seat.gpu is not None for seat in self.seats)

    @property
    def platform(self) -> PlatformHint | None:
        """Return the platform: the configured one, else that of the GPUs' product name."""
        if self._options.platform and self._options.gpus_expected is not None:
            return PlatformHint(self._options.platform, self._options.gpus_expected)
        hints = [self._options.platforms.get(seat.texts.get("name", "")) for seat in self.seats]
        return next((hint for hint in hints if hint is not None), None)

    def identities(self) -> tuple[GpuIdentity, ...]:
        """Describe every GPU that is known."""
        return tuple(
            GpuIdentity(uuid=seat.uuid, index=seat.index, present=seat.gpu is not None, texts=seat.texts)
            for seat in self.seats
        )

    def find(self) -> None:
        """Look for GPUs that are new, or back.

        Raises:
            NvmlUnavailableError: NVML broke.
        """
        for index in range(self._count()):
            handle = Handle()
            code = self._library.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
            try:
                raise_if_gone(code, "nvmlDeviceGetHandleByIndex_v2")
                if code == pynvml.NVML_SUCCESS:
                    self._admit(index, handle)
            except GpuLostError:
                continue
        for seat in self.seats:
            if seat.gpu is None:
                self._regain(seat)
        self._sort()

    def lose(self, seat: Seat) -> None:
        """Note that a GPU does not answer any more."""
        if seat.gpu is not None:
            seat.gpu.close()
        seat.gpu = None
        seat.due.clear()
        seat.sweep_seconds.clear()
        self.changed = True
        self._errors["gpu_is_lost"] += 1
        self.incidents.append(Incident(self._wall_ns(), "gpu_lost", seat.uuid))

    def forget_replaced(self) -> None:
        """Forget missing GPUs once as many as expected are present: they were exchanged."""
        platform = self.platform
        expected = platform.gpus_per_node if platform else len(self._options.known_gpus)
        # On an unknown platform, or one with more GPUs than its profile says, nothing else tells.
        self._most_present = max(self._most_present, self.present)
        expected = max(expected, self._most_present)
        missing = len(self.seats) - self.present
        if missing and self.present and self.present >= expected:
            self.seats = [seat for seat in self.seats if seat.gpu is not None]
            self.changed = True

    def close(self) -> None:
        """Give back what the driver allocated for the GPUs."""
        for seat in self.seats:
            if seat.gpu is not None:
                seat.gpu.close()

    def _sort(self) -> None:
        self.seats.sort(key=lambda seat: (seat.index, seat.uuid))

    def _count(self) -> int:
        count = ctypes.c_uint()
        code = self._library.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        try:
            raise_if_gone(code, "nvmlDeviceGetCount_v2")
        except GpuLostError:
            return 0  # NVML_ERROR_GPU_NOT_FOUND: the driver runs, with no GPU at all
        return min(count.value, _MAXIMUM_GPUS) if code == pynvml.NVML_SUCCESS else 0

    def _admit(self, index: int, handle: Handle) -> None:
        """Take in the GPU behind a handle, unless it is read already."""
        uuid = read_uuid(self._library, handle)
        if not uuid:
            return
        seat = next((seat for seat in self.seats if seat.uuid == uuid), None)
        if seat is not None and seat.gpu is not None:
            self._learn_more(seat, seat.gpu, index)
            return
        told = read_identity(self._library, handle)
        texts = dict.fromkeys(_INFO_LABELS, "") | told
        gpu = Gpu(
            self._library,
            handle,
            Identification(index=index, uuid=uuid, serial=texts["serial"]),
            level=Level[self._options.level.upper()],
            driver=self._driver,
            fast_seconds=self._options.fast_seconds,
            monotonic=self._monotonic,
            errors=self._errors,
        )
        self._events.register(handle, uuid)
        if seat is None:
            seat = Seat(uuid=uuid, index=index, texts=texts)
            self.seats.append(seat)
        else:
            self.incidents.append(Incident(self._wall_ns(), "gpu_returned", uuid))
        seat.index, seat.texts, seat.told, seat.gpu = index, texts, frozenset(told), gpu
        self.changed = True

    def _learn_more(self, seat: Seat, gpu: Gpu, index: int) -> None:
        """Notice a moved index, and ask again for the texts that could not be read before."""
        if not seat.told.issuperset(_INFO_LABELS):
            told = read_identity(self._library, gpu.handle)
            if not seat.told.issuperset(told):
                seat.texts = seat.texts | told
                seat.told |= told.keys()
                self.changed = True
        seat.index = index
        identification = Identification(index=index, uuid=seat.uuid, serial=seat.texts["serial"])
        if identification != gpu.identification:
            gpu.identify(identification)
            self.changed = True

    def _regain(self, seat: Seat) -> None:
        """Ask for a missing GPU by its UUID: after a reset it may be back under a new handle."""
        handle = Handle()
        code = self._library.call("nvmlDeviceGetHandleByUUID", seat.uuid.encode(), ctypes.byref(handle))
        if code != pynvml.NVML_SUCCESS:
            return
        index = ctypes.c_uint(seat.index)
        try:
            self._library.call("nvmlDeviceGetIndex", handle, ctypes.byref(index))
            self._admit(index.value, handle)
        except GpuLostError:
            return
