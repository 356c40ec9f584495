"""What a source delivers to the agent: a Layout once, then Readings that fill it.

These messages also cross the pipe between the reader process and the agent, as MessagePack, so they
hold plain data. Series are named by metric and labels; the agent binds them to the catalogue.
"""

from __future__ import annotations

import msgspec

SeriesKey = tuple[str, tuple[str, ...]]
"""Metric name without prefix, and the values of its labels beyond `rack` and `node`."""


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Series that are read together.

    Attributes:
        cadence: How often: `fast`, `links`, `slow`.
        series: The series, in the order of a batch's values.
    """

    cadence: str
    series: tuple[SeriesKey, ...]


class GpuIdentity(msgspec.Struct, frozen=True):
    """Who a GPU is.

    Attributes:
        uuid: Its identity.
        index: Index for display; of a lost GPU the last one known.
        present: Whether NVML enumerates it now.
        texts: Values of the labels of `gpu_info`.
    """

    uuid: str
    index: int
    present: bool
    texts: dict[str, str]


class Layout(msgspec.Struct, frozen=True, tag="layout"):
    """The series that the following Readings fill.

    Attributes:
        generation: Number of this layout; Readings of another generation do not fit.
        blocks: The series, by what is read together.
        gpus: Every GPU that is known, the missing ones included.
        driver_version: Version of the driver, or empty.
        cuda_version: CUDA version that the driver supports, or empty.
        platform: Profile that fits the hardware, or empty.
        gpus_expected: GPUs that the platform has in a node; None if unknown.
    """

    generation: int
    blocks: tuple[Block, ...]
    gpus: tuple[GpuIdentity, ...]
    driver_version: str
    cuda_version: str
    platform: str
    gpus_expected: int | None


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Values of one block, read at one instant.

    Attributes:
        block: Index into `Layout.blocks`.
        values: One a series; None where nothing valid was read.
    """

    block: int
    values: list[int | float | None]


class Incident(msgspec.Struct, frozen=True, array_like=True):
    """Something that the source saw happen.

    Attributes:
        time_ns: Nanoseconds of Unix time.
        kind: `xid`, `gpu_lost`, `gpu_returned`.
        gpu_uuid: The GPU concerned.
        code: Xid number, or None.
    """

    time_ns: int
    kind: str
    gpu_uuid: str
    code: int | None = None


class Reading(msgspec.Struct, frozen=True, tag="reading"):
    """What one step of a source brought.

    Attributes:
        taken_at: When the step began, seconds of the system's monotonic clock, which all processes share.
        generation: Layout that the batches fill; 0 while there is none.
        up: Whether the source reads its hardware.
        reason: Why not, in words; empty if it does.
        batches: What was read in this step.
        incidents: What happened since the step before.
        sweep_seconds: Time that this step spent a cadence, where it read any.
        calls: Calls to the library in this step.
        errors: Values that could not be read in this step, by error.
    """

    taken_at: float
    generation: int
    up: bool
    reason: str = ""
    batches: tuple[Batch, ...] = ()
    incidents: tuple[Incident, ...] = ()
    sweep_seconds: dict[str, float] = {}
    calls: int = 0
    errors: dict[str, int] = {}


Message = Layout | Reading


class KernelRecord(msgspec.Struct, frozen=True):
    """A record of the kernel log that is about a GPU.

    Attributes:
        sequence: Its number, which rises within a boot.
        time_ns: When it was written, nanoseconds of Unix time.
        text: The message.
    """

    sequence: int
    time_ns: int
    text: str
