"""What a process has open with NVML: its initialization, and the handles it was given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from collector.simulator.codes import Return
from collector.simulator.events import EventSets
from collector.simulator.gpm import SampleBuffers
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.timeline import Timeline

_FIRST_DEVICE_HANDLE: Final = 0x6400_0000_0000


@dataclass(frozen=True, slots=True)
class _Handle:
    """What a device handle stands for: a GPU as it was when the handle was given out."""

    gpu: SimulatedGpu
    losses: int


@dataclass(slots=True)
class Session:
    """The state of the library in its process.

    Attributes:
        references: Initializations less shutdowns.
        driver_load: The load of the driver that was initialized.
        missing: Indices of GPUs that were off the bus at initialization and have not been seen since.
        attached: False after an initialization that attaches no GPU.
        event_sets: Event sets given out.
        samples: GPM sample buffers given out.
    """

    references: int = 0
    driver_load: int = 0
    missing: set[int] = field(default_factory=set)
    attached: bool = True
    event_sets: EventSets = field(default_factory=EventSets)
    samples: SampleBuffers = field(default_factory=SampleBuffers)
    _handles: dict[int, _Handle] = field(default_factory=dict)

    def open(self, timeline: Timeline, tick: int, gpus: tuple[SimulatedGpu, ...], *, attach: bool) -> None:
        """Initialize once more, or anew when the driver has been loaded anew."""
        load = timeline.driver_loads(tick)
        if self.references and load == self.driver_load:
            self.references += 1
            return
        self.references = 1
        self.driver_load = load
        self.attached = attach
        self.missing = {gpu.index for gpu in gpus if timeline.lost(gpu.index, tick)}
        self._forget()

    def is_open(self, timeline: Timeline, tick: int) -> bool:
        """Tell whether calls are answered: initialized, and under the driver that is loaded now."""
        return bool(self.references) and self.driver_load == timeline.driver_loads(tick)

    def close(self) -> None:
        """Shut down once."""
        self.references -= 1
        if not self.references:
            self._forget()

    def _forget(self) -> None:
        self._handles.clear()
        self.event_sets = EventSets()
        self.samples = SampleBuffers()

    def visible(
        self, timeline: Timeline, tick: int, gpus: tuple[SimulatedGpu, ...]
    ) -> tuple[SimulatedGpu, ...]:
        """Return the GPUs that NVML counts: one that was lost before initialization is not among them.

        One that falls off the bus later stays, so that its index does not move under a running process.
        """
        if not self.attached:
            return ()
        self.missing = {index for index in self.missing if timeline.lost(index, tick)}
        return tuple(gpu for gpu in gpus if gpu.index not in self.missing)

    def give_handle(self, timeline: Timeline, tick: int, gpu: SimulatedGpu) -> int:
        """Return the handle of a GPU: another one after it has been lost."""
        losses = timeline.losses(gpu.index, tick)
        value = (
            _FIRST_DEVICE_HANDLE + self.driver_load * 0x100_0000 + losses * 0x1_0000 + (gpu.index + 1) * 0x100
        )
        self._handles[value] = _Handle(gpu, losses)
        return value

    def resolve(self, timeline: Timeline, tick: int, handle: int) -> SimulatedGpu | Return:
        """Return the GPU of a handle, or why there is none.

        A handle from before its GPU was lost stays dead after the GPU is back.
        """
        known = self._handles.get(handle)
        if known is None:
            return Return.INVALID_ARGUMENT
        if known.losses != timeline.losses(known.gpu.index, tick):
            return Return.GPU_IS_LOST
        return known.gpu

    def gpu_index(self, handle: int) -> int | None:
        """Return the index of the GPU that a handle names, dead or not; None for an unknown handle."""
        known = self._handles.get(handle)
        return known.gpu.index if known else None
