"""Reading all GPUs of a node, from the opening of NVML until it is closed or breaks."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import pynvml

from collector.catalog import BY_NAME
from collector.catalog.spec import Cadence
from collector.errors import NvmlUnavailableError
from collector.model import Value
from collector.readings import Batch, Block, Incident, Layout, Reading, SeriesKey
from collector.sources.nvml.decode import cuda_version, driver_version, text
from collector.sources.nvml.events import XidEvents
from collector.sources.nvml.fills import Remembering
from collector.sources.nvml.gpu import Gpu
from collector.sources.nvml.identity import read_changing_identity
from collector.sources.nvml.inventory import Inventory, Seat
from collector.sources.nvml.library import GpuLostError, NvmlLibrary, initialize
from collector.sources.nvml.options import ReaderOptions

_VERSION_BYTES = 80
"""NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE (nvml.h)."""
_INFO_LABELS = BY_NAME["gpu_info"].info_labels
_MAXIMUM_TURNS = 4
"""Layouts made in one step; what is left to change is seen to by the next."""
_MODULE = "module"
_PRESENCE = "presence"


class Session:
    """Reads every GPU of the node; loses and regains them."""

    def __init__(
        self,
        library: NvmlLibrary,
        options: ReaderOptions,
        *,
        monotonic: Callable[[], float],
        wall_ns: Callable[[], int],
        generation: int,
        module_memory: dict[SeriesKey, Remembering] | None = None,
    ) -> None:
        """Initialize NVML and find the GPUs.

        Args:
            library: The library, loaded but not initialized.
            options: How to read.
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
            generation: Number of the last layout that was delivered; the next has one more.
            module_memory: What fills the series of modules that go on from one GPU, or session, to the next;
                None begins anew.

        Raises:
            NvmlUnavailableError: NVML cannot be used now.
        """
        self._library = library
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._module_memory = {} if module_memory is None else module_memory
        self._period = {Cadence.LINKS: options.links_seconds, Cadence.SLOW: options.slow_seconds}
        self._errors: Counter[str] = Counter()
        self._calls_reported = library.calls
        initialize(library)
        try:
            self._prepare(options)
        except NvmlUnavailableError:
            # NVML counts its users: one too many would keep it from ever being initialized anew.
            library.call("nvmlShutdown")
            raise
        self._inventory_due = monotonic() + options.links_seconds
        self._blocks: dict[tuple[str, str], int] = {}
        self.generation = generation

    def _prepare(self, options: ReaderOptions) -> None:
        library = self._library
        self._driver_version = _driver_version(library)
        self._cuda_version = _cuda_version(library)
        self._events = XidEvents(library)
        self._inventory = Inventory(
            library,
            options,
            self._events,
            driver=driver_version(self._driver_version),
            monotonic=self._monotonic,
            wall_ns=self._wall_ns,
            errors=self._errors,
        )

    def read(self, now: float) -> tuple[Layout | None, Reading]:
        """Read everything that is due.

        Args:
            now: Monotonic time in seconds.

        Returns:
            A new layout, if the inventory changed, and the reading; after a new layout it holds every block.

        Raises:
            NvmlUnavailableError: NVML broke; the session is of no use any more.
        """
        inventory = self._inventory
        if now >= self._inventory_due:
            self._inventory_due = now + self._period[Cadence.LINKS]
            inventory.find()
        inventory.incidents += self._xids()
        layout = None
        batches: list[Batch] = [] if inventory.changed else self._sweep(now, everything=False)
        # Each turn follows on a GPU lost or found by the one before; what changes without end waits a step.
        for _ in range(_MAXIMUM_TURNS):
            if not inventory.changed:
                break
            inventory.forget_replaced()
            inventory.changed = False
            layout = self._make_layout()
            batches = self._sweep(now, everything=True)
        reading = self._account(
            Reading(
                taken_at=now,
                generation=self.generation,
                up=True,
                batches=tuple(batches),
                sweep_seconds=self._sweep_seconds(),
            )
        )
        return layout, reading

    def last_reading(self, error: NvmlUnavailableError, now: float) -> Reading:
        """Say why the session broke, and report what it saw until then.

        Args:
            error: What broke it.
            now: Monotonic time in seconds.
        """
        self._errors[error.reason] += 1
        return self._account(Reading(taken_at=now, generation=0, up=False, reason=str(error)))

    def _account(self, reading: Reading) -> Reading:
        """Add to a reading what was seen and done since the one before."""
        complete = msgspec.structs.replace(
            reading,
            incidents=tuple(self._inventory.incidents),
            calls=self._library.calls - self._calls_reported,
            errors=dict(self._errors),
        )
        self._inventory.incidents.clear()
        self._calls_reported = self._library.calls
        self._errors.clear()
        return complete

    def close(self) -> None:
        """Give everything back and shut NVML down."""
        self._inventory.close()
        self._events.close()
        self._library.call("nvmlShutdown")

    def _xids(self) -> list[Incident]:
        return [
            Incident(self._wall_ns(), "xid", uuid, code) for uuid, code in self._events.poll(self._errors)
        ]

    def _sweep(self, now: float, *, everything: bool) -> list[Batch]:
        """Read the GPUs; one that is lost on the way is noted in the inventory."""
        batches: list[Batch] = []
        seats = self._inventory.seats
        for position, seat in enumerate(seats):
            if seat.gpu is None:
                continue
            try:
                batches += self._sweep_gpu(seat, seat.gpu, now, everything=everything)
            except GpuLostError:
                self._inventory.lose(seat)
            if everything:
                # The first sweep of slower cadences is read at once; the later ones are spread over the GPUs.
                share = (position + 1) / len(seats)
                seat.due = {cadence: now + period * share for cadence, period in self._period.items()}
        batches.append(
            Batch(
                self._blocks.get(("", _PRESENCE), 0),
                [self._inventory.present, *(int(seat.gpu is not None) for seat in seats)],
            )
        )
        return batches

    def _sweep_gpu(self, seat: Seat, gpu: Gpu, now: float, *, everything: bool) -> Iterator[Batch]:
        values, module_values, _ = self._timed(seat, gpu, Cadence.FAST)
        yield Batch(self._blocks[seat.uuid, Cadence.FAST.value], values)
        if (seat.uuid, _MODULE) in self._blocks:
            yield Batch(self._blocks[seat.uuid, _MODULE], module_values)
        if everything or self._is_due(seat, Cadence.LINKS, now):
            values, _, more_to_find = self._timed(seat, gpu, Cadence.LINKS)
            yield Batch(self._blocks[seat.uuid, Cadence.LINKS.value], values)
            if more_to_find and gpu.prepare_again():
                self._inventory.changed = True
        if everything or self._is_due(seat, Cadence.SLOW, now):
            self._refresh_texts(seat, gpu)
            yield Batch(self._blocks[seat.uuid, Cadence.SLOW.value], [1])

    def _is_due(self, seat: Seat, cadence: Cadence, now: float) -> bool:
        if now < seat.due[cadence]:
            return False
        missed, _ = divmod(now - seat.due[cadence], self._period[cadence])
        seat.due[cadence] += (missed + 1) * self._period[cadence]
        return True

    def _timed(
        self, seat: Seat, gpu: Gpu, cadence: Cadence
    ) -> tuple[list[Value | None], list[Value | None], bool]:
        begin = self._monotonic()
        result = gpu.read(cadence, self._errors)
        seat.sweep_seconds[cadence] = self._monotonic() - begin
        return result

    def _refresh_texts(self, seat: Seat, gpu: Gpu) -> None:
        begin = self._monotonic()
        texts = seat.texts | read_changing_identity(self._library, gpu.handle)
        seat.sweep_seconds[Cadence.SLOW] = self._monotonic() - begin
        if texts != seat.texts:
            seat.texts = texts
            self._inventory.changed = True

    def _sweep_seconds(self) -> dict[str, float]:
        """Add up, over the GPUs, what the last sweep of each cadence took."""
        totals: dict[str, float] = {}
        for seat in self._inventory.seats:
            for cadence, seconds in seat.sweep_seconds.items():
                totals[cadence.value] = totals.get(cadence.value, 0.0) + seconds
        return totals

    def _make_layout(self) -> Layout:
        self.generation += 1
        blocks = [self._presence_block()]
        self._blocks = {("", _PRESENCE): 0}
        modules: set[str] = set()
        for seat in self._inventory.seats:
            for name, block in _blocks_of(seat, modules):
                self._blocks[seat.uuid, name] = len(blocks)
                blocks.append(block)
            if (seat.uuid, _MODULE) in self._blocks and seat.gpu is not None:
                self._carry_on(seat.gpu)
        platform = self._inventory.platform
        return Layout(
            generation=self.generation,
            blocks=tuple(blocks),
            gpus=self._inventory.identities(),
            driver_version=self._driver_version,
            cuda_version=self._cuda_version,
            platform=platform.platform if platform else "",
            gpus_expected=platform.gpus_per_node if platform else None,
        )

    def _carry_on(self, gpu: Gpu) -> None:
        """Let a module's series go on, through whichever of its GPUs they were read before."""
        for plan in gpu.module_series:
            if isinstance(plan.fill, Remembering):
                earlier = self._module_memory.get(plan.key, plan.fill)
                if earlier is not plan.fill:
                    plan.fill.take_over(earlier)
                self._module_memory[plan.key] = plan.fill

    def _presence_block(self) -> Block:
        return Block(
            Cadence.FAST.value,
            (
                ("node_gpus_present", ()),
                *(("gpu_up", (str(seat.index), seat.uuid)) for seat in self._inventory.seats),
            ),
        )


def _blocks_of(seat: Seat, modules: set[str]) -> Iterator[tuple[str, Block]]:
    """Yield the blocks of a GPU that is present; of a module only those of the first GPU on it."""
    gpu = seat.gpu
    if gpu is None:
        return
    for cadence in (Cadence.FAST, Cadence.LINKS):
        yield cadence.value, Block(cadence.value, tuple(plan.key for plan in gpu.series(cadence)))
    texts = tuple(seat.texts[label] for label in _INFO_LABELS)
    info = ("gpu_info", (str(seat.index), seat.uuid, *texts))
    yield Cadence.SLOW.value, Block(Cadence.SLOW.value, (info,))
    serial = gpu.identification.serial
    if gpu.module_series and serial not in modules:
        modules.add(serial)
        yield _MODULE, Block(Cadence.FAST.value, tuple(plan.key for plan in gpu.module_series))


def _driver_version(library: NvmlLibrary) -> str:
    buffer = ctypes.create_string_buffer(_VERSION_BYTES)
    code = library.call("nvmlSystemGetDriverVersion", buffer, _VERSION_BYTES)
    return text(buffer.raw) if code == pynvml.NVML_SUCCESS else ""


def _cuda_version(library: NvmlLibrary) -> str:
    number = ctypes.c_int()
    code = library.call("nvmlSystemGetCudaDriverVersion", ctypes.byref(number))
    return cuda_version(number.value) if code == pynvml.NVML_SUCCESS else ""
